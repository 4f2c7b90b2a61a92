/* Participants: attached processes, and what is done after they die.
 *
 * A participant is its slot's word: {start time, pid, generation, state}, claimed by one CAS. Whatever it claims
 * elsewhere names its slot, so cleaning up after it is a sweep over the region that anyone may run, repeat, or die in.
 *
 * A slow sweeper must not sweep after the next owner of the slot. Hence `sweepers`: a sweeper sets its own bit there,
 * then sees that the word is still the dead one's, and only then begins; a claimer of the slot sees the word ABSENT,
 * then sees no bit. One of the two always sees the other. A sweeper that is stopped keeps this one slot from being
 * claimed anew, and nothing else.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"

enum { LAST_RESORT = PARTICIPANTS - 1 };

static uint64_t bit_of(uint32_t slot) { return UINT64_C(1) << (slot & 63); }

/* State letter, thread count and start time (clock ticks since boot) of a process. false: there is none. */
static bool read_process(uint32_t pid, char *state, long *threads, uint64_t *start)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return false;
    text[length] = 0;
    char *after_name = strrchr(text, ')');
    unsigned long long ticks = 0;
    if (!after_name || sscanf(after_name + 1,
                              " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                              state, threads, &ticks) != 3)
        return false;
    *start = ticks;
    return true;
}

static uint64_t pid_namespace(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* Dead: no such process, another one with its pid, or a zombie whose threads are all gone. Stopped is not dead. */
static bool is_dead(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint64_t space = load_acquire(&r->participants[slot].pid_namespace);
    if (space && space != r->pid_namespace) return false; /* its pid means nothing here */
    char state = 0;
    long threads = 0;
    uint64_t start = 0;
    if (!read_process(participant_pid(word), &state, &threads, &start)) return access("/proc/self/stat", R_OK) == 0;
    if ((start & START_MASK) != participant_start(word)) return true;
    return (state == 'Z' || state == 'X') && threads <= 1;
}

bool participant_is_dead(struct rtmw_region *r, uint32_t slot)
{
    uint64_t word = load_seq(&r->participants[slot].word);
    return participant_state_of(word) == ABSENT || is_dead(r, slot, word);
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
    for (ssize_t at = 0; at < length && used + 1 < size;) { /* program and its first arguments, without folders */
        text[length] = 0;
        const char *word = text + at, *slash = strrchr(word, '/');
        at += (ssize_t)strlen(word) + 1;
        int written = snprintf(name + used, size - used, "%s%s", used ? " " : "", slash ? slash + 1 : word);
        used += written > 0 ? (size_t)written : 0;
    }
}

static bool claim_slot(struct rtmw_region *r, uint32_t slot, uint64_t start)
{
    struct participant *p = &r->participants[slot];
    uint64_t word = load_seq(&p->word);
    if (participant_state_of(word) != ABSENT) return false;
    if (load_seq(&p->sweepers[0]) | load_seq(&p->sweepers[1])) return false; /* pairs with sweep_the_dead */
    uint64_t mine = participant_make(start, (uint32_t)getpid(), participant_generation(word) + 1, PRESENT);
    store_relaxed(&p->pid_namespace, 0);
    if (!cas64(&p->word, word, mine)) return false;
    write_name(p->name, sizeof p->name);
    store_release(&p->pid_namespace, r->pid_namespace);
    r->me = slot;
    r->my_word = mine;
    return true;
}

static bool claim_any_slot(struct rtmw_region *r, uint64_t start)
{
    for (uint32_t slot = 0; slot < LAST_RESORT; slot++)
        if (claim_slot(r, slot, start)) return true;
    return false;
}

/* Only a participant may sweep. The last slot is for who finds the table full: it sweeps from there, and moves. */
int participant_claim(struct rtmw_region *r)
{
    char state;
    long threads;
    uint64_t start = 0;
    read_process((uint32_t)getpid(), &state, &threads, &start);
    r->pid_namespace = pid_namespace();
    if (claim_any_slot(r, start)) return RTMW_OK;
    if (!claim_slot(r, LAST_RESORT, start)) return RTMW_NO_PARTICIPANT_SLOT;
    sweep_the_dead(r);
    struct rtmw_region last = *r;
    bool claimed = claim_any_slot(r, start);
    participant_leave(&last);
    return claimed ? RTMW_OK : RTMW_NO_PARTICIPANT_SLOT;
}

static void clear_sweeper_bits(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++)
        if (load_relaxed(&r->participants[slot].sweepers[dead >> 6]) & bit_of(dead))
            fetch_and(&r->participants[slot].sweepers[dead >> 6], ~bit_of(dead));
}

static void free_slots(struct rtmw_region *r, uint64_t *words, uint32_t count, uint32_t dead)
{
    for (uint32_t slot = 0; slot < count; slot++) {
        uint64_t word = load_seq(&words[slot]);
        if (slot_state_of(word) == SLOT_FREE || slot_owner(word) != dead) continue;
        if (words == r->publisher_words) { /* what it published stays counted, once */
            struct topic *topic = &r->topics[slot_topic(word)];
            fetch_add(&topic->retired_published, exchange(&r->publishers[slot].published, 0));
            fetch_add(&topic->retired_bytes, exchange(&r->publishers[slot].bytes, 0));
        }
        slot_free(&words[slot], word);
    }
}

static void sweep_descriptors(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t index = 0; index < r->header->descriptors; index++) {
        struct descriptor *d = &r->descriptors[index];
        uint64_t state = load_seq(&d->state);
        if (state_owner(state) == dead && (state_kind(state) == LOANED || state_kind(state) == APPENDING))
            descriptor_settle(r, index, dead);
        if (load_seq(&d->holders[dead >> 6]) & bit_of(dead)) fetch_and(&d->holders[dead >> 6], ~bit_of(dead));
    }
}

/* It may have died between linking a message and waking who sleeps: wake everybody once. */
static void wake_everybody(struct rtmw_region *r)
{
    for (uint32_t i = 0; i < load_relaxed(&r->header->topics_top) && i < r->header->topics; i++) {
        if (slot_state_of(load_seq(&r->topics[i].word)) != SLOT_ACTIVE) continue;
        wake_subscribers(r, &r->topics[i], i);
        wake_publishers(&r->topics[i]);
    }
}

static void sweep_after(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    struct participant *p = &r->participants[slot];
    uint64_t leaving = (word & ~UINT64_C(3)) | LEAVING;
    uint64_t gone = participant_make(0, 0, participant_generation(word), ABSENT);
    sweep_descriptors(r, slot);
    free_slots(r, r->publisher_words, r->header->publishers, slot);
    free_slots(r, r->subscriber_words, r->header->subscribers, slot);
    settle_half_made(r, slot);
    clear_sweeper_bits(r, slot);
    wake_everybody(r);
    recount_hints(r);
    cas64(&p->word, leaving, gone);
}

uint32_t sweep_the_dead(struct rtmw_region *r)
{
    uint32_t swept = 0;
    r->swept_ns = monotonic_ns();
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++) {
        struct participant *p = &r->participants[slot];
        uint64_t word = load_seq(&p->word);
        if (participant_state_of(word) == ABSENT || slot == r->me || !is_dead(r, slot, word)) continue;
        uint64_t leaving = (word & ~UINT64_C(3)) | LEAVING;
        cas64(&p->word, word, leaving);
        fetch_or(&p->sweepers[r->me >> 6], bit_of(r->me)); /* pairs with participant_claim */
        if (load_seq(&p->word) == leaving) {
            sweep_after(r, slot, leaving);
            swept++;
        }
        fetch_and(&p->sweepers[r->me >> 6], ~bit_of(r->me));
    }
    return swept;
}

uint32_t sweep_if_due(struct rtmw_region *r, uint64_t every_ns)
{
    return monotonic_ns() - r->swept_ns >= every_ns ? sweep_the_dead(r) : 0;
}

/* Leaving in peace is a sweep after oneself. Nobody else sweeps meanwhile: the process lives. */
void participant_leave(struct rtmw_region *r)
{
    struct participant *p = &r->participants[r->me];
    uint64_t leaving = (r->my_word & ~UINT64_C(3)) | LEAVING;
    if (cas64(&p->word, r->my_word, leaving)) sweep_after(r, r->me, leaving);
}
