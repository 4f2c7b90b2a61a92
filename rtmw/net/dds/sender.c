/* The sender thread: one send queue over all topics.
 *
 * DDS advertises a priority and does not act on it, so the order is made here: what is handed to DDS next is always of
 * the highest band that any topic has, the topics of a band in turn. After BURST messages or BURST_BYTES it is looked
 * again at what has come, so an urgent message waits for that much at most; and for what the kernel has of earlier ones,
 * which pacing.c keeps small.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/random.h>

#include "../../shm/clock.h"
#include "engine.h"

/* CROWD: routes of which the sender is told of each change that it is to see (sender_wake), and sleeps longer. */
enum {
    WAIT_NS = 20000000,
    WAIT_CROWD_NS = 500000000,
    CROWD = 128,
    END_NS = 1000000000,
    WAITED_MOST = 4096,
    GIVE_WAY_NS = 50000
};

static void sleep_until(uint64_t ns)
{
    struct timespec t = timespec_of(ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void forget_closing(struct engine *e)
{
    for (struct outbound **link = &e->outbounds; *link;) {
        struct outbound *o = *link;
        if (load_acquire(&o->closing)) {
            *link = o->next;
            if (e->unflushed == o) e->unflushed = NULL;
            outbound_forget(o);
            store_release(&o->closing, 2u); /* from here on it is its closer's */
        } else {
            link = &o->next;
        }
    }
}

void sender_forget(struct engine *e)
{
    lock(&e->lock, LOCK_ENGINE);
    forget_closing(e);
    unlock(&e->lock, LOCK_ENGINE);
}

/* The first route of the list goes to its end: so the topics of a band take turns. */
static void rotate(struct engine *e)
{
    struct outbound *first = e->outbounds, **end;
    if (!first || !first->next) return;
    for (end = &e->outbounds; *end; end = &(*end)->next) {}
    *end = first;
    e->outbounds = first->next;
    first->next = NULL;
}

/* A writer's messages share datagrams until it is flushed: what is to be on the wire earlier is flushed earlier. */
static void flush(struct engine *e)
{
    if (e->unflushed) dds_write_flush(e->unflushed->writer);
    e->unflushed = NULL;
}

static bool send_from_band(struct engine *e, uint32_t band)
{
    for (struct outbound *o = e->outbounds; o; o = o->next) {
        if (!lookahead_count(&o->lookahead, band) || o->retry_ns || o->held) continue;
        if (e->unflushed != o || e->unflushed_band != band) flush(e);
        uint32_t before = o->lookahead.taken;
        e->unflushed = o;
        e->unflushed_band = band;
        pacing_mark(e, band);
        uint64_t limited = load_relaxed(&o->limited), may = pacing_burst(e);
        uint64_t most = peer_rates_burst(&e->peer_rates, limited, may);
        uint64_t sent = outbound_send(o, band, e->limit.bytes_per_second ? 1 : BURST, most);
        uint64_t now = now_monotonic_ns();
        rate_limit_charge(&e->limit, sent, now);
        peer_rates_charge(&e->peer_rates, limited, sent, now);
        if (may < BURST_BYTES) flush(e); /* or it is not seen how much waits */
        if (o->lookahead.taken != before) return true;
    }
    return false;
}

/* One burst of the highest band that has something. false: nothing may be sent now. */
static bool send_burst(struct engine *e, uint64_t now)
{
    if (rate_limit_free_ns(&e->limit, now)) return false;
    if ((e->paced_ns = pacing_wait(e, now))) return false;
    for (uint32_t band = BANDS; band-- > 0;)
        if (send_from_band(e, band)) {
            rotate(e);
            return true;
        }
    return false;
}

static uint64_t later(uint64_t one, uint64_t other) { return one > other ? one : other; }

/* When a route may send again; 0: at once. */
static uint64_t may_send_ns(struct outbound *o, uint64_t now)
{
    bool leaves = load_relaxed(&o->engine->leaves_all); /* what it has taken is little, and would be lost */
    uint64_t at = later(o->full_until_ns, outbound_kept_ns(o, now));
    if (o->reliable && !leaves && flow_is_paused(o, now)) at = later(at, now + RETRY_NS);
    at = later(at, rate_limit_free_ns(&o->limit, now));
    at = later(at, peer_rates_free_ns(&o->engine->peer_rates, load_relaxed(&o->limited), now));
    return at > now ? at : 0;
}

/* Whose time has come may go on. */
static void retry(struct engine *e, uint64_t now)
{
    if (load_relaxed(&e->stuck))
        for (struct inbound *i = e->inbounds; i; i = i->next) inbound_retry(i);
    e->holding = 0;
    for (struct outbound *o = e->outbounds; o; o = o->next) {
        e->holding += o->lookahead.taken > 0;
        if (o->kept_until_ns <= now) store_relaxed(&o->kept_until_ns, 0);
        if (o->reliable && (o->lookahead.taken || o->kept_until_ns))
            rtmw_subscriber_alive(o->subscriber); /* DDS' lease says whether the others are */
        o->retry_ns = may_send_ns(o, now);
    }
}

/* When to look again at what could not go on; UINT64_MAX: nothing waits. */
static uint64_t next_try(const struct engine *e, uint64_t now)
{
    uint64_t at = load_relaxed(&e->stuck) ? now + RETRY_NS : UINT64_MAX;
    uint64_t free_ns = rate_limit_free_ns(&e->limit, now);
    if (free_ns && free_ns < at) at = free_ns;
    if (e->paced_ns && e->paced_ns < at) at = e->paced_ns;
    for (const struct outbound *o = e->outbounds; o; o = o->next)
        if (o->retry_ns && o->retry_ns < at) at = o->retry_ns;
    return at;
}

/* It sees what has changed of the routes: one has come or is to go, or has other limits. Any thread; the lock is held. A
 * sender that waits for few routes looks every WAIT_NS in any case. */
void sender_wake(struct engine *e)
{
    if (e->outbounds) rtmw_subscriber_wake(e->outbounds->subscriber);
}

/* Mutexes are not fair: the sender lets who waits go first. */
void sender_lock(struct engine *e)
{
    fetch_add(&e->openers, 1u);
    lock(&e->lock, LOCK_ENGINE);
    fetch_add(&e->openers, UINT32_MAX);
}

void sender_limit(struct engine *e, struct rate_limit *limit, uint64_t bytes_per_second)
{
    if (load_relaxed(&limit->bytes_per_second) == bytes_per_second) return;
    sender_lock(e);
    rate_limit_set(limit, bytes_per_second);
    sender_wake(e);
    unlock(&e->lock, LOCK_ENGINE);
}

/* Some routes have messages that wait for others: their publishers are to be told that this program lives. */
static bool is_holding(const struct engine *e)
{
    for (const struct outbound *o = e->outbounds; o; o = o->next)
        if (o->lookahead.taken || o->held || o->kept_until_ns) return true;
    return false;
}

/* Sleep until a topic has something, or it is time to try again. The lock is not held: routes may come meanwhile, but
 * none goes without this thread. */
static void wait_for_work(rtmw_subscriber **subscribers, size_t count, uint64_t until, uint64_t most)
{
    static bool ready[WAITED_MOST];
    uint64_t now = now_monotonic_ns(), ns = until > now ? until - now : 0;
    if (ns > most) ns = most;
    if (count)
        rtmw_wait_any(subscribers, ready, count, ns);
    else
        sleep_until(now + ns);
}

static size_t list_waiting(struct engine *e, rtmw_subscriber **subscribers)
{
    size_t count = 0;
    for (struct outbound *o = e->outbounds; o && count < WAITED_MOST; o = o->next)
        if (outbound_may_take(o)) subscribers[count++] = o->subscriber;
    return count;
}

static void *run(void *argument)
{
    struct engine *e = argument;
    rtmw_subscriber **subscribers = calloc(WAITED_MOST, sizeof(*subscribers));
    while (subscribers && !load_acquire(&e->stop)) {
        lock(&e->lock, LOCK_ENGINE);
        forget_closing(e);
        uint64_t now = now_monotonic_ns();
        retry(e, now);
        for (struct outbound *o = e->outbounds; o; o = o->next) outbound_gather(o);
        bool sent = send_burst(e, now);
        if (!sent) flush(e);
        size_t count = sent ? 0 : list_waiting(e, subscribers);
        uint64_t at = next_try(e, now), most = count > CROWD && !is_holding(e) ? WAIT_CROWD_NS : WAIT_NS;
        unlock(&e->lock, LOCK_ENGINE);
        if (sent && load_relaxed(&e->openers)) sleep_until(now_monotonic_ns() + GIVE_WAY_NS); /* sender_lock */
        if (!sent) wait_for_work(subscribers, count, at, most);
    }
    free(subscribers);
    store_release(&e->has_ended, 1u);
    return NULL;
}

/* Memory that the DDS library allocates for a large message is given back when the message is through. Without this it
 * goes to the system each time, and comes back as pages that are to be cleared and mapped anew. */
static void keep_large_blocks(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most there can be */
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

/* The library returns memory to the system by itself only from the end of its heap on, where something small may lie. */
void engine_trim(void) { malloc_trim(0); }

int engine_start(struct engine *e)
{
    keep_large_blocks();
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->flow_lock, NULL);
    pthread_mutex_init(&e->clocks_lock, NULL);
    pthread_mutex_init(&e->news.lock, NULL);
    if (getrandom(&e->salt, sizeof e->salt, GRND_NONBLOCK) < 0) e->salt = now_realtime_ns();
    return pthread_create(&e->sender, NULL, run, e);
}

void engine_stop(struct engine *e)
{
    lock(&e->lock, LOCK_ENGINE);
    store_release(&e->stop, 1u);
    sender_wake(e);
    unlock(&e->lock, LOCK_ENGINE);
    pthread_join(e->sender, NULL);
}

bool engine_end(struct engine *e)
{
    for (uint64_t end = now_monotonic_ns() + END_NS; load_acquire(&e->zero_copied) || load_acquire(&e->loan_receivers);
         sleep_until(now_monotonic_ns() + RETRY_NS))
        if (now_monotonic_ns() > end) return false;
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->flow_lock);
    pthread_mutex_destroy(&e->clocks_lock);
    pthread_mutex_destroy(&e->news.lock);
    free(e->news.endpoint);
    return true;
}

/* ---- rates of hosts ---- */

/* The number of the lowest bit, which is cleared. */
static uint32_t next_of(uint64_t *peers)
{
    uint32_t n = (uint32_t)__builtin_ctzll(*peers);
    *peers &= *peers - 1;
    return n;
}

uint64_t peer_rates_free_ns(const struct peer_rates *r, uint64_t peers, uint64_t now)
{
    uint64_t latest = 0;
    while (peers) {
        uint64_t at = rate_limit_free_ns(&r->limits[next_of(&peers)], now);
        if (at > latest) latest = at;
    }
    return latest;
}

uint64_t peer_rates_burst(const struct peer_rates *r, uint64_t peers, uint64_t most)
{
    while (peers) most = rate_limit_burst(&r->limits[next_of(&peers)], most);
    return most;
}

void peer_rates_charge(struct peer_rates *r, uint64_t peers, uint64_t bytes, uint64_t now)
{
    while (peers) rate_limit_charge(&r->limits[next_of(&peers)], bytes, now);
}
