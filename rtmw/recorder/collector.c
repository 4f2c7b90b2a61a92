/* The collector: its thread, round after round over all topics, asleep when there was nothing; the topics that it takes
 * from, the channels of their types, and what is missing of them; and the chunks that it and the writer hand each other.
 * See collector.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/clock.h"
#include "collector.h"

/* ---- the topics that are recorded, the channels of their types, and what is missing of them ---- */

void source_count_missing(struct source *s, enum cause cause, uint64_t count)
{
    if (count) count_up(&s->missing[cause], count);
}

/* From the first message that this subscriber gets. */
static void begin_with(struct source *s, rtmw_subscriber *subscriber)
{
    for (uint8_t band = 0; band < BANDS; band++) s->last[band] = rtmw_subscriber_start(subscriber, band);
    s->early = rtmw_subscriber_early(subscriber);
    if (s->is_new) source_count_missing(s, EARLY, s->early);
}

static struct source *source_open(struct collector *c, const char *topic, const rtmw_subscriber_qos *qos, bool is_new,
                                  int *code)
{
    struct source *s = calloc(1, sizeof *s);
    *code = RTMW_SYSTEM;
    if (!s || !(s->topic = strdup(topic))) return free(s), NULL;
    s->is_new = is_new;
    s->is_reliable = qos->reliability == RTMW_RELIABLE;
    *code = rtmw_subscriber_open(c->region, topic, RTMW_ANY, qos, &s->subscriber);
    if (*code != RTMW_OK) return free(s->topic), free(s), NULL;
    begin_with(s, s->subscriber);
    return s;
}

static bool sources_room(struct collector *c)
{
    if (c->source_count < c->sources_room) return true;
    uint32_t room = c->sources_room ? 2 * c->sources_room : SOURCES_AT_FIRST;
    struct source **sources = realloc(c->sources, room * sizeof *sources);
    if (sources) c->sources = sources;
    uint32_t *news = realloc(c->news, room * sizeof *news);
    if (news) c->news = news;
    if (!sources || !news) return false;
    c->sources_room = room;
    return true;
}

int64_t source_add(struct collector *c, const char *topic, const rtmw_subscriber_qos *qos, bool is_new, int *code)
{
    struct source *s = source_open(c, topic, qos, is_new, code);
    if (!s) return -1;
    pthread_mutex_lock(&c->lock);
    bool done = sources_room(c);
    if (done) {
        s->number = c->source_count;
        c->sources[s->number] = s;
        store_release(&c->source_count, s->number + 1);
        store_release(&c->changes, c->changes + 1);
    }
    pthread_mutex_unlock(&c->lock);
    if (done) return s->number;
    source_close(s);
    *code = RTMW_SYSTEM;
    return -1;
}

static bool adopt_locked(struct collector *c)
{
    uint32_t count = c->source_count;
    struct source **sources = realloc(c->taken_from, count * sizeof *sources);
    if (sources) c->taken_from = sources;
    rtmw_subscriber **waited_for = realloc(c->waited_for, count * sizeof *waited_for);
    if (waited_for) c->waited_for = waited_for;
    bool *ready = realloc(c->ready, count * sizeof *ready);
    if (ready) c->ready = ready;
    if (!sources || !waited_for || !ready) return false;
    c->taken_from_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (c->sources[i]->subscriber) sources[c->taken_from_count++] = c->sources[i];
    c->changes_seen = c->changes;
    return true;
}

bool sources_adopt(struct collector *c)
{
    if (load_acquire(&c->changes) == c->changes_seen) return true;
    pthread_mutex_lock(&c->lock);
    bool done = adopt_locked(c);
    pthread_mutex_unlock(&c->lock);
    return done;
}

void source_close(struct source *s)
{
    if (s->subscriber) rtmw_subscriber_close(s->subscriber);
    free(s->kinds);
    free(s->topic);
    free(s);
}

/* `type`: NULL for raw bytes. */
static uint16_t new_channel(struct collector *c, struct source *s, uint64_t life, const rtmw_type_copy *type)
{
    struct channel made = {.source = s->number, .life = life};
    uint16_t channel = 0;
    if (type && !(made.description = malloc(type->description_bytes + 1))) return 0;
    if (type) memcpy(made.description, type->description, made.description_bytes = type->description_bytes);
    pthread_mutex_lock(&c->lock);
    if (c->channel_count + 1 < CHUNK_CHANNELS) {
        channel = (uint16_t)++c->channel_count;
        c->channels[channel] = made;
    }
    pthread_mutex_unlock(&c->lock);
    if (!channel) free(made.description);
    return channel;
}

static bool kinds_room(struct source *s)
{
    if (s->kind_count < s->kinds_room) return true;
    uint32_t room = s->kinds_room ? 2 * s->kinds_room : TYPES_AT_FIRST;
    struct kind *larger = realloc(s->kinds, room * sizeof *larger);
    if (!larger) return false;
    s->kinds = larger;
    s->kinds_room = room;
    return true;
}

/* A type that the source has not met in this life. */
static uint16_t meet_type(struct collector *c, struct source *s, uint16_t type, uint64_t life)
{
    rtmw_type_copy copy;
    bool typed = rtmw_type_find(c->region, type, &copy) == RTMW_OK;
    for (uint32_t i = 0; typed && i < s->kind_count; i++) {
        if (s->kinds[i].identity != copy.identity) continue;
        s->kinds[i].life = life;
        return s->kinds[i].channel;
    }
    uint16_t channel = kinds_room(s) ? new_channel(c, s, life, typed ? &copy : NULL) : 0;
    if (channel) s->kinds[s->kind_count++] = (struct kind){life, typed ? copy.identity : 0, channel};
    return channel;
}

uint16_t source_channel(struct collector *c, struct source *s, uint16_t type)
{
    uint64_t life = rtmw_type_life(c->region, type);
    uint16_t channel = 0;
    for (uint32_t i = 0; i < s->kind_count && !channel; i++)
        if (s->kinds[i].life == life) channel = s->kinds[i].channel;
    if (!channel && !(channel = meet_type(c, s, type, life))) return 0;
    return s->channel = channel;
}

bool source_see(struct source *s, const rtmw_message *message)
{
    uint64_t *last = &s->last[message->priority];
    if (message->sequence <= *last) return false;
    s->gaps += message->sequence - *last - 1;
    *last = message->sequence;
    return true;
}

/* What the subscriber before it has counted behind the last message taken, this one meets anew, unless it is gone: then it
 * leaves a gap, as what nobody has counted does. */
static void go_on_behind_last(struct source *s, rtmw_subscriber *subscriber)
{
    uint64_t counted = s->filled - s->gaps, gone = 0;
    for (uint8_t band = 0; band < BANDS; band++) {
        uint64_t begins = rtmw_subscriber_skip(subscriber, band, s->last[band]);
        if (begins > s->last[band]) gone += begins - s->last[band];
        s->last[band] = begins; /* an earlier one: nobody was there, and the topic has just been made again */
    }
    s->gaps += gone;
    s->again = counted > gone ? counted - gone : 0;
    s->is_second = true;
}

/* Instead of a subscriber that weaker publishers are not matched with: from the message behind the last one it took. */
static bool replace_reliable(struct collector *c, struct source *s, uint32_t depth)
{
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, depth, UINT32_MAX, 0, 0, 0};
    rtmw_subscriber *other;
    if (rtmw_subscriber_open(c->region, s->topic, RTMW_ANY, &qos, &other) != RTMW_OK) return false;
    source_count_bus(c, s);
    rtmw_subscriber_close(s->subscriber);
    s->subscriber = other;
    s->bus = (rtmw_subscriber_counters){0};
    s->is_reliable = false;
    go_on_behind_last(s, other);
    return true;
}

bool source_leave(struct collector *c, struct source *s)
{
    pthread_mutex_lock(&c->lock);
    rtmw_subscriber *closed = load_relaxed(&s->leaving) ? s->subscriber : NULL;
    if (closed) s->subscriber = NULL;
    store_relaxed(&s->leaving, 0u);
    pthread_mutex_unlock(&c->lock);
    if (closed) rtmw_subscriber_close(closed);
    return closed != NULL;
}

/* Of a topic that was made again none of the messages is known. */
static void begin_anew(struct source *s, rtmw_subscriber *subscriber)
{
    s->gaps = s->filled = s->again = 0;
    s->is_second = false;
    s->is_new = true;
    begin_with(s, subscriber);
}

int source_resume(struct collector *c, struct source *s, const rtmw_subscriber_qos *qos, bool is_other)
{
    pthread_mutex_lock(&c->lock);
    bool has_left = !s->subscriber;
    store_relaxed(&s->leaving, 0u);
    pthread_mutex_unlock(&c->lock);
    if (!has_left) return RTMW_OK;
    rtmw_subscriber *opened;
    int code = rtmw_subscriber_open(c->region, s->topic, RTMW_ANY, qos, &opened);
    if (code != RTMW_OK) return code;
    s->bus = (rtmw_subscriber_counters){0};
    s->is_reliable = qos->reliability == RTMW_RELIABLE;
    (is_other ? begin_anew : go_on_behind_last)(s, opened);
    pthread_mutex_lock(&c->lock);
    s->subscriber = opened;
    store_release(&c->changes, c->changes + 1);
    pthread_mutex_unlock(&c->lock);
    return RTMW_OK;
}

void source_adapt(struct collector *c, struct source *s, uint32_t depth)
{
    if (!s->is_reliable)
        rtmw_subscriber_adjust(s->subscriber, depth, 0);
    else if (!replace_reliable(c, s, depth))
        return;
    store_relaxed(&s->new_depth, 0u);
}

/* Of publishers that offer less a RELIABLE subscriber gets nothing, nor is it told. Gaps tell that nothing else explains:
 * there, and where one subscriber took over from another. */
static void count_unmatched(struct source *s, uint64_t explained)
{
    s->filled += explained;
    if (s->gaps <= s->filled) return;
    source_count_missing(s, MISSED, s->gaps - s->filled);
    s->filled = s->gaps;
}

static bool has_untold(const struct source *s)
{
    for (int cause = 1; cause < CAUSES; cause++)
        if (s->missing[cause] != load_relaxed(&s->told[cause])) return true;
    return false;
}

/* Lock held. */
static void add_news(struct collector *c, struct source *s)
{
    if (load_relaxed(&s->has_news)) return;
    store_relaxed(&s->has_news, true);
    c->news[c->news_count++] = s->number;
}

/* How many messages more than at the last look came before the source. They leave a gap like the missed and the expired, but
 * are missing only of a new topic. A second subscriber comes after messages that the first one took: its number says nothing. */
static uint64_t count_early(struct source *s)
{
    if (s->is_second) return 0;
    uint64_t early = rtmw_subscriber_early(s->subscriber) - s->early;
    s->early += early;
    if (s->is_new) source_count_missing(s, EARLY, early);
    return early;
}

/* Of so many that the bus tells. */
static uint64_t without_again(struct source *s, uint64_t count)
{
    uint64_t again = count < s->again ? count : s->again;
    s->again -= again;
    return count - again;
}

void source_count_bus(struct collector *c, struct source *s)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(s->subscriber, &bus);
    uint64_t missed = without_again(s, bus.missed - s->bus.missed);
    uint64_t expired = without_again(s, bus.expired - s->bus.expired);
    source_count_missing(s, MISSED, missed);
    source_count_missing(s, EXPIRED, expired);
    count_unmatched(s, missed + expired + count_early(s));
    s->bus = bus;
    if (load_relaxed(&s->has_news) || !has_untold(s)) return;
    pthread_mutex_lock(&c->lock);
    add_news(c, s);
    pthread_mutex_unlock(&c->lock);
}

/* Those of one source, which go to `rows`; how many. */
static uint32_t tell(struct source *s, struct missed *rows)
{
    uint32_t count = 0;
    store_relaxed(&s->has_news, false);
    for (int cause = 1; cause < CAUSES; cause++) {
        uint64_t missing = load_relaxed(&s->missing[cause]), untold = missing - s->told[cause];
        if (!untold) continue;
        rows[count++] = (struct missed){s->number, load_relaxed(&s->channel), cause, untold};
        store_relaxed(&s->told[cause], missing);
    }
    return count;
}

struct missed *sources_missing(struct collector *c, uint32_t *count)
{
    *count = 0;
    pthread_mutex_lock(&c->lock);
    struct missed *rows = malloc((c->news_count * (CAUSES - 1) + 1) * sizeof *rows);
    for (uint32_t i = 0; rows && i < c->news_count; i++) *count += tell(c->sources[c->news[i]], rows + *count);
    if (rows) c->news_count = 0;
    pthread_mutex_unlock(&c->lock);
    return rows;
}

void sources_untell(struct collector *c, const struct missed *rows, uint32_t count)
{
    pthread_mutex_lock(&c->lock);
    for (const struct missed *m = rows; m < rows + count; m++) {
        struct source *s = c->sources[m->source];
        store_relaxed(&s->told[m->cause], s->told[m->cause] - m->count);
        add_news(c, s);
    }
    pthread_mutex_unlock(&c->lock);
}

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
