/* Outbound: topics of the bus on their way to DDS writers, and the one thread that sends them all. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "../../shm/clock.h"
#include "../../shm/crc32c.h"
#include "../route/sending.h"
#include "engine.h"

/* Before the octets of FRAMING_OCTETS: the CDR header, little endian, and the length of the sequence. */
struct octets {
    uint8_t header[4];
    uint32_t length;
};

_Static_assert(sizeof(struct octets) == OCTETS_HEADER, "it travels");

enum { HELD_BY_DDS = UINT32_MAX }; /* the descriptor of a message that the DDS sample releases */

enum { TIMELY_MOST = 1024 }; /* small TIMELY messages that wait, if so many fit outbound_timely_bytes */

/* A message that has come from another host is not sent back to others: they have it from there. */
static bool is_from_afar(const rtmw_message *m) { return (m->publisher & RTMW_REMOTE) != 0; }

/* A TIMELY burst of small messages waits for the sender, which wakes when the burst is over. A reader that asks for less
 * than the usual depth wants the newest alone. */
static uint32_t timely_depth(const struct outbound *o, uint32_t depth)
{
    uint64_t more = o->weight ? outbound_timely_bytes(o) / o->weight : 0;
    if (more > TIMELY_MOST) more = TIMELY_MOST;
    return depth < DEPTH_USUAL || more <= depth ? depth : (uint32_t)more;
}

/* How many messages of this weight may wait on the bus. */
static uint32_t depth_for(const struct outbound *o)
{
    uint32_t depth = load_relaxed(&o->depth);
    return o->timely ? timely_depth(o, depth) : depth_within(depth, o->engine->zero_copy_most, o->weight);
}

static void set_depth(struct outbound *o, uint32_t depth)
{
    o->depth_now = depth;
    rtmw_subscriber_adjust(o->subscriber, depth, load_relaxed(&o->min_interval_ns));
}

/* Is it worth to tell the bus of another depth? Of a TIMELY lane, whose messages have all sizes, half or double is. */
static bool is_other(const struct outbound *o, uint32_t fits)
{
    uint32_t now = o->depth_now;
    bool is_whole = fits == load_relaxed(&o->depth);
    return fits / 2 >= now || (is_whole && fits != now) || (o->timely ? fits <= now / 2 : fits < now);
}

/* A RELIABLE publisher that is faster than the link waits sooner if its messages are large: what it would fill the pool
 * with is memory that others here need, and no longer in a processor's cache by the time that it is sent. */
static void weigh(struct outbound *o, uint64_t size)
{
    uint32_t depth = load_relaxed(&o->depth);
    bool is_light = size * depth <= o->engine->zero_copy_most && o->depth_now == depth;
    if (!o->timely && (!o->reliable || !o->engine->zero_copy_most || is_light)) return;
    o->weight = weight_after(o->weight, size);
    uint32_t fits = depth_for(o);
    if (is_other(o, fits)) set_depth(o, fits);
}

void outbound_adjust(struct outbound *o, uint32_t depth, uint64_t min_interval_ns)
{
    store_relaxed(&o->depth, depth);
    store_relaxed(&o->min_interval_ns, min_interval_ns);
    store_release(&o->adjusted, 1u);
    rtmw_subscriber_wake(o->subscriber);
}

/* Messages that it has not taken are for another time, or for the next node. */
static bool leaves_all(const struct outbound *o)
{
    return o->reliable && (load_relaxed(&o->engine->leaves_all) || load_relaxed(&o->kept_until_ns));
}

bool outbound_may_take(const struct outbound *o)
{
    bool is_enough = o->lookahead.taken && o->lookahead.bytes >= o->advance;
    return !load_relaxed(&o->has_last) && !leaves_all(o) && !is_enough && lookahead_has_room(&o->lookahead);
}

void outbound_gather(struct outbound *o)
{
    rtmw_message m;
    o->advance = outbound_advance(o);
    if (load_relaxed(&o->adjusted) && fetch_and(&o->adjusted, 0u)) set_depth(o, depth_for(o));
    while (outbound_may_take(o)) {
        int code = rtmw_take(o->subscriber, &m);
        if (code == RTMW_LAPSED || code == RTMW_AGAIN) continue;
        if (code == RTMW_EMPTY) carried_reached(o);
        if (code != RTMW_OK) return;
        if (is_from_afar(&m)) {
            if (!lookahead_count(&o->lookahead, m.priority)) carried_pass(o, &m);
            rtmw_release(o->engine->region, m.descriptor);
            continue;
        }
        carried_take(o, &m);
        uint64_t last_ns = load_relaxed(&o->engine->last_ns);
        if (last_ns && m.source_time_ns > last_ns) store_relaxed(&o->has_last, 1u);
        lookahead_add(&o->lookahead, &m);
        weigh(o, m.size);
    }
}

/* `now`, here and below: CLOCK_MONOTONIC. */
static rtmw_message *message_at(struct outbound *o, uint32_t band, uint32_t number)
{
    return lookahead_at(&o->lookahead, band, number);
}

static void drop_first(struct outbound *o, uint32_t band)
{
    const rtmw_message *m = message_at(o, band, 0);
    if (m->descriptor != HELD_BY_DDS) rtmw_release(o->engine->region, m->descriptor);
    lookahead_pass(&o->lookahead, band);
}

static size_t before_payload(const struct outbound *o) { return o->framing == FRAMING_OCTETS ? OCTETS_HEADER : 0; }

static uint64_t left_of(const rtmw_message *m, uint64_t now, struct readers_know is)
{
    uint64_t left = m->ends_ns ? m->ends_ns - now : 0;
    return left && is.dates ? lifetime_dated(left, now_steady_ns()) : left;
}

/* A sample: what comes before the first payload, payloads, padding, CRC, trailer. Of a route for plain programs, no more
 * than its type says and the padding: a reader may have a pool of samples of just that size (Fast DDS of a type whose
 * size is bounded), and refuses what is larger. */
struct framed {
    struct octets octets;
    struct trailer trailer;
    uint32_t crc;
    struct iovec parts[PACK_MOST + 5];
    size_t count, size;
    bool is_plain; /* neither CRC nor trailer */
};

static void append(struct framed *f, const void *bytes, size_t size)
{
    f->parts[f->count++] = (struct iovec){(void *)(uintptr_t)bytes, size};
    f->size += size;
}

/* Once it is framed. */
static void sum(struct framed *f)
{
    if (f->is_plain || !trailer_is_checked(&f->trailer)) return;
    for (size_t n = 0; n < f->count - 2; n++) f->crc = crc32c(f->crc, f->parts[n].iov_base, f->parts[n].iov_len);
    f->crc = trailer_crc(f->crc, &f->trailer);
}

/* Payloads are `parts` from 1 to `count` - 1. */
static void frame(const struct outbound *o, struct framed *f)
{
    static const uint8_t zeros[4];
    f->octets = (struct octets){{0, 1, 0, 0}, (uint32_t)f->parts[1].iov_len};
    f->parts[0] = (struct iovec){&f->octets, before_payload(o)};
    for (size_t n = 0; n < f->count; n++) f->size += f->parts[n].iov_len;
    f->trailer.padding = (uint8_t)(-f->size & 3);
    append(f, zeros, f->trailer.padding);
    f->is_plain = o->is_plain;
    if (f->is_plain) return;
    if (trailer_is_checked(&f->trailer)) append(f, &f->crc, sizeof f->crc);
    append(f, &f->trailer, sizeof f->trailer);
}

static struct iovec payload_of(const rtmw_message *m) { return (struct iovec){(void *)(uintptr_t)m->data, m->size}; }

/* DDS_OK: sent. DDS_TIMEOUT: what is on its way to RELIABLE readers is as much as there may be. */
static dds_return_t write_copy(struct outbound *o, struct framed *f, uint64_t source_time_ns)
{
    frame(o, f);
    sum(f);
    struct cdr cdr = {f->parts, f->count, f->size, source_time_ns};
    return write_cdr(o->engine, o->writer, o->type, &cdr);
}

static dds_return_t write_zero_copy(struct outbound *o, struct framed *f, rtmw_message *m)
{
    frame(o, f);
    struct ddsi_serdata *sample =
        zero_copy_sample(o, m->descriptor, f->parts, f->count, f->is_plain ? NULL : &f->trailer);
    if (!sample) return -1;
    sample->timestamp = (dds_time_t)m->source_time_ns;
    dds_return_t code = dds_forwardcdr(o->writer, ddsi_serdata_ref(sample));
    if (code == DDS_OK) {
        m->descriptor = HELD_BY_DDS;
        count_up(&o->uncopied, 1);
    } else {
        zero_copy_undo(sample);
    }
    ddsi_serdata_unref(sample);
    return code;
}

static uint32_t magic(bool is_checked) { return is_checked ? TRAILER_CHECKED : TRAILER_MAGIC; }

static dds_return_t write_one(struct outbound *o, rtmw_message *m, uint64_t now, struct readers_know is)
{
    struct framed f = {.parts[1] = payload_of(m),
                       .count = 2,
                       .trailer = {.magic = magic(is.crcs),
                                   .version = m->is_old ? TRAILER_OLD : TRAILER_VERSION,
                                   .priority = m->priority,
                                   .publisher = m->publisher,
                                   .sequence = o->sent + o->ahead + 1,
                                   .lifetime_ns = left_of(m, now, is)}};
    return zero_copy_may(o, m) ? write_zero_copy(o, &f, m) : write_copy(o, &f, m->source_time_ns);
}

/* The time of the sample is that of the newest message: the DDS Lifespan must not end before that of any in it. */
static dds_return_t write_pack(struct outbound *o, uint32_t band, uint32_t count, uint64_t now, struct readers_know is)
{
    struct packed table[PACK_MOST];
    struct framed f = {.count = count + 2,
                       .trailer = {.magic = magic(is.crcs),
                                   .version = TRAILER_PACK,
                                   .priority = (uint8_t)band,
                                   .messages = (uint8_t)count,
                                   .sequence = o->sent + o->ahead + count}};
    uint64_t newest = 0;
    for (uint32_t n = 0; n < count; n++) {
        const rtmw_message *m = message_at(o, band, n);
        table[n] = (struct packed){m->publisher, m->source_time_ns, left_of(m, now, is), (uint32_t)m->size, 0};
        f.parts[n + 1] = payload_of(m);
        if (m->source_time_ns > newest) newest = m->source_time_ns;
    }
    f.parts[count + 1] = (struct iovec){table, count * sizeof *table};
    dds_return_t code = write_copy(o, &f, newest);
    if (code == DDS_OK) count_up(&o->packs, 1);
    return code;
}

/* How many of the waiting messages of a band may leave in one sample, from the first one on: 1 at least. */
static uint32_t together(struct outbound *o, uint32_t band, uint32_t most, uint64_t most_bytes, uint64_t now)
{
    uint32_t count = 1;
    uint64_t bytes = message_at(o, band, 0)->size;
    if (most > PACK_MOST) most = PACK_MOST;
    uint32_t waiting = lookahead_count(&o->lookahead, band);
    if (most > waiting) most = waiting;
    if (most_bytes > PACK_BYTES) most_bytes = PACK_BYTES;
    for (; count < most; count++) {
        const rtmw_message *m = message_at(o, band, count);
        if (is_expired(m, now) || (bytes += m->size) > most_bytes) break;
    }
    return count;
}

/* Some of the first messages of a band, none of which has expired; how many, which is 1 at least. */
static uint32_t write_some(struct outbound *o, uint32_t band, uint32_t most, uint64_t most_bytes, uint64_t now,
                           dds_return_t *code)
{
    uint32_t count = together(o, band, most, most_bytes, now);
    struct readers_know is = packing_begin(o);
    if (count < TRAILER_PACK_LEAST || !is.packs) count = 1;
    *code = count > 1 ? write_pack(o, band, count, now, is) : write_one(o, message_at(o, band, 0), now, is);
    if (count > 1 && *code != DDS_OK && *code != DDS_TIMEOUT) { /* one that DDS refuses takes no others with it */
        count = 1;
        *code = write_one(o, message_at(o, band, 0), now, is);
    }
    packing_end(o);
    return count;
}

/* They are no longer the route's. Returns their bytes. */
static uint64_t count_sent(struct outbound *o, uint32_t band, uint32_t count, dds_return_t code)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < count; n++) {
        bytes += message_at(o, band, 0)->size;
        carried_pass(o, message_at(o, band, 0));
        drop_first(o, band);
    }
    count_up(code == DDS_OK ? &o->sent : &o->refused, count);
    if (code != DDS_OK) o->ahead += count;
    if (code == DDS_OK) store_relaxed(&o->last, o->sent + o->ahead);
    carried_sent(o);
    if (code == DDS_OK) count_up(&o->bytes, bytes);
    return code == DDS_OK ? bytes : 0;
}

uint64_t outbound_send(struct outbound *o, uint32_t band, uint32_t most, uint64_t most_bytes)
{
    uint64_t bytes = 0, now = now_monotonic_ns();
    dds_return_t code;
    most_bytes = rate_limit_burst(&o->limit, most_bytes);
    for (uint32_t n = 0; n < most && bytes < most_bytes && lookahead_count(&o->lookahead, band);) {
        if (is_expired(message_at(o, band, 0), now)) {
            count_up(&o->expired, 1);
            carried_pass(o, message_at(o, band, 0));
            drop_first(o, band);
            n++;
            continue;
        }
        uint32_t count = write_some(o, band, most - n, most_bytes - bytes, now, &code);
        if (code == DDS_TIMEOUT) {
            count_up(&o->blocked, 1);
            o->full_until_ns = now_monotonic_ns() + RETRY_NS;
            o->retry_ns = o->full_until_ns; /* the sender sleeps until then, and no longer */
            break;
        }
        bytes += count_sent(o, band, count, code);
        n += count;
    }
    rate_limit_charge(&o->limit, bytes, now);
    return bytes;
}

bool outbound_is_delivered(struct outbound *o)
{
    if (load_relaxed(&o->lookahead.taken)) return false;
    if (!load_relaxed(&o->has_last) && !leaves_all(o) && rtmw_wait(o->subscriber, 0, 0) == RTMW_OK) return false;
    if (load_relaxed(&o->lookahead.taken)) return false;
    return dds_wait_for_acks(o->writer, 0) == DDS_OK;
}

int outbound_open(struct outbound *o)
{
    dds_return_t code = dds_get_entity_sertype(o->writer, &o->type);
    if (code != DDS_OK) return code;
    carried_begin(o);
    sender_lock(o->engine);
    sender_wake(o->engine); /* by another route, for it does not sleep on this one yet */
    o->next = o->engine->outbounds;
    o->engine->outbounds = o;
    unlock(&o->engine->lock, LOCK_ENGINE);
    return DDS_OK;
}

void outbound_forget(struct outbound *o)
{
    rtmw_message m;
    carried_reached(o);
    if (!o->park_ns && rtmw_take(o->subscriber, &m) == RTMW_OK) /* a lapse that it has not come to is counted so */
        rtmw_release(o->engine->region, m.descriptor);
    for (uint32_t band = 0; band < BANDS; band++)
        while (lookahead_count(&o->lookahead, band)) drop_first(o, band);
}

void outbound_stop(struct outbound *o)
{
    struct timespec pause = {.tv_nsec = 1000000};
    if (load_acquire(&o->closing) == 2) return;
    store_release(&o->closing, 1u);
    rtmw_subscriber_wake(o->subscriber);
    while (load_acquire(&o->closing) != 2) {
        if (load_acquire(&o->engine->has_ended)) sender_forget(o->engine); /* nobody else does it any more */
        nanosleep(&pause, NULL);
    }
}

void outbound_close(struct outbound *o)
{
    outbound_stop(o);
    if (o->park_ns)
        rtmw_subscriber_park(o->subscriber, o->key, o->park_ns);
    else
        rtmw_subscriber_close(o->subscriber);
}

void outbound_park(struct outbound *o, uint64_t for_ns) { o->park_ns = o->reliable ? for_ns : 0; }

/* ---- what is taken in advance ---- */

/* How much a route takes from the bus in advance, and how much of a TIMELY topic waits for it there.
 *
 * Messages that a route has taken are in this process alone. They are lost if they are not sent before the node ends, or
 * before a node that ends and that they are kept for has gone (outbound_keep). So a RELIABLE route takes no more than leaves
 * in AHEAD_PARTS / 100 of a second, which is less than both wait; one message at least. Routes that have something share
 * the line, and limits of the line and of hosts. Where neither line nor limit is slow, that is more than LOOKAHEAD_BYTES,
 * and nothing changes.
 *
 * Not covered: a single message that takes longer, more routes with a message each than leave in that time, and a line that
 * becomes slower, or is cut, while they are taken. Those are told by ../topics.py, and counted as lost by who did not get
 * them.
 *
 * The sender sleeps until a topic has something, and a processor that was idle lets it run 0.1 to 0.5 ms later. By then a
 * TIMELY burst may be over. So of small messages more than `depth` may wait on the bus: as many as the line takes in a
 * hundredth of a second, for TIMELY asks for the newest. Where the line was not seen to be slow, that is TIMELY_BYTES_MOST, or a part of
 * the pool if that is less. Once the first datagrams show that the line is slow, the depth follows, and the next take drops
 * the oldest.
 */

enum {
    AHEAD_PARTS = 40,
    TIMELY_BYTES_LEAST = 64 << 10,
    TIMELY_BYTES_MOST = 1 << 20,
    TIMELY_POOL_SHARE = 8, /* of what may wait of a RELIABLE topic, which is a part of the pool itself */
};

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* Bytes of a route that leave in a hundredth of a second, as far as is known. */
static uint64_t in_a_hundredth(const struct outbound *o, uint64_t most)
{
    const struct engine *e = o->engine;
    uint64_t shared = e->pacing.rate ? e->pacing.rate / 100 : UINT64_MAX;
    shared = peer_rates_burst(&e->peer_rates, load_relaxed(&o->limited), rate_limit_burst(&e->limit, shared));
    return least(rate_limit_burst(&o->limit, most), shared / (e->holding ? e->holding : 1));
}

uint64_t outbound_advance(const struct outbound *o)
{
    return o->reliable ? AHEAD_PARTS * in_a_hundredth(o, LOOKAHEAD_BYTES / AHEAD_PARTS) : LOOKAHEAD_BYTES;
}

uint64_t outbound_timely_bytes(const struct outbound *o)
{
    uint64_t leaves = in_a_hundredth(o, least(TIMELY_BYTES_MOST, o->engine->zero_copy_most / TIMELY_POOL_SHARE));
    return leaves > TIMELY_BYTES_LEAST ? leaves : TIMELY_BYTES_LEAST;
}

/* ---- the form of a sample ---- */

/* The form that a sample may have now. A pack, or one with a CRC, only if every reader of the topic knows such (trailer.h),
 * and no other can come unnoticed.
 *
 * Python looks ten times a second who reads which topic, and says of each route what those know. A reader that has come
 * since must not find what it does not know: DDS tells of a reader, in the thread that received the news, before it
 * connects it to any writer. From there on nothing of the kind is sent until Python has looked again. (A reader on whose
 * side the two are connected earlier may see what is multicast to others: DDS owes it nothing before both sides are.)
 *
 * The sender makes `turn` odd while it writes, and looks at `heard` afterwards; a thread that hears of a reader counts it
 * in `heard`, and then waits for the end of a turn that it finds begun. So nobody waits for more than one sample, nor for
 * longer than WAIT_MOST looks, whatever the sender waits for.
 */

enum { LOOK_NS = 20000, WAIT_MOST = 10000 };

static void on_reader(dds_entity_t readers, void *argument)
{
    struct engine *e = argument;
    struct timespec pause = {.tv_nsec = LOOK_NS};
    (void)readers;
    fetch_add(&e->heard, 1u);
    uint64_t turn = load_seq(&e->turn);
    for (int looks = 0; turn & 1 && load_seq(&e->turn) == turn && looks < WAIT_MOST; looks++) nanosleep(&pause, NULL);
}

int packing_open(struct engine *e, dds_entity_t readers)
{
    int code = listen_to(readers, on_reader, e);
    if (code == DDS_OK) e->readers = readers;
    return code;
}

void packing_close(struct engine *e)
{
    if (e->readers) listen_to(e->readers, NULL, NULL);
    e->readers = 0;
}

uint32_t packing_heard(struct engine *e) { return load_seq(&e->heard); }

void packing_looked(struct engine *e, uint32_t heard) { store_seq(&e->looked, heard); }

static struct readers_know readers_know(const struct outbound *o)
{
    return (struct readers_know){load_acquire(&o->may_pack), load_acquire(&o->may_check), load_acquire(&o->may_date)};
}

struct readers_know packing_begin(struct outbound *o)
{
    struct engine *e = o->engine;
    struct readers_know is = readers_know(o);
    if (!is.packs && !is.crcs && !is.dates) return is;
    store_seq(&e->turn, e->turn + 1); /* pairs with the heard, then turn, of on_reader */
    if (load_seq(&e->heard) != load_seq(&e->looked)) return (struct readers_know){false, false, false};
    return readers_know(o); /* as it was decided for all that were heard: what was loaded above may be from before */
}

void packing_end(struct outbound *o)
{
    struct engine *e = o->engine;
    if (e->turn & 1) store_seq(&e->turn, e->turn + 1);
}

/* ---- loss report ---- */

void carried_begin(struct outbound *o)
{
    if (o->is_plain) return;
    o->resumes = o->sent == 0;
    o->carried = carried_find(o->engine, o->topic, o->lane, CARRIED_OUT);
    o->numbers = carried_find(o->engine, o->topic, o->lane, CARRIED_LANE);
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    if (!o->sent) carried_align(c, carried_at(&o->numbers), o->subscriber);
    if (load_relaxed(&c->sequence) > o->sent) o->ahead = load_relaxed(&c->sequence) - o->sent;
    o->ahead += carried_not_sent(c, o->subscriber, o->history > 0);
}

static void count_missed(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    o->ahead += bus.missed - o->missed;
    o->missed = bus.missed;
}

void carried_take(struct outbound *o, rtmw_message *m)
{
    const struct carried *c = carried_at(&o->carried);
    if (c && o->resumes && carried_is_new(c, m))
        m->is_old = false; /* it is not old to those who read the lane before */
    count_missed(o);
}

/* Messages that expired on the bus, or were thinned there, are to be missed by nobody. The sequence is written first: a
 * node that dies in between has told more, not less. */
void carried_reached(struct outbound *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    count_missed(o);
    if (load_relaxed(&c->sequence) != o->sent + o->ahead) carried_sent(o);
    for (uint32_t band = 0; band < BANDS; band++)
        if (!lookahead_count(&o->lookahead, band)) carried_come_to(c, o->subscriber, band);
    carried_tell_lane(c, carried_at(&o->numbers));
}

void carried_pass(struct outbound *o, const rtmw_message *m)
{
    struct carried *c = carried_at(&o->carried);
    if (c) carried_number(c, m);
}

void carried_sent(struct outbound *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    store_relaxed(&c->sequence, o->sent + o->ahead);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}

/* ---- another writer takes over ---- */

/* A DDS writer of a route is replaced while messages flow, for most of its policies cannot be changed: nothing of what is
 * RELIABLE or ADAPTIVE is lost, comes twice, or out of order. The new one has been matched with everybody (routes.py sees
 * to that). Nothing is sent until all that the old one has sent is acknowledged; from then on the new one sends.
 */

static bool change_writer(struct outbound *o, dds_entity_t writer)
{
    return dds_get_entity_sertype(writer, &o->type) == DDS_OK && (o->writer = writer);
}

static void hold(struct outbound *o)
{
    lock(&o->engine->lock, LOCK_ENGINE);
    o->held = true;
    if (o->engine->unflushed == o) o->engine->unflushed = NULL;
    dds_write_flush(o->writer);
    unlock(&o->engine->lock, LOCK_ENGINE);
}

bool outbound_hand_over(struct outbound *o, dds_entity_t writer, int64_t patience_ns)
{
    hold(o);
    bool acknowledged = dds_wait_for_acks(o->writer, patience_ns) == DDS_OK;
    lock(&o->engine->lock, LOCK_ENGINE);
    bool changed = acknowledged && change_writer(o, writer);
    o->held = false;
    unlock(&o->engine->lock, LOCK_ENGINE);
    return changed;
}

/* ---- a node that ends ---- */

/* A node that ends takes along nothing of RELIABLE topics that it reads: see succession.py.
 *
 *   the node that ends               a node that sends to it
 *   "I leave, keep these topics" ──► outbound_keep: the route takes nothing more from the bus, and sends what it has taken
 *   inbound_has: all of it came  ◄── the sequence of the last sample that the route sent
 *   ends; its successor reads    ──► outbound_keep with 0: the route goes on
 *
 * Messages that the route has taken would be lost if this node ended, too, before the successor comes, so they are sent
 * to the node that ends. That waits for the answer for a bounded time: a line on which DRAIN_NS is too short keeps the
 * rest in the route.
 */

enum { DRAIN_NS = 1000000000 }; /* less than a node that ends waits for answers (END_S in ending.py) */

/* Is what a kept route has taken still to be sent? To nobody, DDS would send it for nothing. */
static bool drains(const struct outbound *o, uint64_t now)
{
    return load_relaxed(&o->lookahead.taken) && now < o->drain_until_ns &&
           dds_get_matched_subscriptions(o->writer, NULL, 0) > 0;
}

uint64_t outbound_kept_ns(const struct outbound *o, uint64_t now)
{
    uint64_t until_ns = load_relaxed(&o->kept_until_ns);
    return until_ns > now && !drains(o, now) ? until_ns : 0;
}

bool outbound_keep(struct outbound *o, uint64_t until_ns, uint64_t *last)
{
    struct engine *e = o->engine;
    sender_lock(e);
    uint64_t now = now_monotonic_ns();
    if (until_ns && !o->kept_until_ns) o->drain_until_ns = now + DRAIN_NS;
    store_relaxed(&o->kept_until_ns, until_ns);
    if (until_ns) dds_write_flush(o->writer);
    if (until_ns && e->unflushed == o) e->unflushed = NULL;
    if (!until_ns) sender_wake(e);
    *last = load_relaxed(&o->last);
    bool is_sent = !until_ns || !drains(o, now);
    unlock(&e->lock, LOCK_ENGINE);
    return is_sent;
}

/* ---- the sender ---- */

/* The sender thread: one send queue over all topics.
 *
 * DDS advertises a priority and does not act on it, so the order is made here: what is handed to DDS next is always of
 * the highest band that any topic has, the topics of a band in turn. After BURST messages or BURST_BYTES it is looked
 * again at what has come, so an urgent message waits for that much at most; and for what the kernel has of earlier ones,
 * which pacing.c keeps small.
 */

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
