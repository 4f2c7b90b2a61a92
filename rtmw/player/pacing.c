/* Being on time: a sleeper is woken late, so the thread sleeps until shortly before a cue is due, and spins the rest.
 *
 *   ── sleeps ──► asked for ── overslept ──► awake ── spins ──► due ── publishes ──►
 *                     ◄─────────────── early ───────────────────►
 *
 * How early is learned: a sleep that ended too late makes it a tenth more, any other a five-hundredth less. So one of fifty
 * ends too late. Those that ended far too late teach nothing: they waited for a processor that others had. There the
 * scheduler runs a thread at once that has taken less than its share, and lets one wait that has taken more; so an eighth
 * of the time is spun at most, whatever was learned.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "player.h"

enum {
    EARLY_LEAST_NS = 20000,
    EARLY_MOST_NS = 250000,
    MORE = 10,  /* one part of so many */
    LESS = 500, /* likewise */
    SHARE = 8,  /* one part of so many of the time may be spun */
    CREDIT_MOST_NS = 10000000,
    TURN_NS = 200000,
};

/* As sched_setattr(2) has it; C libraries before glibc 2.41 do not. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t turn_ns, deadline_ns, period_ns;
};

/* An ordinary thread that asks for short turns need not wait for the end of another's. Kernels before 6.12 have none to ask
 * for, and that is no error: it wakes up later, that is all. A real-time thread stays one. */
static void take_short_turns(void)
{
    struct attributes own;
    if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) || own.policy != SCHED_OTHER) return;
    own.turn_ns = TURN_NS;
    syscall(SYS_sched_setattr, 0, &own, 0);
}

void pacing_begin(struct pacing *t)
{
    prctl(PR_SET_TIMERSLACK, 1);
    take_short_turns();
    t->early_ns = EARLY_MOST_NS; /* the first messages are to be punctual, too */
    t->credit_ns = CREDIT_MOST_NS;
    t->earned_ns = now_ns();
}

static void learn(struct pacing *t, uint64_t overslept)
{
    histogram_record(&t->overslept, overslept);
    if (overslept > EARLY_MOST_NS) return;
    t->early_ns = overslept > t->early_ns ? t->early_ns + t->early_ns / MORE : t->early_ns - t->early_ns / LESS;
    if (t->early_ns > EARLY_MOST_NS) t->early_ns = EARLY_MOST_NS;
    if (t->early_ns < EARLY_LEAST_NS) t->early_ns = EARLY_LEAST_NS;
}

/* How much before a cue the thread is to wake up. */
static uint64_t early(struct pacing *t, uint64_t now)
{
    if (t->spin_ns >= 0) return (uint64_t)t->spin_ns;
    t->credit_ns += (now - t->earned_ns) / SHARE;
    t->earned_ns = now;
    if (t->credit_ns > CREDIT_MOST_NS) t->credit_ns = CREDIT_MOST_NS;
    return t->early_ns < t->credit_ns ? t->early_ns : t->credit_ns;
}

static void spend(struct pacing *t, uint64_t spun)
{
    count_up(&t->spun_ns, spun);
    t->credit_ns -= spun < t->credit_ns ? spun : t->credit_ns;
}

/* Gives the time at which it ended: at `end` or later, but for a command. */
static uint64_t sleep_until(struct player *p, uint64_t now, uint64_t end, uint32_t word)
{
    struct timespec until = timespec_of(end);
    while (now < end && is_current(p, word)) {
        syscall(SYS_futex, &p->word, FUTEX_WAIT_BITSET_PRIVATE, word, &until, NULL, FUTEX_BITSET_MATCH_ANY);
        if ((now = now_ns()) >= end) learn(&p->pacing, now - end);
    }
    return now;
}

static void spin_until(struct player *p, uint64_t now, uint64_t due, uint32_t word)
{
    uint64_t since = now;
    for (; now < due && is_current(p, word); now = now_ns()) cpu_relax();
    if (since < due) spend(&p->pacing, (now < due ? now : due) - since);
}

bool pacing_wait(struct player *p, uint64_t due, uint32_t word)
{
    uint64_t now = now_ns();
    if (now < due) {
        uint64_t before = early(&p->pacing, now);
        now = sleep_until(p, now, before < due ? due - before : 0, word);
        spin_until(p, now, due, word);
    }
    return is_current(p, word);
}
