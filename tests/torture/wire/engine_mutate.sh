#!/bin/sh
# Does the fuzzer see what it is for? Each mutant is the engine without one of its checks; some round must fail.
#
#   engine_mutate.sh NET BUILD COMPILER FLAGS...       with the objects of the fuzzer in BUILD
#   ONLY=TEXT                                          those whose name contains the text
set -u
folders="$1 $1/../route" build=$2 prefix=net
shift 2
. ../mutant.sh

run() { "$1" 1 20000 30; }

objects_of() {
    case $1 in
    fuzz) echo "$build/engine_stage.o $build/engine_fuzz.o $build/engine_main.o" ;;
    limits | gaps) echo "$build/engine_stage.o $build/engine_$1.o" ;;
    esac
}

mutant fuzz "a sum is not compared" trailer 's/return trailer_crc\(crc, &t\) == sent;/return true;/' "$@"
mutant fuzz "the CRC of what is received into a loan is not compared" zero_copy 's/return trailer_fits\(crc32c\(crc, s->tail.*/return true;/' "$@"
mutant fuzz "what is received into a loan may be of any length" zero_copy 's/(version == TRAILER_VERSION) &&$/\1 \&\& true;/; s/^ +left == sizeof h->octets.*$//' "$@"
mutant fuzz "octets may be fewer than there are" inbound 's/room - length > \(is_node \? 0 : TRAILER_PADDING\)/false/' "$@"
mutant fuzz "payloads of a pack are not looked at" inbound 's/if \(i->framing == FRAMING_OCTETS\) return true;/return true;/' "$@"
mutant fuzz "sizes of a pack are not added up" trailer 's/return payload == size - before - table;/return true;/' "$@"
mutant fuzz "any number is believed" sources 's/before - s->sequence <= JUMP_MOST/true/; s/last - sequence <= REPEATED_MOST/true/; s/ \|\| t->sequence > INT64_MAX//' "$@"
mutant fuzz "who was refused once is refused for good" sources 's/before == s->doubted/false/; s/    s->doubted = t->sequence;/    s->sequence = INT64_MAX;/' "$@"
mutant fuzz "a pack is believed to be as long as it says" trailer 's/ \|\| size - before < table//' "$@"
mutant fuzz "a pause may be told in too few bytes" flow 's/bool is_valid = bytes.iov_len == sizeof \*told;/bool is_valid = true;/' "$@"
mutant fuzz "what is told of a pause may be anything" flow 's/ && told->paused <= 1;/;/' "$@"
mutant limits "one may have all that waits" inbound 's/!has_room\(own, COUNT_MOST, BYTES_MOST\) \|\| //' "$@"
mutant limits "all may have anything waiting" inbound 's/ \|\| !has_room\(&e->all, ALL_COUNT_MOST, ALL_BYTES_MOST\)//' "$@"
mutant limits "anybody pauses a topic" flow 's/is = reader && node_of\(reader\) == node;/is = true;/' "$@"
mutant limits "one pauses all topics" flow 's/ \|\| of_node >= PAUSES_OF_ONE//' "$@"
mutant gaps "a gap before what is dropped is counted twice" sources 's/^    s->passed = trailer->sequence - trailer_messages.*$//' "$@"
mutant gaps "what nobody asked for is not remembered" sources 's/carried_received\(s, s->passed\);//' "$@"
mutant gaps "what comes again takes numbers back" sources 's/ \|\| sequence_is_repeated\(load_relaxed.*\)\) return;/) return;/' "$@"
mutant gaps "a part of a pack is not remembered" inbound 's/^        carried_received\(s, trailer->sequence.*$//' "$@"
mutant gaps "what was meant for nobody is lost" sources 's/if \((rtmw_publisher_lost\(.*, since\))\) count_lost/\1; count_lost/' "$@"

none_survived
