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
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "waiting.h"

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
