/* The topics that are recorded, the channels of their types, and what is missing of them. */
#include <stdlib.h>
#include <string.h>

#include "collector.h"

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
