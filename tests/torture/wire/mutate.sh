#!/bin/sh
# Does a harness see what it is for? Each mutant is a reader without one of its bounds; some input must end the process.
#
#   mutate.sh PART BUILD "SOURCES" COMPILER FLAGS...
#   ONLY=TEXT                        those whose name contains the text
set -u
part=$1 build=$2 sources=$3
shift 3
survived=0

# mutant PART NAME FILE SED-PROGRAM
mutant() {
    [ "$1" = "$part" ] || return 0
    name=$2 file=$3 program=$4
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    all=""
    for source in $sources; do
        case $source in
        */$file.c)
            changed=$build/mutants/$file.c
            sed -E "$program" "$source" >"$changed"
            if cmp -s "$source" "$changed"; then
                echo "mutant $name: the line it changes is not in $file.c any more" >&2
                survived=$((survived + 1))
                return
            fi
            all="$all $changed -I$(dirname "$source")"
            ;;
        *) all="$all $source" ;;
        esac
    done
    shift 4
    # shellcheck disable=SC2086  # lists of words
    "$@" -o "$build/mutants/$part" "$part.c" driver.c $all || exit 1
    if "$build/mutants/$part" 1 "${PATIENCE:-60}" >"$build/mutants/told" 2>&1; then
        echo "mutant $name: SURVIVED" >&2
        survived=$((survived + 1))
    else
        echo "mutant $name: found, $(grep -m1 -E 'ERROR: |does not hold' "$build/mutants/told" | cut -c 1-90)"
    fi
}

mutant cdr_decode "a number may lie behind the payload" cdr_decode 's/if \(left\(r\) < pad \|\| left\(r\) - pad < bytes\)/if (false)/' "$@"
mutant cdr_decode "a size may lead behind the payload" cdr_decode 's/if \(size > left\(r\)\)/if (false)/' "$@"
mutant cdr_decode "a text may end anywhere" cdr_decode 's/^    if \(!text\) return NULL;/    if (!text) return value_from_text(r->base, bytes);/' "$@"
mutant cdr_decode "values within each other have no end" cdr_decode 's/if \(r->depth >= CDR_DEEPEST\)/if (false)/' "$@"
mutant cdr_decode "values without bytes have no end" cdr_decode 's/\+\+r->hollow <= CDR_HOLLOW/true/' "$@"
mutant cdr_decode "octets without bytes have no end" cdr_decode 's/return counted\(r, before, decode_octets\(r, op\)\)/return (void)before, decode_octets(r, op)/' "$@"
mutant cdr_decode "what is refused stays" cdr_decode 's/^    value_drop\(label\);//' "$@"
mutant columns_decode "a number may lie behind the payload" column_decode 's/if \(left\(r\) < pad \|\| left\(r\) - pad < bytes\)/if (false)/' "$@"
mutant columns_decode "a size may lead behind the payload" column_decode 's/if \(size > left\(r\)\)/if (false)/' "$@"
mutant columns_decode "rows are longer than what is left" column_decode 's/if \(count > left\(r\) \/ op->least\[r->version\]\)/if (false)/; s/count \* size\);/count * size \& 0xffff);/' "$@"
mutant columns_decode "a damaged row stays" column_decode 's/^    column_truncate\(build, 0, rows\);//' "$@"
mutant columns_decode "rows of another size are taken for whole" column_fixed 's/size < end \|\| size - end > COLUMN_PADDING \|\| //' "$@"
mutant columns_decode "a skipped member has a row in its column" column_decode 's/r->discards \|\| column_append_bytes/column_append_bytes/' "$@"
mutant columns_decode "letters of a skipped member are not looked at" column_decode 's/if \(code == COLUMN_CHAR && bits/if (code == COLUMN_CHAR \&\& !r->discards \&\& bits/' "$@"
mutant columns_decode "numbers of a skipped member may be any" column_decode 's/if \(op->narrow &&/if (!r->discards \&\& op->narrow \&\&/' "$@"
mutant columns_decode "room is not made" column_build 's/if \(rows <= c->room\) return true;/if (c->room) return true;/' "$@"

[ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
