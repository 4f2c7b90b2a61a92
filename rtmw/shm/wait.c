/* Waiting and waking (requirements P7, P15). Try-operations are the primitive; everything here is built on them.
 *
 * Sleepers on a futex word (a topic's `wait` and `room`): odd means somebody sleeps or is about to.
 *   sleeper   make the word odd; look again; sleep while the word is what it was
 *   waker     after its change: if odd, FUTEX_WAKE_OP: the kernel adds 1 (even again, and another value) and wakes, in
 *             one system call, which a SIGKILL cannot divide. A waker killed before it leaves the word odd: the next
 *             publisher wakes.
 *   in steps  where a sandbox refuses FUTEX_WAKE_OP: (1) add 2: still odd, and another value, so that nobody falls asleep
 *             on the old one; (2) FUTEX_WAKE. If that woke nobody: (3) CAS to even; (4) FUTEX_WAKE, for who fell asleep
 *             between 2 and 3. A waker killed before 3 leaves the word odd. One killed between 3 and 4 leaves asleep, on
 *             an even word, only a sleeper that had seen its message before it slept: that one looks up by itself.
 *   look-up   a sleeper looks by itself after LOOK_UP_NS, or after a quarter of its deadline if that is less: so long a
 *             message stays unseen whose publisher was killed or stopped between linking it and waking.
 * Below: spinning before a sleep; sleepers in poll, select, epoll and asyncio (datagrams); sleepers on several subscribers.
 */
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"

static void wake_in_steps(uint32_t *word)
{
    uint32_t value = fetch_add(word, 2u) + 2;
    if (futex_wake(word) > 0) return; /* stays odd: those who were woken may sleep again */
    if (value & 1 && cas32(word, value, value + 1)) futex_wake(word);
}

/* The word has another value then, and who slept on it is awake. */
void futex_wake_and_add(uint32_t *word)
{
    int add_1 = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0);
    if (syscall(SYS_futex, word, FUTEX_WAKE_OP, INT_MAX, NULL, word, add_1) < 0) wake_in_steps(word);
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

/* Each waiter looks at `ends` after it has armed; pairs with arm_word: either it sees the bit, or it is woken. */
static int end_waits(struct rtmw_subscriber *s, uint32_t how)
{
    if (is_forked(s->region)) return RTMW_FORKED;
    int saved = errno;
    fetch_or(&s->ends, how);
    wake_subscribers(s->region, s->topic, s->topic_index);
    errno = saved;
    return RTMW_OK;
}

int rtmw_subscriber_shut(rtmw_subscriber *s) { return end_waits(s, SHUT); }
int rtmw_subscriber_wake(rtmw_subscriber *s) { return end_waits(s, WOKEN); }

int rtmw_publisher_wake(rtmw_publisher *p)
{
    if (is_forked(p->region)) return RTMW_FORKED;
    int saved = errno;
    store_seq(&p->woken, 1u);
    wake_publishers(p->topic);
    errno = saved;
    return RTMW_OK;
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

/* RTMW_CLOSED; or RTMW_INTERRUPTED, for one of the waits that are there, or the next one. RTMW_EMPTY: neither. */
static int ended(struct rtmw_subscriber *s)
{
    uint32_t ends = load_seq(&s->ends);
    if (ends & SHUT) return RTMW_CLOSED;
    return ends && fetch_and(&s->ends, ~(uint32_t)WOKEN) & WOKEN ? RTMW_INTERRUPTED : RTMW_EMPTY;
}

int wait_state(struct rtmw_subscriber *s, uint64_t now, uint64_t end)
{
    int state = ended(s);
    if (state != RTMW_EMPTY) return state;
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

uint64_t end_of(uint64_t now, uint64_t timeout_ns)
{
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* The time now; 0 if the wait has neither limit nor deadline, and so needs no clock. */
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
        int state = told(s, wait_state(s, now, end), now);
        if (state != RTMW_EMPTY) return state;
        uint64_t deadline = load_relaxed(&s->deadline_at_ns);
        uint64_t look = now + look_up_ns(s), until = least(least(end, look), deadline ? deadline : UINT64_MAX);
        int woken = futex_sleep(&s->topic->wait, word, until - now);
        if (has_next(s)) return RTMW_OK;
        if (woken == EINTR) return RTMW_INTERRUPTED;
        if (woken == ETIMEDOUT && until == look) return RTMW_EMPTY;
    }
}

static int spin_then_sleep(struct rtmw_subscriber *s, uint64_t end, uint64_t spin_ns)
{
    uint64_t now = monotonic_ns();
    int state = told(s, wait_state(s, now, end), now);
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
    uint64_t end = timeout_ns == UINT64_MAX ? UINT64_MAX : end_of(monotonic_ns(), timeout_ns);
    int code;
    do code = subscriber_wait(s, end, spin_ns);
    while (code == RTMW_EMPTY);
    return code;
}

/* ======== spinning ======== */

/* Spinning before a sleep: the answer of a peer that runs on another processor is often nearer than a sleep is long.
 *
 * How long is learned by each subscriber for itself. A spin that found something is worth twice as long the next time, one
 * that did not half; nothing, where this process has one processor, which may be the peer's too. But two that sleep each
 * wait for the other's waking up, and short spins would never find out that both could do without: so when waits are short
 * in spite of the sleep, now and then one tries the longest spin.
 */

enum { MOST_NS = 50000, LEAST_NS = 2000, SHORT_NS = 2 * MOST_NS, LOOKS = 16, ASK_EVERY_NS = 100000000 };
enum { TRY_EVERY = 16, TRY_EVERY_ALONE = 256 };

static bool look_for(struct rtmw_subscriber *s, uint64_t until_ns)
{
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (has_next(s)) return true;
            cpu_relax();
        }
    } while (monotonic_ns() < until_ns && !load_relaxed(&s->ends));
    return false;
}

bool subscriber_glance(struct rtmw_subscriber *s)
{
    return load_relaxed(&s->spin_ns) && look_for(s, monotonic_ns() + GLANCE_NS);
}

static void ask_if_alone(struct rtmw_subscriber *s, uint64_t now)
{
    if (now - load_relaxed(&s->alone_asked_ns) < ASK_EVERY_NS) return;
    cpu_set_t set;
    store_relaxed(&s->alone_asked_ns, now);
    store_relaxed(&s->alone, sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 ? 1u : 0u);
}

bool subscriber_spin(struct rtmw_subscriber *s, uint64_t now, uint64_t end)
{
    uint32_t spin_ns = load_relaxed(&s->spin_ns);
    ask_if_alone(s, now);
    if (!spin_ns || !look_for(s, now + spin_ns < end ? now + spin_ns : end)) return false;
    store_relaxed(&s->spin_ns, spin_ns < MOST_NS / 2 ? 2 * spin_ns : MOST_NS);
    return true;
}

bool subscriber_spin_for(struct rtmw_subscriber *s, uint64_t until) { return look_for(s, until); }

void subscriber_slept(struct rtmw_subscriber *s, uint64_t waited_ns)
{
    bool alone = load_relaxed(&s->alone);
    uint32_t half = load_relaxed(&s->spin_ns) / 2, spin_ns = alone ? 0 : half < LEAST_NS ? LEAST_NS : half;
    if (waited_ns < SHORT_NS && fetch_add(&s->short_waits, 1u) % (alone ? TRY_EVERY_ALONE : TRY_EVERY) == 0)
        spin_ns = MOST_NS;
    store_relaxed(&s->spin_ns, spin_ns);
}

/* ======== datagrams ======== */

/* Waking subscribers that sleep in poll, select, epoll and asyncio: a datagram to a socket of theirs.
 *
 *   fileno() ──► epoll ─┬─► socket "sSLOT"   of one subscriber                asyncio ──► socket "pSLOT"   of one process
 *                       └─► timer            when the subscriber looks by itself
 *
 * `armed` of a subscriber is a number that is new at each arming, 0: no datagram is wanted. `poll` of a topic changes at
 * each arming, and is odd while a subscriber may be armed.
 *   waker     poll is odd: send to each armed subscriber, CAS its `armed` → 0; then CAS poll → even, which fails if a
 *             subscriber armed anew. A waker killed on the way leaves poll odd: the next publisher sends again. Too many
 *             datagrams, never too few.
 *   sender    the kernel charges a datagram to the socket that sent it until it is read. When those that nobody reads
 *             have used up what a socket may send, a fresh socket takes its number, and they stay where they are. So
 *             receivers that do not read keep no wake-up from others.
 *   not sent  for want of memory or of descriptors, or because a sandbox refuses: the subscriber stays armed and poll odd,
 *             so that the next publisher tries again; and the subscriber looks by itself.
 *   timer     set while there is nothing to take; readable after look_up_ns, and when the deadline passes. So long a
 *             message stays unseen whose publisher was stopped between linking it and waking.
 */

enum { DRAIN_AT_ONCE = 4 };

/* ---- sockets and their names ---- */

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

static int new_socket(void) { return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

/* Keeps errno. */
static void close_if_open(int fd)
{
    int saved = errno;
    if (fd >= 0) close(fd);
    errno = saved;
}

static int bound_socket(struct rtmw_region *r, char kind, uint32_t slot, uint64_t life)
{
    struct sockaddr_un address;
    int fd = new_socket();
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, address_of(&address, r, kind, slot, life)) == 0) return fd;
    close_if_open(fd);
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

/* ---- sending ---- */

/* Without the lock: a sweeper after the dead holds it, and wakes. */
static int sender_of(struct rtmw_region *r)
{
    uint32_t sender = load_acquire(&r->sender);
    if (sender) return (int)sender - 1;
    int fd = new_socket();
    if (fd < 0 || cas32(&r->sender, 0, (uint32_t)fd + 1)) return fd;
    close(fd); /* another thread was quicker */
    return (int)load_acquire(&r->sender) - 1;
}

/* Do datagrams that nobody reads use up all that this socket may send? Else it was the receiver that had no room. */
static bool is_used_up(int sender)
{
    int used, limit;
    socklen_t size = sizeof limit;
    return ioctl(sender, SIOCOUTQ, &used) == 0 && getsockopt(sender, SOL_SOCKET, SO_SNDBUF, &limit, &size) == 0 &&
           used >= limit;
}

/* A fresh socket under the same number, which other threads may be sending through. */
static bool renew(int sender)
{
    int fresh = new_socket();
    bool renewed = fresh >= 0 && dup3(fresh, sender, O_CLOEXEC) == sender;
    close_if_open(fresh);
    return renewed;
}

/* false: it has to be tried again. A full receiver has a datagram waiting already; a missing one belongs to the dead, or
 * to another network namespace. Neither is an error. */
static bool send_one(struct rtmw_region *r, int sender, char kind, uint32_t slot, uint64_t life)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&address, r, kind, slot, life);
    do {
        if (sendto(sender, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, length) >= 0) return true;
        if (errno != EAGAIN) return errno == ECONNREFUSED;
        if (!is_used_up(sender)) return true;
    } while (renew(sender));
    return false;
}

static bool send_to(struct rtmw_region *r, int sender, uint32_t slot, uint64_t word)
{
    uint32_t owner = slot_owner(word) % PARTICIPANTS;
    bool sent = true;
    if (load_seq(&r->subscribers[slot].own_socket)) sent = send_one(r, sender, 's', slot, slot_generation(word));
    return send_one(r, sender, 'p', owner, participant_generation(load_seq(&r->participants[owner].word))) && sent;
}

void send_datagrams(struct rtmw_region *r, struct topic *t, uint32_t topic_index)
{
    uint32_t poll = load_seq(&t->poll), top = load_seq(&r->hints->subscribers_top);
    int sender = sender_of(r);
    bool all_sent = true;
    for (uint32_t slot = 0; slot < top && slot < r->header->subscribers; slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        if (slot_state_of(word) < SLOT_ACTIVE || slot_topic(word) != topic_index) continue;
        uint32_t armed = load_seq(&r->subscribers[slot].armed);
        if (!armed) continue;
        bool sent = sender >= 0 && send_to(r, sender, slot, word);
        wake_crowd(r, slot_owner(word) % PARTICIPANTS);
        if (sent && cas32(&r->subscribers[slot].armed, armed, 0)) wake_crowd(r, slot_owner(word) % PARTICIPANTS);
        all_sent &= sent;
    }
    if (all_sent) cas32(&t->poll, poll, poll + 1);
}

/* ---- asking for a datagram ---- */

bool subscriber_arm(struct rtmw_subscriber *s)
{
    uint32_t armed = fetch_add(&s->region->wakeups, 2u) | 1u;
    store_seq(&s->block->armed, armed);
    uint32_t poll;
    do {
        poll = load_seq(&s->topic->poll);
    } while (!cas32(&s->topic->poll, poll, poll + (poll & 1 ? 2 : 1)));
    return has_next(s) || is_lapsed(s) || is_swept(s->region) || load_seq(&s->ends);
}

/* Not later than the subscriber has to look, and not at all while the time that is set will do: a subscriber of a busy
 * topic makes no system call for it. */
static void set_timer(struct rtmw_subscriber *s)
{
    uint64_t now = monotonic_ns(), until = now + look_up_ns(s);
    uint64_t deadline = load_relaxed(&s->deadline_at_ns), set = load_relaxed(&s->looks_at_ns);
    if (deadline > now && deadline < until) until = deadline;
    if (set <= until && set > now + (until - now) / 2) return;
    struct itimerspec once = {.it_value = timespec_of(until)};
    store_relaxed(&s->looks_at_ns, until);
    timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &once, NULL);
}

bool subscriber_rearm(struct rtmw_subscriber *s)
{
    drain(s->socket);
    set_timer(s);
    return subscriber_arm(s);
}

/* ---- fileno() ---- */

static bool watch_for(int epoll, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable) == 0;
}

void pollable_close(struct rtmw_subscriber *s)
{
    close_if_open(s->pollable);
    close_if_open(s->timer);
    close_if_open(s->socket);
}

static bool open_pollable(struct rtmw_subscriber *s)
{
    s->socket = bound_socket(s->region, 's', s->slot, slot_generation(s->word));
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    s->pollable = epoll_create1(EPOLL_CLOEXEC);
    if (s->pollable >= 0 && watch_for(s->pollable, s->socket) && watch_for(s->pollable, s->timer)) return true;
    pollable_close(s);
    s->socket = s->timer = s->pollable = -1;
    return false;
}

int subscriber_pollable(struct rtmw_subscriber *s)
{
    struct rtmw_region *r = s->region;
    bool made = false;
    lock_take(&r->lock);
    if (s->pollable < 0) {
        made = open_pollable(s);
        store_seq(&s->block->own_socket, made);
    }
    lock_give(&r->lock);
    if (made && subscriber_rearm(s))
        send_one(r, s->socket, 's', s->slot, slot_generation(s->word)); /* there is something */
    return s->pollable;
}

/* ======== waiting for several ======== */

/* Waiting for any of several subscribers.
 *
 *   up to WAITV_MOST   futex_waitv on the words of their topics
 *   more               one word of the process, `wait` of its participant: each subscriber is armed, as for a datagram
 *                      (see above), and whoever has one to send wakes that word too
 *
 * A subscriber that is armed already is not armed again, so that a sleep costs one look at each subscriber. A waker wakes
 * before it clears `armed`, so that the next publisher wakes if this one is killed in between; and once more after that,
 * for a sleeper that found `armed` still set and slept again. A waker killed before its second look may leave asleep such
 * a sleeper, unarmed: it looks up by itself.
 */

enum { ANY_SLICE_NS = 500000 };

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
enum { WAITV_MOST = 128, WAITV_32 = 2 };
struct waitv {
    uint64_t value, address;
    uint32_t flags, reserved;
};

/* Result of a look at several subscribers, and the time of the next look. */
struct look {
    uint64_t at, deadline; /* CLOCK_MONOTONIC */
    bool any, woken;
};

static void look_at(struct look *look, rtmw_subscriber *s, bool *ready, uint64_t now)
{
    int state = wait_state(s, now, UINT64_MAX);
    uint64_t deadline = load_relaxed(&s->deadline_at_ns);
    *ready = state != RTMW_EMPTY && state != RTMW_INTERRUPTED;
    look->woken |= state == RTMW_INTERRUPTED;
    look->any |= *ready;
    look->at = least(look->at, now + look_up_ns(s));
    if (deadline) look->deadline = least(look->deadline, deadline);
}

/* RTMW_EMPTY: sleep. */
static int answer(const struct look *look, uint64_t now, uint64_t end)
{
    if (look->woken) return RTMW_INTERRUPTED;
    if (look->any) return RTMW_OK;
    return now >= end ? RTMW_TIMEOUT : RTMW_EMPTY;
}

/* Sleep on many words at once. Kernels before 5.16 cannot, nor with none: then by slices. */
static int sleep_on_any(struct waitv *words, size_t count, uint64_t until)
{
    struct timespec end = timespec_of(until);
    if (syscall(SYS_futex_waitv, words, count, 0, &end, CLOCK_MONOTONIC) >= 0) return 0;
    if (errno == EINTR || errno == EAGAIN || errno == ETIMEDOUT) return errno;
    struct timespec slice = timespec_of(least(ANY_SLICE_NS, until - least(until, monotonic_ns())));
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &slice, NULL);
}

static int wait_few(rtmw_subscriber **subscribers, bool *ready, size_t count, uint64_t end)
{
    struct waitv words[WAITV_MOST];
    for (uint64_t now = monotonic_ns();; now = monotonic_ns()) {
        struct look look = {now + LOOK_UP_NS, UINT64_MAX, false, false};
        for (size_t i = 0; i < count; i++) {
            rtmw_subscriber *s = subscribers[i];
            if (is_forked(s->region)) return RTMW_FORKED;
            uint32_t word = arm_word(&s->topic->wait);
            words[i] = (struct waitv){word, (uint64_t)(uintptr_t)&s->topic->wait, WAITV_32, 0};
            look_at(&look, s, &ready[i], now);
        }
        int code = answer(&look, now, end);
        if (code != RTMW_EMPTY) return code;
        uint64_t until = least(least(end, look.at), look.deadline);
        int slept = sleep_on_any(words, count, until);
        if (slept == EINTR) return RTMW_INTERRUPTED;
        if (slept == ETIMEDOUT && until == look.at) return RTMW_EMPTY;
    }
}

/* One that is not armed, or of another region than the word, is armed; of the latter it is looked at by itself. */
static bool arm(rtmw_subscriber *s, const struct rtmw_region *r)
{
    if (s->region != r) return false;
    if (!load_seq(&s->block->armed)) subscriber_arm(s);
    return true;
}

int wait_crowd(rtmw_subscriber **subscribers, bool *ready, size_t count, uint64_t end)
{
    struct rtmw_region *r = subscribers[0]->region;
    uint32_t *wait = &r->participants[r->me].wait;
    for (uint64_t now = monotonic_ns();; now = monotonic_ns()) {
        struct look look = {now + LOOK_UP_NS, UINT64_MAX, false, false};
        bool all_armed = true;
        uint32_t word = arm_word(wait); /* pairs with wake_crowd: before it is looked for messages */
        for (size_t i = 0; i < count; i++) {
            if (is_forked(subscribers[i]->region)) return RTMW_FORKED;
            all_armed &= arm(subscribers[i], r);
            look_at(&look, subscribers[i], &ready[i], now);
        }
        int code = answer(&look, now, end);
        if (code != RTMW_EMPTY) return code;
        if (!all_armed) look.deadline = least(look.deadline, now + ANY_SLICE_NS);
        uint64_t until = least(least(end, look.at), look.deadline);
        int slept = futex_sleep(wait, word, until - now);
        if (slept == EINTR) return RTMW_INTERRUPTED;
        if (slept == ETIMEDOUT && until == look.at) return RTMW_EMPTY;
    }
}

void wake_crowd(struct rtmw_region *r, uint32_t participant)
{
    uint32_t *wait = &r->participants[participant].wait;
    if (load_seq(wait) & 1) futex_wake_and_add(wait);
}

int wait_any(rtmw_subscriber **subscribers, bool *ready, size_t count, uint64_t end)
{
    return (count > WAITV_MOST ? wait_crowd : wait_few)(subscribers, ready, count, end);
}

int rtmw_wait_any(rtmw_subscriber **subscribers, bool *ready, size_t count, uint64_t timeout_ns)
{
    uint64_t end = end_of(monotonic_ns(), timeout_ns);
    int code;
    do code = wait_any(subscribers, ready, count, end);
    while (code == RTMW_EMPTY);
    return code;
}
