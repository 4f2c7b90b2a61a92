#!/bin/sh
# Does the explorer see what it is for? Each mutant is the core with one precaution taken out; some race must fail.
#
#   mutate.sh CORE BUILD COMPILER FLAGS...       with the objects of the races and of the whole core in BUILD/explored
set -u
core=$1 build=$2
shift 2
mkdir -p "$build/mutants"
survived=0

# mutant NAME FILE SED-PROGRAM RACE: the race (or any race, when it is empty) must find it
mutant() {
    name=$1 file=$2 program=$3 race=$4 source=$build/mutants/$2
    shift 4
    sed -E "$program" "$core/$file.c" >"$source.c"
    if cmp -s "$core/$file.c" "$source.c"; then
        echo "mutant $name: the line it changes is not in $file.c any more" >&2
        survived=$((survived + 1))
        return
    fi
    others=$(ls "$build"/explored/*.o | grep -v "/core_$file\.o$")
    # shellcheck disable=SC2086  # lists of words
    "$@" -Wno-error -w -c -o "$source.o" "$source.c" && "$@" -o "$build/mutants/races" "$source.o" $others || exit 1
    if found=$("$build/mutants/races" "$race" 2>&1 >/dev/null); then
        echo "mutant $name: SURVIVED" >&2
        survived=$((survived + 1))
    else
        echo "mutant $name: found by $(echo "$found" | grep -v schedule: | head -n 1 | cut -c 1-110)"
    fi
}

mutant "hold() does not look at head again" queue \
    's/if \(sequence_near\(link_tag\(head\), sequence\) <= sequence\) return true;/(void)head; return true;/' "claim ‖ hold" "$@"
mutant "NIL links carry no generation" queue \
    's/cas64\(&last->next, next, self\)/cas64(\&last->next, load_relaxed(\&last->next) | NIL, self)/' ", append, append" "$@"
mutant "help_tail() does not make QUEUED" queue \
    's/^(        )cas64\(&d->state, state, state_make\(state_generation\(state\), QUEUED, 0\)\);$/\1(void)0;/' "append ‖ append, first" "$@"
mutant "help_tail() moves tail on without QUEUED when another one appends" queue \
    's/(state_kind\(state\) == APPENDING) && state_generation/\1 \&\& state_owner(state) == r->me \&\& state_generation/' "death" "$@"
mutant "append does not see tail unchanged" queue \
    's/if \(load_seq\(&band->tail\) != tail\) continue;//' ", append, append" "$@"
mutant "descriptors are claimed in spite of holders" descriptors \
    's/return \(load_seq\(&d->holders\[0\]\) \| load_seq\(&d->holders\[1\]\)\) != 0;/(void)d; return false;/' "evict ‖ take" "$@"
mutant "granules are kept without a look at their page" blocks \
    's/if \(load_seq\(&r->pages\[page\]\) == GRANULAR\) return true;/return true;/' "split ‖ coalesce" "$@"
mutant "a page is taken without a look at its granules" blocks \
    's/if \(granules_are_free\(r, page\)\) return true;/return true;/' "split ‖ coalesce" "$@"
mutant "a wait word is armed after the look" wait \
    's/if \(cas32\(word, value, value \+ 1\)\) return value \+ 1;/return value;/' "wait ‖ publish" "$@"
mutant "a waker wakes without changing the word" wait \
    's/^(void wake_subscribers.*)$/\1/; s/if \(load_seq\(&t->wait\) & 1\) futex_wake_and_add\(&t->wait\);/(void)t;/' "wait ‖ publish" "$@"
mutant "a sweeper does not look at the word again" participants \
    's/if \(load_seq\(&p->word\) == leaving\) \{/{/' "sweep" "$@"
mutant "a slot is claimed in spite of sweepers" participants \
    's/if \(load_seq\(&p->sweepers\[0\]\) \| load_seq\(&p->sweepers\[1\]\)\) return false;//' "sweep" "$@"
mutant "the dead keep what they were appending" descriptors \
    's/if \(descriptor_take_over\(r, index, state\)\) descriptor_free\(r, index\);//' "death" "$@"
mutant "a message is emptied without a second look at holders" descriptors \
    's/bool held = load_relaxed\(&d->block_granules\) && has_holders\(d\);/bool held = false;/' "empty last" "$@"
mutant "a message is emptied without a first look at holders" descriptors \
    's/ \|\| has_holders\(d\)\) return false;/) return false;/' "empty last" "$@"
mutant "the state of the last message is read after it was seen to be last" retention \
    's/descriptor_empty\(r, last, state, NIL\)/descriptor_empty(r, last, load_seq(\&last->state), NIL)/' "empty last" "$@"
mutant "a message whose block is half given back becomes one again" descriptors \
    's/bool held = load_relaxed\(&d->block_granules\) && /bool held = /' "death" "$@"
mutant "a page has no owner while it changes hands" blocks \
    's/^(    for \(uint64_t page = at; whole .*)$/    begin_tag(from);\n\1/' "inherit" "$@"
mutant "a block that changes hands keeps the name of its last owner" blocks \
    's/^(    for \(uint64_t page = at; )whole( .*)$/\1false\2/' "inherit" "$@"
mutant "a block changes hands in spite of holders" descriptors \
    's/bool held = load_relaxed\(&d->block_granules\) && has_holders\(d\);/bool held = false;/' "inherit" "$@"
mutant "a message whose block is half given on becomes one again" blocks \
    '/^void block_move/,/^}/ s/^    store_relaxed\(&from->block_granules, 0u\);$//' "death" "$@"
mutant "who lapsed does not miss what was emptied" take \
    's/if \(s->sequence\[band\] > s->began\[band\]\) outcome_skipped/if (false) outcome_skipped/' "empty last" "$@"
mutant "a cursor that rests forgets its sequence" take \
    '/^static void rest\(/,/^}/ s/set_cursor\(s, band\);/s->sequence[band] = 0, set_cursor(s, band);/' "rest, step" "$@"
mutant "a cursor that rests goes on at head" queue \
    's/while \(stepped == STEP_OK && \*at <= sequence\)/while (false)/' "rest, step" "$@"
mutant "who rests walks over what may have been passed" queue \
    's/ \|\| load_seq\(&band->head\) != head\) return STEP_PASSED;/) return STEP_PASSED;/' "rest" "$@"
mutant "who rests finds nothing behind what may have been passed" queue \
    's/return load_seq\(&band->head\) == head \? STEP_NONE : STEP_PASSED;/return STEP_NONE;/' "resting" "$@"
mutant "who rests holds what it looks at" queue \
    's/stepped = find_near_head\(.*\);/(void)find_near_head;/' "resting" "$@"
mutant "who rests does not see the next message" wait \
    's/if \(last > sequence_near\(link_tag\(cursor\), last\)\) return true;/(void)last;/' "resting" "$@"
mutant "an event is written over one that is being written" trace \
    's/if \(turn_state\(turn\) == TRACE_WRITING \|\| /if (/' "trace ‖ trace" "$@"
mutant "an event is read without a second look" trace \
    's/return load_relaxed\(&entry->turn\) == turn \? TRACE_READ : TRACE_LOST;/return TRACE_READ;/' "trace ‖ read" "$@"
mutant "an entry is written before it is claimed" trace \
    's/^(    if \(!cas64\(&entry->turn.*)$/    store_release(\&entry->what, 0);\n\1/' "trace ‖" "$@"
mutant "what the dead was tracing is traced for ever" trace \
    's/if \(load_seq\(&r->topics\[i\].tracers\[dead >> 6\]\) & bit_of\(dead\)\)/if (false)/' "death" "$@"
mutant "what the dead was writing stays so" trace \
    's/TRACE_WRITING && turn_owner\(turn\) == dead/TRACE_WRITING \&\& false/' "death" "$@"
mutant "many at once do not look at the room again" publish \
    's/room = i && is_next\(.*\) \? room - 1 : 0;/room = room - 1;/' "append many" "$@"
mutant "many at once take the first look at the room for enough" publish \
    's/room = i && is_next\(.*\) \? room - 1 : 0;/room = i \&\& !is_next(p->region, index[i - 1], index[i]) ? 0 : room - 1;/' "append many" "$@"
mutant "a subscriber whose spins were in vain never spins again" spin \
    's/if \(waited_ns < SHORT_NS .*/if (false)/' "sleep, sleep" "$@"
mutant "who arms does not look again" wait \
    '/^bool subscriber_arm/,/^}/ s/return has_next\(s\) .*;/return false;/' "arm ‖ publish" "$@"
mutant "who is armed is not told" wait \
    's/if \(load_seq\(&t->poll\) & 1\) send_datagrams.*;/(void)topic_index;/' "arm ‖ publish" "$@"
mutant "a message that the dead had linked is given back" descriptors \
    's/^(        )if \(linked\) \{/\1if (linked \&\& false) {/' "sweep ‖ append ‖ take" "$@"
mutant "the dead hold on" participants \
    's/fetch_and\(&d->holders\[dead >> 6\], ~bit_of\(dead\)\);/(void)0;/' "sweep ‖ append, evict" "$@"

[ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
