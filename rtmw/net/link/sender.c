/* The sender of all lines of a node: sleeps until the bus has something for a route of one of them, and pumps.
 *
 *   bus ─► sender ─┬─ urgent connections of all lines
 *                  └─ bulk connections, line after line; between two of them the urgent ones of all lines again
 *   receiver of a line ─ both connections of its own line, which can be written again
 *
 * What is urgent leaves before what is not, whichever line it is for: one thread at a time writes on bulk connections (`writes`),
 * so no more than one burst of these competes for the processor and the interface with an alarm. Whoever finds that
 * another thread does leaves its line to the sender, which the other one wakes.
 *
 * The sender waits for no lock of a line: whoever holds it may have been stopped by the kernel in the middle of a burst.
 */
#include "../../shm/clock.h"
#include "link.h"

enum {
    WAITED_MOST = 4096,
    GIVE_WAY_NS = 50000,
    LOOK_NS = 200000, /* of bulk, before it is looked what is urgent */
};

/* ---- who writes ---- */

bool lines_may_write(struct lines *s)
{
    if (!s || lock_if_free(&s->writes, LOCK_WRITES)) return true;
    store_seq(&s->is_left, 1u); /* who has it looks at this when it has it no more: so it has, or it sees this */
    return lock_if_free(&s->writes, LOCK_WRITES);
}

/* `wakes` is held. */
static void wake_locked(struct lines *s)
{
    s->must_look = true;
    if (s->waits_on) rtmw_subscriber_wake(s->waits_on);
    pthread_cond_signal(&s->woken);
}

static void wake(struct lines *s)
{
    lock(&s->wakes, LOCK_LEAF);
    wake_locked(s);
    unlock(&s->wakes, LOCK_LEAF);
}

void lines_have_written(struct lines *s)
{
    if (!s) return;
    unlock(&s->writes, LOCK_WRITES);
    if (exchange(&s->is_left, 0u)) wake(s);
}

/* ---- wake and sleep ---- */

void line_wake_sender(struct line *l)
{
    if (l->lines) wake(l->lines);
}

void line_await_sender(struct line *l)
{
    struct lines *s = l->lines;
    if (!s) return;
    lock(&s->wakes, LOCK_LEAF);
    uint64_t looks = s->looks;
    wake_locked(s);
    while (load_relaxed(&s->is_asleep) && s->looks == looks) pthread_cond_wait(&s->looked, &s->wakes);
    unlock(&s->wakes, LOCK_LEAF);
}

/* The lock of a line, unless somebody has it or waits for it. */
static bool lock_line(struct line *l) { return !load_relaxed(&l->openers) && lock_if_free(&l->lock, LOCK_ENGINE); }

/* true: so many routes may take that not all of them can be waited for. */
static bool list_routes(struct line *l, rtmw_subscriber **subscribers, size_t *count)
{
    bool is_beyond = false;
    for (struct out *o = l->outs; o; o = o->next) {
        bool may_take = out_may_take(o);
        o->is_waited_for = *count < WAITED_MOST && may_take;
        if (o->is_waited_for) subscribers[(*count)++] = o->subscriber;
        is_beyond = is_beyond || (may_take && !o->is_waited_for);
    }
    return is_beyond;
}

/* For what to sleep, and until when. false: it has to look again, for a line could not be asked. */
static bool list_all(struct lines *s, rtmw_subscriber **subscribers, size_t *count, uint64_t *until)
{
    uint64_t now = now_monotonic_ns();
    *count = 0;
    *until = UINT64_MAX;
    for (struct line *l = s->first; l; l = l->next_line) {
        if (!lock_line(l)) return false;
        bool is_beyond = list_routes(l, subscribers, count);
        *until = least(*until, is_beyond ? now + RETRY_NS : line_next_try(l, now));
        unlock(&l->lock, LOCK_ENGINE);
    }
    return true;
}

static void sleep_on_none(struct lines *s, uint64_t until)
{
    struct timespec t = timespec_of(until);
    lock(&s->wakes, LOCK_LEAF);
    if (!s->must_look && until == UINT64_MAX) pthread_cond_wait(&s->woken, &s->wakes);
    if (!s->must_look && until != UINT64_MAX) pthread_cond_timedwait(&s->woken, &s->wakes, &t);
    unlock(&s->wakes, LOCK_LEAF);
}

/* From here on until `end_sleep` subscribers are in use, and a line that gives one up waits. */
static void begin_sleep(struct lines *s)
{
    lock(&s->wakes, LOCK_LEAF);
    store_relaxed(&s->is_asleep, 1u);
    unlock(&s->wakes, LOCK_LEAF);
}

static void end_sleep(struct lines *s)
{
    lock(&s->wakes, LOCK_LEAF);
    store_relaxed(&s->is_asleep, 0u);
    s->waits_on = NULL;
    s->looks++;
    pthread_cond_broadcast(&s->looked);
    unlock(&s->wakes, LOCK_LEAF);
}

static bool can_be_woken_by(struct lines *s, rtmw_subscriber *subscriber)
{
    lock(&s->wakes, LOCK_LEAF);
    bool can = !s->must_look;
    if (can) s->waits_on = subscriber;
    unlock(&s->wakes, LOCK_LEAF);
    return can;
}

/* The list is locked, but not while it sleeps. */
static void sleep_for_work(struct lines *s, rtmw_subscriber **subscribers)
{
    bool ready[WAITED_MOST];
    size_t count;
    uint64_t until;
    begin_sleep(s);
    bool is_all = list_all(s, subscribers, &count, &until);
    unlock(&s->list, LOCK_LINES);
    uint64_t now = now_monotonic_ns();
    if (!is_all)
        nanosleep(&(struct timespec){.tv_nsec = GIVE_WAY_NS}, NULL);
    else if (!count)
        sleep_on_none(s, until);
    else if (until > now && can_be_woken_by(s, subscribers[0]))
        rtmw_wait_any(subscribers, ready, count, until == UINT64_MAX ? UINT64_MAX : until - now);
    end_sleep(s);
    lock(&s->list, LOCK_LINES);
}

/* ---- send ---- */

static uint64_t written(const struct line *l)
{
    uint64_t sum = 0;
    for (int n = 0; n < CHANNELS; n++)
        if (l->channel[n]) sum += l->channel[n]->written;
    return sum;
}

/* true: there is more to do at once, or another thread has the line, and may have done its part of it already. */
static bool visit(struct line *l, bool may_write_bulk)
{
    if (!lock_line(l)) return l->lines->has_skipped = true;
    uint64_t before = written(l);
    bool is_more = line_pump(l, now_monotonic_ns(), may_write_bulk);
    if (written(l) != before) l->lines->served = l;
    l->has_bulk = line_has_bulk(l);
    unlock(&l->lock, LOCK_ENGINE);
    return is_more;
}

static bool send_urgent(struct lines *s)
{
    bool is_more = false;
    for (struct line *l = s->first; l; l = l->next_line) is_more = visit(l, false) || is_more;
    return is_more;
}

static bool send_bulk(struct lines *s)
{
    bool is_more = false;
    uint64_t looked_ns = now_monotonic_ns();
    for (struct line *l = s->first; l; l = l->next_line) {
        if (!l->has_bulk) continue;
        is_more = visit(l, true) || is_more;
        if (now_monotonic_ns() < looked_ns + LOOK_NS) continue;
        send_urgent(s);
        looked_ns = now_monotonic_ns();
    }
    return is_more;
}

/* The turn is that of the line behind the one that wrote last. In a round in which none could, for all are in debt, it stays:
 * else a debt that comes free in every other round would always find the same line. */
static void pass_the_turn(struct lines *s)
{
    struct line *last = s->served, *next = last ? last->next_line : NULL;
    if (!next) return; /* none wrote, or the turn is that of the first line, as it stands */
    struct line **end = &last->next_line;
    while (*end) end = &(*end)->next_line;
    *end = s->first;
    s->first = next;
    last->next_line = NULL;
}

/* All lines once. true: there is more to do at once. */
static bool send_all(struct lines *s)
{
    s->served = NULL;
    bool is_more = send_urgent(s);
    if (lines_may_write(s)) {
        is_more = send_bulk(s) || is_more;
        lines_have_written(s);
    }
    pass_the_turn(s);
    return is_more;
}

static void give_way(struct lines *s)
{
    unlock(&s->list, LOCK_LINES);
    if (s->has_skipped || load_relaxed(&s->openers))
        nanosleep(&(struct timespec){.tv_nsec = GIVE_WAY_NS}, NULL); /* mutexes are not fair */
    lock(&s->list, LOCK_LINES);
    s->has_skipped = false;
}

static void *send_and_sleep(void *argument)
{
    struct lines *s = argument;
    rtmw_subscriber *subscribers[WAITED_MOST];
    lock(&s->list, LOCK_LINES);
    for (;;) {
        lock(&s->wakes, LOCK_LEAF);
        s->must_look = false;
        unlock(&s->wakes, LOCK_LEAF);
        if (load_acquire(&s->stop)) break; /* asked behind that: who stops it sets this first, and then the other */
        if (send_all(s))
            give_way(s);
        else
            sleep_for_work(s, subscribers);
    }
    unlock(&s->list, LOCK_LINES);
    return NULL;
}

/* ---- from start to stop ---- */

static void lock_list(struct lines *s)
{
    fetch_add(&s->openers, 1u);
    wake(s);
    lock(&s->list, LOCK_LINES);
    fetch_add(&s->openers, UINT32_MAX);
}

void lines_join(struct lines *s, struct line *l)
{
    lock_list(s);
    l->next_line = s->first;
    s->first = l;
    unlock(&s->list, LOCK_LINES);
}

void lines_leave(struct lines *s, struct line *l)
{
    lock_list(s);
    struct line **link = &s->first;
    while (*link != l) link = &(*link)->next_line;
    *link = l->next_line;
    unlock(&s->list, LOCK_LINES);
    line_await_sender(l); /* which may sleep on subscribers of the line yet */
}

int lines_start(struct lines *s)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->list, NULL);
    pthread_mutex_init(&s->writes, NULL);
    pthread_mutex_init(&s->wakes, NULL);
    pthread_mutex_init(&s->rates, NULL);
    pthread_cond_init(&s->woken, &monotonic);
    pthread_cond_init(&s->looked, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return pthread_create(&s->sender, NULL, send_and_sleep, s);
}

void lines_stop(struct lines *s)
{
    store_release(&s->stop, 1u);
    wake(s);
    pthread_join(s->sender, NULL);
    pthread_cond_destroy(&s->woken);
    pthread_cond_destroy(&s->looked);
    pthread_mutex_destroy(&s->rates);
    pthread_mutex_destroy(&s->wakes);
    pthread_mutex_destroy(&s->writes);
    pthread_mutex_destroy(&s->list);
}
