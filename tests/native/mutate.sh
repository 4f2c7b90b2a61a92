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
mutant "a sequence is loaded after tail was seen unchanged" queue \
    's/uint64_t sequence = load_acquire\(&d->sequence\);.*/bool same = load_seq(\&band->tail) == tail; uint64_t sequence = load_acquire(\&d->sequence);/; s/if \(load_seq\(&band->tail\) == tail\) return sequence;/if (same) return sequence;/' "look at tail" "$@"
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
    's/bool swept = load_seq\(&p->word\) == leaving;/bool swept = true;/' "sweep" "$@"
mutant "a slot is claimed in spite of sweepers" participants \
    's/if \(load_seq\(&p->sweepers\[0\]\) \| load_seq\(&p->sweepers\[1\]\)\) return RTMW_NO_PARTICIPANT_SLOT;//' "sweep" "$@"
mutant "a message is looked at without a second look" inspect \
    's/return state_generation\(load_relaxed\(&d->state\)\) == generation && is_in_place;/return is_in_place;/' "peek" "$@"
mutant "a message is looked at without its sequence" inspect \
    's/ == generation && is_in_place;/ == generation;/' "peek" "$@"
mutant "a slot is claimed before its lock" participants \
    's/^    int code = life_take\(r, slot\);$/    int code = RTMW_OK;/; s/^    (store_release\(&p->pid_namespace, r->pid_namespace\);)$/    life_take(r, slot); \1/' "attach" "$@"
mutant "a lock is looked at before the word" participants \
    's/if \(participant_state_of\(word\) == ABSENT \|\| slot == r->me \|\| !is_dead\(r, slot, word\)\) return false;/bool died = is_dead(r, slot, word); word = load_seq(\&p->word); leaving = participant_in_state(word, LEAVING); if (participant_state_of(word) == ABSENT || slot == r->me || !died) return false;/' "sweep" "$@"
mutant "a claim that failed keeps the lock" participants \
    's/return life_give\(r, slot\), RTMW_NO_PARTICIPANT_SLOT;/return RTMW_NO_PARTICIPANT_SLOT;/' "attach" "$@"
mutant "who was swept takes on" take \
    '/^__attribute__.* counted_otherwise/,/^}/ s/if \(is_swept\(s->region\)\) return RTMW_SWEPT;//' "swept" "$@"
mutant "who was swept publishes on" participants \
    's/store_relaxed\(&r->publishers\[slot\].identity, 0\);/(void)0;/' "swept" "$@"
mutant "who was swept closes what is another one.s" take \
    '/^void rtmw_subscriber_close/,/^}/ s/if \(!is_forked\(r\) && !is_swept\(r\)\)/if (!is_forked(r))/' "swept" "$@"
mutant "the dead keep what they were appending" descriptors \
    's/if \(descriptor_take_over\(r, index, state\)\) descriptor_free\(r, index\);//' "death" "$@"
mutant "a message is emptied without a second look at holders" descriptors \
    's/bool held = load_relaxed\(&d->block_granules\) && has_holders\(d\);/bool held = false;/' "empty last" "$@"
mutant "a message is emptied without a first look at holders" reclaim \
    '/^static bool may_be_emptied/,/^}/ s/ && !descriptor_is_held\(.*\);/;/' "empty last" "$@"
mutant "a block is passed on without a first look at holders" descriptors \
    '/^uint32_t descriptor_inherit/,/^}/ s/has_holders\(d\) \|\| //' "inherit" "$@"
mutant "the state of the last message is read after it was seen to be last" reclaim \
    's/descriptor_empty\(r, last, state, NIL\)/descriptor_empty(r, last, load_seq(\&last->state), NIL)/' "empty last" "$@"
mutant "a message whose block is half given back becomes one again" descriptors \
    's/bool held = load_relaxed\(&d->block_granules\) && /bool held = /' "death" "$@"
mutant "a page has no owner while it changes hands" blocks \
    's/^(    for \(uint64_t page = at; page < at .*)$/    begin_tag(from);\n\1/' "inherit" "$@"
mutant "a block that changes hands keeps the name of its last owner" blocks \
    's/^(    for \(uint64_t page = at; )(page < at .*)$/\1false \&\& \2/' "inherit" "$@"
mutant "a block changes hands in spite of holders" descriptors \
    's/bool held = load_relaxed\(&d->block_granules\) && has_holders\(d\);/bool held = false;/' "inherit" "$@"
mutant "a message whose block is half given on becomes one again" blocks \
    '/^void block_move/,/^}/ s/^    store_relaxed\(&from->block_granules, 0u\);$//' "death" "$@"
mutant "a block is passed on by a message behind one that is kept" reclaim \
    's/^    if \(o\.kept > 1 && outlook_pass\(.*$/    (void)which;/' "inherit" "$@"
mutant "who lapsed does not miss what was emptied" take \
    '/^static void count_emptied/,/^}/ s/s->sequence\[band\] <= s->began\[band\]/true/' "empty last" "$@"
mutant "what is beyond depth is dropped unseen" take \
    's/ == STEP_OK && may_be_dropped\(.*\);/ == STEP_OK;/' "bands" "$@"
mutant "what is within depth is dropped when what lay before it gave way" take \
    '/^static bool may_be_dropped/,/^}/ s/return !at->missed .*/return true;/' "bands" "$@"
mutant "the cursor does not hold the message at which it stays" take \
    '/^static bool step_to_drop/,/^}/ s/if \(to\.index != NIL\) hold_mine\(.*\);/(void)0;/' "bands" "$@"
mutant "a message that is looked at ahead of the cursor stays held" take \
    's/if \(left != NIL\) let_go\(s->region, left\);/if (moves \&\& left != NIL) let_go(s->region, left);/' "bands" "$@"
mutant "a cursor that rests forgets its sequence" take \
    '/^static void rest\(/,/^}/ s/set_cursor\(s, band\);/s->sequence[band] = 0, set_cursor(s, band);/' "rest, step" "$@"
mutant "who finds its place at head looks at what is behind it" queue \
    's/while \(stepped == STEP_OK && \*at <= sequence\)/while (false)/' "use" "$@"
mutant "who rests follows a message that is in another life" queue \
    '/^int queue_resume/,/^}/ s/ \|\| state_generation\(.*\) return STEP_PASSED;/) return STEP_PASSED;/' "resting" "$@"
mutant "who rests does not look whether its place is in the same life yet" queue \
    '/^int queue_resume/,/^}/ s/uint64_t next = d/if (d \&\& state_generation(load_acquire(\&d->state)) != link_tag(place)) return STEP_PASSED;\n    uint64_t next = d/; /^int queue_resume/,/^}/ s/if \(!d .*\) return STEP_PASSED;/if (!d) return STEP_PASSED;/' "resting" "$@"
mutant "who rests keeps its place though its cursor went on" take \
    '/^static void cursor_to_head/,/^}/ s/s->place\[band\] = NIL;/(void)0;/' "lapsed at rest" "$@"
mutant "who rests does not see the next message" wait \
    's/if \(last > sequence_near\(link_tag\(cursor\), last\)\) return true;/(void)last;/' "resting" "$@"
mutant "a thread that waits is told to end and not woken" wait \
    '/^static int end_waits/,/^\}/ s/wake_subscribers\(.*//' "‖ wake" "$@"
mutant "a publisher that waits is told to end and not woken" wait \
    '/^int rtmw_publisher_wake/,/^\}/ s/wake_publishers\(p->topic\);//' "room ‖ wake" "$@"
mutant "a publisher looks whether it is to end before it arms" publish \
    's/^    uint32_t word = arm_word\(&p->topic->room\);$/    if (exchange(\&p->woken, 0u)) return RTMW_INTERRUPTED; uint32_t word = arm_word(\&p->topic->room);/; s/if \(load_seq\(&p->woken\).*//' "room ‖ wake" "$@"
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
mutant "a subscriber whose spins were in vain never spins again" wait \
    's/if \(waited_ns < SHORT_NS .*/if (false)/' "sleep, sleep" "$@"
mutant "who arms does not look again" wait \
    '/^bool subscriber_arm/,/^}/ s/return has_next\(s\) .*;/return false;/' "arm ‖ publish" "$@"
mutant "who is armed is not told" wait \
    's/if \(load_seq\(&t->poll\) & 1\) send_datagrams.*;/(void)topic_index;/' "arm ‖ publish" "$@"
mutant "who sleeps in a crowd is woken by nobody" wait \
    's/if \(load_seq\(wait\) & 1\) futex_wake_and_add\(wait\);/(void)wait;/' "crowd" "$@"
mutant "who sleeps in a crowd while armed is cleared sleeps on" wait \
    's/^(        if \(sent && cas32.*armed, 0\)\)) wake_crowd.*;/\1 (void)0;/' "crowd" "$@"
mutant "in a crowd it is armed before the word is odd" wait \
    's/uint32_t word = arm_word\(wait\);.*/uint32_t word = 0;/; /^int wait_crowd/,/^}/ s/^(        int code = answer)/        word = arm_word(wait);\n\1/' "crowd" "$@"
mutant "in steps, the word keeps its value until somebody wakes" wait \
    's/fetch_add\(word, 2u\) \+ 2;/load_seq(word);/' "in steps" "$@"
mutant "in steps, who fell asleep before the word was even sleeps on" wait \
    's/cas32\(word, value, value \+ 1\)\) futex_wake\(word\);/cas32(word, value, value + 1)) (void)0;/' "in steps" "$@"
mutant "in steps, the word is even before anybody wakes" wait \
    's/fetch_add\(word, 2u\) \+ 2;/fetch_add(word, 1u) + 1;/' "death" "$@"
mutant "who was sent no datagram is armed no more" wait \
    's/if \(sent && (cas32.*armed, 0\))\)/if (\1)/; s/if \(all_sent\) cas32/cas32/' "refused" "$@"
mutant "poll is even though a datagram was not sent" wait \
    's/if \(all_sent\) cas32/cas32/' "refused" "$@"
mutant "a deadline does not shorten a sleep" wait \
    '/^static int sleep_until/,/^}/ s/look_up_ns\(s\)/LOOK_UP_NS/g' "wake nobody" "$@"
mutant "a message that the dead had linked is given back" descriptors \
    's/^(        )if \(linked\) \{/\1if (linked \&\& false) {/' "sweep ‖ append ‖ take" "$@"
mutant "the dead hold on" participants \
    's/fetch_and\(&d->holders\[dead >> 6\], ~bit_of\(dead\)\);/(void)0;/' "sweep ‖ append, evict" "$@"

mutant "a retirer does not look for users again" topics \
    's/^    mark_used\(r, &used\); \/\* pairs with endpoint_claim \*\/$//' "use a topic" "$@"
mutant "who uses a topic does not look at its word" slots \
    '/^static bool stands/,/^}/ s/if \(!slot_is_there\(seen\).*$/return true;/' "use a topic" "$@"
mutant "who uses a topic does not see that it is another life" slots \
    's/ \|\| slot_generation\(seen\) != link_tag\(life\)\) return false;/) return false;/' "use a topic" "$@"
mutant "a retirer does not say who it is" topics \
    's/slot_make\(slot_generation\(seen\), 0, r->me, SLOT_RETIRING\)/slot_make(slot_generation(seen), 0, 0, SLOT_RETIRING)/' "retire ‖ retire" "$@"
mutant "who finds a topic RETIRING waits for the retirer" slots \
    '/^static bool stands/,/^}/ s/^        slot_rescue\(word, seen\);$/        return false;/' "death" "$@"
mutant "a retirer does not look at tracers" topics \
    's/ \|\| load_seq\(&t->tracers\[0\]\) \| load_seq\(&t->tracers\[1\]\);/;/' "trace ‖ use" "$@"
mutant "a new topic has the messages of the old one" topics \
    's/store_relaxed\(&band->origin, last\);/(void)0;/' "with history ‖ evict" "$@"
mutant "a new topic begins at a tail that is behind" queue \
    '/^uint64_t queue_catch_up/,/^}/ s/^            help_tail\(r, band, tail, next\);$/            break;/' "death" "$@"
mutant "a maker reads what was made last after its look" topics \
    's/cas64\(maker, last, /cas64(maker, load_seq(maker), /' "open topic" "$@"
mutant "a maker replaces what was made last before it is ACTIVE" topics \
    's/^        activate\(table, last\);$//' "open topic" "$@"
mutant "a topic that a dead retirer left stays RETIRING" participants \
    's/if \(slot_state_of\(seen\) == SLOT_RETIRING\) slot_rescue\(.*\);//' "death" "$@"
mutant "who wants a slot waits for another retirer" topics \
    '/^static bool begin_topic/,/^}/ s/slot_is_there\(seen\)/slot_state_of(seen) == SLOT_ACTIVE/' "death" "$@"
mutant "a slot is given back under the life that it had" topics \
    's/slot_make\(slot_generation\(seen\) \+ 1, 0, r->me, SLOT_CLAIMED\)/slot_make(slot_generation(seen), 0, r->me, SLOT_CLAIMED)/' "use a" "$@"
mutant "who wants a type's slot waits for another retirer" topics \
    '/^uint32_t retire_types/,/^}/ s/slot_is_there\(seen\)/slot_state_of(seen) == SLOT_ACTIVE/' "death" "$@"
mutant "a retirer does not look for users of types again" topics \
    's/^    mark_types\(r, &used\); \/\* pairs with type_stands \*\/$//' "use a type" "$@"
mutant "a retirer does not look at the types of messages" topics \
    '/^static void mark_types/,/^}/ s/state_kind\(load_seq\(&r->descriptors\[i\]\.state\)\) != FREE/false/' "use a type" "$@"
mutant "a retirer looks at messages before publishers" topics \
    '/^static void mark_types/,/^}/ { /^    for \(uint32_t i = 0/,/descriptors\[i\]\.type/d; s/^    memset.*$/&\n    for (uint32_t i = 0; i < r->header->descriptors; i++) if (state_kind(load_seq(\&r->descriptors[i].state)) != FREE) mark_type(r, used, load_seq(\&r->descriptors[i].type));/ }' "use a type, leave" "$@"
mutant "who opens an endpoint does not look at the word of its type" topics \
    's/ && type_stands\(r, type\)//' "use a type" "$@"
mutant "an endpoint names its type after it looked at the word" publish \
    's/^    fill_block\(p\);$/    store_seq(\&r->publishers[p->slot].type, 0xFFFFu); fill_block(p); store_seq(\&r->publishers[p->slot].type, claimed.type);/' "use a type" "$@"
mutant "a type is read without a second look at its word" topics \
    's/return type_life\(r, type\) == life \? life : 0;/return life;/' "look at a type" "$@"
mutant "what was promised is asked before what it is promised for" reclaim \
    's/^    struct outlook o = \{\.topic.*$/    uint64_t promised = load_relaxed(\&t->history);\n&/; s/uint64_t history = load_relaxed\(&t->history\)/uint64_t history = promised/' "with history ‖ evict" "$@"

mutant "what was promised is asked before what all have read" publish \
    '/^static uint32_t pass_unneeded/,/^}/ { s/^    uint64_t tail = link_tag\(load_seq.*$/    uint64_t promised = load_relaxed(\&p->topic->history);\n&/; s/^    uint64_t history = load_relaxed\(&p->topic->history\);.*/    uint64_t history = promised;/ }' "append with history" "$@"
mutant "what some have not read is passed over as what all have" publish \
    '/^static bool all_have_read/,/^}/ s/return false;/(void)0;/' "resting take" "$@"

mutant "a search does not look again at what may not go" reclaim \
    's/^    if \(found && !nothing_may_go\(r, &again, &oldest\)\).*$//' "hints: search" "$@"
mutant "who appends does not name its topic" queue \
    's/^    evictable_appended\(r, topic, band\);$//' "hints: search ‖ append" "$@"
mutant "a topic says before its bitmap that nothing may go" reclaim \
    's/^    bitmap_clear\(evictable_map\(r, o->band\), o->topic\);$//; s/^    fetch_and\(&r->topics\[o->topic\].evictable, .*$/&\n    bitmap_clear(evictable_map(r, o->band), o->topic);/' "hints: search ‖ append, append" "$@"
mutant "what is needed is said after the last look" reclaim \
    's/^    fetch_or\(&r->topics\[o->topic\].pinned, .*$//; s/^    if \(found && !nothing_may_go\(r, &again, &oldest\)\).*$/&\n    fetch_or(\&r->topics[o->topic].pinned, 1u << o->band);/' "hints: search ‖ take" "$@"
mutant "what is offered is asked before what it is offered with" reclaim \
    's/^    struct outlook o = \{.topic = topic, .band = band, .look = look\};/&\n    o.offered = load_seq(\&t->reliable);/; s/^    o.offered = load_seq\(&t->reliable\); +\/.*$//' "hints: search ‖ offer" "$@"
mutant "a subscriber that moves names nothing" take \
    's/topic_unpin\(s->region, s->topic_index\)/(void)0/' "hints: search ‖ take" "$@"
mutant "a subscriber that leaves names nothing" take \
    's/topic_unpin\(r, s->topic_index\)/(void)0/' "hints: search ‖ leave" "$@"
mutant "who finds a descriptor claimed does not look again" descriptors \
    's/else if \(state_kind\(load_seq\(&d->state\)\) == FREE\)/else if (false)/' "hints: claim" "$@"
mutant "who finds a page claimed does not look again" blocks \
    's/if \(!looks\(r, page\)\) return;/return;/' "hints: claim" "$@"
mutant "what was claimed in vain is not named" blocks \
    's/^        set_free\(r, first, claimed\);.*$//' "hints: claim" "$@"
mutant "a page of which granules were claimed in vain is not named" blocks \
    '/^static bool give_up/,/^}/ s/^    hint_page\(r, page\);$/    (void)page;/' "hints: claim" "$@"
mutant "what is given back is not named" blocks \
    's/^        set_free\(r, page, pages < left .*$/        (void)left;/' "hints: claim" "$@"
mutant "a message is emptied within a queue without a first look at holders" reclaim \
    's/ \|\| descriptor_is_held\(d\)\)/)/' "within: empty ‖ take of what another thins" "$@"
mutant "the state of a message within a queue is read after it was seen there" reclaim \
    's/descriptor_empty\(r, d, g->state, NIL\)/descriptor_empty(r, d, load_seq(\&d->state), NIL)/; s/state_kind\(g->state\) != QUEUED/state_kind(load_seq(\&d->state)) != QUEUED/' "within: empty ‖ evict" "$@"
mutant "a message at a cursor is taken for one that is decided on" reclaim \
    's/^    if \(published\) guess\(reader, published\);$/    (void)published;/' "within: empty ‖ take of what is thinned" "$@"
mutant "what is foretold knows nothing of higher bands" reclaim \
    's/^    now.stage = BANDS - 1;$/    now.stage = o->band;/' "within: empty, empty ‖ take of what is urgent" "$@"
mutant "what is taken out of turn is not foretold" reclaim \
    's/^        if \(unread && above\) guess_next\(.*$/        (void)guess_next;/' "within: append above, empty" "$@"
mutant "what has come above since is not waited for" reclaim \
    's/traversal->reader\[i\].frozen \|= now->reader\[i\].above/(void)now/' "within: empty, empty ‖ append above" "$@"
mutant "what may expire is foretold to be accepted" reclaim \
    's/reader->frozen \|= g->expires \|\| /reader->frozen |= /' "within: empty ‖ take when" "$@"
mutant "a traversal goes on though a subscriber accepted what was not foretold" reclaim \
    's/^    if \(!is_same_guess\(reader, now\)\) return false;$/    (void)is_same_guess;/' "within: empty, empty ‖ append, take" "$@"
mutant "a message does not stand behind its predecessor" queue \
    's/load_acquire\(&last->count\[0\]\) \+ \(offer == 0\)/(offer == 0)/' "append, evict" "$@"
mutant "the time of a parked subscription is read without a look at its word" slots \
    's/ && load_seq\(&r->subscriber_words\[slot\]\) == word;/;/' "evict ‖ resume" "$@"
mutant "who resumes leaves the generation as it is" take \
    's/slot_generation\(word\) \+ 1, s->topic_index, r->me/slot_generation(word), s->topic_index, r->me/' "sweep ‖ resume" "$@"
mutant "who resumes begins behind what it had not come to" take \
    's/^    if \(sequence >= s->sequence\[band\]\) return;$/    return;/' "evict ‖ resume" "$@"

mutant "what is forgotten is read after the look at publishers" reclaim \
    's/if \(is_published\(r, at.topic\)\) return false;/(void)at;/' "keep first ‖ forget the oldest" "$@"
mutant "what another publisher keeps is forgotten" reclaim \
    's/ \|\| \(alone && is_published\(r, topic\)\)//' "keep anew ‖ forget all" "$@"

[ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
