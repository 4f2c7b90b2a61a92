/* Inbound: samples of a DDS reader on their way to the bus, in the thread that received them. */
#include <stdlib.h>
#include <string.h>

#include "../../shm/crc32c.h"
#include "engine.h"

enum { HEADER = 4 }; /* bytes before the data */

/* Does it begin as the encodings of XTypes do (7.6.3.1.2)? The DDS library reads the last bit and the version only. */
static bool is_cdr(const uint8_t *data) { return data[0] == 0 && (data[1] <= 3 || (data[1] >= 6 && data[1] <= 11)); }

/* The payload inside a sample without its trailer. A node's fills it; what a plain writer sent may have padding behind it.
 * false: it is shorter or longer than it says. CDR does not say how long it is. */
static bool unframe(enum framing framing, bool is_node, const uint8_t **data, size_t *size)
{
    uint32_t length;
    if (*size < HEADER || !is_cdr(*data)) return false;
    if (framing == FRAMING_CDR) return true;
    if (*size < OCTETS_HEADER) return false;
    memcpy(&length, *data + HEADER, sizeof length);
    size_t room = *size - OCTETS_HEADER;
    if (length > room || room - length > (is_node ? 0 : TRAILER_PADDING)) return false;
    *data += OCTETS_HEADER;
    *size = length;
    return true;
}

/* All of it is on the bus. */
static void remember(struct inbound *i, struct source *s, const struct trailer *trailer)
{
    if (s->is_node && !trailer_is_checked(trailer)) count_up(&i->unchecked, trailer_messages(trailer));
    if (s->is_node)
        sequence_move(s, trailer);
    else
        s->sequence = trailer->sequence;
}

static uint64_t source_time(const struct sample *sample)
{
    return sample->info.source_timestamp > 0 ? (uint64_t)sample->info.source_timestamp : 0;
}

/* Of a plain writer's sample, what would say the same; such are told apart by their source time. */
static struct trailer trailer_of(const struct source *s, const struct sample *sample)
{
    return (struct trailer){.version = TRAILER_VERSION, .priority = s->priority, .sequence = source_time(sample)};
}

static const uint8_t *end_of(struct iovec bytes) { return (const uint8_t *)bytes.iov_base + bytes.iov_len; }

/* Has it arrived as it was sent, as far as its trailer lets that be known? */
static bool is_whole(struct sample *sample, const struct trailer *trailer, struct iovec bytes)
{
    size_t before = bytes.iov_len - trailer_size(trailer);
    if (!sample->is_whole && trailer_is_checked(trailer))
        sample->is_whole = trailer_fits(crc32c(0, bytes.iov_base, before), end_of(bytes));
    return sample->is_whole || !trailer_is_checked(trailer);
}

static bool find_trailer(const struct inbound *i, struct sample *sample, struct trailer *trailer)
{
    struct iovec bytes = received_tail(i, sample->data);
    if (received_loan(i, sample->data)) return trailer_read(end_of(bytes), &bytes.iov_len, trailer);
    size_t size = ddsi_serdata_size(sample->data);
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample->data, 0, size, &bytes);
    bool found = trailer_read(end_of(bytes), &size, trailer) && is_whole(sample, trailer, bytes);
    ddsi_serdata_to_ser_unref(held, &bytes);
    return found;
}

static struct trailer look_into(struct inbound *i, struct sample *sample)
{
    const struct source *s = inbound_source(i, sample->info.publication_handle);
    struct trailer trailer = trailer_of(s, sample), found;
    if (sample->info.valid_data && s->is_node && find_trailer(i, sample, &found)) trailer = found;
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

/* Subscribers are told of a message that has come and is not published. */
static bool drop(struct inbound *i, uint64_t *counter, rtmw_lost as)
{
    count_up(counter, 1);
    rtmw_publisher_lost(i->publisher, as, now_monotonic_ns());
    return true;
}

/* false: it has to wait. */
static bool publish(struct inbound *i, struct source *s, uint8_t priority, const struct arrived *m)
{
    uint64_t expires = expiry(s, m), publisher = source_publisher(s, m->publisher);
    if (dedup_is_duplicate(i, s, publisher, m->source_time_ns)) return true;
    uint64_t left = m->lifetime_ns ? dated_left(i->engine, s->node, m->lifetime_ns) : 0;
    if ((expires && expires <= now_realtime_ns()) || (m->lifetime_ns && !left))
        return drop(i, &i->expired, (rtmw_lost){.expired = 1});
    rtmw_message_qos qos = {.priority = priority,
                            .lifetime_ns = expires ? 0 : left,
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
    if (code != RTMW_OK) return drop(i, &i->no_memory, (rtmw_lost){.missed = 1});
    dedup_add(i, s, publisher, m->source_time_ns);
    count_up(&i->bytes, m->size);
    count_up(&i->received, 1);
    return true;
}

/* Not to be tried again. */
static bool refuse(uint64_t *counter) { return count_up(counter, 1), true; }

/* Would the DDS library take it for a sample of the type? The sample that it has looked at was longer: by a trailer, or by
 * the other payloads of a pack. */
static bool is_of_type(const struct inbound *i, const uint8_t *payload, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)payload, size};
    if (i->framing == FRAMING_OCTETS) return true;
    if (size < HEADER || !is_cdr(payload)) return false;
    struct ddsi_serdata *made = ddsi_serdata_from_ser_iov(i->type, DDS_DATA, 1, &part, part.iov_len);
    if (made) ddsi_serdata_unref(made);
    return made != NULL;
}

/* Opened, if nothing in it is amiss. */
static bool open_pack(const struct inbound *i, struct sample *sample, struct iovec bytes, uint32_t messages,
                      struct pack *pack)
{
    struct packed entry;
    const uint8_t *payload, *first = bytes.iov_base;
    size_t before = i->framing == FRAMING_OCTETS ? OCTETS_HEADER : 0;
    if (!pack_open(pack, bytes.iov_base, bytes.iov_len, before, messages)) return false;
    struct pack read = *pack;
    for (uint32_t n = 0; !sample->is_sound && pack_next(&read, &payload, &entry); n++) {
        size_t size = before + entry.size;
        if (n == 0 && !unframe(i->framing, true, &first, &size)) return false;
        if (!pack_may_be(&entry) || !is_of_type(i, payload, entry.size)) return false;
    }
    return sample->is_sound = true;
}

static bool open_single(const struct inbound *i, struct sample *sample, bool is_node, const uint8_t **data,
                        size_t *size)
{
    if (!unframe(i->framing, is_node, data, size)) return false;
    if (is_node && !sample->is_sound) sample->is_sound = is_of_type(i, *data, *size);
    return sample->is_sound || !is_node;
}

/* Messages on the bus already are passed over: the pack was tried before, and the bus was full in the middle of it. */
static bool publish_pack(struct inbound *i, struct sample *sample, struct source *s, const struct trailer *trailer,
                         struct pack *pack)
{
    struct packed entry;
    const uint8_t *payload;
    for (uint32_t n = 0; pack_next(pack, &payload, &entry); n++) {
        struct arrived m = {payload, entry.size, NULL, entry.publisher, entry.source_time_ns, entry.lifetime_ns};
        if (n < sample->done) continue;
        if (!publish(i, s, trailer->priority, &m)) return false;
        sample->done = n + 1;
        carried_received(s, trailer->sequence - trailer_messages(trailer) + sample->done);
    }
    return true;
}

/* Is it to be published? It is not if others have brought it, nobody wants it, or its number cannot be. */
static bool is_wanted(struct inbound *i, struct source *s, const struct trailer *trailer)
{
    enum turn turn = s->is_node ? sequence_turn(s, trailer) : TURN_NEXT;
    if (turn == TURN_REFUSED) count_up(&i->implausible, 1);
    if (turn == TURN_NEXT) carried_gap(i, s, trailer);
    bool wants_it = trailer->version != TRAILER_OLD || load_relaxed(&i->wants_old);
    if (turn == TURN_NEXT && !wants_it) sequence_pass(s, trailer); /* readers are too late for it: nothing is lost */
    return turn == TURN_NEXT && wants_it;
}

/* false: it has to wait. Nothing of a sample is published, and nothing remembered, before all of it was looked at. */
static bool publish_sample(struct inbound *i, struct sample *sample, struct source *s, struct iovec bytes)
{
    struct trailer trailer = trailer_of(s, sample);
    struct pack pack;
    const uint8_t *data = bytes.iov_base;
    size_t size = bytes.iov_len;
    if (s->is_node && !trailer_read(end_of(bytes), &size, &trailer)) return refuse(&i->malformed);
    if (!is_whole(sample, &trailer, bytes)) return refuse(&i->corrupt);
    bool is_pack = trailer.version == TRAILER_PACK;
    struct iovec body = {bytes.iov_base, size};
    if (is_pack ? !open_pack(i, sample, body, trailer.messages, &pack)
                : !open_single(i, sample, s->is_node, &data, &size))
        return refuse(&i->malformed);
    if (!is_wanted(i, s, &trailer)) return true;
    struct arrived m = {data, size, NULL, trailer.publisher, source_time(sample), trailer.lifetime_ns};
    bool done = is_pack ? publish_pack(i, sample, s, &trailer, &pack) : publish(i, s, trailer.priority, &m);
    if (done) remember(i, s, &trailer);
    return done;
}

bool inbound_is_next(struct inbound *i, struct sample *sample)
{
    struct source *s = inbound_source(i, sample->info.publication_handle);
    struct trailer trailer = look_into(i, sample);
    return trailer.sequence < s->sequence + trailer_messages(&trailer) + s->is_node;
}

bool inbound_is_past(struct inbound *i, struct sample *sample)
{
    return look_into(i, sample).sequence <= inbound_source(i, sample->info.publication_handle)->sequence;
}

/* Only a node's single messages are received into loans; what looks like one and is another's counts as malformed. */
static bool publish_landed(struct inbound *i, struct sample *sample, struct source *s, rtmw_loan *loan)
{
    struct iovec tail = received_tail(i, sample->data);
    struct trailer trailer;
    if (!s->is_node || !trailer_read(end_of(tail), &tail.iov_len, &trailer) || tail.iov_len)
        return refuse(&i->malformed);
    if (!loan->data || !is_wanted(i, s, &trailer)) return true; /* !data: another reader had it */
    struct arrived m = {NULL, loan->size, loan, trailer.publisher, source_time(sample), trailer.lifetime_ns};
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
    if (s->info.valid_data && linked_may_come(i, source)) {
        rtmw_loan *loan = received_loan(i, s->data);
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
        backlog_drop_first(i->engine, &i->backlog, size);
    }
}

static bool is_too_much(struct inbound *i, const struct sample *s)
{
    return (i->backlog.count >= PLAIN_COUNT_MOST || i->backlog.bytes >= PLAIN_BYTES_MOST) &&
           !inbound_source(i, s->info.publication_handle)->is_node;
}

/* How many of its messages are not on the bus yet. */
static uint32_t messages_left(struct inbound *i, struct sample *s)
{
    struct trailer trailer = look_into(i, s);
    uint32_t messages = trailer_messages(&trailer);
    return messages > s->done ? messages - s->done : 1;
}

void inbound_accept(struct inbound *i, struct sample s)
{
    if (!i->backlog.count && deliver(i, &s)) return;
    uint32_t messages = messages_left(i, &s);
    if (!is_too_much(i, &s) && backlog_add(i->engine, &i->backlog, s)) {
        count_up(&i->delayed, messages);
    } else {
        count_up(&i->overflowed, messages);
        ddsi_serdata_unref(s.data);
    }
}

struct sample inbound_sample(struct inbound *i, struct ddsi_serdata *data, const dds_sample_info_t *info)
{
    return (struct sample){.data = data, .info = *info, .node = inbound_source(i, info->publication_handle)->node};
}

static void take_all(struct inbound *i)
{
    struct ddsi_serdata *samples[BATCH];
    dds_sample_info_t infos[BATCH];
    dds_return_t count;
    do {
        count = dds_takecdr(i->reader, samples, BATCH, infos, DDS_ANY_STATE);
        for (dds_return_t n = 0; n < count; n++) {
            instances_see(i, &infos[n]);
            inbound_accept(i, inbound_sample(i, samples[n], &infos[n]));
        }
    } while (count == BATCH);
    instances_count(i);
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
    lock(&i->lock, LOCK_ROUTE);
    inbound_move(i);
    unlock(&i->lock, LOCK_ROUTE);
}

void inbound_retry(struct inbound *i)
{
    lock(&i->lock, LOCK_ROUTE);
    if (i->backlog.count) inbound_move(i);
    unlock(&i->lock, LOCK_ROUTE);
}

void inbound_unsent(struct inbound *i, rtmw_lost unsent)
{
    lock(&i->lock, LOCK_ROUTE);
    rtmw_publisher_lost(i->publisher, unsent, i->unsent_ns);
    i->unsent_ns = now_monotonic_ns();
    unlock(&i->lock, LOCK_ROUTE);
}

uint64_t inbound_held(struct inbound *i)
{
    lock(&i->lock, LOCK_ROUTE);
    uint64_t held = i->backlog.count + i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return held;
}

int inbound_open(struct inbound *i)
{
    pthread_mutex_init(&i->lock, NULL);
    i->unsent_ns = now_monotonic_ns();
    watch(i);
    i->loan_receiver = loan_receiver_open(i);
    lock(&i->engine->lock, LOCK_ENGINE);
    i->next = i->engine->inbounds;
    i->engine->inbounds = i;
    unlock(&i->engine->lock, LOCK_ENGINE);
    int code = sources_open(i) ? listen_to(i->reader, inbound_on_data, i) : -1;
    if (code != DDS_OK) return code;
    inbound_on_data(i->reader, i); /* samples from before there was a listener */
    if (i->may_receive_in_loan && i->loan_receiver) loan_receiver_begin(i->loan_receiver);
    return DDS_OK;
}

void inbound_close(struct inbound *i)
{
    listen_to(i->reader, NULL, NULL); /* returns when no callback is running */
    unwatch(i);
    lock(&i->engine->lock, LOCK_ENGINE);
    struct inbound **link = &i->engine->inbounds;
    while (*link != i) link = &(*link)->next;
    *link = i->next;
    unlock(&i->engine->lock, LOCK_ENGINE);
    backlog_clear(i->engine, &i->backlog);
    backlog_clear(i->engine, &i->early);
    inbound_tell_stuck(i);
    flow_tell(i);
    if (i->loan_receiver)
        loan_receiver_close(i->loan_receiver);
    else
        rtmw_publisher_close(i->publisher);
    free(i->sources);
    pthread_mutex_destroy(&i->lock);
}

/* ---- backlog ---- */

/* Samples that came from other hosts and wait for room on the bus.
 *
 * A node that is asked to pause sends little more; so much may come that others on its way see no limit. One that does not
 * heed it, and many that are none, take so much memory and no more.
 */

enum {
    SPACE_FIRST = 64,
    COUNT_MOST = 1 << 18, /* samples that wait of one participant, */
    BYTES_MOST = 256 << 20,
    ALL_COUNT_MOST = 1 << 20, /* and of all */
    ALL_BYTES_MOST = 1 << 30,
};

static struct share *share_of(struct engine *e, uint64_t node)
{
    return &e->shares[((node ^ e->salt) * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (SHARES - 1)];
}

static bool has_room(const struct share *s, uint64_t count_most, uint64_t bytes_most)
{
    return load_relaxed(&s->count) < count_most && load_relaxed(&s->bytes) < bytes_most;
}

static void charge(struct share *s, uint64_t count, uint64_t bytes)
{
    fetch_add(&s->count, count);
    fetch_add(&s->bytes, bytes);
}

static bool grow(struct backlog *b)
{
    uint32_t space = b->space ? b->space * 2 : SPACE_FIRST;
    struct sample *ring = space ? malloc(space * sizeof *ring) : NULL;
    if (!ring) return false;
    for (uint32_t n = 0; n < b->count; n++) ring[n] = b->ring[(b->first + n) & (b->space - 1)];
    free(b->ring);
    b->ring = ring;
    b->space = space;
    b->first = 0;
    return true;
}

bool backlog_add(struct engine *e, struct backlog *b, struct sample sample)
{
    struct share *own = share_of(e, sample.node);
    uint64_t bytes = ddsi_serdata_size(sample.data);
    if (!has_room(own, COUNT_MOST, BYTES_MOST) || !has_room(&e->all, ALL_COUNT_MOST, ALL_BYTES_MOST)) return false;
    if (b->count == b->space && !grow(b)) return false;
    b->ring[(b->first + b->count++) & (b->space - 1)] = sample;
    b->bytes += bytes;
    charge(own, 1, bytes);
    charge(&e->all, 1, bytes);
    return true;
}

struct sample *backlog_first(struct backlog *b) { return b->count ? &b->ring[b->first] : NULL; }

void backlog_drop_first(struct engine *e, struct backlog *b, uint32_t bytes)
{
    charge(share_of(e, b->ring[b->first].node), UINT64_C(-1), -(uint64_t)bytes);
    charge(&e->all, UINT64_C(-1), -(uint64_t)bytes);
    b->bytes -= bytes;
    b->first = (b->first + 1) & (b->space - 1);
    b->count--;
}

void backlog_clear(struct engine *e, struct backlog *b)
{
    for (struct sample *s; (s = backlog_first(b));) {
        struct ddsi_serdata *data = s->data;
        backlog_drop_first(e, b, ddsi_serdata_size(data));
        ddsi_serdata_unref(data);
    }
    free(b->ring);
    *b = (struct backlog){0};
}

/* ---- dated ---- */

/* The time that a message was on its way is taken off its lifetime: as far as it is known, and never more.
 *
 *   sent, on the sender's clock ── way ──► published here      way = now + how far its clock is ahead − sent − unsure
 *
 * Both clocks are steady ones (now.h). Wall clocks would not do: while one is set, messages are on the way and wait to be
 * sent again, and what was measured before is believed for a second. Each of them would be an hour too old, or too young.
 *
 * Nodes measure with beacons how far the clock of each other node is ahead, and what they may be wrong by: half of the
 * way there and back (own_topics.py). Of a node that is not measured yet, nothing is known, and a lifetime is what was left
 * when it was sent.
 */

static struct clock_of *find(struct engine *e, uint64_t node)
{
    struct clock_of *c = &e->clocks[(node * UINT64_C(0x9E3779B97F4A7C15)) >> 53];
    for (uint32_t n = 0; n < CLOCKS; n++, c = c + 1 == e->clocks + CLOCKS ? e->clocks : c + 1)
        if (!c->node || c->node == node) return c;
    return NULL;
}

void dated_forget(struct engine *e)
{
    lock(&e->clocks_lock, LOCK_LEAF);
    memset(e->clocks, 0, sizeof e->clocks);
    unlock(&e->clocks_lock, LOCK_LEAF);
}

void dated_learn(struct engine *e, const uint8_t participant[16], int64_t ahead_ns, uint64_t unsure_ns)
{
    uint64_t node = node_named(participant);
    lock(&e->clocks_lock, LOCK_LEAF);
    struct clock_of *c = find(e, node);
    if (c) *c = (struct clock_of){node, ahead_ns, unsure_ns};
    unlock(&e->clocks_lock, LOCK_LEAF);
}

uint64_t dated_left(struct engine *e, uint64_t node, uint64_t lifetime)
{
    if (!lifetime_is_dated(lifetime)) return lifetime;
    lock(&e->clocks_lock, LOCK_LEAF);
    const struct clock_of *found = find(e, node);
    struct clock_of clock = found ? *found : (struct clock_of){0};
    unlock(&e->clocks_lock, LOCK_LEAF);
    if (!clock.node) return lifetime_left_ns(lifetime);
    return lifetime_after_way(lifetime, now_steady_ns() + (uint64_t)clock.ahead_ns, clock.unsure_ns);
}

/* ---- instances ---- */

/* Instances of a keyed topic: a plain writer disposes one, or unregisters it, or leaves, which unregisters what it wrote.
 * The bus has no instances, so nothing of that is published; it is counted.
 *
 * DDS tells it with a sample: one of its own that has a key and no data, or, where data of the instance have not been
 * taken yet, in the state that it gives for all of these. Samples of an instance come one behind the other; so what the
 * last of them says counts, once, whether or not they were taken in several calls.
 *
 * Samples of nodes have no instances: their writers let go of all that they have registered when a route closes.
 */

void instances_count(struct inbound *i)
{
    dds_sample_info_t *last = &i->instance;
    if (!last->instance_handle) return;
    if (last->instance_state == DDS_DISPOSED) count_up(&i->disposed, 1);
    if (last->instance_state == DDS_NO_WRITERS) count_up(&i->unregistered, 1);
    *last = (dds_sample_info_t){0};
}

void instances_see(struct inbound *i, const dds_sample_info_t *info)
{
    if (!i->is_keyed) return;
    if (i->instance.instance_handle != info->instance_handle) instances_count(i);
    const struct source *s = inbound_source(i, info->publication_handle);
    if (!s->is_node && (s->lane == i->lane || s->lane == LANE_UNKNOWN)) i->instance = *info;
}

/* ---- another reader takes over ---- */

/* A DDS reader of a route is replaced as a writer is (outbound.c): both receive for a while, and the old one goes on
 * delivering. A source is joined when the old one has come to the first sample that the new one has of it: what follows,
 * the new one has without a gap. When all sources are joined, the new one delivers what is newer than what the old one
 * delivered. Nodes number their samples; of plain writers the source times are compared.
 */

static void take_early(struct inbound *i)
{
    struct ddsi_serdata *samples[BATCH];
    dds_sample_info_t infos[BATCH];
    dds_return_t count;
    do {
        count = dds_takecdr(i->heir, samples, BATCH, infos, DDS_ANY_STATE);
        for (dds_return_t n = 0; n < count; n++)
            if (!backlog_add(i->engine, &i->early, inbound_sample(i, samples[n], &infos[n]))) {
                count_up(&i->overflowed, 1);
                ddsi_serdata_unref(samples[n]);
            }
    } while (count == BATCH);
}

static void drop_early(struct inbound *i)
{
    struct ddsi_serdata *data = backlog_first(&i->early)->data;
    backlog_drop_first(i->engine, &i->early, ddsi_serdata_size(data));
    ddsi_serdata_unref(data);
}

/* The next one of a node comes without a gap behind the last one delivered, too. */
static void join_sources(struct inbound *i)
{
    for (uint32_t n = 0; n < i->early.count; n++) {
        struct sample *sample = &i->early.ring[(i->early.first + n) & (i->early.space - 1)];
        struct source *s = inbound_source(i, sample->info.publication_handle);
        if (inbound_is_next(i, sample)) s->is_joined = true;
    }
}

/* A source of which nothing has been delivered has nothing to be joined with, and one that has left will not be. */
static bool all_are_joined(struct inbound *i)
{
    for (uint32_t n = 0; n < i->source_count; n++) {
        struct source *s = &i->sources[n];
        if (s->sequence && s->lane == i->lane && !s->is_joined && is_matched(i->reader, s->publication)) return false;
    }
    return true;
}

static void take_over(struct inbound *i)
{
    i->reader = i->heir;
    i->heir = 0;
    for (struct sample *sample; (sample = backlog_first(&i->early));) {
        struct sample first = *sample;
        if (inbound_is_past(i, &first)) {
            drop_early(i);
        } else {
            backlog_drop_first(i->engine, &i->early, ddsi_serdata_size(first.data));
            inbound_accept(i, first);
        }
    }
    backlog_clear(i->engine, &i->early);
    inbound_tell_stuck(i);
}

/* Of another lane, or delivered by the old reader. */
static bool is_needless(struct inbound *i, struct sample *sample)
{
    const struct source *s = inbound_source(i, sample->info.publication_handle);
    return (s->lane != i->lane && s->lane != LANE_UNKNOWN) || (s->is_joined && inbound_is_past(i, sample));
}

static void expect(struct inbound *i, dds_entity_t heir)
{
    i->heir = heir;
    backlog_clear(i->engine, &i->early);
    for (uint32_t n = 0; n < i->source_count; n++) i->sources[n].is_joined = false;
}

/* Lock held. Samples that wait for room on the bus go first, or the order would be lost. */
static bool is_time(struct inbound *i, bool at_once)
{
    inbound_move(i);
    take_early(i);
    join_sources(i);
    while (i->early.count && is_needless(i, backlog_first(&i->early))) drop_early(i);
    return at_once || (!i->backlog.count && all_are_joined(i));
}

bool inbound_hand_over(struct inbound *i, dds_entity_t reader, bool at_once)
{
    dds_entity_t before = i->reader;
    lock(&i->lock, LOCK_ROUTE);
    if (i->heir != reader) expect(i, reader);
    bool now = is_time(i, at_once);
    if (now) take_over(i);
    unlock(&i->lock, LOCK_ROUTE);
    if (!now) return false;
    listen_to(before, NULL, NULL);
    listen_to(reader, inbound_on_data, i);
    inbound_on_data(reader, i); /* samples from before it had a listener */
    return true;
}

/* ---- a node that ends ---- */

/* Of one node: has any sample come, and how far does what came reach? A route has a source for each of its writers. */
static bool reach(const struct inbound *i, uint64_t node, uint64_t *sequence)
{
    bool has_come = false;
    *sequence = 0;
    for (uint32_t n = 0; n < i->source_count; n++) {
        const struct source *s = &i->sources[n];
        uint64_t to = s->sequence > s->passed ? s->sequence : s->passed;
        if (!s->is_node || s->node != node || s->lane != i->lane || !to) continue;
        has_come = true;
        if (to > *sequence) *sequence = to;
    }
    return has_come;
}

bool inbound_has(struct inbound *i, uint64_t node, uint64_t sequence, bool is_acknowledged)
{
    uint64_t come;
    lock(&i->lock, LOCK_ROUTE);
    bool has_come = reach(i, node, &come), is_empty = !i->backlog.count && !i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return is_empty && (has_come ? come >= sequence : is_acknowledged);
}

bool inbound_reached(struct inbound *i, uint64_t node, uint64_t *sequence)
{
    lock(&i->lock, LOCK_ROUTE);
    reach(i, node, sequence);
    bool is_empty = !i->backlog.count && !i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return is_empty;
}
