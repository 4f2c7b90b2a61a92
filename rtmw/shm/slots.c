/* Slots: who has one, and whether that one still lives.
 *
 *   life        a participant lives for as long as the kernel keeps its lock
 *   endpoints   the word of a publisher's or subscriber's slot: its owner and its topic; who is there, and who was parked
 *   topics      whether a topic or type that somebody names still stands
 *
 * Callers rely on this: nothing here waits, claims, or cleans up; it looks, and gives back one slot that is the caller's.
 * Who claims slots: participants.c and topics.c. Who cleans up after the dead: participants.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "core.h"

uint32_t rtmw_forks;

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
 * child of the bare system call runs no such handler, and keeps its parent's lock: for that case it is also asked
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

/* Is there no process with this pid, where it means the same as here? A pid that exists may be another process', and one
 * of another namespace says nothing: then false. Unlike /proc, kill() does not hide the processes of others. */
static bool pid_is_gone(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint64_t space = load_acquire(&r->participants[slot].pid_namespace);
    if (!space || space != r->pid_namespace) return false;
    return kill((pid_t)participant_pid(word), 0) != 0 && errno == ESRCH;
}

bool is_dead(struct rtmw_region *r, uint32_t slot, uint64_t word)
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

/* ======== endpoints ======== */

bool slot_free(uint64_t *word, uint64_t value)
{
    return cas64(word, value, slot_make(slot_generation(value), 0, 0, SLOT_FREE));
}

void topic_keep_bytes(struct topic *topic, struct publisher_block *block)
{
    fetch_add(&topic->retired_bytes, exchange(&block->bytes, 0));
}

/* Before the slot of a publisher is free: what it kept is to be looked for. Behind it, a death between the two would leave
 * nobody who looks; an evictor that comes too early looks again. */
void publisher_gone(struct rtmw_region *r, uint32_t topic)
{
    if (load_relaxed(&r->topics[topic].history)) fetch_add(&r->hints->abandoned, 1u);
}

/* The time is that of this parking only if the word is still the same after it was read: a subscriber that resumes clears
 * it. */
bool parked_is_over(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint64_t until = load_acquire(&r->subscribers[slot].parked_until_ns);
    return monotonic_ns() >= until && load_seq(&r->subscriber_words[slot]) == word;
}

/* A 64th of the subscriber table is a bit of `subscribed`: those in which the topic never had one are stepped over. */
static uint32_t subscriber_share(struct rtmw_region *r) { return (r->header->subscribers + 63) / 64; }

void topic_subscribed(struct rtmw_region *r, uint32_t topic, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << (slot / subscriber_share(r));
    if (!(load_seq(&r->topics[topic].subscribed) & bit)) fetch_or(&r->topics[topic].subscribed, bit);
}

struct subscriber_block *next_subscriber(struct rtmw_region *r, uint32_t topic, uint32_t *slot)
{
    uint32_t top = load_seq(&r->hints->subscribers_top), share = subscriber_share(r);
    uint64_t subscribed = load_seq(&r->topics[topic].subscribed);
    if (top > r->header->subscribers) top = r->header->subscribers;
    while (*slot < top) {
        uint32_t part = *slot / share, end = (part + 1) * share < top ? (part + 1) * share : top;
        if (!(subscribed & (UINT64_C(1) << part))) *slot = end;
        for (; *slot < end; ++*slot) {
            uint64_t word = load_seq(&r->subscriber_words[*slot]);
            if (slot_state_of(word) != SLOT_ACTIVE || slot_topic(word) != topic) continue;
            if (slot_owner(word) != NOBODY || !parked_is_over(r, *slot, word)) return &r->subscribers[*slot];
        }
    }
    return NULL;
}

static void mark(struct marks *used, const struct rtmw_region *r, const uint64_t *words, uint32_t top)
{
    for (uint32_t slot = 0; slot < top; slot++) {
        uint64_t word = load_seq(&words[slot]);
        uint32_t topic = slot_topic(word);
        if (slot_state_of(word) != SLOT_FREE && topic < r->header->topics)
            used->bit[topic / 64] |= UINT64_C(1) << topic % 64;
    }
}

void mark_published(struct rtmw_region *r, struct marks *published)
{
    uint32_t top = load_seq(&r->hints->publishers_top);
    memset(published, 0, sizeof *published);
    mark(published, r, r->publisher_words, top < r->header->publishers ? top : r->header->publishers);
}

/* Topics that endpoints name. */
void mark_used(struct rtmw_region *r, struct marks *used)
{
    uint32_t top = load_seq(&r->hints->subscribers_top);
    mark_published(r, used);
    mark(used, r, r->subscriber_words, top < r->header->subscribers ? top : r->header->subscribers);
}

bool is_published(struct rtmw_region *r, uint32_t topic)
{
    uint32_t top = load_seq(&r->hints->publishers_top);
    for (uint32_t slot = 0; slot < top && slot < r->header->publishers; slot++) {
        uint64_t word = load_seq(&r->publisher_words[slot]);
        if (slot_state_of(word) != SLOT_FREE && slot_topic(word) == topic) return true;
    }
    return false;
}

/* ======== topics and types ======== */

void slot_rescue(uint64_t *word, uint64_t seen)
{
    cas64(word, seen, slot_make(slot_generation(seen), 0, 0, SLOT_ACTIVE));
}

static bool stands(uint64_t *word, uint64_t life)
{
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t seen = load_seq(word);
        if (!slot_is_there(seen) || slot_generation(seen) != link_tag(life)) return false;
        if (slot_state_of(seen) == SLOT_ACTIVE) return true;
        slot_rescue(word, seen);
    }
    return false;
}

bool topic_stands(struct rtmw_region *r, uint64_t life) { return stands(&r->topics[link_index(life)].word, life); }

bool type_stands(struct rtmw_region *r, uint64_t life)
{
    return link_index(life) >= r->header->types || stands(&r->types[link_index(life)].word, life);
}
