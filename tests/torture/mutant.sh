# For scripts with mutants of C files. They set `folders` (of the files), `build` and `prefix` (of the objects of the files in
# it), and have two functions: `objects_of PROGRAM` (what it is linked with besides) and `run PATH`, which fails where a rule is
# missing. ONLY=TEXT: those whose name contains the text.
mkdir -p "$build/mutants"
survived=0

# mutant PROGRAM NAME FILE SED-PROGRAM COMPILER FLAGS...
mutant() {
    program=$1 name=$2 file=$3 change=$4 source=$build/mutants/$3
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    shift 4
    for folder in $folders; do [ ! -f "$folder/$file.c" ] || break; done
    sed -E "$change" "$folder/$file.c" >"$source.c"
    if cmp -s "$folder/$file.c" "$source.c"; then
        echo "mutant $name: the line it changes is not in $file.c any more" >&2
        survived=$((survived + 1))
        return
    fi
    others="$(ls "$build/${prefix}"_*.o | grep -v "/${prefix}_$file\.o$") $(objects_of "$program")"
    # shellcheck disable=SC2086  # lists of words
    "$@" -Wno-error -w -I"$folder" -c -o "$source.o" "$source.c" &&
        "$@" -o "$build/mutants/$program" "$source.o" $others || exit 1
    if found=$(run "$build/mutants/$program" 2>&1 >/dev/null); then
        echo "mutant $name: SURVIVED" >&2
        survived=$((survived + 1))
    else
        echo "mutant $name: found, $(echo "$found" | grep -E -m1 '^fuzz: |ERROR|runtime error' | cut -c 1-110)"
    fi
}

none_survived() {
    [ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
}
