/* Waiting and waking (requirements P7, P15). Try-operations are the primitive; everything here is built on them.
 *
 * Sleepers on a futex word (a topic's `wait` and `room`): odd means somebody sleeps or is about to.
 *   sleeper   make the word odd; look again; sleep while the word is what it was
 *   waker     after its change: if odd, FUTEX_WAKE_OP: the kernel adds 1 (even again, and another value) and wakes, in
 *             one system call, which a SIGKILL cannot divide. A waker killed before it leaves the word odd: the next
 *             one wakes. A sleeper looks up twice a second in any case.
 * Sleepers in poll/select/asyncio: a datagram to a socket of theirs. `armed` of the subscriber is a number that is new
 *   at each arming; the topic's `poll` changes at each arming and is odd while somebody may be armed.
 *   waker     poll odd: send to all who are armed, CAS each armed → 0, then CAS poll → even; fails when one armed anew
 *   A waker killed on the way leaves poll odd: the next one sends again. Too many datagrams, never too few.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

enum { LOOK_UP_NS = 500000000, ANY_SLICE_NS = 500000, DRAIN_AT_ONCE = 4 };

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

int futex_sleep(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = timespec_of(timeout_ns);
    return syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0) == 0 ? 0 : errno;
}

void futex_wake_and_add(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_OP, INT_MAX, NULL, word, FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0));
}

/* Odd, and the value to sleep on. */
uint32_t arm_word(uint32_t *word)
{
    uint32_t value = load_seq(word);
    while (!(value & 1)) {
        if (cas32(word, value, value + 1)) return value + 1;
        value = load_seq(word);
    }
    return value;
}

/* ---- datagrams ---- */

/* By hand: each wake-up writes one, and printf would cost as much as a message. */
static char *write_hex(char *at, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value >>= 4) at[i] = "0123456789abcdef"[value & 15];
    at[digits] = '.';
    return at + digits + 1;
}

/* An abstract name, which begins with a zero byte and leaves no file behind: rtmw.NONCE.KINDSLOT.LIFE. */
static socklen_t address_of(struct sockaddr_un *address, struct rtmw_region *r, char kind, uint32_t slot, uint64_t life)
{
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, "\0rtmw.", 6);
    char *at = write_hex(address->sun_path + 6, r->header->nonce, 16);
    *at = kind;
    at = write_hex(at + 1, slot, 8);
    at = write_hex(at, life, 9);
    return (socklen_t)(at - (char *)address);
}

static int bound_socket(struct rtmw_region *r, char kind, uint32_t slot, uint64_t life)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, address_of(&address, r, kind, slot, life)) == 0) return fd;
    int saved = errno;
    if (fd >= 0) close(fd);
    errno = saved;
    return -1;
}

int region_socket(struct rtmw_region *r)
{
    lock_take(&r->lock);
    if (r->socket < 0) r->socket = bound_socket(r, 'p', r->me, participant_generation(r->my_word));
    lock_give(&r->lock);
    return r->socket;
}

void drain(int socket)
{
    char byte;
    struct iovec space = {&byte, 1};
    struct mmsghdr some[DRAIN_AT_ONCE];
    do {
        for (int i = 0; i < DRAIN_AT_ONCE; i++) some[i] = (struct mmsghdr){{.msg_iov = &space, .msg_iovlen = 1}, 0};
    } while (recvmmsg(socket, some, DRAIN_AT_ONCE, MSG_DONTWAIT, NULL) == DRAIN_AT_ONCE);
}

/* Without the lock: who sweeps after the dead holds it, and wakes. */
static int sender_of(struct rtmw_region *r)
{
    uint32_t sender = load_acquire(&r->sender);
    if (sender) return (int)sender - 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || cas32(&r->sender, 0, (uint32_t)fd + 1)) return fd;
    close(fd); /* another thread was quicker */
    return (int)load_acquire(&r->sender) - 1;
}

/* A full socket has a datagram waiting already; a missing one belongs to the dead. Neither is an error. */
static void send_one(struct rtmw_region *r, int sender, char kind, uint32_t slot, uint64_t life)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&address, r, kind, slot, life);
    sendto(sender, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, length);
}

static void send_datagrams(struct rtmw_region *r, struct topic *t, uint32_t topic_index)
{
    uint32_t poll = load_seq(&t->poll), top = load_seq(&r->hints->subscribers_top);
    int sender = sender_of(r);
    if (sender < 0) return;
    for (uint32_t slot = 0; slot < top && slot < r->header->subscribers; slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        if (slot_state_of(word) < SLOT_ACTIVE || slot_topic(word) != topic_index) continue;
        uint32_t armed = load_seq(&r->subscribers[slot].armed), owner = slot_owner(word) % PARTICIPANTS;
        if (!armed) continue;
        if (load_seq(&r->subscribers[slot].own_socket)) send_one(r, sender, 's', slot, slot_generation(word));
        send_one(r, sender, 'p', owner, participant_generation(load_seq(&r->participants[owner].word)));
        cas32(&r->subscribers[slot].armed, armed, 0);
    }
    cas32(&t->poll, poll, poll + 1);
}

bool subscriber_arm(struct rtmw_subscriber *s)
{
    uint32_t armed = fetch_add(&s->region->wakeups, 2u) | 1u;
    store_seq(&s->block->armed, armed);
    uint32_t poll;
    do {
        poll = load_seq(&s->topic->poll);
    } while (!cas32(&s->topic->poll, poll, poll + (poll & 1 ? 2 : 1)));
    return has_next(s) || is_lapsed(s) || is_swept(s->region) || load_seq(&s->closed);
}

bool subscriber_rearm(struct rtmw_subscriber *s)
{
    drain(s->socket);
    return subscriber_arm(s);
}

int subscriber_socket(struct rtmw_subscriber *s)
{
    struct rtmw_region *r = s->region;
    bool made = false;
    lock_take(&r->lock);
    if (s->socket < 0) {
        s->socket = bound_socket(r, 's', s->slot, slot_generation(s->word));
        made = s->socket >= 0;
        store_seq(&s->block->own_socket, made);
    }
    lock_give(&r->lock);
    if (made && subscriber_arm(s))
        send_one(r, s->socket, 's', s->slot, slot_generation(s->word)); /* there is something */
    return s->socket;
}

/* ---- waking ---- */

void wake_subscribers(struct rtmw_region *r, struct topic *t, uint32_t topic_index)
{
    if (load_seq(&t->wait) & 1) futex_wake_and_add(&t->wait);
    if (load_seq(&t->poll) & 1) send_datagrams(r, t, topic_index);
}

void wake_publishers(struct topic *t)
{
    if (load_seq(&t->room) & 1) futex_wake_and_add(&t->room);
}

void subscriber_shut(struct rtmw_subscriber *s)
{
    store_seq(&s->closed, 1u);
    if (!is_forked(s->region)) wake_subscribers(s->region, s->topic, s->topic_index);
}

/* ---- waiting ---- */

bool is_lapsed(struct rtmw_subscriber *s)
{
    return slot_state_of(load_seq(&s->region->subscriber_words[s->slot])) == SLOT_LAPSED;
}

/* Is there something to step to? Reads the shared cursor: another thread may be taking. */
bool has_next(struct rtmw_subscriber *s)
{
    uint32_t bands = load_seq(&s->topic->bands);
    for (uint32_t b = 0; b < BANDS; b++) {
        if (!(bands & (1u << b))) continue;
        uint64_t cursor = load_seq(&s->block->cursor[b]);
        struct descriptor *d = descriptor_at(s->region, link_index(cursor));
        if (d) {
            if (link_index(load_seq(&d->next)) != NIL) return true;
            if (load_seq(&s->block->cursor[b]) != cursor) return true; /* another thread took: d may live anew. Look */
        } else {
            uint64_t last = band_last_sequence(s->region, &s->topic->band[b]);
            if (last > sequence_near(link_tag(cursor), last)) return true;
        }
    }
    return false;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What to say before sleeping: RTMW_OK (look), RTMW_CLOSED, RTMW_DEADLINE, RTMW_TIMEOUT, or RTMW_EMPTY: sleep. */
static int state_at(struct rtmw_subscriber *s, uint64_t now, uint64_t end)
{
    if (load_seq(&s->closed)) return RTMW_CLOSED;
    if (has_next(s) || is_lapsed(s) || is_swept(s->region)) return RTMW_OK;
    uint64_t deadline = load_relaxed(&s->deadline_at_ns);
    if (deadline && now >= deadline) return RTMW_DEADLINE;
    return now >= end ? RTMW_TIMEOUT : RTMW_EMPTY;
}

/* Of several threads that wait one is told, and the next period begins now. */
static int told(struct rtmw_subscriber *s, int state, uint64_t now)
{
    uint64_t deadline = load_relaxed(&s->deadline_at_ns);
    if (state != RTMW_DEADLINE) return state;
    if (deadline > now || !cas64(&s->deadline_at_ns, deadline, now + s->qos.deadline_ns)) return RTMW_EMPTY;
    fetch_add(&s->block->deadlines_missed, 1u);
    return RTMW_DEADLINE;
}

static uint64_t end_of(uint64_t now, uint64_t timeout_ns)
{
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* Who waits without a limit needs no clock. */
static uint64_t now_for(struct rtmw_subscriber *s, uint64_t end)
{
    return end == UINT64_MAX && !load_relaxed(&s->deadline_at_ns) ? 0 : monotonic_ns();
}

/* Woken, it looks before it arms again: the publisher of the message after this one need not wake anybody. */
static int sleep_until(struct rtmw_subscriber *s, uint64_t end)
{
    for (;;) {
        uint32_t word = arm_word(&s->topic->wait);
        uint64_t now = now_for(s, end);
        int state = told(s, state_at(s, now, end), now);
        if (state != RTMW_EMPTY) return state;
        uint64_t deadline = load_relaxed(&s->deadline_at_ns);
        uint64_t until = least(least(end, now + LOOK_UP_NS), deadline ? deadline : UINT64_MAX);
        int woken = futex_sleep(&s->topic->wait, word, until - now);
        if (has_next(s)) return RTMW_OK;
        if (woken == EINTR || (woken == ETIMEDOUT && until == now + LOOK_UP_NS)) return RTMW_INTERRUPTED;
    }
}

static int spin_then_sleep(struct rtmw_subscriber *s, uint64_t end, uint64_t spin_ns)
{
    uint64_t now = monotonic_ns();
    int state = told(s, state_at(s, now, end), now);
    if (state != RTMW_EMPTY) return state;
    if (spin_ns != UINT64_MAX)
        return subscriber_spin_for(s, least(end, end_of(now, spin_ns))) ? RTMW_OK : sleep_until(s, end);
    if (subscriber_spin(s, now, end)) return RTMW_OK;
    state = sleep_until(s, end);
    subscriber_slept(s, monotonic_ns() - now);
    return state;
}

int subscriber_wait(struct rtmw_subscriber *s, uint64_t end, uint64_t spin_ns)
{
    if (is_forked(s->region)) return RTMW_FORKED;
    return spin_ns ? spin_then_sleep(s, end, spin_ns) : sleep_until(s, end);
}

int rtmw_wait(rtmw_subscriber *s, uint64_t timeout_ns, uint64_t spin_ns)
{
    return subscriber_wait(s, timeout_ns == UINT64_MAX ? UINT64_MAX : end_of(monotonic_ns(), timeout_ns), spin_ns);
}

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
enum { WAITV_MOST = 128, WAITV_32 = 2 };
struct waitv {
    uint64_t value, address;
    uint32_t flags, reserved;
};

/* Sleep on many words at once. Kernels before 5.16 cannot, nor with more words than it takes, nor with none: then by
 * slices. */
static int sleep_on_any(struct waitv *words, size_t count, uint64_t until)
{
    if (count <= WAITV_MOST) {
        struct timespec end = timespec_of(until);
        if (syscall(SYS_futex_waitv, words, count, 0, &end, CLOCK_MONOTONIC) >= 0) return 0;
        if (errno == EINTR || errno == EAGAIN || errno == ETIMEDOUT) return errno;
    }
    struct timespec slice = timespec_of(least(ANY_SLICE_NS, until - least(until, monotonic_ns())));
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &slice, NULL);
}

int rtmw_wait_any(rtmw_subscriber **subscribers, bool *ready, size_t count, uint64_t timeout_ns)
{
    uint64_t now = monotonic_ns(), end = end_of(now, timeout_ns);
    struct waitv words[WAITV_MOST];
    for (;;) {
        uint64_t until = least(end, now + LOOK_UP_NS);
        bool any = false;
        for (size_t i = 0; i < count; i++) {
            rtmw_subscriber *s = subscribers[i];
            if (is_forked(s->region)) return RTMW_FORKED;
            uint32_t word = arm_word(&s->topic->wait);
            if (i < WAITV_MOST) words[i] = (struct waitv){word, (uint64_t)(uintptr_t)&s->topic->wait, WAITV_32, 0};
            int state = state_at(s, now, UINT64_MAX);
            any |= ready[i] = state != RTMW_EMPTY;
            uint64_t deadline = load_relaxed(&s->deadline_at_ns);
            if (deadline) until = least(until, deadline);
        }
        if (any) return RTMW_OK;
        if (now >= end) return RTMW_TIMEOUT;
        int woken = sleep_on_any(words, count, until);
        if (woken == EINTR || (woken == ETIMEDOUT && until == now + LOOK_UP_NS)) return RTMW_INTERRUPTED;
        now = monotonic_ns();
    }
}
