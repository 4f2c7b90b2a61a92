/* Participants: attached processes, and what is done after they die.
 *
 * A participant is its slot's word: {generation, pid, state}, claimed by one CAS under the lock that says that it lives
 * (slots.c). All that it claims elsewhere names its slot, so cleaning up after it is a sweep over the region that
 * anyone may run, repeat, or die in. The pid is for people.
 *
 * The lock is taken before the word says PRESENT and given up after it says ABSENT. So a word that says PRESENT or LEAVING
 * and whose lock is free afterwards is a dead one's; a claimer that dies between lock and word leaves nothing.
 *
 * A slow sweeper must not sweep after the next owner of the slot. Hence `sweepers`: a sweeper sets its own bit there,
 * then sees that the word is still the dead one's, and only then begins; a claimer of the slot sees the word ABSENT,
 * then sees no bit. One of the two always sees the other. A sweeper that is stopped keeps this one slot from being
 * claimed anew, and nothing else.
 *
 * A living process loses its lock only if it closes the descriptor itself, as programs do that close all descriptors
 * they do not know. It is swept then. It finds its word changed when it next opens, waits or sweeps, and its endpoints
 * changed when it next publishes or takes; from then on each call returns RTMW_SWEPT and changes nothing shared.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "wait.h"

enum { LAST_RESORT = PARTICIPANTS - 1 };

static uint64_t pid_namespace(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

static void write_name(char *name, size_t size)
{
    memset(name, 0, size);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char text[512];
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    size_t used = 0;
    int names = 0; /* of the interpreter and its program; further words may be topics, whose slashes are no folders */
    for (ssize_t at = 0; at < length && used + 1 < size;) {
        text[length] = 0;
        const char *word = text + at, *slash = word[0] == '/' || names < 2 ? strrchr(word, '/') : NULL;
        names += word[0] != '-';
        at += (ssize_t)strlen(word) + 1;
        int written = snprintf(name + used, size - used, "%s%s", used ? " " : "", slash ? slash + 1 : word);
        used += written > 0 ? (size_t)written : 0;
    }
}

/* RTMW_OK; RTMW_NO_PARTICIPANT_SLOT: this one is another's; RTMW_NO_LOCKS and errno. The look at `sweepers` pairs with
 * sweep_the_dead. */
static int claim_slot(struct rtmw_region *r, uint32_t slot)
{
    struct participant *p = &r->participants[slot];
    uint64_t word = load_seq(&p->word);
    if (participant_state_of(word) != ABSENT) return RTMW_NO_PARTICIPANT_SLOT;
    if (load_seq(&p->sweepers[0]) | load_seq(&p->sweepers[1])) return RTMW_NO_PARTICIPANT_SLOT;
    int code = life_take(r, slot);
    if (code != RTMW_OK) return code;
    uint64_t mine = participant_make((uint32_t)getpid(), participant_generation(word) + 1);
    if (!cas64(&p->word, word, mine)) return life_give(r, slot), RTMW_NO_PARTICIPANT_SLOT;
    store_release(&p->pid_namespace, r->pid_namespace);
    write_name(p->name, sizeof p->name);
    r->me = slot;
    r->my_word = mine;
    return RTMW_OK;
}

static int claim_any_slot(struct rtmw_region *r)
{
    int code = RTMW_NO_PARTICIPANT_SLOT;
    for (uint32_t slot = 0; slot < LAST_RESORT && code == RTMW_NO_PARTICIPANT_SLOT; slot++) code = claim_slot(r, slot);
    return code;
}

/* Only a participant may sweep. The last slot is for who finds the table full: it sweeps from there, and moves. A tool that
 * people start stays there if all others live, and then sweeps in place of those who do not get in any more. */
static int claim_after_sweep(struct rtmw_region *r)
{
    int code = claim_slot(r, LAST_RESORT);
    if (code != RTMW_OK) return code;
    uint64_t last_word = r->my_word;
    sweep_the_dead(r);
    code = claim_any_slot(r);
    if (code == RTMW_NO_PARTICIPANT_SLOT && r->is_tool) return RTMW_OK; /* as the last one */
    uint32_t me = r->me;
    uint64_t word = r->my_word;
    r->me = LAST_RESORT;
    r->my_word = last_word;
    participant_leave(r);
    r->me = me;
    r->my_word = word;
    return code;
}

int participant_claim(struct rtmw_region *r)
{
    r->pid_namespace = pid_namespace();
    int code = claim_any_slot(r);
    return code == RTMW_NO_PARTICIPANT_SLOT ? claim_after_sweep(r) : code;
}

static void clear_sweeper_bits(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++)
        if (load_relaxed(&r->participants[slot].sweepers[dead >> 6]) & bit_of(dead))
            fetch_and(&r->participants[slot].sweepers[dead >> 6], ~bit_of(dead));
}

/* The bytes that the dead published stay counted, once: the process that wins the word moves the counter. */
static void retire_publisher(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint64_t mine = slot_make(slot_generation(word), slot_topic(word), r->me, SLOT_CLAIMED);
    if (slot_topic(word) >= r->header->topics || !cas64(&r->publisher_words[slot], word, mine)) return;
    topic_keep_bytes(&r->topics[slot_topic(word)], &r->publishers[slot]);
    store_relaxed(&r->publishers[slot].identity, 0); /* an owner that lives sees it when it next publishes */
    publisher_gone(r, slot_topic(word));
    slot_free(&r->publisher_words[slot], mine);
}

static void free_slots(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t slot = 0; slot < r->header->publishers; slot++) {
        uint64_t word = load_seq(&r->publisher_words[slot]);
        if (slot_state_of(word) != SLOT_FREE && slot_owner(word) == dead) retire_publisher(r, slot, word);
    }
    for (uint32_t slot = 0; slot < r->header->subscribers; slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        if (slot_state_of(word) != SLOT_FREE && slot_owner(word) == dead) slot_free(&r->subscriber_words[slot], word);
    }
}

static void sweep_descriptors(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t index = 0; index < r->header->descriptors; index++) {
        struct descriptor *d = &r->descriptors[index];
        uint64_t state = load_seq(&d->state);
        if (state_owner(state) == dead && !state_is_at_rest(state) && state_kind(state) != FREE)
            descriptor_sweep(r, index, dead);
        if (load_seq(&d->holders[dead >> 6]) & bit_of(dead)) fetch_and(&d->holders[dead >> 6], ~bit_of(dead));
    }
}

/* A topic or type that the dead left CLAIMED or RETIRING. */
static void free_half_made(uint64_t *word, uint32_t dead)
{
    uint64_t seen = load_seq(word);
    if (slot_owner(seen) != dead) return;
    if (slot_state_of(seen) == SLOT_CLAIMED) slot_free(word, seen);
    if (slot_state_of(seen) == SLOT_RETIRING) slot_rescue(word, seen);
}

static void sweep_half_made(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t slot = 0; slot < r->header->topics; slot++) free_half_made(&r->topics[slot].word, dead);
    for (uint32_t slot = 0; slot < r->header->types; slot++) free_half_made(&r->types[slot].word, dead);
}

/* It may have died between linking a message and waking who sleeps: wake everybody once. */
static void wake_everybody(struct rtmw_region *r)
{
    for (uint32_t i = 0; i < load_relaxed(&r->hints->topics_top) && i < r->header->topics; i++) {
        if (!slot_is_there(load_seq(&r->topics[i].word))) continue;
        wake_subscribers(r, &r->topics[i], i);
        wake_publishers(&r->topics[i]);
    }
}

static void sweep_after(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    struct participant *p = &r->participants[slot];
    uint64_t gone = participant_in_state(participant_make(0, participant_generation(word)), ABSENT);
    sweep_descriptors(r, slot);
    free_slots(r, slot);
    sweep_half_made(r, slot);
    trace_sweep(r, slot);
    clear_sweeper_bits(r, slot);
    wake_everybody(r);
    recount_hints(r);
    evictable_recount(r);
    store_seq(&p->pid_namespace, 0);
    cas64(&p->word, participant_in_state(word, LEAVING), gone);
}

/* This process is not swept itself: else the bit that it sets would be another's. */
static bool sweep_one(struct rtmw_region *r, uint32_t slot)
{
    struct participant *p = &r->participants[slot];
    uint64_t word = load_seq(&p->word), leaving = participant_in_state(word, LEAVING);
    if (participant_state_of(word) == ABSENT || slot == r->me || !is_dead(r, slot, word)) return false;
    cas64(&p->word, word, leaving);
    fetch_or(&p->sweepers[r->me >> 6], bit_of(r->me)); /* pairs with participant_claim */
    bool swept = load_seq(&p->word) == leaving;
    if (swept) sweep_after(r, slot, leaving);
    fetch_and(&p->sweepers[r->me >> 6], ~bit_of(r->me));
    return swept;
}

/* ---- parked subscriptions whose time is over: see take.c ---- */

bool parked_end(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint32_t topic = slot_topic(word);
    if (!slot_is_parked(word) || topic >= r->header->topics || !parked_is_over(r, slot, word)) return false;
    if (!slot_free(&r->subscriber_words[slot], word)) return false;
    topic_unpin(r, topic);
    fetch_add(&r->topics[topic].epoch, 1u);
    wake_publishers(&r->topics[topic]);
    return true;
}

uint32_t parked_sweep(struct rtmw_region *r)
{
    uint32_t top = load_seq(&r->hints->subscribers_top), ended = 0;
    for (uint32_t slot = 0; slot < top && slot < r->header->subscribers; slot++)
        ended += parked_end(r, slot, load_seq(&r->subscriber_words[slot]));
    return ended;
}

uint32_t sweep_the_dead(struct rtmw_region *r)
{
    uint32_t swept = 0;
    r->swept_ns = monotonic_ns();
    if (is_swept(r)) return 0;
    parked_sweep(r);
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++) swept += sweep_one(r, slot);
    return swept;
}

bool sweep_if_dead(struct rtmw_region *r, uint32_t slot)
{
    return slot < PARTICIPANTS && !is_swept(r) && sweep_one(r, slot);
}

uint32_t sweep_if_due(struct rtmw_region *r, uint64_t every_ns)
{
    return monotonic_ns() - r->swept_ns >= every_ns ? sweep_the_dead(r) : 0;
}

void sweep_from_last_slot(struct rtmw_region *r)
{
    if (r->me != LAST_RESORT) return;
    lock_take(&r->lock);
    sweep_if_due(r, NS_PER_S);
    lock_give(&r->lock);
}

/* Leaving in peace is a sweep after oneself. Nobody else sweeps meanwhile: the lock is held until the end. */
void participant_leave(struct rtmw_region *r)
{
    struct participant *p = &r->participants[r->me];
    uint64_t leaving = participant_in_state(r->my_word, LEAVING);
    if (cas64(&p->word, r->my_word, leaving)) sweep_after(r, r->me, leaving);
    life_give(r, r->me);
}
