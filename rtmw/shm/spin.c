/* Spinning before a sleep: the answer of a peer that runs on another processor is often nearer than a sleep is long.
 *
 * How long is learned by each subscriber for itself. A spin that found something is worth twice as long the next time, one
 * that did not half; nothing, where this process has one processor, which may be the peer's too. But two that sleep each
 * wait for the other's waking up, and short spins would never find out that both could do without: so when waits are short
 * in spite of the sleep, now and then one tries the longest spin.
 */
#include <sched.h>

#include "waiting.h"

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
