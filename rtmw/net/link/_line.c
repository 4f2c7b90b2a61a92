/* Bus: the region of a node's lines. Line: what joins it with one peer. */
#include "_line.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

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
PyType_Spec Bus_spec = {"rtmw.net.link._line.Bus", sizeof(Bus), 0, Py_TPFLAGS_DEFAULT, bus_slots};

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

void line_let_go(PyObject *object)
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
PyType_Spec Line_spec = {"rtmw.net.link._line.Line", sizeof(Line), 0, Py_TPFLAGS_DEFAULT, line_slots};

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
