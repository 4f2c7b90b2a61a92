/* Engine: opens routes, and carries between them and DDS until it is closed. */
#include "_engine.h"
#include "../../shm/identity.h"

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

void engine_let_go(PyObject *object)
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
PyType_Spec Engine_spec = {"rtmw.net.dds._engine.Engine", sizeof(Engine), 0, Py_TPFLAGS_DEFAULT, engine_slots};

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
