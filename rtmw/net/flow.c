/* Flow control between nodes: who cannot put a topic on its bus fast enough asks the others to pause it.
 *
 * DDS has a way of its own, a reader with limits, and it cannot be used: while one reader of a process is full, the
 * thread that receives for all of them waits. So readers have no limits, and a node says what it wants on a topic of
 * DDS, once when it begins and when it ends, and every REPEAT_NS between. A pause that is not repeated is over: the other
 * node may have died, or the line to it is cut, and DDS itself sees to what happens then.
 */
#include <string.h>

#include "engine.h"

enum {
    PAUSE_COUNT = 1024,    /* messages in a backlog that ask for a pause */
    PAUSE_BYTES = 4 << 20, /* the same, in bytes */
    REPEAT_NS = 50000000,
    LASTING_NS = 500000000,
    BATCHES_MOST = 64,
};

struct note { /* as CDR, little endian: rtmw::Flow */
    uint8_t header[4];
    uint32_t topic_low, topic_high; /* one uint64 of the type */
    uint32_t paused;
};

_Static_assert(sizeof(struct note) == 16, "the note travels");

uint64_t flow_topic(const char *topic, uint64_t type)
{
    uint64_t hash = 14695981039346656037u ^ type;
    for (; *topic; topic++) hash = (hash ^ (uint8_t)*topic) * 1099511628211u;
    return hash;
}

static void send(struct inbound *i, uint64_t now)
{
    struct engine *e = i->engine;
    struct note note = {{0, 1, 0, 0}, (uint32_t)i->topic, (uint32_t)(i->topic >> 32), i->pausing};
    struct iovec part = {&note, sizeof note};
    if (!e->flow_type) return;
    struct ddsi_serdata *sample = ddsi_serdata_from_ser_iov(e->flow_type, DDS_DATA, 1, &part, sizeof note);
    if (!sample) return;
    sample->timestamp = (dds_time_t)now_realtime_ns();
    i->told_ns = now;
    dds_forwardcdr(e->flow_writer, sample);
}

void flow_tell(struct inbound *i)
{
    bool was = i->pausing;
    if (!was && !i->backlog.count) return;
    uint64_t now = now_monotonic_ns();
    i->pausing = was ? i->backlog.count > PAUSE_COUNT / 2 || i->backlog.bytes > PAUSE_BYTES / 2
                     : i->backlog.count > PAUSE_COUNT || i->backlog.bytes > PAUSE_BYTES;
    if (was != i->pausing || (i->pausing && now > i->told_ns + REPEAT_NS)) send(i, now);
}

static struct pause *find(struct engine *e, uint64_t topic)
{
    for (uint32_t n = 0; n < e->pause_count; n++)
        if (e->pauses[n].topic == topic) return &e->pauses[n];
    return NULL;
}

/* A place for a pause that was not there. Those that are over make room: of topics that this node does not send nobody
 * looks. NULL: all are in force. */
static struct pause *place(struct engine *e, uint64_t now)
{
    for (uint32_t n = 0; n < e->pause_count; n++)
        if (e->pauses[n].until_ns <= now) return &e->pauses[n];
    if (e->pause_count == PAUSES) return NULL;
    store_release(&e->pause_count, e->pause_count + 1);
    return &e->pauses[e->pause_count - 1];
}

static void end(struct engine *e, struct pause *p)
{
    *p = e->pauses[e->pause_count - 1];
    store_release(&e->pause_count, e->pause_count - 1);
}

/* Of several nodes that pause a topic the last one heard counts: those who still want to will say so again. */
static void hear(struct engine *e, uint64_t topic, bool paused)
{
    uint64_t now = now_monotonic_ns();
    pthread_mutex_lock(&e->flow_lock);
    struct pause *p = find(e, topic);
    if (!paused && p) end(e, p);
    if (paused && !p) p = place(e, now);
    if (paused && p) *p = (struct pause){.topic = topic, .until_ns = now + LASTING_NS};
    pthread_mutex_unlock(&e->flow_lock);
}

bool flow_is_paused(struct engine *e, uint64_t topic, uint64_t now_ns)
{
    if (!load_acquire(&e->pause_count)) return false;
    pthread_mutex_lock(&e->flow_lock);
    struct pause *p = find(e, topic);
    bool paused = p && p->until_ns > now_ns;
    if (p && !paused) end(e, p);
    pthread_mutex_unlock(&e->flow_lock);
    return paused;
}

static void read_note(struct engine *e, struct ddsi_serdata *sample)
{
    struct note note;
    struct iovec bytes;
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample, 0, ddsi_serdata_size(sample), &bytes);
    if (bytes.iov_len >= sizeof note) {
        memcpy(&note, bytes.iov_base, sizeof note);
        if (note.header[1] == 1) hear(e, (uint64_t)note.topic_high << 32 | note.topic_low, note.paused != 0);
    }
    ddsi_serdata_to_ser_unref(held, &bytes);
}

static void on_note(dds_entity_t reader, void *argument)
{
    struct ddsi_serdata *samples[BATCH];
    dds_sample_info_t infos[BATCH];
    for (uint32_t batch = 0; batch < BATCHES_MOST; batch++) {
        dds_return_t count = dds_takecdr(reader, samples, BATCH, infos, DDS_ANY_STATE);
        for (dds_return_t n = 0; n < count; n++) {
            if (infos[n].valid_data) read_note(argument, samples[n]);
            ddsi_serdata_unref(samples[n]);
        }
        if (count < BATCH) return;
    }
}

int flow_open(struct engine *e, dds_entity_t writer, dds_entity_t reader)
{
    const struct ddsi_sertype *type;
    dds_return_t code = dds_get_entity_sertype(writer, &type);
    if (code != DDS_OK) return code;
    e->flow_writer = writer;
    e->flow_reader = reader;
    e->flow_type = type;
    return listen_to(reader, on_note, e);
}

void flow_close(struct engine *e)
{
    if (e->flow_type) listen_to(e->flow_reader, NULL, NULL);
    e->flow_type = NULL;
}
