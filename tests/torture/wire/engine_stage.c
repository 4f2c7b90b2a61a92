/* The stage: what the engine asks of the DDS library and of the bus, as small as it can be. One thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_stage.h"

enum { QUEUE = 64, PARTS_MOST = 8, LEAD = 16 };

struct stage stage;

/* ---- samples of the library ---- */

struct made {
    struct ddsi_serdata head;
    uint32_t claimed; /* size, where there are no bytes */
    size_t size;
    uint8_t *bytes; /* just as many as there are, so that a step beyond is seen */
};

static struct {
    struct ddsi_serdata *data;
    dds_instance_handle_t publication;
} queue[QUEUE];
static uint32_t waiting;
static void (*callbacks[3])(dds_entity_t, void *);
static void *arguments[3];
static void (*next_callback)(dds_entity_t, void *);
static void *next_argument;

static uint32_t made_size(const struct ddsi_serdata *d)
{
    const struct made *m = (const void *)d;
    return m->claimed ? m->claimed : (uint32_t)m->size;
}

static void made_free(struct ddsi_serdata *d)
{
    free(((struct made *)(void *)d)->bytes);
    free(d);
    stage.live--;
}

static struct made *make(const struct ddsi_sertype *type, size_t size);

bool stage_is_of_type(const uint8_t *p, size_t size)
{
    uint32_t count;
    if (size < 8 || p[0] != 0 || p[1] > 1) return false;
    memcpy(&count, p + 4, sizeof count);
    return count <= size - 8;
}

static bool is_last_of(const struct ddsi_rdata *part, size_t size) { return part->end >= size; }

static struct ddsi_serdata *from_ser(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *parts,
                                     size_t size)
{
    struct made *m = make(type, size);
    (void)kind;
    for (const struct ddsi_rdata *part = parts;; part = part->next) {
        const uint8_t *bytes = (const uint8_t *)(part->message + 1) + part->payload;
        memcpy(m->bytes + part->begin, bytes, part->end - part->begin);
        if (is_last_of(part, size)) break;
    }
    if (stage_is_of_type(m->bytes, size)) return &m->head;
    made_free(&m->head);
    return NULL;
}

static const struct ddsi_serdata_ops operations = {.get_size = made_size, .from_ser = from_ser, .free = made_free};

static struct made *make(const struct ddsi_sertype *type, size_t size)
{
    struct made *m = calloc(1, sizeof *m);
    ddsi_serdata_init(&m->head, type, DDS_DATA);
    m->head.operations = &operations;
    m->size = size;
    m->bytes = malloc(size ? size : 1);
    stage.live++;
    return m;
}

struct ddsi_serdata *stage_claim(uint32_t size)
{
    struct made *m = make(&stage.type, 0);
    m->claimed = size;
    return &m->head;
}

void ddsi_serdata_init(struct ddsi_serdata *d, const struct ddsi_sertype *type, int kind)
{
    *d = (struct ddsi_serdata){.references = 1, .kind = kind, .type = type};
}

struct ddsi_serdata *ddsi_serdata_ref(const struct ddsi_serdata *d)
{
    ((struct ddsi_serdata *)(uintptr_t)d)->references++;
    return (struct ddsi_serdata *)(uintptr_t)d;
}

void ddsi_serdata_unref(struct ddsi_serdata *d)
{
    if (--d->references == 0) d->operations->free(d);
}

uint32_t ddsi_serdata_size(const struct ddsi_serdata *d) { return d->operations->get_size(d); }

struct ddsi_serdata *ddsi_serdata_to_ser_ref(const struct ddsi_serdata *d, size_t offset, size_t size,
                                             struct iovec *part)
{
    const struct made *m = (const void *)d;
    REQUIRE(d->operations == &operations && offset + size <= m->size, "bytes that are not there are asked for");
    *part = (struct iovec){m->bytes + offset, size};
    return ddsi_serdata_ref(d);
}

void ddsi_serdata_to_ser_unref(struct ddsi_serdata *d, const struct iovec *part)
{
    (void)part;
    ddsi_serdata_unref(d);
}

struct ddsi_serdata *ddsi_serdata_from_ser_iov(const struct ddsi_sertype *type, int kind, size_t parts,
                                               const struct iovec *part, size_t size)
{
    struct made *m = make(type, size);
    (void)kind;
    for (size_t n = 0, at = 0; n < parts; at += part[n++].iov_len)
        if (part[n].iov_len) memcpy(m->bytes + at, part[n].iov_base, part[n].iov_len);
    if (stage_is_of_type(m->bytes, size) || type == &stage.flow_type) return &m->head;
    made_free(&m->head);
    return NULL;
}

/* ---- entities of the library ---- */

dds_return_t dds_get_entity_sertype(dds_entity_t entity, const struct ddsi_sertype **type)
{
    *type = entity == FLOW ? &stage.flow_type : &stage.type;
    return DDS_OK;
}

dds_listener_t *dds_create_listener(void *argument) { return next_argument = argument, (void *)queue; }
void dds_delete_listener(dds_listener_t *listener) { (void)listener; }
void dds_lset_data_available(dds_listener_t *listener, void (*callback)(dds_entity_t, void *))
{
    (void)listener;
    next_callback = callback;
}
dds_return_t dds_set_listener(dds_entity_t entity, const dds_listener_t *listener)
{
    (void)listener;
    callbacks[entity] = next_callback;
    arguments[entity] = next_argument;
    return DDS_OK;
}

dds_return_t dds_takecdr(dds_entity_t reader, struct ddsi_serdata **samples, uint32_t most, dds_sample_info_t *infos,
                         uint32_t mask)
{
    uint32_t count = waiting < most ? waiting : most;
    (void)reader;
    (void)mask;
    for (uint32_t n = 0; n < count; n++) {
        samples[n] = queue[n].data;
        infos[n] =
            (dds_sample_info_t){.valid_data = true, .source_timestamp = 1, .publication_handle = queue[n].publication};
    }
    memmove(queue, queue + count, (waiting - count) * sizeof *queue);
    waiting -= count;
    return (dds_return_t)count;
}

dds_return_t dds_forwardcdr(dds_entity_t writer, struct ddsi_serdata *d)
{
    (void)writer;
    ddsi_serdata_unref(d);
    return DDS_OK;
}

/* Of the engine that uses public calls alone (library.c); here the library is as it expects. */
dds_return_t dds_write_ts(dds_entity_t writer, const void *value, dds_time_t source_time)
{
    (void)writer;
    (void)source_time;
    REQUIRE(!value, "a public call is used");
    return DDS_OK;
}
struct ddsi_serdata *ddsi_serdata_from_sample(const struct ddsi_sertype *type, int kind, const void *value)
{
    (void)type;
    (void)kind;
    REQUIRE(!value, "a public call is tried");
    return NULL;
}

static dds_endpoint_t *endpoint(dds_instance_handle_t handle)
{
    dds_endpoint_t *found = calloc(1, sizeof *found);
    found->key.v[0] = found->participant_key.v[0] = (uint8_t)handle;
    found->qos = (void *)queue;
    return found;
}

dds_endpoint_t *dds_get_matched_publication_data(dds_entity_t reader, dds_instance_handle_t handle)
{
    (void)reader;
    return endpoint(handle);
}
dds_return_t dds_get_matched_subscriptions(dds_entity_t writer, dds_instance_handle_t *handles, size_t most)
{
    (void)writer;
    if (most) *handles = LEGIT;
    return 1;
}
dds_endpoint_t *dds_get_matched_subscription_data(dds_entity_t writer, dds_instance_handle_t handle)
{
    (void)writer;
    return endpoint(handle);
}
void dds_builtintopic_free_endpoint(dds_endpoint_t *e) { free(e); }

bool dds_qget_userdata(const dds_qos_t *qos, void **bytes, size_t *count)
{
    (void)qos;
    *bytes = memcpy(malloc(5), "rtmwR", 5);
    *count = 5;
    return true;
}
bool dds_qget_entity_name(const dds_qos_t *qos, char **name) { return (void)qos, *name = NULL, false; }
bool dds_qget_partition(const dds_qos_t *qos, uint32_t *count, char ***names)
{
    (void)qos;
    *count = 0;
    *names = NULL;
    return true;
}
bool dds_qget_transport_priority(const dds_qos_t *qos, int32_t *priority) { return (void)qos, *priority = 0, true; }
bool dds_qget_reliability(const dds_qos_t *qos, int *kind, int64_t *ns) { return (void)qos, *ns = 0, *kind = 1, true; }
bool dds_qget_durability(const dds_qos_t *qos, int *kind) { return (void)qos, *kind = 0, true; }
bool dds_qget_lifespan(const dds_qos_t *qos, int64_t *ns) { return (void)qos, *ns = INT64_MAX, true; }
void dds_free(void *p) { free(p); }

uint64_t now_realtime_ns(void) { return 1000; }
uint64_t now_steady_ns(void) { return 1000; }
uint64_t now_monotonic_ns(void) { return 1000; }

/* ---- the bus ---- */

static bool is_full(void)
{
    if (stage.full_after) return stage.full_after == 1 || !stage.full_after--;
    return stage.full_for && stage.full_for--;
}

int rtmw_publish(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    (void)p;
    if (is_full()) return RTMW_FULL;
    stage.on_publish(data, size, qos->publisher, qos->priority);
    return RTMW_OK;
}
int rtmw_loan_take(rtmw_publisher *p, uint64_t size, rtmw_loan *loan)
{
    (void)p;
    *loan = (rtmw_loan){.data = malloc(size), .size = size};
    stage.live++;
    return RTMW_OK;
}
int rtmw_loan_drop(rtmw_publisher *p, rtmw_loan *loan)
{
    (void)p;
    free(loan->data);
    loan->data = NULL;
    stage.live--;
    return RTMW_OK;
}
int rtmw_loan_publish(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    int code = rtmw_publish(p, loan->data, loan->size, qos);
    if (code == RTMW_OK) rtmw_loan_drop(p, loan);
    return code;
}
uint32_t rtmw_publisher_lost(rtmw_publisher *p, rtmw_lost lost, uint64_t since_ns)
{
    uint64_t messages = lost.missed + lost.expired + lost.thinned;
    (void)p;
    (void)since_ns;
    REQUIRE(messages, "it tells of nothing");
    stage.missed += stage.subscribers * messages;
    return stage.subscribers;
}
uint32_t rtmw_subscriber_number(rtmw_subscriber *s, uint8_t priority) { return (void)s, priority; }
void rtmw_subscriber_count(rtmw_subscriber *s, rtmw_subscriber_counters *counters)
{
    (void)s;
    *counters = (rtmw_subscriber_counters){0};
}
void rtmw_publisher_close(rtmw_publisher *p) { (void)p; }
/* Of what goes out, and nothing does here. */
int rtmw_release(rtmw_region *r, uint32_t descriptor)
{
    (void)r;
    REQUIRE(!descriptor, "a message of the bus is let go");
    return RTMW_OK;
}

__attribute__((weak)) int stage_posix_fallocate(int fd, off_t offset, off_t size)
{
    (void)offset;
    return ftruncate(fd, size) ? errno : 0;
}

/* ---- what a test does ---- */

void stage_open(enum framing framing, bool reliable)
{
    memset(&stage, 0, sizeof stage);
    stage.subscribers = 1;
    stage.type.samples = stage.flow_type.samples = &operations;
    pthread_mutex_init(&stage.engine.lock, NULL);
    pthread_mutex_init(&stage.engine.flow_lock, NULL);
    flow_open(&stage.engine, FLOW, FLOW);
    struct inbound *i = stage.inbound = calloc(1, sizeof *i);
    i->engine = &stage.engine;
    i->reader = READER;
    i->framing = framing;
    i->lane = RTMW_RELIABLE;
    i->reliable = reliable;
    i->may_receive_in_loan = true;
    REQUIRE(inbound_open(i) == DDS_OK, "the route does not open");
}

void stage_close(void)
{
    inbound_close(stage.inbound);
    flow_close(&stage.engine);
    free(stage.inbound);
    REQUIRE(!waiting && !stage.live && !stage.engine.stuck, "%d samples are left", (int)stage.live);
    REQUIRE(!stage.engine.all.count && !stage.engine.all.bytes && !stage.engine.loan_receivers, "books do not balance");
}

static void come(dds_entity_t reader, struct ddsi_serdata *data, dds_instance_handle_t publication)
{
    queue[waiting].data = data;
    queue[waiting++].publication = publication;
    callbacks[reader](reader, arguments[reader]);
}

void stage_receive(dds_instance_handle_t publication, const uint8_t *bytes, size_t size, uint32_t parts)
{
    struct ddsi_rdata chain[PARTS_MOST] = {0};
    if (!size) return;
    if (!parts || parts > PARTS_MOST || size < parts) parts = 1;
    size_t step = size / parts;
    for (uint32_t n = 0; n < parts; n++) {
        size_t begin = n * step, end = n + 1 == parts ? size : begin + step;
        struct ddsi_rmsg *message = malloc(sizeof *message + LEAD + (end - begin));
        memcpy((uint8_t *)(message + 1) + LEAD, bytes + begin, end - begin);
        chain[n] =
            (struct ddsi_rdata){message, n + 1 == parts ? NULL : &chain[n + 1], (uint32_t)begin, (uint32_t)end, 0, LEAD,
                                0};
    }
    stage.told = stage.inbound->backlog.count ? NULL : bytes;
    stage.told_size = size;
    struct ddsi_serdata *data = stage.type.samples->from_ser(&stage.type, DDS_DATA, chain, size);
    if (data) come(READER, data, publication);
    stage.told = NULL;
    for (uint32_t n = 0; n < parts; n++) free(chain[n].message);
}

void stage_hear(const uint8_t *note, size_t size)
{
    struct made *m = make(&stage.flow_type, size);
    if (size) memcpy(m->bytes, note, size);
    come(FLOW, &m->head, STRANGER);
}

void stage_drain(void)
{
    stage.full_for = 0;
    inbound_retry(stage.inbound);
    REQUIRE(!stage.inbound->backlog.count, "something waits though there is room");
}
