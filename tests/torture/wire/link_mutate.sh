#!/bin/sh
# Do the fuzzer and the cuts see what they are for? Each mutant is a line without one of its rules; some round must fail.
#
#   link_mutate.sh LINK BUILD COMPILER FLAGS...       with the objects of both programs in BUILD
#   ONLY=TEXT                                         those whose name contains the text
#   KEYS=PATHS                                        of link_greet.c, whose mutants are left out without them
set -u
folders=$1 build=$2 prefix=line
shift 2
. ../mutant.sh

run() {
    case $1 in
    # shellcheck disable=SC2086  # three paths
    */cuts) timeout 240 "$1" 3 3000 ;;
    */greet) timeout 240 "$1" 1 3000 $KEYS ;;
    *) timeout 240 "$1" 1 3000 90 ;;
    esac
}

objects_of() {
    case $1 in
    fuzz) echo "$build/link_stage.o $build/link_fuzz.o $build/link_peer.o $build/link_main.o" ;;
    cuts) echo "$build/link_stage.o $build/link_cuts.o" ;;
    greet) echo "$build/link_stage.o $build/link_greet.o" ;;
    esac
}

mutant fuzz "a frame may be shorter than its kind" channel 's/f->size < kinds\[h->kind\]\.least \|\| //' "$@"
mutant fuzz "a frame may be longer than its kind" channel 's/ \|\| f->size > kinds\[h->kind\]\.most\)/)/' "$@"
mutant fuzz "a sum is not compared" channel 's/return crc32c\(0, bytes, length - FRAME_CRC\) == sent;/return sent || true;/' "$@"
mutant fuzz "a message may be shorter than its bytes" channel 's/bytes <= b->size \&\&/true \&\&/' "$@"
mutant fuzz "a message may be as large as it says" channel 's/b->size >> SIZE_MOST_BITS == 0 \&\& //' "$@"
mutant fuzz "more may come than there is" in 's/ \|\| f->size > m->begin\.size - m->got\)/)/' "$@"
mutant fuzz "more may be of another route" in 's/m->route != f->header\.route \|\| f->size/f->size/' "$@"
mutant fuzz "more may come of nothing" in 's/if \(!m->is_under_way \|\| m->route/if (m->route/' "$@"
mutant fuzz "a message may begin in the midst of one" in 's/^    if \(m->is_under_way\) return violation.*$//' "$@"
mutant fuzz "a route need not have been opened" in 's/^    if \(!f->header\.route \|\| f->header\.route > l->highest_in\)$/    if (0)/' "$@"
mutant fuzz "a message may come again" in 's/^    if \(b\.trailer\.sequence <= i->own.*$//' "$@"
mutant fuzz "a copy needs no room" in 's/ \&\& in_has_room\(i, b\);/;/' "$@"
mutant fuzz "a copy is taken beside its message in part" in 's/ \&\& !is_here_in_part / /' "$@"
mutant fuzz "any number is believed" in 's/> JUMP_MOST\)/> UINT64_MAX - 1)/' "$@"
mutant fuzz "a message may come on the other connection" in 's/if \(channel_of\(f->header\.flags \& FRAME_BAND\) != channel\)/if (0)/' "$@"
mutant fuzz "what was sent beyond the room is kept" in 's/^    if \(!in_has_room\(i, \&b\)\) return.*$//' "$@"
mutant fuzz "what is under way needs no room" in 's/^        sum \+= cost_of\(m->begin\.size\);$//' "$@"
mutant fuzz "a control may be left out" in 's/number != l->controls_received \+ 1/number <= l->controls_received/' "$@"
mutant fuzz "a second RESUME is heard" in 's/^    if \(l->peer_has_resumed\) return.*$//' "$@"
mutant fuzz "controls that were not sent are acknowledged" in 's/ \|\| ack->number\[0\] > l->control_number\)/)/' "$@"
mutant fuzz "what was not sent is acknowledged" out 's/number <= o->band\[band\]\.number \&\& //' "$@"
mutant fuzz "what is under way is acknowledged" out 's/ \&\& \(!k \|\| number < k->number\);/;/' "$@"
mutant fuzz "acknowledgements go back" out 's/return number >= o->band\[band\]\.acknowledged \&\& /return /' "$@"
mutant fuzz "a priority above the ceiling is published" in 's/^    if \(!keeps_priority.*$//' "$@"
mutant fuzz "a size above the ceiling is published" in 's/^    if \(!keeps_size.*$//' "$@"
mutant fuzz "a route that is closed keeps what came in part" in 's/if \(l->incoming\[band\]\.in == i\) incoming_forget.*$/{}/' "$@"

mutant fuzz "who sleeps is told of what came" line 's/^    in_wake\(l\);$//' "$@"
mutant fuzz "who sleeps is told before another route is published to" in 's/if \(l->unwoken != i \|\| /if (/' "$@"
mutant cuts "what was not acknowledged is sent again" out 's/^    o->band\[band\]\.again = o->band\[band\]\.first;$//' "$@"
mutant cuts "what is TIMELY is not sent again" out 's/^    while \(!o->resends .*$//' "$@"
mutant cuts "what was acknowledged is not sent again" out 's/while \(o->band\[band\]\.first \&\& o->band\[band\]\.first->number <= number\) drop_kept/while (0) drop_kept/' "$@"
mutant cuts "after a cut a route waits for the peer's ACK" out '/^void out_cut/,/^}/ s/^    o->is_open = false;$//' "$@"
mutant cuts "a message begins anew after a cut" line 's/^        l->under_way\[band\] = \(struct under_way\)\{0\};$//; s/if \(l->under_way\[band\]\.kept\) kept_let_go.*$//' "$@"
mutant cuts "what came in part is forgotten" line 's/^    line_forget_incoming\(l\);$//' "$@"
mutant cuts "what the twin has brought is passed over" in 's/^    if \(b\.trailer\.sequence <= i->received.*$//' "$@"
mutant cuts "a copy that is not the next one is passed over" in 's/b->trailer\.sequence == i->received\[band\] \+ 1;/b->trailer.sequence > i->received[band];/' "$@"
mutant cuts "a copy is acknowledged as its message is" in '/^static struct verdict copy/,/^}/ s/^        reached\(.*$//' "$@"
mutant cuts "a twin that ends leaves the line" line 's/if \(verdict\.words \&\& c != TWIN\) return/if (verdict.words) return/' "$@"
mutant cuts "numbers are said again" in 's/i = i->next\) i->must_ack = true;/i = i->next) {}/' "$@"
mutant cuts "controls are sent again" line 's/^    l->next_control = l->controls;$//' "$@"
mutant cuts "nothing goes before both have resumed" out 's/^    if \(!l->peer_has_resumed \|\| !l->has_resumed\) return;$//' "$@"
mutant cuts "RESUME is said on each connection" line 's/l->has_resumed = l->peer_has_resumed = false;/l->peer_has_resumed = false;/' "$@"
mutant cuts "the peer's RESUME is awaited on each connection" line 's/l->has_resumed = l->peer_has_resumed = false;/l->has_resumed = false;/' "$@"
mutant cuts "what expires in a cut is said" out 's/put_drop\(l, c, band, u->out \? FRAME_EXPIRED : FRAME_CLOSED\);/finish(l, band);/' "$@"
mutant cuts "a gap is counted" in 's/^    \*received \+= lost;$//; s/if \(lost \&\& in_tell_since.*$/(void)lost, (void)since;/' "$@"
mutant cuts "what waits keeps its place" in 's/if \(!i->first \&\& publish\(i, b,/if (publish(i, b,/' "$@"
mutant cuts "room counts what waits" in 's/room = i->window > i->waits \? i->window - i->waits : 0;/room = i->window;/' "$@"
mutant cuts "a large message that has left is not subtracted" in 's/return sum <= largest \|\| /return /' "$@"
mutant cuts "what is in flight is given back" out 's/^    o->in_flight -= cost_of.*$//' "$@"

if [ -n "${KEYS:-}" ]; then
    mutant greet "a certificate is asked for, and looked at" tls 's/SSL_VERIFY_PEER \| SSL_VERIFY_FAIL_IF_NO_PEER_CERT/0/' "$@"
    mutant greet "the tag of a record is compared" tls 's/^           o->EVP_CipherFinal_ex\(k->context, none, \&done\) == 1;$/           o->EVP_CipherFinal_ex(k->context, none, \&done) | true;/' "$@"
    mutant greet "new keys follow a KeyUpdate" tls 's/if \(!record_keys_update\(\&t->in\)\) return.*$/{}/' "$@"
    mutant greet "keys are changed in time" tls 's/t->out\.number < TLS_KEY_RECORDS/true/' "$@"
    mutant greet "the sum of a hello is compared" channel 's/return crc32c\(0, bytes, length - FRAME_CRC\) == sent;/return sent || true;/' "$@"
    mutant greet "no frame of a line comes before the hello" channel 's/return h\.kind > FRAME_SAY \&\& .*$/return false;/' "$@"
fi

none_survived
