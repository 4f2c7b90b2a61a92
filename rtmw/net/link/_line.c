/* Python's view of lines, and all that knows Python of them: the core (link.h) has no interpreter.
 *
 *   Context: keys of this node. Connection: to a peer, until a line carries on with it
 *   Route: one topic in one direction over one line, from its opening to its close
 *   Bus: the region of a node's lines. Line: what joins it with one peer
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../shm/_type_argument.h"
#include "../../shm/identity.h"
#include "../_glue.h"
#include "link.h"

typedef struct {
    PyObject_HEAD
    rtmw_region *region; /* until it is closed, and all of its lines are */
    struct carried *carried;
    uint32_t wire_domain;
    struct lines *lines; /* NULL: they did not begin */
    bool is_closed;
    Py_ssize_t holders; /* of `region`: its lines, and itself until it is closed */
} Bus;

typedef struct {
    PyObject_HEAD
    PyObject *bus;
    struct line *core; /* until it is closed, and all of its routes are */
    bool is_closed;
    Py_ssize_t holders; /* of `core`: its routes, and itself until it is closed */
} Line;

typedef struct {
    PyTypeObject *bus_type, *route_type, *context_type, *connection_type;
    PyObject *error, *tls_error;
} State;

static inline State *state_of(PyTypeObject *type) { return PyType_GetModuleState(type); }

/* NULL: an exception is set. */
static inline struct line *open_line(PyObject *self)
{
    struct line *core = ((Line *)self)->is_closed ? NULL : ((Line *)self)->core;
    if (!core) PyErr_SetString(state_of(Py_TYPE(self))->error, "the line is closed");
    return core;
}

/* One holder of the core less; the last one frees it. */
static void line_let_go(PyObject *line);

/* ---- connections ---- */

typedef struct {
    PyObject_HEAD
    struct tls_context core;
} Context;

typedef struct {
    PyObject_HEAD
    PyObject *context;    /* or NULL: without TLS */
    struct channel *core; /* until closed or given to a line */
    bool is_given;
    PyObject *peer, *cipher; /* once the handshake is done */
} Connection;

enum { READS = 4 };

static PyObject *tls_failed(PyTypeObject *type, const struct tls_fault *fault)
{
    PyObject *args = Py_BuildValue("(sls)", fault->reason, fault->verify_code, fault->verify_words);
    if (args) PyErr_SetObject(state_of(type)->tls_error, args);
    Py_XDECREF(args);
    return NULL;
}

static const struct openssl *library_of(State *state, const char *path)
{
    char words[512];
    const struct openssl *library = openssl_find(path, words, sizeof words);
    if (!library) PyErr_SetString(state->error, words);
    return library;
}

static PyObject *openssl_version(PyObject *module, PyObject *args)
{
    const char *path = "";
    if (!PyArg_ParseTuple(args, "|s", &path)) return NULL;
    const struct openssl *library = library_of(PyModule_GetState(module), path);
    return library ? PyUnicode_FromString(library->OpenSSL_version(0)) : NULL;
}

/* ---- Context ---- */

static bool trust(Context *self, PyObject *authorities)
{
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(authorities); n++) {
        char *der;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GET_ITEM(authorities, n), &der, &size)) return false;
        if (tls_context_trust(&self->core, (const uint8_t *)der, (size_t)size)) continue;
        return PyErr_Format(PyExc_ValueError, "authority %zd is no certificate in DER", n) != NULL;
    }
    return true;
}

static PyObject *Context_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pem", "authorities", "is_server", "openssl", NULL};
    const char *pem, *openssl = "";
    Py_ssize_t size;
    PyObject *authorities;
    int is_server;
    struct tls_fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y#O!p|s", names, &pem, &size, &PyList_Type, &authorities,
                                     &is_server, &openssl))
        return NULL;
    const struct openssl *library = library_of(state_of(type), openssl);
    Context *self = library ? (Context *)type->tp_alloc(type, 0) : NULL;
    if (!self) return NULL;
    self->core.is_server = is_server;
    if (!tls_context_open(&self->core, library, (struct tls_pem){pem, (size_t)size}, &fault))
        return Py_DECREF(self), tls_failed(type, &fault);
    if (!trust(self, authorities)) return Py_DECREF(self), NULL;
    return (PyObject *)self;
}

static void Context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tls_context_close(&((Context *)self)->core);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot context_slots[] = {{Py_tp_new, Context_new}, {Py_tp_dealloc, Context_dealloc}, {0, NULL}};
static PyType_Spec Context_spec = {"rtmw.net.link._line.Context", sizeof(Context), 0, Py_TPFLAGS_DEFAULT,
                                   context_slots};

/* ---- Connection ---- */

static PyObject *Connection_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"descriptor", "context", NULL};
    State *state = state_of(type);
    int descriptor;
    PyObject *context = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i|O", names, &descriptor, &context)) return NULL;
    if (context != Py_None && !PyObject_TypeCheck(context, state->context_type))
        return PyErr_Format(PyExc_TypeError, "context is a Context or None");
    Connection *self = (Connection *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    const struct tls_context *tls = context == Py_None ? NULL : &((Context *)context)->core;
    self->core = own >= 0 ? channel_open(own, tls) : NULL;
    if (!self->core) {
        PyErr_SetFromErrno(PyExc_OSError);
        if (own >= 0) close(own);
        return Py_DECREF(self), NULL;
    }
    if (tls) self->context = Py_NewRef(context);
    return (PyObject *)self;
}

static struct channel *connection_channel(PyObject *object)
{
    const Connection *self = (Connection *)object;
    if (!self->core)
        PyErr_SetString(state_of(Py_TYPE(object))->error,
                        self->is_given ? "the connection belongs to a line" : "the connection is closed");
    return self->core;
}

static void connection_give(PyObject *object)
{
    ((Connection *)object)->core = NULL;
    ((Connection *)object)->is_given = true;
}

/* After a call of the channel that left errno. */
static PyObject *channel_failed(PyObject *object, const struct channel *c, int failed)
{
    if (c->fault.reason[0]) return tls_failed(Py_TYPE(object), &c->fault);
    errno = failed ? failed : ECONNRESET;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *state_name(PyObject *object, const struct channel *c, enum channel_state state, int failed)
{
    static const char *const words[] = {"done", "read", "write"};
    if (state <= CHANNEL_WRITE) return PyUnicode_FromString(words[state]);
    return channel_failed(object, c, failed);
}

static bool keep_peer(Connection *self)
{
    const struct tls *tls = &self->core->tls;
    size_t size = tls_peer(tls, NULL);
    PyObject *peer = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!peer) return false;
    tls_peer(tls, (uint8_t *)PyBytes_AS_STRING(peer));
    Py_XSETREF(self->peer, peer);
    Py_XSETREF(self->cipher, PyUnicode_FromString(tls_cipher(tls)));
    return self->cipher != NULL;
}

static PyObject *Connection_handshake(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    enum channel_state state;
    int failed;
    (void)unused;
    if (!c) return NULL;
    Py_BEGIN_ALLOW_THREADS
    state = channel_handshake(c);
    failed = errno;
    Py_END_ALLOW_THREADS
    if (state == CHANNEL_DONE && c->has_tls && !keep_peer((Connection *)object)) return NULL;
    return state_name(object, c, state, failed);
}

static PyObject *flush(PyObject *object, struct channel *c)
{
    enum channel_state state;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    state = channel_write(c);
    failed = errno;
    Py_END_ALLOW_THREADS
    return state_name(object, c, state, failed);
}

static PyObject *Connection_flush(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    (void)unused;
    return c ? flush(object, c) : NULL;
}

static PyObject *Connection_say(PyObject *object, PyObject *given)
{
    struct channel *c = connection_channel(object);
    char *bytes;
    Py_ssize_t size;
    if (!c || PyBytes_AsStringAndSize(given, &bytes, &size)) return NULL;
    if (size > CONTROL_MOST)
        return PyErr_Format(PyExc_ValueError, "a control of %zd bytes; it has %d at most", size, CONTROL_MOST);
    if (channel_room(c) < (size_t)size + channel_around(c))
        return PyErr_Format(state_of(Py_TYPE(object))->error, "what was said before is not written yet: flush first");
    channel_put(c, (struct frame_header){.kind = FRAME_SAY}, (struct iovec){0}, (struct iovec){bytes, (size_t)size},
                NULL);
    PyObject *state = flush(object, c);
    if (!state) return NULL;
    Py_DECREF(state);
    Py_RETURN_NONE;
}

/* The frames of the inbox up to the first that is none for Python: that is the line's. */
static PyObject *frames_of(PyObject *object, struct channel *c)
{
    State *state = state_of(Py_TYPE(object));
    PyObject *list = PyList_New(0);
    struct frame f;
    enum frame_state got;
    while (list && !channel_has_lines(c) && (got = channel_next(c, &f)) != FRAME_PART) {
        PyObject *item = got == FRAME_WHOLE ? PyBytes_FromStringAndSize((const char *)f.body, (Py_ssize_t)f.size)
                                            : PyErr_Format(state->error, "%s", c->words);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (list && !PyList_GET_SIZE(list) && channel_has_lines(c)) {
        PyErr_SetString(state->error, "what came is a frame of a line, before the peer has said who it is");
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *Connection_heard(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    enum channel_state state;
    int failed;
    (void)unused;
    if (!c) return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    state = channel_read(c, false);
    failed = errno;
    Py_END_ALLOW_THREADS
    if (state == CHANNEL_FAILED) return channel_failed(object, c, failed);
    PyObject *frames = frames_of(object, c);
    if (!frames || PyList_GET_SIZE(frames) || state != CHANNEL_CLOSED) return frames;
    Py_DECREF(frames);
    Py_RETURN_NONE;
}

static PyObject *Connection_omit_crc(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    (void)unused;
    if (!c) return NULL;
    c->is_checked = false;
    Py_RETURN_NONE;
}

static PyObject *Connection_fileno(PyObject *object, PyObject *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyLong_FromLong(c ? c->descriptor : -1);
}

static PyObject *Connection_close(PyObject *object, PyObject *unused)
{
    Connection *self = (Connection *)object;
    (void)unused;
    channel_close(self->core);
    self->core = NULL;
    Py_RETURN_NONE;
}

/* The channel of a line that uses TLS has a reference of its own to the keys (SSL_new takes one). */
static void Connection_dealloc(PyObject *object)
{
    Connection *self = (Connection *)object;
    PyTypeObject *type = Py_TYPE(object);
    channel_close(self->core);
    Py_XDECREF(self->context);
    Py_XDECREF(self->peer);
    Py_XDECREF(self->cipher);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Connection_peer(PyObject *object, void *unused)
{
    PyObject *peer = ((Connection *)object)->peer;
    (void)unused;
    return Py_NewRef(peer ? peer : Py_None);
}

static PyObject *Connection_cipher(PyObject *object, void *unused)
{
    PyObject *cipher = ((Connection *)object)->cipher;
    (void)unused;
    return cipher ? Py_NewRef(cipher) : PyUnicode_FromString("");
}

static PyObject *Connection_is_within_host(PyObject *object, void *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyBool_FromLong(c && c->is_within_host);
}

static PyObject *Connection_has_crc(PyObject *object, void *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyBool_FromLong(c && c->is_checked);
}

static PyObject *Connection_is_far(PyObject *object, void *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyBool_FromLong(c && c->is_far);
}

static PyGetSetDef connection_properties[] = {{"peer", Connection_peer, NULL, NULL, NULL},
                                              {"cipher", Connection_cipher, NULL, NULL, NULL},
                                              {"has_crc", Connection_has_crc, NULL, NULL, NULL},
                                              {"is_far", Connection_is_far, NULL, NULL, NULL},
                                              {"is_within_host", Connection_is_within_host, NULL, NULL, NULL},
                                              {0}};
static PyMethodDef connection_methods[] = {
    {"handshake", Connection_handshake, METH_NOARGS, NULL}, {"say", Connection_say, METH_O, NULL},
    {"flush", Connection_flush, METH_NOARGS, NULL},         {"heard", Connection_heard, METH_NOARGS, NULL},
    {"omit_crc", Connection_omit_crc, METH_NOARGS, NULL},   {"fileno", Connection_fileno, METH_NOARGS, NULL},
    {"close", Connection_close, METH_NOARGS, NULL},         {NULL, NULL, 0, NULL}};
static PyType_Slot connection_slots[] = {{Py_tp_new, Connection_new},
                                         {Py_tp_dealloc, Connection_dealloc},
                                         {Py_tp_methods, connection_methods},
                                         {Py_tp_getset, connection_properties},
                                         {0, NULL}};
static PyType_Spec Connection_spec = {"rtmw.net.link._line.Connection", sizeof(Connection), 0, Py_TPFLAGS_DEFAULT,
                                      connection_slots};

/* ---- Route ---- */

typedef struct {
    PyObject_HEAD
    PyObject *line; /* until closed, as one of the next two */
    struct out *out;
    struct in *in;
    PyObject *about; /* of an inbound one: topic and type of its publisher, and here the rest */
    rtmw_publisher_qos qos;
} Route;

/* One that carries nothing yet, and holds the line from here on. */
static Route *new_route(State *state, PyObject *line)
{
    Route *route = (Route *)state->route_type->tp_alloc(state->route_type, 0);
    if (!route) return NULL;
    route->line = Py_NewRef(line);
    ((Line *)line)->holders++;
    return route;
}

static void forget(Route *route)
{
    PyObject *line = route->line;
    if (route->out) shared_rate_let_go(((Line *)line)->core->lines, route->out->topic_rate);
    free(route->out);
    free(route->in);
    route->out = NULL;
    route->in = NULL;
    route->line = NULL;
    Py_CLEAR(route->about);
    line_let_go(line);
    Py_DECREF(line);
}

/* Nothing is kept of it; with the exception that is set. */
static PyObject *failed(Route *route, PyObject *nothing)
{
    forget(route);
    Py_DECREF(route);
    return nothing;
}

static PyObject *taken(unsigned int number)
{
    return PyErr_Format(PyExc_ValueError,
                        "route %u: one of this number or a higher one was opened before in this direction", number);
}

/* By which the table knows the lane, whichever way it takes; origin: as of carried_key. */
static uint64_t lane_key(const struct line *l, const char *topic, const rtmw_type *type, int reliability,
                         uint64_t origin)
{
    uint64_t number = topic_number(topic, type ? type->identity : 0);
    return carried_key(number, l->wire_domain, (uint32_t)reliability, origin);
}

static PyObject *Line_outbound(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"number",          "topic",    "type",    "reliability", "depth", "history",
                            "min_interval_ns", "lease_ns", "carried", "is_followed", NULL};
    State *state = state_of(Py_TYPE(self));
    const char *topic;
    PyObject *given;
    rtmw_type space;
    const rtmw_type *type;
    unsigned int number, depth, history;
    int reliability, is_followed = 0;
    unsigned long long min_interval_ns, lease_ns, carried = 0;
    struct line *core = open_line(self);
    if (!core ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "IsOiIIKK|Kp", names, &number, &topic, &given, &reliability,
                                     &depth, &history, &min_interval_ns, &lease_ns, &carried, &is_followed))
        return NULL;
    if (!number) return PyErr_Format(PyExc_ValueError, "numbers of routes begin at 1");
    Route *route = read_type(given, &space, &type) ? new_route(state, self) : NULL;
    if (!route) return NULL;
    struct out *out = route->out = calloc(1, sizeof *out);
    if (!out) return failed(route, PyErr_NoMemory());
    rtmw_subscriber_qos qos = outbound_qos(reliability, depth, history, min_interval_ns, lease_ns);
    int code = rtmw_subscriber_open(core->region, topic, type, &qos, &out->subscriber);
    if (code != RTMW_OK) return failed(route, fail(state->error, topic, code));
    out->line = core;
    out->topic_rate = shared_rate_hold(core->lines, topic);
    out->number = number;
    out->depth = out->depth_now = depth;
    out->min_interval_ns = min_interval_ns;
    out->reliable = reliability == RTMW_RELIABLE;
    out->resends = reliability != RTMW_TIMELY;
    out->ceilings.max_priority = BANDS - 1;
    if (out->reliable) rtmw_subscriber_resume(out->subscriber, core->key);
    out->resumes = is_followed || !history;
    told_open_out(out, carried, lane_key(core, topic, type, reliability, CARRIED_LANE), history > 0);
    bool is_new;
    Py_BEGIN_ALLOW_THREADS
    is_new = out_open(out);
    if (!is_new) rtmw_subscriber_close(out->subscriber);
    Py_END_ALLOW_THREADS
    return is_new ? (PyObject *)route : failed(route, taken(number));
}

/* Of more publishers than there is room for, the first ones. */
static void take_on_bus(struct in *in, PyObject *given)
{
    PyObject *publisher, *newest;
    Py_ssize_t at = 0;
    for (uint32_t n = 0; given && n < ON_BUS && PyDict_Next(given, &at, &publisher, &newest); n++) {
        in->on_bus[n].publisher = PyLong_AsUnsignedLongLongMask(publisher);
        in->on_bus[n].newest_ns = PyLong_AsUnsignedLongLongMask(newest);
    }
}

/* NULL: an exception is set. */
static rtmw_publisher *open_publisher(const Route *route)
{
    const char *topic;
    PyObject *given;
    rtmw_type space;
    const rtmw_type *type;
    rtmw_publisher *publisher = NULL;
    if (!PyArg_ParseTuple(route->about, "sO", &topic, &given) || !read_type(given, &space, &type)) return NULL;
    int code = rtmw_publisher_open(((Line *)route->line)->core->region, topic, type, &route->qos, &publisher);
    if (code != RTMW_OK) fail(state_of(Py_TYPE(route))->error, topic, code);
    return publisher;
}

static PyObject *Line_inbound(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"number", "topic",     "type",   "reliability",  "priority", "depth",    "history",
                            "origin", "wants_old", "window", "max_priority", "max_size", "max_rate", "on_bus",
                            "begins", "later",     NULL};
    State *state = state_of(Py_TYPE(self));
    const char *topic, *origin;
    PyObject *given, *on_bus = NULL;
    unsigned int number, depth, history, max_priority = BANDS - 1;
    rtmw_type space;
    const rtmw_type *type;
    int reliability, priority, wants_old, later = 0;
    unsigned long long window, max_size = 0, max_rate = 0, begins = 0;
    struct line *core = open_line(self);
    if (!core ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "IsOiiIIspK|IKKO!Kp", names, &number, &topic, &given, &reliability,
                                     &priority, &depth, &history, &origin, &wants_old, &window, &max_priority,
                                     &max_size, &max_rate, &PyDict_Type, &on_bus, &begins, &later))
        return NULL;
    if (!number) return PyErr_Format(PyExc_ValueError, "numbers of routes begin at 1");
    if (!window) return PyErr_Format(PyExc_ValueError, "a window of 0 bytes: nothing could come");
    Route *route = read_type(given, &space, &type) ? new_route(state, self) : NULL;
    if (!route) return NULL;
    struct in *in = route->in = calloc(1, sizeof *in);
    if (!in) return failed(route, PyErr_NoMemory());
    route->about = Py_BuildValue("sO", topic, given);
    route->qos = inbound_qos(reliability, priority, depth, history);
    if (!route->about || (!later && !(in->publisher = open_publisher(route)))) return failed(route, NULL);
    in->line = core;
    in->number = number;
    in->reliable = reliability == RTMW_RELIABLE;
    in->origin = identity_of_origin(origin);
    in->window = window;
    in->wants_old = (uint32_t)wants_old;
    in->ceilings = (struct ceilings){max_priority, max_size, max_rate};
    rate_limit_set(&in->rate, max_rate);
    take_on_bus(in, on_bus);
    told_open_in(in, lane_key(core, topic, type, reliability, in->origin), begins);
    if (in_open(in)) return (PyObject *)route;
    if (in->publisher) rtmw_publisher_close(in->publisher);
    return failed(route, taken(number));
}

static PyObject *Route_begin(PyObject *object, PyObject *unused)
{
    Route *self = (Route *)object;
    (void)unused;
    if (!self->in || self->in->publisher) Py_RETURN_NONE; /* only this thread opens it */
    rtmw_publisher *publisher = open_publisher(self);
    if (!publisher) return NULL;
    Py_BEGIN_ALLOW_THREADS
    in_begin_publishing(self->in, publisher);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_close(PyObject *object, PyObject *unused)
{
    Route *self = (Route *)object;
    (void)unused;
    if (!self->line) Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    if (self->out) out_close(self->out);
    if (self->in) in_close(self->in);
    Py_END_ALLOW_THREADS
    forget(self);
    Py_RETURN_NONE;
}

/* A message that the bus dropped before the route took it counts like one that the route dropped itself. */
static PyObject *out_counters(struct out *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "sent", load_relaxed(&o->sent), "bytes", load_relaxed(&o->bytes),
                         "expired", load_relaxed(&o->expired) + bus.expired, "thinned", bus.thinned, "missed",
                         bus.missed, "lapses", bus.lapses, "blocked", load_relaxed(&o->blocked), "resent",
                         load_relaxed(&o->resent), "priority", load_relaxed(&o->withheld[REFUSED_PRIORITY]), "size",
                         load_relaxed(&o->withheld[REFUSED_SIZE]));
}

static PyObject *in_counters(const struct in *i)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsK}", "received", load_relaxed(&i->arrived), "bytes",
                         load_relaxed(&i->bytes), "lost", load_relaxed(&i->lost), "expired", load_relaxed(&i->expired),
                         "no_memory", load_relaxed(&i->no_memory), "delayed", load_relaxed(&i->delayed), "uncopied",
                         load_relaxed(&i->uncopied), "old", load_relaxed(&i->old), "priority",
                         load_relaxed(&i->refused[REFUSED_PRIORITY]), "size", load_relaxed(&i->refused[REFUSED_SIZE]),
                         "rate", load_relaxed(&i->refused[REFUSED_RATE]));
}

static PyObject *Route_counters(PyObject *object, PyObject *unused)
{
    const Route *self = (Route *)object;
    (void)unused;
    return self->out ? out_counters(self->out) : self->in ? in_counters(self->in) : PyDict_New();
}

static PyObject *Route_total(PyObject *object, PyObject *unused)
{
    PyObject *counters = Route_counters(object, unused), *name, *value;
    unsigned long long total = 0;
    Py_ssize_t at = 0;
    while (counters && PyDict_Next(counters, &at, &name, &value)) total += PyLong_AsUnsignedLongLong(value);
    Py_XDECREF(counters);
    return counters ? PyLong_FromUnsignedLongLong(total) : NULL;
}

static PyObject *Route_limit(PyObject *object, PyObject *args)
{
    const Route *self = (Route *)object;
    unsigned int max_priority = BANDS - 1;
    unsigned long long max_rate, max_size = 0, topic_rate = 0;
    if (!PyArg_ParseTuple(args, "K|IKK", &max_rate, &max_priority, &max_size, &topic_rate)) return NULL;
    struct ceilings ceilings = {max_priority, max_size, max_rate};
    Py_BEGIN_ALLOW_THREADS
    if (self->out) out_limit(self->out, ceilings, topic_rate);
    if (self->in) in_limit(self->in, ceilings);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_passed(PyObject *object, PyObject *unused)
{
    const struct out *o = ((Route *)object)->out;
    rtmw_subscriber_counters bus = {0};
    (void)unused;
    if (o) rtmw_subscriber_count(o->subscriber, &bus);
    uint64_t expired = o ? load_relaxed(&o->unsent) : 0;
    return Py_BuildValue("KK", (unsigned long long)(expired + bus.expired), (unsigned long long)bus.thinned);
}

static PyObject *Route_unsent(PyObject *object, PyObject *args)
{
    struct in *i = ((Route *)object)->in;
    rtmw_lost unsent;
    if (!read_unsent(args, &unsent)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (i) in_unsent(i, unsent);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_finish(PyObject *object, PyObject *unused)
{
    struct out *o = ((Route *)object)->out;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) out_finish(o);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_abandon(PyObject *object, PyObject *unused)
{
    struct in *i = ((Route *)object)->in;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (i) in_abandon(i);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_held(PyObject *object, PyObject *unused)
{
    struct out *o = ((Route *)object)->out;
    struct in *i = ((Route *)object)->in;
    uint32_t held = 0;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) held = out_held(o);
    if (i) held = in_held(i);
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLong(held);
}

static PyObject *Route_begins(PyObject *object, PyObject *unused)
{
    const struct out *o = ((Route *)object)->out;
    (void)unused;
    return PyLong_FromUnsignedLongLong(o ? o->begins & INT64_MAX : 0);
}

static PyObject *Route_adjust(PyObject *object, PyObject *args)
{
    struct out *o = ((Route *)object)->out;
    unsigned int depth;
    unsigned long long min_interval_ns;
    if (!PyArg_ParseTuple(args, "IK", &depth, &min_interval_ns)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (o) out_adjust(o, depth, min_interval_ns);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_want_old(PyObject *object, PyObject *given)
{
    struct in *i = ((Route *)object)->in;
    return set_wants_old(i ? &i->wants_old : NULL, given);
}

static PyObject *Route_delivered(PyObject *object, PyObject *unused)
{
    const Route *self = (Route *)object;
    bool delivered = true;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (self->out) delivered = out_is_delivered(self->out);
    if (self->in) delivered = in_is_delivered(self->in);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(delivered);
}

static PyObject *Route_park(PyObject *object, PyObject *given)
{
    struct out *o = ((Route *)object)->out;
    unsigned long long for_ns = PyLong_AsUnsignedLongLong(given);
    if (PyErr_Occurred()) return NULL;
    if (o) o->park_ns = o->reliable ? for_ns : 0;
    Py_RETURN_NONE;
}

static PyObject *Route_stop(PyObject *object, PyObject *unused)
{
    struct out *o = ((Route *)object)->out;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) out_stop(o);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void Route_dealloc(PyObject *object) { dealloc_closed(object, Route_close); }

static PyMethodDef route_methods[] = {{"begin", Route_begin, METH_NOARGS, NULL},
                                      {"counters", Route_counters, METH_NOARGS, NULL},
                                      {"total", Route_total, METH_NOARGS, NULL},
                                      {"limit", Route_limit, METH_VARARGS, NULL},
                                      {"finish", Route_finish, METH_NOARGS, NULL},
                                      {"passed", Route_passed, METH_NOARGS, NULL},
                                      {"unsent", Route_unsent, METH_VARARGS, NULL},
                                      {"abandon", Route_abandon, METH_NOARGS, NULL},
                                      {"held", Route_held, METH_NOARGS, NULL},
                                      {"begins", Route_begins, METH_NOARGS, NULL},
                                      {"adjust", Route_adjust, METH_VARARGS, NULL},
                                      {"want_old", Route_want_old, METH_O, NULL},
                                      {"delivered", Route_delivered, METH_NOARGS, NULL},
                                      {"park", Route_park, METH_O, NULL},
                                      {"stop", Route_stop, METH_NOARGS, NULL},
                                      {"close", Route_close, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot route_slots[] = {{Py_tp_dealloc, Route_dealloc}, {Py_tp_methods, route_methods}, {0, NULL}};
static PyType_Spec Route_spec = {"rtmw.net.link._line.Route", sizeof(Route), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, route_slots};

/* ---- Bus ---- */

/* 0, or errno. */
static int begin_lines(Bus *self)
{
    struct lines *lines = calloc(1, sizeof *lines);
    int failed = lines ? lines_start(lines) : ENOMEM;
    if (failed) free(lines);
    self->lines = failed ? NULL : lines;
    return failed;
}

static PyObject *Bus_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"domain", "carried", "wire_domain", NULL};
    unsigned int domain, wire_domain = 0;
    const char *carried = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "I|zI", names, &domain, &carried, &wire_domain)) return NULL;
    Bus *self = (Bus *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    int code = rtmw_attach(domain, &self->region);
    if (code == RTMW_OK) rtmw_serve_peers(self->region);
    self->holders = 1;
    self->wire_domain = wire_domain;
    if (code == RTMW_OK && carried && !(self->carried = carried_map(carried)))
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, carried), Py_DECREF(self), NULL;
    if (code == RTMW_OK && (errno = begin_lines(self))) return PyErr_SetFromErrno(PyExc_OSError), Py_DECREF(self), NULL;
    if (code == RTMW_OK) return (PyObject *)self;
    self->region = NULL;
    self->is_closed = true;
    fail(state_of(type)->error, "the links cannot attach", code);
    return Py_DECREF(self), NULL;
}

static void bus_let_go(Bus *self)
{
    if (--self->holders) return;
    Py_BEGIN_ALLOW_THREADS
    if (self->lines) lines_stop(self->lines);
    free(self->lines);
    self->lines = NULL;
    carried_unmap(self->carried);
    rtmw_detach(self->region);
    Py_END_ALLOW_THREADS
    self->region = NULL;
    self->carried = NULL;
}

static PyObject *Bus_close(PyObject *object, PyObject *unused)
{
    Bus *self = (Bus *)object;
    (void)unused;
    if (self->is_closed) Py_RETURN_NONE;
    self->is_closed = true;
    bus_let_go(self);
    Py_RETURN_NONE;
}

static void Bus_dealloc(PyObject *self) { dealloc_closed(self, Bus_close); }

static PyMethodDef bus_methods[] = {{"close", Bus_close, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot bus_slots[] = {{Py_tp_new, Bus_new},
                                  {Py_tp_dealloc, Bus_dealloc},
                                  {Py_tp_methods, bus_methods},
                                  {0, NULL}};
static PyType_Spec Bus_spec = {"rtmw.net.link._line.Bus", sizeof(Bus), 0, Py_TPFLAGS_DEFAULT, bus_slots};

/* ---- Line ---- */

static PyObject *Line_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"bus", "zero_copy_most", "site", "hops", "key", "held_most", NULL};
    State *state = state_of(type);
    PyObject *bus;
    unsigned long long zero_copy_most = 0, site = 0, held_most = 0;
    unsigned char hops = 1;
    unsigned short key = 0xFFFF;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|KKbHK", names, state->bus_type, &bus, &zero_copy_most, &site,
                                     &hops, &key, &held_most))
        return NULL;
    if (((Bus *)bus)->is_closed) return PyErr_Format(state->error, "the bus of the links is closed");
    if (!hops) return PyErr_Format(PyExc_ValueError, "hops is 0: what may go over no link is not sent by one");
    Line *self = (Line *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->is_closed = true;
    self->core = calloc(1, sizeof *self->core);
    if (!self->core) return Py_DECREF(self), PyErr_NoMemory();
    *self->core = (struct line){.lines = ((Bus *)bus)->lines,
                                .region = ((Bus *)bus)->region,
                                .carried = ((Bus *)bus)->carried,
                                .wire_domain = ((Bus *)bus)->wire_domain,
                                .began_ns = now_monotonic_ns(),
                                .site = site,
                                .zero_copy_most = zero_copy_most,
                                .hops = hops,
                                .key = key,
                                .held_most = held_most};
    errno = line_start(self->core);
    if (errno) {
        free(self->core);
        self->core = NULL;
        return Py_DECREF(self), PyErr_SetFromErrno(PyExc_OSError);
    }
    self->is_closed = false;
    self->holders = 1;
    self->bus = Py_NewRef(bus);
    ((Bus *)bus)->holders++;
    return (PyObject *)self;
}

static void line_let_go(PyObject *object)
{
    Line *self = (Line *)object;
    if (--self->holders) return;
    line_free(self->core);
    free(self->core);
    self->core = NULL;
    bus_let_go((Bus *)self->bus);
    Py_CLEAR(self->bus);
}

static PyObject *Line_close(PyObject *object, PyObject *unused)
{
    Line *self = (Line *)object;
    (void)unused;
    if (self->is_closed) Py_RETURN_NONE;
    self->is_closed = true;
    Py_BEGIN_ALLOW_THREADS
    line_stop(self->core);
    Py_END_ALLOW_THREADS
    line_let_go(object);
    Py_RETURN_NONE;
}

static void Line_dealloc(PyObject *self) { dealloc_closed(self, Line_close); }

static PyObject *Line_carry(PyObject *self, PyObject *args)
{
    State *state = state_of(Py_TYPE(self));
    PyObject *urgent, *bulk;
    struct line *core = open_line(self);
    if (!core || !PyArg_ParseTuple(args, "O!O!", state->connection_type, &urgent, state->connection_type, &bulk))
        return NULL;
    struct channel *one = connection_channel(urgent), *other = one ? connection_channel(bulk) : NULL;
    if (!other) return NULL;
    if (one == other) return PyErr_Format(PyExc_ValueError, "a line needs two connections, and this is one twice");
    connection_give(urgent);
    connection_give(bulk);
    Py_BEGIN_ALLOW_THREADS
    line_carry(core, one, other);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Line_twin(PyObject *self, PyObject *args)
{
    PyObject *twin;
    struct line *core = open_line(self);
    if (!core || !PyArg_ParseTuple(args, "O!", state_of(Py_TYPE(self))->connection_type, &twin)) return NULL;
    struct channel *channel = connection_channel(twin);
    if (!channel) return NULL;
    connection_give(twin);
    Py_BEGIN_ALLOW_THREADS
    line_twin(core, channel);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Line_cut(PyObject *self, PyObject *args)
{
    const char *words = "";
    Py_ssize_t size = 0;
    struct line *core = open_line(self);
    if (!core || !PyArg_ParseTuple(args, "|s#", &words, &size)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    line_cut(core, words, (size_t)size);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Line_say(PyObject *self, PyObject *given)
{
    char *bytes;
    Py_ssize_t size;
    bool is_taken;
    struct line *core = open_line(self);
    if (!core || PyBytes_AsStringAndSize(given, &bytes, &size)) return NULL;
    if (size > CONTROL_MOST)
        return PyErr_Format(PyExc_ValueError, "a control of %zd bytes; it has %d at most", size, CONTROL_MOST);
    Py_BEGIN_ALLOW_THREADS
    is_taken = line_say(core, bytes, (size_t)size);
    Py_END_ALLOW_THREADS
    if (is_taken) Py_RETURN_NONE;
    return PyErr_Format(state_of(Py_TYPE(self))->error,
                        "%d controls wait for the peer, and no more may: it has not taken any for long", CONTROLS_MOST);
}

static PyObject *Line_fileno(PyObject *self, PyObject *unused)
{
    struct line *core = ((Line *)self)->core;
    (void)unused;
    return PyLong_FromLong(core ? core->event : -1);
}

static const char *const kinds[] = {"up", "control", "down", "refused", "withheld", "first"};

static PyObject *Line_events(PyObject *self, PyObject *unused)
{
    struct line *core = open_line(self);
    PyObject *list = core ? PyList_New(0) : NULL;
    (void)unused;
    if (!list) return NULL;
    for (struct news *n = news_take(core), *next; n; n = next) {
        next = n->next;
        PyObject *item = list ? Py_BuildValue("(sKy#)", kinds[n->kind], (unsigned long long)n->number,
                                              (const char *)n->bytes, (Py_ssize_t)n->size)
                              : NULL;
        if (list && (!item || PyList_Append(list, item))) Py_CLEAR(list);
        Py_XDECREF(item);
        free(n);
    }
    return list;
}

static PyObject *Line_limit(PyObject *self, PyObject *given)
{
    struct line *core = open_line(self);
    unsigned long long limit = core ? PyLong_AsUnsignedLongLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    store_relaxed(&core->bytes_per_second, limit);
    line_lock(core);
    line_pace(core);
    unlock(&core->lock, LOCK_ENGINE);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Line_lease(PyObject *self, PyObject *given)
{
    struct line *core = open_line(self);
    unsigned long long silence = core ? PyLong_AsUnsignedLongLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    if (!silence) return PyErr_Format(PyExc_ValueError, "a silence of 0 ns would end each connection at once");
    store_relaxed(&core->silence_ns, silence);
    Py_RETURN_NONE;
}

struct facts {
    uint64_t sent, received, queued, unacknowledged, held, controls, resumes;
    bool has_twin;
    struct twin twin;
};

/* Bytes that the kernel has and has not sent; over a Unix socket: that the peer has not read. */
static uint64_t queued_in(const struct channel *c)
{
    int queued = 0;
    return ioctl(c->descriptor, c->is_unix ? SIOCOUTQ : SIOCOUTQNSD, &queued) == 0 ? (uint64_t)queued : 0;
}

static struct facts facts_of(struct line *l)
{
    line_lock(l);
    struct facts f = {.sent = l->twin.written,
                      .received = l->twin.read,
                      .controls = l->control_count,
                      .resumes = l->resumes,
                      .has_twin = l->channel[TWIN]};
    for (int c = 0; c < CHANNELS; c++) {
        if (!l->channel[c]) continue;
        f.sent += l->channel[c]->written;
        f.received += load_relaxed(&l->channel[c]->read);
        f.queued += queued_in(l->channel[c]);
    }
    for (const struct out *o = l->outs; o; o = o->next) f.unacknowledged += o->in_flight;
    lock(&l->arriving, LOCK_ROUTE);
    f.held = l->held;
    f.twin = l->twin;
    unlock(&l->arriving, LOCK_ROUTE);
    unlock(&l->lock, LOCK_ENGINE);
    return f;
}

static PyObject *Line_steady_ns(PyObject *self, PyObject *unused)
{
    (void)unused;
    return open_line(self) ? PyLong_FromUnsignedLongLong(now_steady_ns()) : NULL;
}

static PyObject *Line_info(PyObject *self, PyObject *unused)
{
    struct line *l = open_line(self);
    struct facts f;
    (void)unused;
    if (!l) return NULL;
    Py_BEGIN_ALLOW_THREADS
    f = facts_of(l);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("{sKsKsKsLsKsKsKsKsKsKsKsKsisKsKsKsKsK}", "steady_ns", now_steady_ns(), "rtt_ns",
                         load_relaxed(&l->clock.rtt_ns), "rtt_least_ns", load_relaxed(&l->clock.best_ns), "ahead_ns",
                         load_relaxed(&l->clock.ahead_ns), "unsure_ns", load_relaxed(&l->clock.unsure_ns), "sent",
                         f.sent, "received", f.received, "queued", f.queued, "unacknowledged", f.unacknowledged, "held",
                         f.held, "resumes", f.resumes, "controls", f.controls, "twin", (int)f.has_twin, "twins",
                         f.twin.begun, "copies", f.twin.copies, "copies_left_out", f.twin.left_out, "copies_first",
                         f.twin.first, "copies_passed_over", f.twin.passed_over);
}

static PyMethodDef line_methods[] = {{"carry", Line_carry, METH_VARARGS, NULL},
                                     {"twin", Line_twin, METH_VARARGS, NULL},
                                     {"cut", Line_cut, METH_VARARGS, NULL},
                                     {"say", Line_say, METH_O, NULL},
                                     {"fileno", Line_fileno, METH_NOARGS, NULL},
                                     {"events", Line_events, METH_NOARGS, NULL},
                                     {"outbound", (PyCFunction)(void (*)(void))Line_outbound,
                                      METH_VARARGS | METH_KEYWORDS, NULL},
                                     {"inbound", (PyCFunction)(void (*)(void))Line_inbound,
                                      METH_VARARGS | METH_KEYWORDS, NULL},
                                     {"limit", Line_limit, METH_O, NULL},
                                     {"lease", Line_lease, METH_O, NULL},
                                     {"info", Line_info, METH_NOARGS, NULL},
                                     {"steady_ns", Line_steady_ns, METH_NOARGS, NULL},
                                     {"close", Line_close, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot line_slots[] = {{Py_tp_new, Line_new},
                                   {Py_tp_dealloc, Line_dealloc},
                                   {Py_tp_methods, line_methods},
                                   {0, NULL}};
static PyType_Spec Line_spec = {"rtmw.net.link._line.Line", sizeof(Line), 0, Py_TPFLAGS_DEFAULT, line_slots};

/* ---- the module ---- */

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *errors = PyImport_ImportModule("rtmw.errors");
    if (errors) state->error = PyObject_GetAttrString(errors, "RtmwError");
    Py_XDECREF(errors);
    state->tls_error = state->error ? PyErr_NewException("rtmw.net.link._line.TlsError", state->error, NULL) : NULL;
    if (!state->error || !state->tls_error || PyModule_AddObjectRef(module, "TlsError", state->tls_error)) return -1;
    return add_type(module, &Bus_spec, &state->bus_type) || add_type(module, &Line_spec, NULL) ||
                   add_type(module, &Route_spec, &state->route_type) ||
                   add_type(module, &Context_spec, &state->context_type) ||
                   add_type(module, &Connection_spec, &state->connection_type)
               ? -1
               : 0;
}

static PyMethodDef functions[] = {{"openssl", openssl_version, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.net.link._line", NULL, sizeof(State), functions, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__line(void) { return PyModuleDef_Init(&module); }
