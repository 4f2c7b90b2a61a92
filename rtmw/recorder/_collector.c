/* Python's view of the collector; the only file of the recorder that knows Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector.h"

typedef struct {
    PyObject_HEAD
    struct collector *core; /* until closed */
    pid_t owner;            /* the process that has the thread: a child of it has not */
} Collector;

static PyObject *error_of(PyObject *self) { return *(PyObject **)PyType_GetModuleState(Py_TYPE(self)); }

static PyObject *fail(PyObject *self, const char *what, int code)
{
    char text[256];
    return PyErr_Format(error_of(self), "%s: %s", what, rtmw_explain(code, errno, text, sizeof text));
}

static struct collector *open_core(PyObject *self)
{
    struct collector *core = ((Collector *)self)->core;
    if (!core) PyErr_SetString(error_of(self), "the recorder is closed");
    return core;
}

/* Attached and started, or a Python error. */
static bool start(PyObject *self, uint32_t domain, uint64_t chunk_age_ns, uint64_t budget)
{
    struct collector *core = calloc(1, sizeof *core);
    if (!core) return PyErr_NoMemory(), false;
    core->chunk_age_ns = chunk_age_ns;
    core->budget = budget;
    int code = rtmw_attach(domain, &core->region);
    if (code != RTMW_OK) return free(core), fail(self, "the recorder cannot attach", code), false;
    code = collector_start(core);
    ((Collector *)self)->owner = getpid();
    if (!code) return ((Collector *)self)->core = core, true;
    rtmw_detach(core->region);
    free(core);
    errno = code;
    return PyErr_SetFromErrno(PyExc_OSError), false;
}

static PyObject *Collector_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"domain", "chunk_age_ns", "budget", NULL};
    unsigned int domain;
    unsigned long long age, budget;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "IKK", names, &domain, &age, &budget)) return NULL;
    PyObject *self = type->tp_alloc(type, 0);
    if (self && !start(self, domain, age, budget)) Py_CLEAR(self);
    return self;
}

/* A recorder that is stopped makes its publishers wait for so long. */
static const uint64_t LEASE_NS = 5000000000;

static rtmw_subscriber_qos qos_of(int reliability, uint32_t depth, uint32_t history)
{
    return (rtmw_subscriber_qos){
        (rtmw_reliability)reliability, depth, history, 0, 0, reliability == RTMW_RELIABLE ? LEASE_NS : 0};
}

static PyObject *Collector_add(PyObject *self, PyObject *args)
{
    const char *topic;
    int reliability, is_new, code;
    unsigned int depth, history;
    struct collector *core = open_core(self);
    if (!core || !PyArg_ParseTuple(args, "siIIp", &topic, &reliability, &depth, &history, &is_new)) return NULL;
    rtmw_subscriber_qos qos = qos_of(reliability, depth, history);
    int64_t number = source_add(core, topic, &qos, is_new, &code);
    return number < 0 ? fail(self, topic, code) : PyLong_FromLongLong(number);
}

/* NULL: a Python error. It stays until the collector is closed. */
static struct source *source_at(struct collector *core, unsigned int number)
{
    pthread_mutex_lock(&core->lock);
    struct source *s = number < core->source_count ? core->sources[number] : NULL;
    pthread_mutex_unlock(&core->lock);
    if (!s) PyErr_Format(PyExc_KeyError, "there is no source %u", number);
    return s;
}

static PyObject *Collector_adapt(PyObject *self, PyObject *args)
{
    unsigned int number, depth;
    struct collector *core = open_core(self);
    if (!core || !PyArg_ParseTuple(args, "II", &number, &depth)) return NULL;
    struct source *s = source_at(core, number);
    if (!s) return NULL;
    store_relaxed(&s->new_depth, depth);
    Py_RETURN_NONE;
}

static PyObject *Collector_leave(PyObject *self, PyObject *given)
{
    struct collector *core = open_core(self);
    unsigned long number = core ? PyLong_AsUnsignedLong(given) : 0;
    struct source *s = core && !PyErr_Occurred() ? source_at(core, (unsigned int)number) : NULL;
    if (!s) return NULL;
    store_release(&s->leaving, 1u);
    Py_RETURN_NONE;
}

static PyObject *Collector_resume(PyObject *self, PyObject *args)
{
    int reliability, is_other;
    unsigned int number, depth;
    struct collector *core = open_core(self);
    if (!core || !PyArg_ParseTuple(args, "IiIp", &number, &reliability, &depth, &is_other)) return NULL;
    struct source *s = source_at(core, number);
    if (!s) return NULL;
    rtmw_subscriber_qos qos = qos_of(reliability, depth, UINT32_MAX);
    int code = source_resume(core, s, &qos, is_other);
    if (code != RTMW_OK) return fail(self, s->topic, code);
    Py_RETURN_NONE;
}

static struct chunk *chunk_at(PyObject *address) { return PyLong_AsVoidPtr(address); }

static PyObject *Collector_lend(PyObject *self, PyObject *address)
{
    struct collector *core = open_core(self);
    struct chunk *chunk = core ? chunk_at(address) : NULL;
    if (!chunk) return NULL;
    if (!exchange_lend(core, chunk)) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *Collector_give(PyObject *self, PyObject *address)
{
    struct collector *core = open_core(self);
    struct chunk *chunk = core ? chunk_at(address) : NULL;
    if (!chunk) return NULL;
    exchange_give(core, chunk);
    Py_RETURN_NONE;
}

static PyObject *Collector_next(PyObject *self, PyObject *given)
{
    struct collector *core = open_core(self);
    unsigned long long timeout_ns = core ? PyLong_AsUnsignedLongLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    struct chunk *chunk;
    Py_BEGIN_ALLOW_THREADS
    chunk = exchange_next(core, timeout_ns);
    Py_END_ALLOW_THREADS
    if (chunk) return PyLong_FromVoidPtr(chunk);
    Py_RETURN_NONE;
}

static PyObject *Collector_channel(PyObject *self, PyObject *given)
{
    struct collector *core = open_core(self);
    unsigned long number = core ? PyLong_AsUnsignedLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    pthread_mutex_lock(&core->lock);
    bool exists = number > 0 && number <= core->channel_count;
    struct channel channel = exists ? core->channels[number] : (struct channel){0};
    pthread_mutex_unlock(&core->lock);
    if (exists) /* what a channel has stays as it is until the collector is closed */
        return Py_BuildValue("IKy#", channel.source, (unsigned long long)channel.life, channel.description,
                             (Py_ssize_t)channel.description_bytes);
    return PyErr_Format(PyExc_KeyError, "there is no channel %lu", number);
}

/* Rows of (source, channel or 0, cause, count), as Python tells them. */
static PyObject *list_of(const struct missed *rows, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        const struct missed *m = &rows[i];
        PyObject *row = Py_BuildValue("IHiK", m->source, m->channel, m->cause, m->count);
        if (!row) Py_CLEAR(list);
        if (row) PyList_SET_ITEM(list, i, row);
    }
    return list;
}

/* No object is made while the lock is held. An allocation may collect garbage, garbage may have finalizers, and one of those
 * lets other threads run: one that waits for the lock would wait with the interpreter held, and for ever. */
static PyObject *Collector_missing(PyObject *self, PyObject *unused)
{
    struct collector *core = open_core(self);
    uint32_t count = 0;
    (void)unused;
    if (!core) return NULL;
    struct missed *rows = sources_missing(core, &count);
    if (!rows) return PyErr_NoMemory();
    PyObject *list = list_of(rows, count);
    if (!list) sources_untell(core, rows, count);
    free(rows);
    return list;
}

/* (taken, bytes, missing by cause from 1 on) of each source. */
static PyObject *Collector_counters(PyObject *self, PyObject *unused)
{
    struct collector *core = open_core(self);
    PyObject *list = core ? PyList_New(0) : NULL;
    (void)unused;
    uint32_t count = core ? load_acquire(&core->source_count) : 0;
    for (uint32_t i = 0; list && i < count; i++) {
        pthread_mutex_lock(&core->lock);
        struct source *s = core->sources[i];
        pthread_mutex_unlock(&core->lock);
        uint64_t *m = s->missing;
        PyObject *row = Py_BuildValue("KKKKKKKK", load_relaxed(&s->taken), load_relaxed(&s->bytes), load_relaxed(&m[1]),
                                      load_relaxed(&m[2]), load_relaxed(&m[3]), load_relaxed(&m[4]),
                                      load_relaxed(&m[5]), load_relaxed(&m[6]));
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *Collector_state(PyObject *self, PyObject *unused)
{
    struct collector *core = open_core(self);
    (void)unused;
    if (!core) return NULL;
    uint32_t cuts = load_acquire(&core->cuts_seen); /* before the chunks are counted: what it closed is among them */
    pthread_mutex_lock(&core->lock);
    uint32_t full = core->full_count, spare = core->free_count;
    bool has_ended = core->has_ended && !full;
    pthread_mutex_unlock(&core->lock);
    return Py_BuildValue("IIIKO", full, spare, cuts, load_relaxed(&core->clock_jumps), has_ended ? Py_True : Py_False);
}

static PyObject *Collector_pause(PyObject *self, PyObject *given)
{
    struct collector *core = open_core(self);
    int paused = core ? PyObject_IsTrue(given) : -1;
    if (paused < 0) return NULL;
    store_relaxed(&core->paused, (uint32_t)paused);
    Py_RETURN_NONE;
}

static PyObject *Collector_cut(PyObject *self, PyObject *unused)
{
    struct collector *core = open_core(self);
    (void)unused;
    if (!core) return NULL;
    return PyLong_FromUnsignedLong(fetch_add(&core->cuts, 1u) + 1u);
}

static PyObject *Collector_stop(PyObject *self, PyObject *unused)
{
    struct collector *core = open_core(self);
    (void)unused;
    if (!core) return NULL;
    store_release(&core->stopping, 1u);
    Py_RETURN_NONE;
}

static PyObject *Collector_close(PyObject *self, PyObject *unused)
{
    struct collector *core = ((Collector *)self)->core;
    (void)unused;
    ((Collector *)self)->core = NULL;
    if (core && ((Collector *)self)->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS
        rtmw_region *region = core->region;
        collector_stop(core);
        collector_free(core);
        rtmw_detach(region);
        free(core);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void Collector_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(Collector_close(self, NULL));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef collector_methods[] = {{"add", Collector_add, METH_VARARGS, NULL},
                                          {"adapt", Collector_adapt, METH_VARARGS, NULL},
                                          {"leave", Collector_leave, METH_O, NULL},
                                          {"resume", Collector_resume, METH_VARARGS, NULL},
                                          {"lend", Collector_lend, METH_O, NULL},
                                          {"give", Collector_give, METH_O, NULL},
                                          {"next", Collector_next, METH_O, NULL},
                                          {"channel", Collector_channel, METH_O, NULL},
                                          {"missing", Collector_missing, METH_NOARGS, NULL},
                                          {"counters", Collector_counters, METH_NOARGS, NULL},
                                          {"state", Collector_state, METH_NOARGS, NULL},
                                          {"pause", Collector_pause, METH_O, NULL},
                                          {"cut", Collector_cut, METH_NOARGS, NULL},
                                          {"stop", Collector_stop, METH_NOARGS, NULL},
                                          {"close", Collector_close, METH_NOARGS, NULL},
                                          {NULL, NULL, 0, NULL}};

static PyType_Slot collector_slots[] = {{Py_tp_new, Collector_new},
                                        {Py_tp_dealloc, Collector_dealloc},
                                        {Py_tp_methods, collector_methods},
                                        {0, NULL}};
static PyType_Spec collector_spec = {"rtmw.recorder._collector.Collector", sizeof(Collector), 0, Py_TPFLAGS_DEFAULT,
                                     collector_slots};

static int module_exec(PyObject *module)
{
    PyObject *errors = PyImport_ImportModule("rtmw.errors");
    PyObject **error = PyModule_GetState(module);
    if (errors) *error = PyObject_GetAttrString(errors, "RtmwError");
    Py_XDECREF(errors);
    PyObject *type = *error ? PyType_FromModuleAndSpec(module, &collector_spec, NULL) : NULL;
    int code = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return code;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.recorder._collector", NULL, sizeof(PyObject *), NULL, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__collector(void) { return PyModuleDef_Init(&module); }
