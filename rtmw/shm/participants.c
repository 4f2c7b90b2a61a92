/* Participants: attached processes, and what is done after they die.
 *
 * A participant is its slot's word: {generation, pid, state}, claimed by one CAS under the lock that says that it lives
 * (see life, below). All that it claims elsewhere names its slot, so cleaning up after it is a sweep over the region that
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
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "region.h"
#include "topics.h"
#include "trace.h"
#include "wait.h"

enum { LAST_RESORT = PARTICIPANTS - 1 };

static uint64_t pid_namespace(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* Is there no process with this pid, where it means the same as here? A pid that exists may be another process', and one
 * of another namespace says nothing: then false. Unlike /proc, kill() does not hide the processes of others. */
static bool pid_is_gone(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint64_t space = load_acquire(&r->participants[slot].pid_namespace);
    if (!space || space != r->pid_namespace) return false;
    return kill((pid_t)participant_pid(word), 0) != 0 && errno == ESRCH;
}

/* `word` was read before: see below. Stopped is not dead. */
static bool is_dead(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    return life_is_over(r, slot) || pid_is_gone(r, slot, word);
}

bool participant_is_dead(struct rtmw_region *r, uint32_t slot)
{
    if (slot >= PARTICIPANTS) return false;
    uint64_t word = load_seq(&r->participants[slot].word);
    return participant_state_of(word) == ABSENT || is_dead(r, slot, word);
}

bool owner_is_dead(struct rtmw_region *r, uint32_t owner, struct owners *owners)
{
    if (owner >= PARTICIPANTS || owner == r->me) return false;
    uint64_t *asked = &owners->asked[owner >> 6], *dead = &owners->dead[owner >> 6], bit = bit_of(owner);
    if (!(*asked & bit) && participant_is_dead(r, owner)) *dead |= bit;
    *asked |= bit;
    return (*dead & bit) != 0;
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

bool is_swept(struct rtmw_region *r)
{
    if (!is_observer(r) && load_acquire(&r->participants[r->me].word) != r->my_word) store_relaxed(&r->swept, 1u);
    return load_relaxed(&r->swept) != 0;
}

int region_state(struct rtmw_region *r)
{
    if (is_forked(r)) return RTMW_FORKED;
    return is_observer(r) ? RTMW_OBSERVER : is_swept(r) ? RTMW_SWEPT : RTMW_OK;
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

/* ======== life ======== */

/* Life of a participant: a lock of the kernel on one byte of the control file a slot.
 *
 * A participant holds an open-file-description lock (F_OFD_SETLK) on the first byte of its slot's word, from before the
 * word says PRESENT until after it says ABSENT. The kernel drops the lock when the last descriptor of that open file is
 * closed: when the last thread of the process has ended, whatever ended it, and at exec, for the descriptor is
 * close-on-exec. A stopped process keeps its lock. Therefore:
 *
 *   a participant is dead if its word was read (not ABSENT) and its lock was found free after that.
 *
 * No /proc is asked, so that hidepid changes nothing, nor do pid, user, mount and time namespaces.
 *
 * The lock belongs to the open file, not to the process. Each attachment opens the file itself, so that several
 * attachments of one process are participants of their own. The region is mapped through another open file, because a
 * mapping keeps its file open. fork() shares the open file with the child, which closes its copy at once (region.c). A
 * child of the bare system call runs no such handler, and keeps its parent's lock: for that case participants.c also asks
 * whether the pid exists, where pids mean the same.
 */

#ifndef F_OFD_GETLK /* from Linux 3.15 on */
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

static struct flock byte_of(struct rtmw_region *r, uint32_t slot, short type)
{
    uint64_t at = r->header->at_participants + slot * sizeof(struct participant);
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
}

/* Takes the lock of a slot. RTMW_OK; RTMW_NO_PARTICIPANT_SLOT: another attachment has it; RTMW_NO_LOCKS and errno: the
 * kernel, the file system or a sandbox refuses locks. Never blocks. */
int life_take(struct rtmw_region *r, uint32_t slot)
{
    struct flock lock = byte_of(r, slot, F_WRLCK);
    if (fcntl(r->control_fd, F_OFD_SETLK, &lock) == 0) return RTMW_OK;
    return errno == EAGAIN ? RTMW_NO_PARTICIPANT_SLOT : RTMW_NO_LOCKS;
}

/* Is the descriptor still the one that was opened? A program that closes descriptors it does not know may have closed
 * it, and another file may have its number now, on which nobody holds a lock. */
bool life_file_is_open(struct rtmw_region *r)
{
    struct stat about;
    return fstat(r->control_fd, &about) == 0 && (uint64_t)about.st_dev == r->control_device &&
           (uint64_t)about.st_ino == r->control_inode;
}

/* Gives up the lock of a slot that this attachment holds; otherwise it does nothing. */
void life_give(struct rtmw_region *r, uint32_t slot)
{
    struct flock lock = byte_of(r, slot, F_UNLCK);
    if (life_file_is_open(r)) fcntl(r->control_fd, F_OFD_SETLK, &lock);
}

/* Does no other attachment hold the lock of this slot? false also if that cannot be told. */
bool life_is_over(struct rtmw_region *r, uint32_t slot)
{
    struct flock lock = byte_of(r, slot, F_WRLCK);
    return fcntl(r->control_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK && life_file_is_open(r);
}
