/* Python's view of the engine, and all that knows Python of it: the core (engine.h) has no interpreter.
 *
 *   DataEvent, and what DDS shows of others: functions of the module
 *   Route: one topic in one direction, and what it has counted
 *   Engine: opens routes, and carries between them and DDS until it is closed
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../shm/_type_argument.h"
#include "../../shm/identity.h"
#include "../_glue.h"
#include "engine.h"

typedef struct {
    PyObject_HEAD
    struct engine *core; /* until it is closed, and all of its routes are */
    bool is_closed;
    Py_ssize_t holders; /* of `core`: its routes, and itself until it is closed */
} Engine;

typedef struct {
    PyTypeObject *route_type;
    PyObject *error;
} State;

static inline State *state_of(PyTypeObject *type) { return PyType_GetModuleState(type); }

/* NULL: an exception is set. */
static inline struct engine *open_engine(PyObject *self)
{
    struct engine *core = ((Engine *)self)->is_closed ? NULL : ((Engine *)self)->core;
    if (!core) PyErr_SetString(state_of(Py_TYPE(self))->error, "the engine is closed");
    return core;
}

/* One holder of the core less; the last one ends it. Keeps the exception that is set. */
static void engine_let_go(PyObject *self);

/* Of one route by name, and the sum by which it is seen to move. */
static PyObject *outbound_counters(struct outbound *);
static PyObject *inbound_counters(const struct inbound *);
static uint64_t outbound_total(struct outbound *);
static uint64_t inbound_total(const struct inbound *);

/* ---- what DDS shows ---- */

/* Rows of what DDS shows of others: plain bytes and numbers, which discovery.py reads. Nothing is decoded here, for
 * anybody may announce anything: text that is none must not cost the news of others that comes with it. */

enum {
    SHOWN_MOST = 256,      /* samples in one call */
    TEXT_MOST = 4096,      /* bytes of a name; what is longer is not told */
    BYTES_MOST = 64 << 10, /* of user data, the same */
    PARTITIONS_MOST = 128, /* partitions of an endpoint; of more, none is told */
    REPRESENTATIONS_MOST = 16,
    MATCHED_FIRST = 16,
};

static PyObject *none(void) { return Py_NewRef(Py_None); }

static PyObject *bytes_of(const void *bytes, size_t count, size_t most)
{
    return bytes && count <= most ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count) : none();
}

static PyObject *text_of(const char *text) { return bytes_of(text, text ? strlen(text) : 0, TEXT_MOST); }

static PyObject *user_data(const dds_qos_t *qos)
{
    void *bytes = NULL;
    size_t count = 0;
    PyObject *row =
        qos && dds_qget_userdata(qos, &bytes, &count) && count ? bytes_of(bytes, count, BYTES_MOST) : none();
    dds_free(bytes);
    return row;
}

static PyObject *property(const dds_qos_t *qos, const char *name)
{
    char *value = NULL;
    PyObject *row = qos && dds_qget_prop(qos, name, &value) ? text_of(value) : none();
    dds_free(value);
    return row;
}

/* A tuple of names; NULL: an exception is set. */
static PyObject *partitions(const dds_qos_t *qos)
{
    uint32_t count = 0;
    char **names = NULL;
    bool told = qos && dds_qget_partition(qos, &count, &names);
    PyObject *row = count > PARTITIONS_MOST ? none() : PyTuple_New(told ? count : 0);
    for (uint32_t n = 0; told && n < count; n++) {
        PyObject *name = row && row != Py_None ? text_of(names[n]) : NULL;
        if (name)
            PyTuple_SET_ITEM(row, n, name);
        else if (row != Py_None)
            Py_CLEAR(row);
        dds_free(names[n]);
    }
    dds_free(names);
    return row;
}

static PyObject *type_id(dds_endpoint_t *endpoint)
{
    const struct ddsi_typeinfo *info = NULL;
    uint8_t *bytes = NULL;
    uint32_t count = 0;
    if (dds_builtintopic_get_endpoint_type_info(endpoint, &info) != DDS_OK || !info) return none();
    ddsi_typeid_ser(ddsi_typeinfo_complete_typeid(info), &bytes, &count);
    PyObject *row = bytes_of(bytes, count, TEXT_MOST);
    dds_free(bytes);
    return row;
}

static PyObject *representations(const dds_qos_t *qos)
{
    uint32_t count = 0;
    int16_t *kinds = NULL;
    bool told = qos && dds_qget_data_representation(qos, &count, &kinds) && count <= REPRESENTATIONS_MOST;
    PyObject *row = PyTuple_New(told ? count : 0);
    for (uint32_t n = 0; row && told && n < count; n++) {
        PyObject *kind = PyLong_FromLong(kinds[n]);
        if (kind)
            PyTuple_SET_ITEM(row, n, kind);
        else
            Py_CLEAR(row);
    }
    dds_free(kinds);
    return row;
}

/* By which endpoints meet or not: Policies of wire.py, in the order of its fields. */
static PyObject *policies(const dds_qos_t *qos)
{
    int reliability = 0, durability = 0, ownership = 0, liveliness = 0, order = 0, scope = 0;
    int64_t ignored_ns, deadline_ns = INT64_MAX, latency_ns = 0, lease_ns = INT64_MAX;
    bool is_coherent = false, is_ordered = false;
    if (qos) {
        dds_qget_reliability(qos, &reliability, &ignored_ns);
        dds_qget_durability(qos, &durability);
        dds_qget_deadline(qos, &deadline_ns);
        dds_qget_latency_budget(qos, &latency_ns);
        dds_qget_ownership(qos, &ownership);
        dds_qget_liveliness(qos, &liveliness, &lease_ns);
        dds_qget_destination_order(qos, &order);
        dds_qget_presentation(qos, &scope, &is_coherent, &is_ordered);
    }
    return Py_BuildValue("(NiiLLiiLiiNN)", partitions(qos), reliability, durability, (long long)deadline_ns,
                         (long long)latency_ns, ownership, liveliness, (long long)lease_ns, order, scope,
                         PyBool_FromLong(is_coherent), PyBool_FromLong(is_ordered));
}

/* See Endpoint of discovery.py. NULL: an exception is set. */
static PyObject *endpoint_row(dds_endpoint_t *e)
{
    int history = 0;
    int64_t ignored_ns, interval_ns = 0, lifespan_ns = 0;
    int32_t priority = 0, depth = 0, ignored;
    if (e->qos) {
        dds_qget_time_based_filter(e->qos, &interval_ns);
        dds_qget_lifespan(e->qos, &lifespan_ns);
        dds_qget_transport_priority(e->qos, &priority);
        if (!dds_qget_durability_service(e->qos, &ignored_ns, &history, &depth, &ignored, &ignored, &ignored) ||
            history != DDS_KEEP_LAST)
            depth = 1;
    }
    return Py_BuildValue("(y#y#NNNNNNiiLL)", e->key.v, (Py_ssize_t)16, e->participant_key.v, (Py_ssize_t)16,
                         text_of(e->topic_name), text_of(e->type_name), user_data(e->qos), type_id(e), policies(e->qos),
                         representations(e->qos), (int)depth, (int)priority, (long long)interval_ns,
                         (long long)lifespan_ns);
}

/* See Program of discovery.py. */
static PyObject *participant_row(dds_participant_t *p)
{
    return Py_BuildValue("(y#NNNNN)", p->key.v, (Py_ssize_t)16, user_data(p->qos), property(p->qos, "__Hostname"),
                         property(p->qos, "__Pid"), property(p->qos, "__ProcessName"),
                         property(p->qos, "__NetworkAddresses"));
}

static PyObject *gone_row(const dds_guid_t *key) { return PyBytes_FromStringAndSize((const char *)key->v, 16); }

/* Both kinds of sample begin with their key, which is all that is valid of one that has gone. */
static PyObject *rows(void **samples, const dds_sample_info_t *infos, int count, bool are_participants)
{
    PyObject *list = PyList_New(count);
    for (int n = 0; list && n < count; n++) {
        bool is_here = infos[n].valid_data && infos[n].instance_state == DDS_ALIVE;
        PyObject *row = !is_here           ? gone_row(samples[n])
                        : are_participants ? participant_row(samples[n])
                                           : endpoint_row(samples[n]);
        if (row)
            PyList_SET_ITEM(list, n, row);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *error_of(PyObject *module) { return ((State *)PyModule_GetState(module))->error; }

static PyObject *shown(PyObject *module, PyObject *args)
{
    int reader, are_participants;
    void *samples[SHOWN_MOST] = {NULL};
    dds_sample_info_t infos[SHOWN_MOST];
    dds_return_t count;
    if (!PyArg_ParseTuple(args, "ip", &reader, &are_participants)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    count = dds_take(reader, samples, infos, SHOWN_MOST, SHOWN_MOST);
    Py_END_ALLOW_THREADS
    if (count < 0) return PyErr_Format(error_of(module), "entity %d shows nothing: DDS answers %d", reader, count);
    PyObject *list = rows(samples, infos, count, are_participants);
    if (count > 0) dds_return_loan(reader, samples, count);
    return list;
}

/* Some may come between two calls: asked again with more room until all fit. NULL: no memory, or `count` < 0. */
static dds_instance_handle_t *all_matched(int entity, bool writes, dds_return_t *count)
{
    dds_instance_handle_t *handles = NULL;
    for (size_t space = MATCHED_FIRST;; space = (size_t)*count * 2) {
        dds_instance_handle_t *more = realloc(handles, space * sizeof *handles);
        if (!more) break;
        handles = more;
        *count = writes ? dds_get_matched_subscriptions(entity, handles, space)
                        : dds_get_matched_publications(entity, handles, space);
        if (*count < 0) break;
        if ((size_t)*count <= space) return handles;
    }
    free(handles);
    return NULL;
}

static PyObject *matched(PyObject *module, PyObject *args)
{
    int entity, writes;
    dds_return_t count = 0;
    dds_instance_handle_t *handles;
    if (!PyArg_ParseTuple(args, "ip", &entity, &writes)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    handles = all_matched(entity, writes, &count);
    Py_END_ALLOW_THREADS
    if (!handles && count >= 0) return PyErr_NoMemory();
    if (!handles) return PyErr_Format(error_of(module), "entity %d has no matches: DDS answers %d", entity, count);
    PyObject *all = PyTuple_New(count);
    for (dds_return_t n = 0; all && n < count; n++) {
        PyObject *handle = PyLong_FromUnsignedLongLong(handles[n]);
        if (handle)
            PyTuple_SET_ITEM(all, n, handle);
        else
            Py_CLEAR(all);
    }
    free(handles);
    return all;
}

static PyObject *matched_endpoint(PyObject *module, PyObject *args)
{
    int entity, writes;
    unsigned long long handle;
    dds_endpoint_t *endpoint;
    (void)module;
    if (!PyArg_ParseTuple(args, "ipK", &entity, &writes, &handle)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    endpoint =
        writes ? dds_get_matched_subscription_data(entity, handle) : dds_get_matched_publication_data(entity, handle);
    Py_END_ALLOW_THREADS
    if (!endpoint) return none();
    PyObject *row = endpoint_row(endpoint);
    dds_builtintopic_free_endpoint(endpoint);
    return row;
}

static PyMethodDef shown_methods[] = {{"shown", shown, METH_VARARGS, NULL},
                                      {"matched", matched, METH_VARARGS, NULL},
                                      {"matched_endpoint", matched_endpoint, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

/* ---- DataEvent ---- */

/* DataEvent: a descriptor that becomes readable when a DDS reader has something (events.c). */

typedef struct {
    PyObject_HEAD
    struct data_event *core; /* until closed */
} DataEvent;

static PyObject *DataEvent_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"reader", NULL};
    int reader;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i", names, &reader)) return NULL;
    DataEvent *self = (DataEvent *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Py_BEGIN_ALLOW_THREADS
    self->core = data_event_open(reader);
    Py_END_ALLOW_THREADS
    if (self->core) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Format(state_of(type)->error, "entity %d is no DDS reader", reader);
}

static PyObject *DataEvent_fileno(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    (void)unused;
    return PyLong_FromLong(core ? core->descriptor : -1);
}

static PyObject *DataEvent_take(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    uint64_t ages_ns[DATA_EVENT_KEEPS];
    uint32_t count = core ? data_event_take(core, ages_ns) : 0;
    PyObject *list = PyList_New(count);
    (void)unused;
    for (uint32_t n = 0; list && n < count; n++) {
        PyObject *age = PyLong_FromUnsignedLongLong(ages_ns[n]);
        if (!age) Py_CLEAR(list);
        if (age) PyList_SET_ITEM(list, n, age);
    }
    return list;
}

static PyObject *DataEvent_close(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    (void)unused;
    ((DataEvent *)object)->core = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (core) data_event_close(core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void DataEvent_dealloc(PyObject *object) { dealloc_closed(object, DataEvent_close); }

static PyMethodDef data_event_methods[] = {{"fileno", DataEvent_fileno, METH_NOARGS, NULL},
                                           {"take", DataEvent_take, METH_NOARGS, NULL},
                                           {"close", DataEvent_close, METH_NOARGS, NULL},
                                           {NULL, NULL, 0, NULL}};

static PyType_Slot data_event_slots[] = {{Py_tp_new, DataEvent_new},
                                         {Py_tp_dealloc, DataEvent_dealloc},
                                         {Py_tp_methods, data_event_methods},
                                         {0, NULL}};
static PyType_Spec DataEvent_spec = {"rtmw.net.dds._engine.DataEvent", sizeof(DataEvent), 0, Py_TPFLAGS_DEFAULT,
                                     data_event_slots};

/* ---- Route ---- */

/* Route: one topic in one direction, out or in, from its opening to its close. */

typedef struct {
    PyObject_HEAD
    PyObject *engine; /* until closed, as one of the next two */
    struct outbound *outbound;
    struct inbound *inbound;
} Route;

/* One that carries nothing yet, and holds the engine from here on. */
static Route *new_route(State *state, PyObject *engine)
{
    Route *route = (Route *)state->route_type->tp_alloc(state->route_type, 0);
    if (!route) return NULL;
    route->engine = Py_NewRef(engine);
    ((Engine *)engine)->holders++;
    return route;
}

/* Nothing is kept of it; with the exception that is set. */
static PyObject *failed(Route *route, void *core, PyObject *nothing)
{
    free(core);
    Py_DECREF(route);
    return nothing;
}

static PyObject *Engine_outbound(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"topic",       "type",          "writer",   "octets",
                            "reliability", "depth",         "history",  "min_interval_ns",
                            "lease_ns",    "may_zero_copy", "is_plain", "sent",
                            NULL};
    State *state = state_of(Py_TYPE(self));
    const char *topic;
    PyObject *given;
    rtmw_type space;
    const rtmw_type *type;
    int writer, octets, reliability, may_zero_copy, is_plain;
    unsigned int depth, history;
    unsigned long long min_interval_ns, lease_ns, sent;
    struct engine *core = open_engine(self);
    if (!core || !PyArg_ParseTupleAndKeywords(args, keywords, "sOipiIIKKppK", names, &topic, &given, &writer, &octets,
                                              &reliability, &depth, &history, &min_interval_ns, &lease_ns,
                                              &may_zero_copy, &is_plain, &sent))
        return NULL;
    Route *route = read_type(given, &space, &type) ? new_route(state, self) : NULL;
    if (!route) return NULL;
    struct outbound *out = calloc(1, sizeof *out);
    if (!out) return Py_DECREF(route), PyErr_NoMemory();
    rtmw_subscriber_qos qos = outbound_qos(reliability, depth, history, min_interval_ns, lease_ns);
    int code = rtmw_subscriber_open(core->region, topic, type, &qos, &out->subscriber);
    if (code != RTMW_OK) return failed(route, out, fail(state->error, topic, code));
    out->engine = core;
    out->topic = topic_number(topic, type ? type->identity : 0);
    out->reliable = reliability == RTMW_RELIABLE;
    out->timely = reliability == RTMW_TIMELY;
    out->lane = (uint8_t)reliability;
    out->may_zero_copy = may_zero_copy;
    out->is_plain = is_plain;
    out->depth = out->depth_now = depth;
    out->min_interval_ns = min_interval_ns;
    out->writer = writer;
    out->sent = sent;
    out->history = history;
    out->key =
        (uint16_t)(2 * core->wire_domain + (is_plain ? 1 : 0)); /* of one topic, two nodes may carry a lane each */
    if (out->reliable) rtmw_subscriber_resume(out->subscriber, out->key);
    out->framing = octets ? FRAMING_OCTETS : FRAMING_CDR;
    Py_BEGIN_ALLOW_THREADS
    code = outbound_open(out);
    if (code != DDS_OK) rtmw_subscriber_close(out->subscriber);
    Py_END_ALLOW_THREADS
    if (code == DDS_OK) return route->outbound = out, (PyObject *)route;
    return failed(route, out, PyErr_Format(state->error, "%s: entity %d is no DDS writer", topic, writer));
}

/* Source times by publisher. */
static void begin_with(struct inbound *in, PyObject *on_bus)
{
    PyObject *publisher, *newest;
    Py_ssize_t at = 0;
    while (PyDict_Next(on_bus, &at, &publisher, &newest))
        dedup_begin(in, PyLong_AsUnsignedLongLongMask(publisher), PyLong_AsUnsignedLongLongMask(newest));
}

static PyObject *Engine_inbound(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"topic",  "type",    "reader", "octets",    "reliability",         "priority",
                            "depth",  "history", "lane",   "wants_old", "may_receive_in_loan", "is_keyed",
                            "newest", "on_bus",  NULL};
    State *state = state_of(Py_TYPE(self));
    const char *topic;
    PyObject *given, *on_bus;
    rtmw_type space;
    const rtmw_type *type;
    int reader, octets, reliability, priority, lane, wants_old, may_receive_in_loan, is_keyed;
    const char *newest;
    Py_ssize_t newest_size;
    unsigned int depth, history;
    struct engine *core = open_engine(self);
    if (!core ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "sOipiiIIipppy#O!", names, &topic, &given, &reader, &octets,
                                     &reliability, &priority, &depth, &history, &lane, &wants_old, &may_receive_in_loan,
                                     &is_keyed, &newest, &newest_size, &PyDict_Type, &on_bus))
        return NULL;
    Route *route = read_type(given, &space, &type) ? new_route(state, self) : NULL;
    if (!route) return NULL;
    struct inbound *in = calloc(1, sizeof *in);
    if (!in) return Py_DECREF(route), PyErr_NoMemory();
    rtmw_publisher_qos qos = inbound_qos(reliability, priority, depth, history);
    int code = rtmw_publisher_open(core->region, topic, type, &qos, &in->publisher);
    if (code != RTMW_OK) return failed(route, in, fail(state->error, topic, code));
    in->engine = core;
    in->topic = topic_number(topic, type ? type->identity : 0);
    in->reader = reader;
    in->reliable = reliability == RTMW_RELIABLE;
    in->lane = (uint8_t)lane;
    in->wants_old = (uint32_t)wants_old;
    in->may_receive_in_loan = may_receive_in_loan && !core->public_calls_only;
    in->is_keyed = is_keyed;
    in->history = history;
    if (newest_size == sizeof in->newest) memcpy(in->newest, newest, sizeof in->newest);
    begin_with(in, on_bus);
    memcpy(in->newest_before, in->newest, sizeof in->newest);
    in->framing = octets ? FRAMING_OCTETS : FRAMING_CDR;
    Py_BEGIN_ALLOW_THREADS
    code = inbound_open(in);
    if (code != DDS_OK) inbound_close(in);
    Py_END_ALLOW_THREADS
    if (code == DDS_OK) return route->inbound = in, (PyObject *)route;
    return failed(route, in, PyErr_Format(state->error, "%s: entity %d is no DDS reader", topic, reader));
}

static PyObject *Route_close(PyObject *object, PyObject *unused)
{
    Route *self = (Route *)object;
    struct outbound *out = self->outbound;
    struct inbound *in = self->inbound;
    PyObject *engine = self->engine;
    (void)unused;
    if (!engine) Py_RETURN_NONE;
    self->engine = NULL;
    self->outbound = NULL;
    self->inbound = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (out) outbound_close(out);
    if (in) inbound_close(in);
    Py_END_ALLOW_THREADS
    free(out);
    free(in);
    engine_let_go(engine);
    Py_DECREF(engine);
    Py_RETURN_NONE;
}

static PyObject *Route_counters(PyObject *object, PyObject *unused)
{
    struct outbound *o = ((Route *)object)->outbound;
    struct inbound *i = ((Route *)object)->inbound;
    (void)unused;
    if (o) return outbound_counters(o);
    if (i) return inbound_counters(i);
    return PyDict_New();
}

static PyObject *Route_total(PyObject *object, PyObject *unused)
{
    struct outbound *o = ((Route *)object)->outbound;
    const struct inbound *i = ((Route *)object)->inbound;
    (void)unused;
    return PyLong_FromUnsignedLongLong(o ? outbound_total(o) : i ? inbound_total(i) : 0);
}

static PyObject *Route_delivered(PyObject *object, PyObject *unused)
{
    struct outbound *o = ((Route *)object)->outbound;
    struct inbound *i = ((Route *)object)->inbound;
    bool delivered = true;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) delivered = outbound_is_delivered(o);
    if (i) delivered = !inbound_held(i);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(delivered);
}

static PyObject *Route_held(PyObject *object, PyObject *unused)
{
    struct outbound *o = ((Route *)object)->outbound;
    struct inbound *i = ((Route *)object)->inbound;
    uint64_t held = o ? load_relaxed(&o->lookahead.taken) : 0;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (i) held = inbound_held(i);
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLongLong(held);
}

static PyObject *Route_pack(PyObject *object, PyObject *args)
{
    struct outbound *o = ((Route *)object)->outbound;
    int may_pack, may_check, may_date;
    if (!PyArg_ParseTuple(args, "ppp", &may_pack, &may_check, &may_date)) return NULL;
    if (o) store_release(&o->may_pack, (uint32_t)may_pack);
    if (o) store_release(&o->may_check, (uint32_t)may_check);
    if (o) store_release(&o->may_date, (uint32_t)may_date);
    Py_RETURN_NONE;
}

static PyObject *Route_limit(PyObject *object, PyObject *args)
{
    struct outbound *o = ((Route *)object)->outbound;
    unsigned long long limit, peers;
    if (!PyArg_ParseTuple(args, "KK", &limit, &peers)) return NULL;
    if (!o) Py_RETURN_NONE;
    store_relaxed(&o->limited, peers);
    Py_BEGIN_ALLOW_THREADS
    sender_limit(o->engine, &o->limit, limit);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_adjust(PyObject *object, PyObject *args)
{
    struct outbound *o = ((Route *)object)->outbound;
    unsigned int depth;
    unsigned long long min_interval_ns;
    int may_zero_copy;
    if (!PyArg_ParseTuple(args, "IKp", &depth, &min_interval_ns, &may_zero_copy)) return NULL;
    if (o) outbound_adjust(o, depth, min_interval_ns);
    if (o) store_relaxed(&o->may_zero_copy, (bool)may_zero_copy);
    Py_RETURN_NONE;
}

static PyObject *Route_want_old(PyObject *object, PyObject *given)
{
    struct inbound *i = ((Route *)object)->inbound;
    return set_wants_old(i ? &i->wants_old : NULL, given);
}

static PyObject *Route_park(PyObject *object, PyObject *given)
{
    struct outbound *o = ((Route *)object)->outbound;
    unsigned long long for_ns = PyLong_AsUnsignedLongLong(given);
    if (PyErr_Occurred()) return NULL;
    if (o) outbound_park(o, for_ns);
    Py_RETURN_NONE;
}

static PyObject *Route_stop(PyObject *object, PyObject *unused)
{
    struct outbound *o = ((Route *)object)->outbound;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) outbound_stop(o);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_number(PyObject *object, PyObject *unused)
{
    const struct outbound *o = ((Route *)object)->outbound;
    const struct inbound *i = ((Route *)object)->inbound;
    (void)unused;
    return PyLong_FromUnsignedLongLong(o ? o->topic : i ? i->topic : 0);
}

static PyObject *Route_keep(PyObject *object, PyObject *given)
{
    struct outbound *o = ((Route *)object)->outbound;
    unsigned long long until_ns = PyLong_AsUnsignedLongLong(given);
    uint64_t last = 0;
    bool is_sent = true, is_acknowledged = true;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (o) is_sent = outbound_keep(o, until_ns, &last);
    if (o) is_acknowledged = dds_wait_for_acks(o->writer, 0) == DDS_OK;
    Py_END_ALLOW_THREADS
    if (!is_sent) Py_RETURN_NONE;
    return Py_BuildValue("(KO)", last, is_acknowledged ? Py_True : Py_False);
}

static PyObject *Route_has(PyObject *object, PyObject *args)
{
    struct inbound *i = ((Route *)object)->inbound;
    const char *guid;
    Py_ssize_t size;
    unsigned long long sequence;
    int is_acknowledged;
    bool has = true;
    if (!PyArg_ParseTuple(args, "y#Kp", &guid, &size, &sequence, &is_acknowledged)) return NULL;
    if (size != 16) return PyErr_Format(PyExc_ValueError, "a GUID has 16 bytes, this one %zd", size);
    Py_BEGIN_ALLOW_THREADS
    if (i) has = inbound_has(i, node_named((const uint8_t *)guid), sequence, is_acknowledged);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(has);
}

static PyObject *Route_last(PyObject *object, PyObject *unused)
{
    const struct outbound *o = ((Route *)object)->outbound;
    (void)unused;
    return PyLong_FromUnsignedLongLong(o ? load_relaxed(&o->last) : 0);
}

static PyObject *Route_reached(PyObject *object, PyObject *guid)
{
    struct inbound *i = ((Route *)object)->inbound;
    uint64_t sequence = 0;
    bool is_empty = true;
    if (!PyBytes_Check(guid) || PyBytes_GET_SIZE(guid) != 16)
        return PyErr_Format(PyExc_ValueError, "%R is no GUID of 16 bytes", guid);
    const uint8_t *participant = (const uint8_t *)PyBytes_AS_STRING(guid);
    Py_BEGIN_ALLOW_THREADS
    if (i) is_empty = inbound_reached(i, node_named(participant), &sequence);
    Py_END_ALLOW_THREADS
    if (!is_empty) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(sequence);
}

static PyObject *Route_newest(PyObject *object, PyObject *unused)
{
    struct inbound *i = ((Route *)object)->inbound;
    (void)unused;
    if (!i) return PyBytes_FromString("");
    struct newest newest[NEWEST_MOST];
    Py_BEGIN_ALLOW_THREADS
    lock(&i->lock, LOCK_ROUTE);
    memcpy(newest, i->newest, sizeof newest);
    unlock(&i->lock, LOCK_ROUTE);
    Py_END_ALLOW_THREADS
    return PyBytes_FromStringAndSize((const char *)newest, sizeof newest);
}

static PyObject *Route_hand_over(PyObject *object, PyObject *args)
{
    Route *self = (Route *)object;
    int entity, at_once;
    bool done = false;
    if (!PyArg_ParseTuple(args, "ip", &entity, &at_once)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (self->outbound) done = outbound_hand_over(self->outbound, entity, at_once ? 0 : HAND_OVER_NS);
    if (self->inbound) done = inbound_hand_over(self->inbound, entity, at_once);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(done);
}

static void Route_dealloc(PyObject *object) { dealloc_closed(object, Route_close); }

static PyObject *Route_unsent(PyObject *object, PyObject *args)
{
    struct inbound *i = ((Route *)object)->inbound;
    rtmw_lost unsent;
    if (!read_unsent(args, &unsent)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (i) inbound_unsent(i, unsent);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef route_methods[] = {{"counters", Route_counters, METH_NOARGS, NULL},
                                      {"total", Route_total, METH_NOARGS, NULL},
                                      {"delivered", Route_delivered, METH_NOARGS, NULL},
                                      {"held", Route_held, METH_NOARGS, NULL},
                                      {"pack", Route_pack, METH_VARARGS, NULL},
                                      {"adjust", Route_adjust, METH_VARARGS, NULL},
                                      {"limit", Route_limit, METH_VARARGS, NULL},
                                      {"park", Route_park, METH_O, NULL},
                                      {"stop", Route_stop, METH_NOARGS, NULL},
                                      {"number", Route_number, METH_NOARGS, NULL},
                                      {"keep", Route_keep, METH_O, NULL},
                                      {"has", Route_has, METH_VARARGS, NULL},
                                      {"last", Route_last, METH_NOARGS, NULL},
                                      {"reached", Route_reached, METH_O, NULL},
                                      {"newest", Route_newest, METH_NOARGS, NULL},
                                      {"unsent", Route_unsent, METH_VARARGS, NULL},
                                      {"want_old", Route_want_old, METH_O, NULL},
                                      {"hand_over", Route_hand_over, METH_VARARGS, NULL},
                                      {"close", Route_close, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

static PyType_Slot route_slots[] = {{Py_tp_dealloc, Route_dealloc}, {Py_tp_methods, route_methods}, {0, NULL}};
static PyType_Spec Route_spec = {"rtmw.net.dds._engine.Route", sizeof(Route), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, route_slots};

/* ---- counters ---- */

/* Counters of routes, for Python. */

/* A message that the bus dropped before the engine took it counts like one that the engine dropped itself. */
static PyObject *outbound_counters(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "sent", load_relaxed(&o->sent), "bytes", load_relaxed(&o->bytes),
                         "expired", load_relaxed(&o->expired) + bus.expired, "thinned", bus.thinned, "missed",
                         bus.missed, "lapses", bus.lapses, "refused", load_relaxed(&o->refused), "blocked",
                         load_relaxed(&o->blocked), "packs", load_relaxed(&o->packs), "uncopied",
                         load_relaxed(&o->uncopied));
}

static PyObject *inbound_counters(const struct inbound *i)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "received", load_relaxed(&i->received), "bytes",
                         load_relaxed(&i->bytes), "lost", load_relaxed(&i->lost), "expired", load_relaxed(&i->expired),
                         "malformed", load_relaxed(&i->malformed) + load_relaxed(&i->unreadable), "corrupt",
                         load_relaxed(&i->corrupt), "implausible", load_relaxed(&i->implausible), "no_memory",
                         load_relaxed(&i->no_memory), "delayed", load_relaxed(&i->delayed), "overflowed",
                         load_relaxed(&i->overflowed), "uncopied", load_relaxed(&i->uncopied), "unchecked",
                         load_relaxed(&i->unchecked), "disposed", load_relaxed(&i->disposed), "unregistered",
                         load_relaxed(&i->unregistered), "hashed", load_relaxed(&i->hashed));
}

static uint64_t outbound_total(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return bus.expired + bus.thinned + bus.missed + bus.lapses + load_relaxed(&o->sent) + load_relaxed(&o->bytes) +
           load_relaxed(&o->expired) + load_relaxed(&o->refused) + load_relaxed(&o->blocked) + load_relaxed(&o->packs) +
           load_relaxed(&o->uncopied);
}

static uint64_t inbound_total(const struct inbound *i)
{
    return load_relaxed(&i->received) + load_relaxed(&i->bytes) + load_relaxed(&i->lost) + load_relaxed(&i->expired) +
           load_relaxed(&i->malformed) + load_relaxed(&i->unreadable) + load_relaxed(&i->corrupt) +
           load_relaxed(&i->implausible) + load_relaxed(&i->no_memory) + load_relaxed(&i->delayed) +
           load_relaxed(&i->overflowed) + load_relaxed(&i->uncopied) + load_relaxed(&i->unchecked) +
           load_relaxed(&i->disposed) + load_relaxed(&i->unregistered) + load_relaxed(&i->hashed);
}

static PyObject *Engine_total(PyObject *self, PyObject *unused)
{
    struct engine *e = open_engine(self);
    uint64_t total = now_monotonic_ns();
    (void)unused;
    if (!e) return NULL;
    if (lock_if_free(&e->lock, LOCK_ENGINE)) { /* the sender has it for as long as it has something to send */
        total = 0;
        for (struct outbound *o = e->outbounds; o; o = o->next) total += outbound_total(o);
        for (struct inbound *i = e->inbounds; i; i = i->next) total += inbound_total(i);
        unlock(&e->lock, LOCK_ENGINE);
    }
    return PyLong_FromUnsignedLongLong(total);
}

/* ---- Engine ---- */

/* Engine: opens routes, and carries between them and DDS until it is closed. */

enum { TOPIC_NAME = 512 }; /* bytes: more than a topic of the bus can have, with what is before it */

static PyObject *Engine_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"domain", "bytes_per_second", "zero_copy_most", "carried", "wire_domain", NULL};
    unsigned int domain, wire_domain = 0;
    const char *carried = NULL;
    unsigned long long limit = 0, zero_copy_most = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "I|KKzI", names, &domain, &limit, &zero_copy_most, &carried,
                                     &wire_domain))
        return NULL;
    Engine *self = (Engine *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->core = calloc(1, sizeof *self->core);
    if (!self->core) return Py_DECREF(self), PyErr_NoMemory();
    self->core->limit.bytes_per_second = limit;
    self->core->zero_copy_most = zero_copy_most;
    self->core->wire_domain = wire_domain;
    if (carried && !carried_open(self->core, carried)) {
        free(self->core);
        self->core = NULL;
        self->is_closed = true;
        Py_DECREF(self);
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, carried);
    }
    int code = rtmw_attach(domain, &self->core->region);
    if (code == RTMW_OK) rtmw_serve_peers(self->core->region);
    int failed = errno;
    if (code == RTMW_OK && (failed = engine_start(self->core))) {
        rtmw_detach(self->core->region);
        code = RTMW_SYSTEM;
    }
    self->holders = 1;
    if (code == RTMW_OK) return (PyObject *)self;
    carried_close(self->core);
    free(self->core);
    self->core = NULL;
    self->is_closed = true;
    Py_DECREF(self);
    errno = failed;
    return fail(state_of(type)->error, "the node cannot attach", code);
}

static PyObject *Engine_limit(PyObject *self, PyObject *given)
{
    struct engine *core = open_engine(self);
    unsigned long long limit = core ? PyLong_AsUnsignedLongLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    sender_limit(core, &core->limit, limit);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Engine_peer_rate(PyObject *self, PyObject *args)
{
    struct engine *core = open_engine(self);
    unsigned int place;
    unsigned long long limit;
    if (!core || !PyArg_ParseTuple(args, "IK", &place, &limit)) return NULL;
    if (place >= LIMITED_PEERS) return PyErr_Format(PyExc_ValueError, "there are %d places", LIMITED_PEERS);
    Py_BEGIN_ALLOW_THREADS
    sender_limit(core, &core->peer_rates.limits[place], limit);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Engine_clocks(PyObject *self, PyObject *given)
{
    struct engine *core = open_engine(self);
    if (!core || !PyList_Check(given)) return core ? PyErr_Format(PyExc_TypeError, "a list is needed") : NULL;
    dated_forget(core);
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(given); n++) {
        const char *guid;
        Py_ssize_t size;
        long long ahead;
        unsigned long long unsure;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(given, n), "y#LK", &guid, &size, &ahead, &unsure)) return NULL;
        if (size == 16) dated_learn(core, (const uint8_t *)guid, ahead, unsure);
    }
    Py_RETURN_NONE;
}

static PyObject *Engine_link(PyObject *self, PyObject *given)
{
    struct engine *core = open_engine(self);
    uint64_t regions[LINKED];
    if (!core || !PyList_Check(given)) return core ? PyErr_Format(PyExc_TypeError, "a list is needed") : NULL;
    Py_ssize_t count = PyList_GET_SIZE(given);
    if (count > LINKED) return PyErr_Format(PyExc_ValueError, "there is room for %d", LINKED);
    for (Py_ssize_t n = 0; n < count; n++) {
        const char *origin = PyUnicode_AsUTF8(PyList_GET_ITEM(given, n));
        if (!origin) return NULL;
        regions[n] = identity_of_origin(origin);
    }
    Py_BEGIN_ALLOW_THREADS
    linked_set(core, regions, (uint32_t)count);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Engine_finish(PyObject *self, PyObject *unused)
{
    struct engine *core = open_engine(self);
    (void)unused;
    if (!core) return NULL;
    store_relaxed(&core->last_ns, now_realtime_ns());
    Py_RETURN_NONE;
}

static PyObject *Engine_leave(PyObject *self, PyObject *unused)
{
    struct engine *core = open_engine(self);
    (void)unused;
    if (!core) return NULL;
    store_relaxed(&core->leaves_all, 1u);
    Py_RETURN_NONE;
}

static PyObject *Engine_pace(PyObject *self, PyObject *given)
{
    struct engine *core = open_engine(self);
    long descriptor = core ? PyLong_AsLong(given) : -1;
    if (!core || PyErr_Occurred()) return NULL;
    return PyBool_FromLong(pacing_open(core, (int)descriptor));
}

static PyObject *Engine_flow(PyObject *self, PyObject *args)
{
    int writer, reader;
    struct engine *core = open_engine(self);
    if (!core || !PyArg_ParseTuple(args, "ii", &writer, &reader)) return NULL;
    int code = flow_open(core, writer, reader);
    if (code == DDS_OK) Py_RETURN_NONE;
    return PyErr_Format(state_of(Py_TYPE(self))->error, "flow control: DDS answers %d", code);
}

static PyObject *Engine_abi_check(PyObject *unused, PyObject *args)
{
    int writer;
    Py_buffer sample;
    (void)unused;
    if (!PyArg_ParseTuple(args, "iy*", &writer, &sample)) return NULL;
    bool fits = abi_check(writer, sample.buf, (size_t)sample.len);
    PyBuffer_Release(&sample);
    return PyBool_FromLong(fits);
}

static PyObject *Engine_public_calls(PyObject *self, PyObject *args)
{
    int writer;
    Py_buffer sample;
    const struct ddsi_sertype *type;
    struct engine *core = open_engine(self);
    if (!core || !PyArg_ParseTuple(args, "iy*", &writer, &sample)) return NULL;
    bool carry = dds_get_entity_sertype(writer, &type) == DDS_OK &&
                 public_calls_carry(type, (struct iovec){sample.buf, (size_t)sample.len});
    PyBuffer_Release(&sample);
    core->public_calls_only = true;
    core->zero_copy_most = 0;
    return PyBool_FromLong(carry);
}

static PyObject *Engine_install_hash(PyObject *unused, PyObject *given)
{
    void *table = PyLong_AsVoidPtr(given);
    (void)unused;
    return PyErr_Occurred() ? NULL : PyBool_FromLong(type_hash_install(table));
}

static PyObject *Engine_steady_ns(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromUnsignedLongLong(now_steady_ns());
}

static PyObject *Engine_capture_log(PyObject *unused, PyObject *is_on)
{
    (void)unused;
    return PyBool_FromLong(library_log_capture(PyObject_IsTrue(is_on) == 1));
}

static PyObject *Engine_captured(PyObject *unused, PyObject *nothing)
{
    (void)unused, (void)nothing;
    struct library_log *log = malloc(sizeof *log);
    if (!log) return PyErr_NoMemory();
    library_log_take(log);
    PyObject *lines = PyList_New(0);
    for (uint32_t n = 0; lines && n < log->count; n++) {
        PyObject *line = PyUnicode_DecodeUTF8(log->lines[n], (Py_ssize_t)strlen(log->lines[n]), "replace");
        if (!line || PyList_Append(lines, line)) Py_CLEAR(lines);
        Py_XDECREF(line);
    }
    PyObject *both = lines ? Py_BuildValue("NK", lines, (unsigned long long)log->more) : NULL;
    free(log);
    return both;
}

static PyObject *Engine_trim(PyObject *unused, PyObject *nothing)
{
    (void)unused, (void)nothing;
    Py_BEGIN_ALLOW_THREADS
    engine_trim();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Engine_watch(PyObject *self, PyObject *readers)
{
    struct engine *core = open_engine(self);
    long reader = core ? PyLong_AsLong(readers) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    int code = packing_open(core, (dds_entity_t)reader);
    if (code == DDS_OK) Py_RETURN_NONE;
    return PyErr_Format(state_of(Py_TYPE(self))->error, "entity %ld is no DDS reader", reader);
}

static PyObject *Engine_follow(PyObject *self, PyObject *given)
{
    struct engine *core = open_engine(self);
    long participant = core ? PyLong_AsLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    int code = matched_open(core, (dds_entity_t)participant);
    if (code == DDS_OK) Py_RETURN_NONE;
    return PyErr_Format(state_of(Py_TYPE(self))->error, "matches of participant %ld: DDS answers %d", participant,
                        code);
}

/* The topics of endpoints; of those that are gone, none. */
static PyObject *topics_of(const struct news *news)
{
    PyObject *topics = PySet_New(NULL);
    for (uint32_t n = 0; topics && n < news->count; n++) {
        char name[TOPIC_NAME];
        dds_entity_t topic = dds_get_topic(news->endpoint[n]);
        if (topic <= 0 || dds_get_name(topic, name, sizeof name) < 0) continue;
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
        if (!text || PySet_Add(topics, text)) Py_CLEAR(topics);
        Py_XDECREF(text);
    }
    return topics;
}

static PyObject *Engine_matched(PyObject *self, PyObject *unused)
{
    struct engine *core = open_engine(self);
    (void)unused;
    if (!core) return NULL;
    struct news news = matched_take(core);
    PyObject *topics = news.all ? Py_NewRef(Py_None) : topics_of(&news);
    free(news.endpoint);
    return topics;
}

static PyObject *Engine_heard(PyObject *self, PyObject *unused)
{
    struct engine *core = open_engine(self);
    (void)unused;
    return core ? PyLong_FromUnsignedLong(packing_heard(core)) : NULL;
}

static PyObject *Engine_looked(PyObject *self, PyObject *heard)
{
    struct engine *core = open_engine(self);
    unsigned long number = core ? PyLong_AsUnsignedLong(heard) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    packing_looked(core, (uint32_t)number);
    Py_RETURN_NONE;
}

/* How often others said what is not to be believed about pauses (flow.c). */
static PyObject *Engine_counters(PyObject *self, PyObject *unused)
{
    struct engine *core = open_engine(self);
    (void)unused;
    if (!core) return NULL;
    return Py_BuildValue("{sKsKsK}", "malformed", load_relaxed(&core->flow_malformed), "unmatched",
                         load_relaxed(&core->flow_unmatched), "crowded", load_relaxed(&core->flow_crowded));
}

static void engine_let_go(PyObject *object)
{
    Engine *self = (Engine *)object;
    struct engine *core = self->core;
    if (--self->holders) return;
    self->core = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (engine_end(core)) {
        rtmw_detach(core->region);
        carried_close(core);
        pacing_close(core);
        free(core);
    }
    Py_END_ALLOW_THREADS
}

static PyObject *Engine_close(PyObject *object, PyObject *unused)
{
    Engine *self = (Engine *)object;
    (void)unused;
    if (!self->core || self->is_closed) Py_RETURN_NONE;
    self->is_closed = true;
    Py_BEGIN_ALLOW_THREADS
    flow_close(self->core);
    packing_close(self->core);
    matched_close(self->core);
    engine_stop(self->core);
    Py_END_ALLOW_THREADS
    engine_let_go(object);
    Py_RETURN_NONE;
}

static void Engine_dealloc(PyObject *self) { dealloc_closed(self, Engine_close); }

static PyMethodDef engine_methods[] = {{"outbound", (PyCFunction)(void (*)(void))Engine_outbound,
                                        METH_VARARGS | METH_KEYWORDS, NULL},
                                       {"inbound", (PyCFunction)(void (*)(void))Engine_inbound,
                                        METH_VARARGS | METH_KEYWORDS, NULL},
                                       {"limit", Engine_limit, METH_O, NULL},
                                       {"peer_rate", Engine_peer_rate, METH_VARARGS, NULL},
                                       {"finish", Engine_finish, METH_NOARGS, NULL},
                                       {"leave", Engine_leave, METH_NOARGS, NULL},
                                       {"clocks", Engine_clocks, METH_O, NULL},
                                       {"link", Engine_link, METH_O, NULL},
                                       {"pace", Engine_pace, METH_O, NULL},
                                       {"flow", Engine_flow, METH_VARARGS, NULL},
                                       {"abi_check", Engine_abi_check, METH_VARARGS | METH_STATIC, NULL},
                                       {"public_calls", Engine_public_calls, METH_VARARGS, NULL},
                                       {"install_hash", Engine_install_hash, METH_O | METH_STATIC, NULL},
                                       {"capture_log", Engine_capture_log, METH_O | METH_STATIC, NULL},
                                       {"captured", Engine_captured, METH_NOARGS | METH_STATIC, NULL},
                                       {"trim", Engine_trim, METH_NOARGS | METH_STATIC, NULL},
                                       {"steady_ns", Engine_steady_ns, METH_NOARGS | METH_STATIC, NULL},
                                       {"watch", Engine_watch, METH_O, NULL},
                                       {"follow", Engine_follow, METH_O, NULL},
                                       {"matched", Engine_matched, METH_NOARGS, NULL},
                                       {"total", Engine_total, METH_NOARGS, NULL},
                                       {"heard", Engine_heard, METH_NOARGS, NULL},
                                       {"looked", Engine_looked, METH_O, NULL},
                                       {"counters", Engine_counters, METH_NOARGS, NULL},
                                       {"close", Engine_close, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyType_Slot engine_slots[] = {{Py_tp_new, Engine_new},
                                     {Py_tp_dealloc, Engine_dealloc},
                                     {Py_tp_methods, engine_methods},
                                     {0, NULL}};
static PyType_Spec Engine_spec = {"rtmw.net.dds._engine.Engine", sizeof(Engine), 0, Py_TPFLAGS_DEFAULT, engine_slots};

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *errors = PyImport_ImportModule("rtmw.errors");
    if (errors) state->error = PyObject_GetAttrString(errors, "RtmwError");
    Py_XDECREF(errors);
    if (!state->error) return -1;
    if (add_type(module, &DataEvent_spec, NULL)) return -1;
    return add_type(module, &Engine_spec, NULL) || add_type(module, &Route_spec, &state->route_type) ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.net.dds._engine", NULL, sizeof(State), shown_methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__engine(void) { return PyModuleDef_Init(&module); }
