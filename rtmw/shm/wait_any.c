/* Waiting for any of several subscribers.
 *
 *   up to WAITV_MOST   futex_waitv on the words of their topics
 *   more               one word of the process, `wait` of its participant: each subscriber is armed, as for a datagram
 *                      (datagrams.c), and whoever has one to send wakes that word too
 *
 * A subscriber that is armed already is not armed again, so that a sleep costs one look at each subscriber. A waker wakes
 * before it clears `armed`, so that the next publisher wakes if this one is killed in between; and once more after that,
 * for a sleeper that found `armed` still set and slept again. A waker killed before its second look may leave asleep such
 * a sleeper, unarmed: it looks up by itself.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"
#include "waiting.h"

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
