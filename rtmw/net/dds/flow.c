/* Flow control between nodes: a node that cannot put a topic on its bus fast enough asks the others to pause it.
 *
 * DDS has a way of its own, a reader with limits, and it cannot be used: while one reader of a process is full, the
 * thread that receives for all of them waits. So readers have no limits, and a node says what it wants on a topic of
 * DDS, once when it begins and when it ends, and every REPEAT_NS between. A pause that is not repeated is over: the other
 * node may have died, or the line to it is cut, and DDS itself sees to what happens then.
 *
 * A pause of anybody could stop any topic: so one counts only if its participant has a reader of the topic's writer here,
 * and one participant has PAUSES_OF_ONE at most in force.
 */
#include <string.h>

#include "../../shm/identity.h"
#include "engine.h"

enum {
    PAUSE_COUNT = 1024,    /* messages in a backlog that ask for a pause */
    PAUSE_BYTES = 4 << 20, /* the same, in bytes */
    REPEAT_NS = 50000000,
    LASTING_NS = 500000000,
    BATCHES_MOST = 64,
    READERS_LOOKED_AT = 1024,
};

struct told { /* a sample of flow control, as CDR, little endian: rtmw::Flow */
    uint8_t header[4];
    uint32_t topic_low, topic_high; /* one uint64 of the type */
    uint32_t paused;
};

_Static_assert(sizeof(struct told) == 16, "nodes of all versions read it");

static void send(struct inbound *i, uint64_t now)
{
    struct engine *e = i->engine;
    const struct ddsi_sertype *type = e->flow_type;
    struct told told = {{0, 1, 0, 0}, (uint32_t)i->topic, (uint32_t)(i->topic >> 32), i->pausing};
    struct iovec part = {&told, sizeof told};
    struct cdr cdr = {&part, 1, sizeof told, now_realtime_ns()};
    if (!type) return;
    i->told_ns = now;
    write_cdr(e, e->flow_writer, type, &cdr);
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

/* ---- the table, with its lock held ---- */

static struct pause *find(struct engine *e, uint64_t topic, uint64_t node)
{
    for (uint32_t n = 0; n < e->pause_count; n++)
        if (e->pauses[n].topic == topic && e->pauses[n].node == node) return &e->pauses[n];
    return NULL;
}

static void end(struct engine *e, struct pause *p)
{
    *p = e->pauses[e->pause_count - 1];
    store_release(&e->pause_count, e->pause_count - 1);
}

/* A place for a pause that was not there. Those that are over make room. NULL: all are in force, or too many of the node's. */
static struct pause *place(struct engine *e, uint64_t node, uint64_t now)
{
    uint32_t of_node = 0;
    for (uint32_t n = e->pause_count; n-- > 0;)
        if (e->pauses[n].until_ns <= now)
            end(e, &e->pauses[n]);
        else
            of_node += e->pauses[n].node == node;
    if (e->pause_count == PAUSES || of_node >= PAUSES_OF_ONE) return NULL;
    store_release(&e->pause_count, e->pause_count + 1);
    return &e->pauses[e->pause_count - 1];
}

/* A topic is paused while anybody who reads it wants so. One that was disproven is looked at again: the news of a reader may
 * come later than what the reader's node says. */
static void hear(struct engine *e, uint64_t topic, uint64_t node, bool paused)
{
    uint64_t now = now_monotonic_ns();
    struct pause *p = find(e, topic, node);
    if (!paused && p) end(e, p);
    if (!paused) return;
    struct pause *kept = p ? p : place(e, node, now);
    if (!kept) count_up(&e->flow_crowded, 1);
    if (kept) *kept = (struct pause){topic, node, now + LASTING_NS, p && p->is_reader == PROVEN ? PROVEN : UNPROVEN};
}

/* The first pause of a topic that is in force, and not disproven. false: there is none. */
static bool first_of(struct engine *e, uint64_t topic, uint64_t now, struct pause *found)
{
    const struct pause *best = NULL;
    for (const struct pause *p = e->pauses; p < e->pauses + e->pause_count; p++)
        if (p->topic == topic && p->until_ns > now && p->is_reader != DISPROVEN && (!best || p->is_reader == PROVEN))
            best = p;
    if (best) *found = *best;
    return best != NULL;
}

/* ---- the sender ---- */

/* Asks the DDS library, and so holds no lock of ours: the thread that hears pauses may be within it. */
static bool is_writer_read_by(const struct outbound *o, uint64_t node)
{
    dds_instance_handle_t readers[READERS_LOOKED_AT];
    dds_return_t count = dds_get_matched_subscriptions(o->writer, readers, READERS_LOOKED_AT);
    bool is = false;
    for (dds_return_t n = 0; n < count && n < READERS_LOOKED_AT && !is; n++) {
        dds_endpoint_t *reader = dds_get_matched_subscription_data(o->writer, readers[n]);
        is = reader && node_of(reader) == node;
        if (reader) dds_builtintopic_free_endpoint(reader);
    }
    return is;
}

/* A topic has a writer for nodes and one for plain programs: a reader of one of the two pauses both. */
static bool is_read_by(const struct outbound *o, uint64_t node)
{
    bool is = is_writer_read_by(o, node);
    for (const struct outbound *other = o->engine->outbounds; other && !is; other = other->next)
        is = other != o && other->topic == o->topic && is_writer_read_by(other, node);
    return is;
}

static void prove(struct engine *e, const struct pause *asked, bool is_reader)
{
    lock(&e->flow_lock, LOCK_LEAF);
    struct pause *p = find(e, asked->topic, asked->node);
    if (p) p->is_reader = is_reader ? PROVEN : DISPROVEN;
    if (!is_reader) count_up(&e->flow_unmatched, 1);
    unlock(&e->flow_lock, LOCK_LEAF);
}

bool flow_is_paused(struct outbound *o, uint64_t now_ns)
{
    struct engine *e = o->engine;
    struct pause first;
    for (bool is_reader = false; load_acquire(&e->pause_count) && !is_reader;) {
        lock(&e->flow_lock, LOCK_LEAF);
        bool found = first_of(e, o->topic, now_ns, &first);
        unlock(&e->flow_lock, LOCK_LEAF);
        if (!found) return false;
        if (first.is_reader == PROVEN) return true;
        is_reader = is_read_by(o, first.node);
        prove(e, &first, is_reader);
        if (is_reader) return true;
    }
    return false;
}

/* ---- who hears ---- */

/* The node of the writer of a sample; 0: the writer has left. */
static uint64_t node_of_writer(struct engine *e, dds_instance_handle_t publication)
{
    dds_endpoint_t *writer = dds_get_matched_publication_data(e->flow_reader, publication);
    uint64_t node = writer ? node_of(writer) : 0;
    if (writer) dds_builtintopic_free_endpoint(writer);
    return node;
}

/* A sample is valid if and only if (1) it has the size of one, (2) it is CDR, little endian, (3) it pauses (1) or ends that
 * (0): other values are those of later versions. false: it is not. */
static bool read_told(struct ddsi_serdata *sample, struct told *told)
{
    static const uint8_t header[4] = {0, 1, 0, 0};
    struct iovec bytes;
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample, 0, ddsi_serdata_size(sample), &bytes);
    bool is_valid = bytes.iov_len == sizeof *told;
    if (is_valid) memcpy(told, bytes.iov_base, sizeof *told);
    ddsi_serdata_to_ser_unref(held, &bytes);
    return is_valid && memcmp(told->header, header, sizeof header) == 0 && told->paused <= 1;
}

static void take_told(struct engine *e, struct ddsi_serdata *sample, dds_instance_handle_t publication)
{
    struct told told;
    bool is_valid = read_told(sample, &told);
    uint64_t node = is_valid ? node_of_writer(e, publication) : 0;
    lock(&e->flow_lock, LOCK_LEAF);
    if (!is_valid) count_up(&e->flow_malformed, 1);
    if (node) hear(e, (uint64_t)told.topic_high << 32 | told.topic_low, node, told.paused);
    unlock(&e->flow_lock, LOCK_LEAF);
}

static void on_flow(dds_entity_t reader, void *argument)
{
    struct ddsi_serdata *samples[BATCH];
    dds_sample_info_t infos[BATCH];
    for (uint32_t batch = 0; batch < BATCHES_MOST; batch++) {
        dds_return_t count = dds_takecdr(reader, samples, BATCH, infos, DDS_ANY_STATE);
        for (dds_return_t n = 0; n < count; n++) {
            if (infos[n].valid_data) take_told(argument, samples[n], infos[n].publication_handle);
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
    return listen_to(reader, on_flow, e);
}

void flow_close(struct engine *e)
{
    if (e->flow_type) listen_to(e->flow_reader, NULL, NULL);
    e->flow_type = NULL;
}
