/* Inbound: samples of a DDS reader on their way to the bus, in the thread that received them. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "pack.h"

enum { HEADER = 4 }; /* bytes before the data */

/* Takes the trailer off the end. false: none is there, though a node sent it. */
static bool read_trailer(const uint8_t *data, size_t *size, struct trailer *trailer)
{
    if (*size < sizeof *trailer) return false;
    memcpy(trailer, data + *size - sizeof *trailer, sizeof *trailer);
    if (trailer->magic != TRAILER_MAGIC || trailer->priority >= BANDS || trailer->padding > 3 ||
        trailer->version < TRAILER_VERSION || trailer->version > TRAILER_OLD ||
        *size < sizeof *trailer + trailer->padding)
        return false;
    *size -= sizeof *trailer + trailer->padding;
    return true;
}

/* The payload inside the sample. false: it is shorter than it says. */
static bool unframe(enum framing framing, const uint8_t **data, size_t *size)
{
    uint32_t length;
    if (*size < HEADER) return false;
    if (framing == FRAMING_CDR) return true;
    if (*size < OCTETS_HEADER) return false;
    memcpy(&length, *data + HEADER, sizeof length);
    if (length > *size - OCTETS_HEADER) return false;
    *data += OCTETS_HEADER;
    *size = length;
    return true;
}

static uint32_t messages_of(const struct trailer *trailer)
{
    return trailer->version == TRAILER_PACK ? trailer->messages : 1;
}

/* All of it is on the bus. What a node sent between its last sample and this one never came: DDS had less room for it,
 * or the link lost it. */
static void remember(struct inbound *i, struct source *s, const struct trailer *trailer)
{
    uint64_t next = s->sequence + messages_of(trailer);
    if (s->is_node && s->sequence && trailer->sequence > next) count_up(&i->lost, trailer->sequence - next);
    s->sequence = trailer->sequence;
}

/* Of a plain writer's sample, what would say the same; such are told apart by their source time. */
static struct trailer trailer_of(const struct source *s, const struct sample *sample)
{
    return (struct trailer){.version = TRAILER_VERSION,
                            .priority = s->priority,
                            .sequence = (uint64_t)sample->info.source_timestamp};
}

static bool find_trailer(const struct sample *sample, struct trailer *trailer)
{
    struct iovec bytes = landed_tail(sample->data);
    if (landed_loan(sample->data)) return read_trailer(bytes.iov_base, &bytes.iov_len, trailer);
    size_t size = ddsi_serdata_size(sample->data);
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample->data, 0, size, &bytes);
    bool found = read_trailer(bytes.iov_base, &size, trailer);
    ddsi_serdata_to_ser_unref(held, &bytes);
    return found;
}

static struct trailer look_into(struct inbound *i, const struct sample *sample)
{
    const struct source *s = inbound_source(i, sample->info.publication_handle);
    struct trailer trailer = trailer_of(s, sample), found;
    if (sample->info.valid_data && s->is_node && find_trailer(sample, &found)) trailer = found;
    return trailer;
}

/* A message as it came, about to be published. `loan`: it lies in the pool already; else NULL. */
struct arrived {
    const uint8_t *data;
    size_t size;
    rtmw_loan *loan;
    uint64_t publisher, source_time_ns, lifetime_ns; /* lifetime: left when it was sent; 0: no limit */
};

/* Of a plain writer's message, whose Lifespan begins at its source time, CLOCK_REALTIME; 0: never. */
static uint64_t expiry(const struct source *s, const struct arrived *m)
{
    return s->lifetime_ns ? m->source_time_ns + (uint64_t)s->lifetime_ns : 0;
}

/* false: it has to wait. */
static bool publish(struct inbound *i, struct source *s, uint8_t priority, const struct arrived *m)
{
    uint64_t expires = expiry(s, m), publisher = source_publisher(s, m->publisher);
    if (known_is(i, s, publisher, m->source_time_ns)) return true;
    if (expires && expires <= now_realtime_ns()) {
        count_up(&i->expired, 1);
        return true;
    }
    rtmw_message_qos qos = {.priority = priority,
                            .lifetime_ns = expires ? 0 : m->lifetime_ns,
                            .expires_ns = expires,
                            .source_time_ns = m->source_time_ns,
                            .publisher = publisher};
    int code =
        m->loan ? rtmw_loan_publish(i->publisher, m->loan, &qos) : rtmw_publish(i->publisher, m->data, m->size, &qos);
    if (m->loan && code == RTMW_OK) {
        m->loan->data = NULL;
        count_up(&i->uncopied, 1);
    }
    if ((code == RTMW_FULL || code == RTMW_NO_MEMORY) && i->reliable) return false;
    if (code == RTMW_OK) known_add(i, s, publisher, m->source_time_ns);
    if (code == RTMW_OK) count_up(&i->bytes, m->size);
    count_up(code == RTMW_OK ? &i->received : &i->no_memory, 1);
    return true;
}

/* What is on the bus already is passed over: it was tried before, and the bus was full in the middle of the pack. */
static bool publish_pack(struct inbound *i, struct sample *sample, struct source *s, const struct trailer *trailer,
                         struct iovec bytes)
{
    struct pack pack;
    struct packed entry;
    const uint8_t *payload;
    size_t before = i->framing == FRAMING_OCTETS ? OCTETS_HEADER : 0;
    if (!pack_open(&pack, bytes.iov_base, bytes.iov_len, before, trailer->messages)) {
        count_up(&i->malformed, 1);
        return true;
    }
    for (uint32_t n = 0; pack_next(&pack, &payload, &entry); n++) {
        struct arrived m = {payload, entry.size, NULL, entry.publisher, entry.source_time_ns, entry.lifetime_ns};
        if (n < sample->done) continue;
        if (!publish(i, s, trailer->priority, &m)) return false;
        sample->done = n + 1;
    }
    return true;
}

/* false: it has to wait. */
static bool publish_sample(struct inbound *i, struct sample *sample, struct source *s, struct iovec bytes)
{
    struct trailer trailer = trailer_of(s, sample);
    const uint8_t *data = bytes.iov_base;
    size_t size = bytes.iov_len;
    if (s->is_node && !read_trailer(data, &size, &trailer)) return count_up(&i->malformed, 1), true;
    if (s->is_node && s->sequence && trailer.sequence <= s->sequence) return true;   /* another reader had it */
    if (trailer.version == TRAILER_OLD && !load_relaxed(&i->wants_old)) return true; /* and may be wanted later */
    bool done;
    if (trailer.version == TRAILER_PACK) {
        done = publish_pack(i, sample, s, &trailer, (struct iovec){bytes.iov_base, size});
    } else {
        if (!unframe(i->framing, &data, &size)) return count_up(&i->malformed, 1), true;
        struct arrived m = {
            data, size, NULL, trailer.publisher, (uint64_t)sample->info.source_timestamp, trailer.lifetime_ns};
        done = publish(i, s, trailer.priority, &m);
    }
    if (done) remember(i, s, &trailer);
    return done;
}

bool inbound_is_next(struct inbound *i, const struct sample *sample)
{
    struct source *s = inbound_source(i, sample->info.publication_handle);
    struct trailer trailer = look_into(i, sample);
    return trailer.sequence < s->sequence + messages_of(&trailer) + s->is_node;
}

bool inbound_is_past(struct inbound *i, const struct sample *sample)
{
    return look_into(i, sample).sequence <= inbound_source(i, sample->info.publication_handle)->sequence;
}

/* Only a node's single messages land; what looks like one and is another's counts as malformed. */
static bool publish_landed(struct inbound *i, struct sample *sample, struct source *s, rtmw_loan *loan)
{
    struct iovec tail = landed_tail(sample->data);
    struct trailer trailer;
    if (!s->is_node || !read_trailer(tail.iov_base, &tail.iov_len, &trailer)) return count_up(&i->malformed, 1), true;
    if (!loan->data || (s->sequence && trailer.sequence <= s->sequence)) return true; /* another reader had it */
    struct arrived m = {
        NULL, loan->size, loan, trailer.publisher, (uint64_t)sample->info.source_timestamp, trailer.lifetime_ns};
    bool done = publish(i, s, trailer.priority, &m);
    if (done) remember(i, s, &trailer);
    return done;
}

static bool publish_bytes(struct inbound *i, struct sample *sample, struct source *s)
{
    struct iovec bytes;
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample->data, 0, ddsi_serdata_size(sample->data), &bytes);
    bool done = publish_sample(i, sample, s, bytes);
    ddsi_serdata_to_ser_unref(held, &bytes);
    return done;
}

/* Messages and bytes of plain writers that wait here at most: nobody can tell those to pause. */
enum { PLAIN_COUNT_MOST = 1 << 16, PLAIN_BYTES_MOST = 64 << 20 };

/* false: it has to wait. */
static bool deliver(struct inbound *i, struct sample *s)
{
    bool done = true;
    struct source *source = inbound_source(i, s->info.publication_handle);
    if (s->info.valid_data && (source->lane == i->lane || source->lane == LANE_UNKNOWN)) {
        rtmw_loan *loan = landed_loan(s->data);
        done = loan ? publish_landed(i, s, source, loan) : publish_bytes(i, s, source);
    }
    if (done) ddsi_serdata_unref(s->data);
    return done;
}

static void deliver_backlog(struct inbound *i)
{
    for (struct sample *s; (s = backlog_first(&i->backlog));) {
        uint32_t size = ddsi_serdata_size(s->data);
        if (!deliver(i, s)) return;
        backlog_drop_first(&i->backlog, size);
    }
}

static bool is_too_much(struct inbound *i, const struct sample *s)
{
    return (i->backlog.count >= PLAIN_COUNT_MOST || i->backlog.bytes >= PLAIN_BYTES_MOST) &&
           !inbound_source(i, s->info.publication_handle)->is_node;
}

/* How many of its messages are not on the bus yet. */
static uint32_t messages_left(struct inbound *i, const struct sample *s)
{
    struct trailer trailer = look_into(i, s);
    uint32_t messages = messages_of(&trailer);
    return messages > s->done ? messages - s->done : 1;
}

void inbound_accept(struct inbound *i, struct sample s)
{
    if (!i->backlog.count && deliver(i, &s)) return;
    uint32_t messages = messages_left(i, &s);
    if (!is_too_much(i, &s) && backlog_add(&i->backlog, s)) {
        count_up(&i->delayed, messages);
    } else {
        count_up(&i->overflowed, messages);
        ddsi_serdata_unref(s.data);
    }
}

static void take_all(struct inbound *i)
{
    struct ddsi_serdata *samples[BATCH];
    dds_sample_info_t infos[BATCH];
    dds_return_t count;
    do {
        count = dds_takecdr(i->reader, samples, BATCH, infos, DDS_ANY_STATE);
        for (dds_return_t n = 0; n < count; n++) inbound_accept(i, (struct sample){samples[n], infos[n], 0});
    } while (count == BATCH);
}

void inbound_tell_stuck(struct inbound *i)
{
    bool is_stuck = i->backlog.count > 0;
    if (is_stuck != i->is_stuck) fetch_add(&i->engine->stuck, is_stuck ? 1u : -1u);
    i->is_stuck = is_stuck;
}

void inbound_move(struct inbound *i)
{
    deliver_backlog(i);
    take_all(i);
    flow_tell(i);
    inbound_tell_stuck(i);
}

void inbound_on_data(dds_entity_t reader, void *argument)
{
    struct inbound *i = argument;
    (void)reader;
    pthread_mutex_lock(&i->lock);
    inbound_move(i);
    pthread_mutex_unlock(&i->lock);
}

void inbound_retry(struct inbound *i)
{
    pthread_mutex_lock(&i->lock);
    if (i->backlog.count) inbound_move(i);
    pthread_mutex_unlock(&i->lock);
}

int listen_to(dds_entity_t reader, void (*callback)(dds_entity_t, void *), void *argument)
{
    dds_listener_t *listener = dds_create_listener(argument);
    dds_lset_data_available(listener, callback);
    int code = dds_set_listener(reader, listener);
    dds_delete_listener(listener);
    return code;
}

int inbound_open(struct inbound *i)
{
    pthread_mutex_init(&i->lock, NULL);
    watch(i);
    i->landing = landing_open(i);
    pthread_mutex_lock(&i->engine->lock);
    i->next = i->engine->inbounds;
    i->engine->inbounds = i;
    pthread_mutex_unlock(&i->engine->lock);
    int code = sources_open(i) ? listen_to(i->reader, inbound_on_data, i) : -1;
    if (code != DDS_OK) return code;
    inbound_on_data(i->reader, i); /* what came before there was a listener */
    if (i->may_land && i->landing) landing_begin(i->landing);
    return DDS_OK;
}

void inbound_close(struct inbound *i)
{
    listen_to(i->reader, NULL, NULL); /* returns when no callback is running */
    unwatch(i);
    pthread_mutex_lock(&i->engine->lock);
    struct inbound **link = &i->engine->inbounds;
    while (*link != i) link = &(*link)->next;
    *link = i->next;
    pthread_mutex_unlock(&i->engine->lock);
    backlog_clear(&i->backlog);
    backlog_clear(&i->early);
    inbound_tell_stuck(i);
    flow_tell(i);
    if (i->landing)
        landing_close(i->landing);
    else
        rtmw_publisher_close(i->publisher);
    free(i->sources);
    pthread_mutex_destroy(&i->lock);
}
