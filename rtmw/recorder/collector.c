/* The collector: its thread, round after round over all topics, asleep when there was nothing; and the chunks that it
 * and the writer hand each other. See collector.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/clock.h"
#include "collector.h"

/* ---- chunks between the collector thread and the writer ---- */

/* Room for every chunk there is in both, so that handing one over never needs memory. */
static bool make_room(struct collector *c)
{
    struct chunk **free_room = realloc(c->free, (c->chunks + 1) * sizeof *free_room);
    if (!free_room) return false;
    c->free = free_room;
    struct chunk **full_room = malloc((c->chunks + 1) * sizeof *full_room);
    if (!full_room) return false;
    for (uint32_t i = 0; i < c->full_count; i++) full_room[i] = c->full[(c->first + i) % c->chunks];
    free(c->full);
    c->full = full_room;
    c->first = 0;
    c->chunks++;
    return true;
}

bool exchange_lend(struct collector *c, struct chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    bool done = make_room(c);
    if (done) c->free[c->free_count++] = chunk;
    pthread_mutex_unlock(&c->lock);
    return done;
}

void exchange_give(struct collector *c, struct chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    c->charged -= chunk->charged;
    chunk->charged = 0;
    c->free[c->free_count++] = chunk;
    pthread_mutex_unlock(&c->lock);
}

bool exchange_charge(struct collector *c, struct chunk *chunk, uint64_t bytes)
{
    pthread_mutex_lock(&c->lock);
    uint64_t others =
        c->charged - chunk->charged; /* it may have been charged for a message that did not fit after all */
    bool done = !others || others + bytes <= c->budget;
    if (done) {
        chunk->charged = bytes;
        c->charged = others + bytes;
    }
    pthread_mutex_unlock(&c->lock);
    return done;
}

struct chunk *exchange_free_chunk(struct collector *c)
{
    pthread_mutex_lock(&c->lock);
    struct chunk *chunk = c->free_count ? c->free[--c->free_count] : NULL;
    pthread_mutex_unlock(&c->lock);
    return chunk;
}

void exchange_full(struct collector *c, struct chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    c->full[(c->first + c->full_count++) % c->chunks] = chunk;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

struct chunk *exchange_next(struct collector *c, uint64_t timeout_ns)
{
    struct timespec deadline = timespec_of(monotonic_now() + timeout_ns);
    struct chunk *chunk = NULL;
    pthread_mutex_lock(&c->lock);
    while (!c->full_count && !c->has_ended)
        if (pthread_cond_timedwait(&c->changed, &c->lock, &deadline)) break;
    if (c->full_count) {
        chunk = c->full[c->first];
        c->first = (c->first + 1) % c->chunks;
        c->full_count--;
    }
    pthread_mutex_unlock(&c->lock);
    return chunk;
}

/* ---- the thread ---- */

enum {
    BURST = 1024,       /* messages taken from a topic before the next one has its turn */
    WAIT_NS = 20000000, /* asleep at most: then new topics and demands are looked at */
    REST_NS = 200000,   /* after a round that found something and one that did not: publishers need not wake us then */
    FEW = 127,          /* topics whose messages can wake the thread; with more it looks, */
    LOOK_NS = 500000,   /* so often, */
    LOOK_MOST_NS = 20000000, /* or more seldom, when looking takes long: */
    LOOK_PART = 16,          /* it sleeps so many times as long as it looked */
    LAST_NS = 200000000,     /* after the end was demanded, messages are taken until there are none, or for so long */
};
static const uint64_t PATIENCE_NS = 5000000000;

uint64_t monotonic_now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void sleep_for(uint64_t ns)
{
    struct timespec time = timespec_of(ns);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void close_chunk(struct collector *c)
{
    if (c->open && c->open->count) {
        exchange_full(c, c->open);
        c->open = NULL;
    }
}

/* Within a chunk time does not go back: so the index stays narrow when the wall clock was set. */
static uint64_t log_time(struct collector *c)
{
    uint64_t now = clock_ns(CLOCK_REALTIME);
    if (now < c->last_log_ns) {
        close_chunk(c);
        count_up(&c->clock_jumps, 1);
    }
    return c->last_log_ns = now;
}

/* A chunk with room for so many bytes; NULL: none is free. */
static struct chunk *chunk_for(struct collector *c, uint64_t size)
{
    if (c->open && chunk_is_full_for(c->open, size)) close_chunk(c);
    if (!c->open) {
        c->open = exchange_free_chunk(c);
        c->opened_ns = monotonic_now();
    }
    if (c->open && size > c->open->limit && !exchange_charge(c, c->open, size)) return NULL;
    return c->open;
}

/* What others call their times need not be any. Readers know those until the year 2262, as signed nanoseconds. */
static bool is_time(uint64_t ns) { return ns <= INT64_MAX; }

/* false: it cannot be kept now. */
static bool keep(struct collector *c, struct source *s, const rtmw_message *m, uint16_t channel)
{
    uint64_t now = log_time(c);
    struct chunk *chunk = chunk_for(c, m->size);
    if (!chunk) return false;
    struct chunk_row row = {.log_time = now,
                            .sequence = m->sequence,
                            .publisher = rtmw_identity(c->region, m->publisher),
                            .expires = is_time(m->expires_ns) ? (int64_t)m->expires_ns : INT64_MAX,
                            .channel = channel,
                            .priority = m->priority};
    uint64_t published = is_time(m->source_time_ns) ? m->source_time_ns : now;
    if (!chunk_append(chunk, &row, published, m->data, m->size)) return false;
    count_up(&s->taken, 1);
    count_up(&s->bytes, m->size);
    return true;
}

/* Kept, or counted. false: a message of a RELIABLE source that has to be tried again. */
static bool keep_or_count(struct collector *c, struct source *s, const rtmw_message *m)
{
    if (load_relaxed(&c->paused)) return source_count_missing(s, PAUSED, 1), true;
    uint16_t channel = source_channel(c, s, m->type);
    if (!channel) return source_count_missing(s, UNKNOWN_TYPE, 1), true;
    if (keep(c, s, m, channel)) return true;
    if (s->is_reliable && !c->has_lost_patience) return false;
    source_count_missing(s, OVERFLOWED, 1);
    return true;
}

static bool take_held(struct collector *c, struct source *s)
{
    if (!keep_or_count(c, s, &s->held)) return false;
    rtmw_release(c->region, s->held.descriptor);
    s->has_held = false;
    return true;
}

static uint32_t take_from(struct collector *c, struct source *s)
{
    uint32_t taken = 0, depth = load_relaxed(&s->new_depth);
    s->is_empty = false;
    if (s->has_held && !take_held(c, s)) return rtmw_subscriber_alive(s->subscriber), 0;
    for (rtmw_message m; taken < BURST; taken++) {
        int code = rtmw_take(s->subscriber, &m);
        if (code == RTMW_AGAIN) continue;
        s->is_empty = code == RTMW_EMPTY;
        if (code != RTMW_OK) break;
        if (source_see(s, &m) && !keep_or_count(c, s, &m)) {
            s->held = m;
            s->has_held = true;
            break;
        }
        rtmw_release(c->region, m.descriptor);
    }
    if (depth && !s->has_held) source_adapt(c, s, depth);
    source_count_bus(c, s);
    return taken;
}

static uint32_t take_round(struct collector *c)
{
    uint32_t taken = 0, stay = 0;
    for (uint32_t i = 0; i < c->taken_from_count; i++) {
        struct source *s = c->taken_from[i];
        bool leaves = load_acquire(&s->leaving); /* before the take: who asked had seen what that takes */
        taken += take_from(c, s);
        if (leaves && s->is_empty && source_leave(c, s)) continue;
        c->taken_from[stay] = s;
        c->waited_for[stay++] = s->subscriber;
    }
    c->taken_from_count = stay;
    return taken;
}

/* `cuts`: demands that were there before the last round, so that it has taken what was published before them. */
static void close_what_is_due(struct collector *c, uint32_t cuts)
{
    bool is_old = c->open && c->open->count && monotonic_now() - c->opened_ns >= c->chunk_age_ns;
    if (is_old || cuts != c->cuts_seen) close_chunk(c);
    store_release(&c->cuts_seen, cuts);
}

static bool is_held_up(const struct collector *c)
{
    for (uint32_t i = 0; i < c->taken_from_count; i++)
        if (c->taken_from[i]->has_held) return true;
    return false;
}

/* After a round that took nothing, and so long. */
static void wait(struct collector *c, uint64_t round_ns)
{
    uint32_t count = c->taken_from_count;
    if (count > FEW) {
        uint64_t look = round_ns * LOOK_PART;
        sleep_for(look < LOOK_NS ? LOOK_NS : look > LOOK_MOST_NS ? LOOK_MOST_NS : look);
    } else if (c->has_found || !count || is_held_up(c)) {
        sleep_for(REST_NS);
    } else {
        rtmw_wait_any(c->waited_for, c->ready, count, WAIT_NS);
    }
    c->has_found = false;
}

static void work(struct collector *c)
{
    uint64_t began = monotonic_now();
    uint32_t cuts = load_acquire(&c->cuts);
    sources_adopt(c); /* without memory: the next time */
    uint32_t taken = take_round(c);
    close_what_is_due(c, cuts);
    if (taken)
        c->has_found = true;
    else
        wait(c, monotonic_now() - began);
}

/* What RELIABLE publishers have handed over is waited for longer. */
static void take_the_last(struct collector *c)
{
    uint64_t began = monotonic_now(), passed = 0;
    sources_adopt(c);
    while ((take_round(c) && passed < LAST_NS) || (is_held_up(c) && passed < PATIENCE_NS)) {
        if (is_held_up(c)) sleep_for(REST_NS);
        passed = monotonic_now() - began;
    }
    c->has_lost_patience = true;
    take_round(c);
    close_chunk(c);
}

static void *run(void *given)
{
    struct collector *c = given;
    while (!load_acquire(&c->stopping)) work(c);
    take_the_last(c);
    pthread_mutex_lock(&c->lock);
    c->has_ended = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Signals are for Python's main thread. */
static int start_thread(struct collector *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&c->thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

int collector_start(struct collector *c)
{
    pthread_condattr_t attributes;
    c->channels = calloc(CHUNK_CHANNELS, sizeof *c->channels);
    if (!c->channels) return ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int code = start_thread(c);
    if (code) free(c->channels);
    return code;
}

void collector_stop(struct collector *c)
{
    store_release(&c->stopping, 1u);
    pthread_join(c->thread, NULL);
}

void collector_free(struct collector *c)
{
    for (uint32_t i = 0; i < c->source_count; i++) source_close(c->sources[i]);
    free(c->sources);
    free(c->taken_from);
    free(c->waited_for);
    free(c->ready);
    free(c->news);
    for (uint32_t i = 1; i <= c->channel_count; i++) free(c->channels[i].description);
    free(c->channels);
    free(c->free);
    free(c->full);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    *c = (struct collector){0};
}
