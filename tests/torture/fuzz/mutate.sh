#!/bin/sh
# Does the fuzzer see what it is for? Each mutant is the core without one of its bounds; some round must fail.
#
#   mutate.sh CORE BUILD COMPILER FLAGS...       with the objects of the fuzzer and of the whole core in BUILD
#   ONLY=TEXT                                    those whose name contains the text
set -u
core=$1 build=$2
shift 2
mkdir -p "$build/mutants"
survived=0

# mutant NAME FILE SED-PROGRAM
mutant() {
    name=$1 file=$2 program=$3 source=$build/mutants/$2
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    shift 3
    sed -E "$program" "$core/$file.c" >"$source.c"
    if cmp -s "$core/$file.c" "$source.c"; then
        echo "mutant $name: the line it changes is not in $file.c any more" >&2
        survived=$((survived + 1))
        return
    fi
    others=$(ls "$build"/*.o | grep -v "/core_$file\.o$")
    # shellcheck disable=SC2086  # lists of words
    "$@" -Wno-error -w -I"$core" -c -o "$source.o" "$source.c" && "$@" -o "$build/mutants/fuzz" "$source.o" $others || exit 1
    if found=$("$build/mutants/fuzz" 1 600 120 2 2>&1 >/dev/null); then
        echo "mutant $name: SURVIVED" >&2
        survived=$((survived + 1))
    else
        echo "mutant $name: found, $(echo "$found" | grep -E '^fuzz: ' | cut -c 7-110)"
    fi
}

mutant "a message may be longer than its block" descriptors 's/ \|\| size > granules \* GRANULE\) return NULL;/) return NULL;/' "$@"
mutant "a message in place may be longer than its place" take 's/payload_of\(s->region, d, size\)/(load_relaxed(\&d->block_granules) ? block_of(s->region, d, size) : (void *)d->payload)/' "$@"
mutant "a block may lie beyond the pool" descriptors 's/first >= all \|\| granules > all - first \|\| //' "$@"
mutant "the size of a message is read twice" take 's/\.size = size,/.size = load_relaxed(\&d->size),/' "$@"
mutant "a link may lead anywhere" queue 's/if \(to >= r->header->descriptors\) return to == NIL \? STEP_NONE : STEP_DAMAGED;/if (to == NIL) return STEP_NONE;/' "$@"
mutant "links may lead in a circle" queue 's/(static bool is_message.*)/\1/; s/return \(\(load_relaxed\(&r->descriptors\[index\]\.sequence\) \^ sequence\) & TAG_MASK\) == 0;/return true;/' "$@"
mutant "head may name anything" queue 's/if \(\*index >= r->header->descriptors\) return/if (*index == NIL) return/' "$@"
mutant "an append is tried for ever" queue '/^static bool link_descriptor/,/^}/ s/in_vain < MOST_IN_VAIN/true/' "$@"
mutant "a beginning at tail is tried for ever" subscriber '/^static bool start_at_tail/,/^}/ s/in_vain < MOST_IN_VAIN/true/' "$@"
mutant "waiters are told of what takes do not get" take 's/ && \+\+s->empty_takes % LOOK_AGAIN == 0\)/ \&\& false)/' "$@"
mutant "a descriptor may lie in a band that is none" books 's/ && band < BANDS && / \&\& /' "$@"

[ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
