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
 * Sleepers in poll, select, epoll and asyncio: datagrams.c. Sleepers on several subscribers: wait_any.c.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"
#include "waiting.h"

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
