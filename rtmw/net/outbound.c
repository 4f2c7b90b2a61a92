/* Outbound: a topic of the bus on its way to a DDS writer. */
#include <string.h>
#include <time.h>

#include "engine.h"

/* Before the octets of FRAMING_OCTETS: the CDR header, little endian, and the length of the sequence. */
struct octets {
    uint8_t header[4];
    uint32_t length;
};

static bool is_full(const struct outbound *o)
{
    for (uint32_t band = 0; band < BANDS; band++)
        if (o->queue[band].count == LOOKAHEAD) return true;
    return false;
}

/* What has come from another host is not sent back to others: they have it from there. */
static bool is_from_afar(const rtmw_message *m) { return (m->publisher & RTMW_REMOTE) != 0; }

void outbound_gather(struct outbound *o)
{
    rtmw_message m;
    while (o->taken < 2 * LOOKAHEAD && !is_full(o)) {
        int code = rtmw_take(o->subscriber, &m);
        if (code == RTMW_LAPSED) continue;
        if (code != RTMW_OK) return;
        if (is_from_afar(&m)) {
            rtmw_release(o->engine->region, m.descriptor);
            continue;
        }
        uint32_t at = (o->queue[m.priority].first + o->queue[m.priority].count++) % LOOKAHEAD;
        o->queue[m.priority].message[at] = m;
        o->taken++;
    }
}

static void drop_first(struct outbound *o, uint32_t band)
{
    rtmw_message *m = &o->queue[band].message[o->queue[band].first];
    rtmw_release(o->engine->region, m->descriptor);
    o->queue[band].first = (o->queue[band].first + 1) % LOOKAHEAD;
    o->queue[band].count--;
    o->taken--;
}

static struct ddsi_serdata *sample_of(const struct outbound *o, const rtmw_message *m, uint64_t now)
{
    struct octets octets = {{0, 1, 0, 0}, (uint32_t)m->size};
    struct trailer trailer = {TRAILER_MAGIC,
                              TRAILER_VERSION,
                              m->priority,
                              0,
                              0,
                              m->publisher,
                              o->sent + 1,
                              m->expires_ns ? m->expires_ns - now : 0};
    static const uint8_t zeros[4];
    size_t before = o->framing == FRAMING_OCTETS ? sizeof octets : 0;
    trailer.padding = (uint8_t)(-(before + m->size) & 3);
    struct iovec parts[] = {{&octets, before},
                            {(void *)(uintptr_t)m->data, m->size},
                            {(void *)(uintptr_t)zeros, trailer.padding},
                            {&trailer, sizeof trailer}};
    return ddsi_serdata_from_ser_iov(o->type, DDS_DATA, 4, parts, before + m->size + trailer.padding + sizeof trailer);
}

/* DDS_OK: sent. DDS_TIMEOUT: what is on its way to RELIABLE readers is as much as there may be. */
static dds_return_t write_sample(struct outbound *o, const rtmw_message *m, uint64_t now)
{
    struct ddsi_serdata *sample = sample_of(o, m, now);
    if (!sample) return -1;
    sample->timestamp = (dds_time_t)m->source_time_ns;
    return dds_forwardcdr(o->writer, sample);
}

static bool is_expired(const rtmw_message *m, uint64_t now) { return m->expires_ns && m->expires_ns <= now; }

uint64_t outbound_send(struct outbound *o, uint32_t band, uint32_t most)
{
    uint64_t bytes = 0, now = now_realtime_ns();
    for (uint32_t n = 0; n < most && bytes < BURST_BYTES && o->queue[band].count; n++) {
        rtmw_message *m = &o->queue[band].message[o->queue[band].first];
        dds_return_t code = DDS_OK;
        if (is_expired(m, now)) {
            count_up(&o->expired, 1);
        } else if ((code = write_sample(o, m, now)) == DDS_OK) {
            count_up(&o->sent, 1);
            count_up(&o->bytes, m->size);
            bytes += m->size;
        } else if (code == DDS_TIMEOUT) {
            count_up(&o->blocked, 1);
            o->retry_ns = now_monotonic_ns() + RETRY_NS;
            break;
        } else {
            count_up(&o->refused, 1);
        }
        drop_first(o, band);
    }
    return bytes;
}

bool outbound_is_delivered(struct outbound *o)
{
    if (load_relaxed(&o->taken) || rtmw_wait(o->subscriber, 0, 0) == RTMW_OK || load_relaxed(&o->taken)) return false;
    return dds_wait_for_acks(o->writer, 0) == DDS_OK;
}

int outbound_open(struct outbound *o)
{
    dds_return_t code = dds_get_entity_sertype(o->writer, &o->type);
    if (code != DDS_OK) return code;
    pthread_mutex_lock(&o->engine->lock);
    o->next = o->engine->outbounds;
    o->engine->outbounds = o;
    pthread_mutex_unlock(&o->engine->lock);
    return DDS_OK;
}

void outbound_forget(struct outbound *o)
{
    for (uint32_t band = 0; band < BANDS; band++)
        while (o->queue[band].count) drop_first(o, band);
}

void outbound_close(struct outbound *o)
{
    struct timespec pause = {.tv_nsec = 1000000};
    store_release(&o->closing, 1u);
    while (load_acquire(&o->closing) != 2) nanosleep(&pause, NULL);
    rtmw_subscriber_close(o->subscriber);
}
