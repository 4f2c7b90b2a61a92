/* Route: one topic in one direction, out or in, from its opening to its close. */
#include "_engine.h"

#include "../../shm/_type_argument.h"

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

PyObject *Engine_outbound(PyObject *self, PyObject *args, PyObject *keywords)
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

PyObject *Engine_inbound(PyObject *self, PyObject *args, PyObject *keywords)
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
PyType_Spec Route_spec = {"rtmw.net.dds._engine.Route", sizeof(Route), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, route_slots};

/* ---- counters ---- */

/* Counters of routes, for Python. */

/* A message that the bus dropped before the engine took it counts like one that the engine dropped itself. */
PyObject *outbound_counters(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "sent", load_relaxed(&o->sent), "bytes", load_relaxed(&o->bytes),
                         "expired", load_relaxed(&o->expired) + bus.expired, "thinned", bus.thinned, "missed",
                         bus.missed, "lapses", bus.lapses, "refused", load_relaxed(&o->refused), "blocked",
                         load_relaxed(&o->blocked), "packs", load_relaxed(&o->packs), "uncopied",
                         load_relaxed(&o->uncopied));
}

PyObject *inbound_counters(const struct inbound *i)
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

uint64_t outbound_total(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return bus.expired + bus.thinned + bus.missed + bus.lapses + load_relaxed(&o->sent) + load_relaxed(&o->bytes) +
           load_relaxed(&o->expired) + load_relaxed(&o->refused) + load_relaxed(&o->blocked) + load_relaxed(&o->packs) +
           load_relaxed(&o->uncopied);
}

uint64_t inbound_total(const struct inbound *i)
{
    return load_relaxed(&i->received) + load_relaxed(&i->bytes) + load_relaxed(&i->lost) + load_relaxed(&i->expired) +
           load_relaxed(&i->malformed) + load_relaxed(&i->unreadable) + load_relaxed(&i->corrupt) +
           load_relaxed(&i->implausible) + load_relaxed(&i->no_memory) + load_relaxed(&i->delayed) +
           load_relaxed(&i->overflowed) + load_relaxed(&i->uncopied) + load_relaxed(&i->unchecked) +
           load_relaxed(&i->disposed) + load_relaxed(&i->unregistered) + load_relaxed(&i->hashed);
}

PyObject *Engine_total(PyObject *self, PyObject *unused)
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
