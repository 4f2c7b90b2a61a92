#!/bin/sh
# Does a harness see what it is for? Each mutant is a reader without one of its bounds; some input must end the process.
#
#   mutate.sh PART BUILD "SOURCES" COMPILER FLAGS...
#   ONLY=TEXT                        those whose name contains the text
set -u
part=$1 build=$2 sources=$3 root=../../..
shift 3
survived=0

# mutant PART NAME FILE SED-PROGRAM
mutant() {
    [ "$1" = "$part" ] || return 0
    name=$2 file=$3 program=$4 tree=$build/mutants/rtmw
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    rm -rf "$tree"
    mkdir -p "$tree/types" "$tree/columns" "$tree/log"
    cp "$root"/rtmw/types/*.[ch] "$tree/types"
    cp "$root"/rtmw/columns/*.[ch] "$tree/columns"
    cp "$root"/rtmw/log/utf8.h "$tree/log"
    sed -E -i "$program" "$tree/$file"
    if cmp -s "$root/rtmw/$file" "$tree/$file"; then
        echo "mutant $name: the line it changes is not in $file any more" >&2
        survived=$((survived + 1))
        return
    fi
    all=""
    for source in $sources; do all="$all $tree${source#"$root/rtmw"}"; done
    shift 4
    # shellcheck disable=SC2086  # lists of words
    "$@" -I"$build/mutants" -o "$build/mutants/$part" "$part.c" driver.c $all || exit 1
    if "$build/mutants/$part" 1 "${PATIENCE:-60}" >"$build/mutants/told" 2>&1; then
        echo "mutant $name: SURVIVED" >&2
        survived=$((survived + 1))
    else
        echo "mutant $name: found, $(grep -m1 -E 'ERROR: |does not hold' "$build/mutants/told" | cut -c 1-90)"
    fi
}

mutant cdr_decode "a number may lie behind the payload" types/cdr_input.h 's/if \(left < pad \|\| left - pad < bytes\)/if (false)/' "$@"
mutant cdr_decode "a size may lead behind the payload" types/cdr_input.h 's/if \(size > cdr_left\(in\)\)/if (false)/' "$@"
mutant cdr_decode "a text may end anywhere" types/cdr_input.h 's/^    if \(!text\) return NULL;/    if (!text) return *bytes = (size_t)size, in->base;/' "$@"
mutant cdr_decode "values within each other have no end" types/cdr.c 's/if \(r->depth >= CDR_DEEPEST\)/if (false)/' "$@"
mutant cdr_decode "values without bytes have no end" types/cdr.c 's/\+\+r->hollow <= CDR_HOLLOW/true/' "$@"
mutant cdr_decode "octets without bytes have no end" types/cdr.c 's/return counted\(r, before, decode_octets\(r, op\)\)/return (void)before, decode_octets(r, op)/' "$@"
mutant cdr_decode "what is refused stays" types/cdr.c 's/^    value_drop\(label\);//' "$@"
mutant columns_decode "a number may lie behind the payload" types/cdr_input.h 's/if \(left < pad \|\| left - pad < bytes\)/if (false)/' "$@"
mutant columns_decode "a size may lead behind the payload" types/cdr_input.h 's/if \(size > cdr_left\(in\)\)/if (false)/' "$@"
mutant columns_decode "rows are longer than what is left" columns/column_decode.c 's/if \(!cdr_may_hold\(&r->in, count, op->least\[r->version\]\)\)/if (false)/; s/count \* size\);/count * size \& 0xffff);/' "$@"
mutant columns_decode "a damaged row stays" columns/column_decode.c 's/^    column_truncate\(build, 0, rows\);//' "$@"
mutant columns_decode "rows of another size are taken for whole" columns/column_decode.c 's/size < end \|\| size - end > CDR_MARGIN \|\| //' "$@"
mutant columns_decode "a skipped member has a row in its column" columns/column_decode.c 's/r->discards \|\| column_append_bytes/column_append_bytes/' "$@"
mutant columns_decode "letters of a skipped member are not looked at" columns/column_decode.c 's/if \(code == COLUMN_CHAR && bits/if (code == COLUMN_CHAR \&\& !r->discards \&\& bits/' "$@"
mutant columns_decode "numbers of a skipped member may be any" columns/column_decode.c 's/if \(op->narrow &&/if (!r->discards \&\& op->narrow \&\&/' "$@"
mutant columns_decode "columns that were handed over are freed again" columns/column.c 's/^    \*memory = NULL;//' "$@"
mutant columns_decode "columns that nobody took are not freed" columns/column.c 's/if \(array->children\[i\]->release\) .*/;/' "$@"
mutant columns_decode "room is not made" columns/column.c 's/if \(rows <= c->room\) return true;/if (c->room) return true;/' "$@"

[ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
