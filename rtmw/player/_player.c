/* Python's view of the player; the only file of it that knows Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/_type_argument.h"
#include "player.h"

typedef struct {
    PyObject_HEAD
    struct player core;
    bool running;
} Player;

typedef struct {
    PyObject *error;
} State;

/* A batch with the Python memory that it reads. */
struct python_batch {
    struct batch batch; /* first: player_over gives it back */
    Py_buffer cues;
    Py_ssize_t buffer_count;
    Py_buffer *buffers;
    const uint8_t **data;
};

static PyObject *error_of(PyObject *self) { return ((State *)PyType_GetModuleState(Py_TYPE(self)))->error; }

static struct player *running(PyObject *self)
{
    if (((Player *)self)->running) return &((Player *)self)->core;
    PyErr_SetString(error_of(self), "the player is closed");
    return NULL;
}

/* ---- batches with memory of Python ---- */

static void python_batch_free(struct python_batch *given)
{
    for (Py_ssize_t i = 0; i < given->buffer_count; i++) PyBuffer_Release(&given->buffers[i]);
    if (given->cues.obj) PyBuffer_Release(&given->cues);
    free(given->buffers);
    free(given->data);
    free(given);
}

static void free_what_is_over(struct player *core)
{
    for (struct batch *b = player_over(core), *next; b; b = next) {
        next = b->next;
        python_batch_free((struct python_batch *)b);
    }
}

static int get_buffers(struct python_batch *given, PyObject *list)
{
    Py_ssize_t count = PyList_GET_SIZE(list);
    given->buffers = calloc((size_t)count + 1, sizeof *given->buffers);
    given->data = calloc((size_t)count + 1, sizeof *given->data);
    if (!given->buffers || !given->data) return PyErr_NoMemory(), -1;
    for (; given->buffer_count < count; given->buffer_count++) {
        Py_buffer *view = &given->buffers[given->buffer_count];
        if (PyObject_GetBuffer(PyList_GET_ITEM(list, given->buffer_count), view, PyBUF_SIMPLE)) return -1;
        given->data[given->buffer_count] = view->buf;
    }
    return 0;
}

/* Nothing that a cue says leads outside of what it was given with. */
static bool is_sound(const struct python_batch *given, const struct cue *c, uint32_t tracks)
{
    if (c->track >= tracks || c->buffer >= (uint64_t)given->buffer_count || c->priority < -1 || c->priority > 7)
        return false;
    uint64_t length = (uint64_t)given->buffers[c->buffer].len;
    return c->position <= length && c->size <= length - c->position;
}

static int check_cues(struct python_batch *given, uint32_t tracks)
{
    struct batch *b = &given->batch;
    if (given->cues.len % (Py_ssize_t)sizeof *b->cues) return PyErr_SetString(PyExc_ValueError, "no array of CUE"), -1;
    b->count = (uint64_t)given->cues.len / sizeof *b->cues;
    b->cues = given->cues.buf;
    b->data = given->data;
    for (uint64_t i = 0; i < b->count; i++) {
        if (is_sound(given, &b->cues[i], tracks)) continue;
        return PyErr_Format(PyExc_ValueError, "cue %llu of %llu is not possible", (unsigned long long)i,
                            (unsigned long long)b->count),
               -1;
    }
    return 0;
}

static struct python_batch *python_batch_of(PyObject *cues, PyObject *buffers, uint32_t tracks)
{
    struct python_batch *given = calloc(1, sizeof *given);
    if (!given) return (struct python_batch *)PyErr_NoMemory();
    if (PyObject_GetBuffer(cues, &given->cues, PyBUF_SIMPLE) || get_buffers(given, buffers) ||
        check_cues(given, tracks)) {
        python_batch_free(given);
        return NULL;
    }
    return given;
}

/* ---- the player ---- */

static PyObject *Player_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"domain", "max_blocking_ns", "spin_ns", NULL};
    unsigned int domain;
    unsigned long long limit;
    long long spin_ns;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "IKL", names, &domain, &limit, &spin_ns)) return NULL;
    Player *self = (Player *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->core.max_blocking_ns = limit;
    self->core.pacing.spin_ns = spin_ns;
    int code = rtmw_attach(domain, &self->core.region), failed = errno;
    if (code == RTMW_OK && (failed = player_start(&self->core))) {
        rtmw_detach(self->core.region);
        code = RTMW_SYSTEM;
    }
    self->running = code == RTMW_OK;
    if (self->running) return (PyObject *)self;
    char text[256];
    PyErr_Format(error_of((PyObject *)self), "the replay cannot attach to domain %u: %s", domain,
                 rtmw_explain(code, failed, text, sizeof text));
    Py_DECREF(self);
    return NULL;
}

static PyObject *Player_close(PyObject *object, PyObject *unused)
{
    Player *self = (Player *)object;
    (void)unused;
    if (!self->running) Py_RETURN_NONE;
    self->running = false;
    Py_BEGIN_ALLOW_THREADS
    player_stop(&self->core);
    tracks_close(&self->core);
    rtmw_detach(self->core.region);
    Py_END_ALLOW_THREADS
    free_what_is_over(&self->core);
    Py_RETURN_NONE;
}

static void Player_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(Player_close(self, NULL));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Player_track(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"topic", "type", "reliability", "priority", "depth", "history", "lifetime_ns", NULL};
    const char *topic;
    PyObject *given;
    rtmw_type space;
    const rtmw_type *type;
    int reliability, priority;
    unsigned int depth, history;
    unsigned long long lifetime_ns;
    struct player *core = running(self);
    if (!core || !PyArg_ParseTupleAndKeywords(args, keywords, "sOiiIIK", names, &topic, &given, &reliability, &priority,
                                              &depth, &history, &lifetime_ns))
        return NULL;
    if (core->first || !read_type(given, &space, &type))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "tracks come before the first message");
    rtmw_publisher_qos qos = {(rtmw_reliability)reliability, (uint8_t)priority, depth, history, lifetime_ns};
    char text[256];
    int code = track_open(core, topic, type, &qos);
    if (code == RTMW_OK) return PyLong_FromUnsignedLong(core->track_count - 1);
    return PyErr_Format(error_of(self), "%s: %s", topic, rtmw_explain(code, errno, text, sizeof text));
}

static PyObject *Player_feed(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"take", "cues", "buffers", "begin_ns", NULL};
    unsigned int take;
    PyObject *cues, *buffers, *begin = Py_None;
    struct player *core = running(self);
    if (!core ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "IOO!|O", names, &take, &cues, &PyList_Type, &buffers, &begin))
        return NULL;
    free_what_is_over(core);
    long long begin_ns = begin == Py_None ? 0 : PyLong_AsLongLong(begin);
    struct python_batch *given = PyErr_Occurred() ? NULL : python_batch_of(cues, buffers, core->track_count);
    if (!given) return NULL;
    given->batch.begins = begin != Py_None;
    given->batch.begin_ns = begin_ns;
    bool fed;
    Py_BEGIN_ALLOW_THREADS
    fed = player_feed(core, &given->batch, take);
    Py_END_ALLOW_THREADS
    if (!fed) python_batch_free(given);
    return PyBool_FromLong(fed);
}

static PyObject *Player_end(PyObject *self, PyObject *given)
{
    struct player *core = running(self);
    unsigned long take = core ? PyLong_AsUnsignedLong(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    player_end(core, (uint32_t)take);
    Py_RETURN_NONE;
}

static PyObject *Player_clear(PyObject *self, PyObject *given)
{
    struct player *core = running(self);
    long long log_ns = core ? PyLong_AsLongLong(given) : 0;
    uint32_t take;
    if (!core || PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    take = player_clear(core, log_ns);
    Py_END_ALLOW_THREADS
    free_what_is_over(core);
    return PyLong_FromUnsignedLong(take);
}

static PyObject *Player_pause(PyObject *self, PyObject *given)
{
    struct player *core = running(self);
    int paused = core ? PyObject_IsTrue(given) : -1;
    if (paused < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS
    player_pause(core, paused);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Player_step(PyObject *self, PyObject *unused)
{
    struct player *core = running(self);
    (void)unused;
    if (!core) return NULL;
    player_step(core);
    Py_RETURN_NONE;
}

static PyObject *Player_rate(PyObject *self, PyObject *given)
{
    struct player *core = running(self);
    double rate = core ? PyFloat_AsDouble(given) : 0;
    if (!core || PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    player_rate(core, rate);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Player_position(PyObject *self, PyObject *unused)
{
    struct player *core = running(self);
    (void)unused;
    return core ? PyLong_FromLongLong(player_position(core)) : NULL;
}

static PyObject *Player_wait(PyObject *self, PyObject *given)
{
    struct player *core = running(self);
    double seconds = core ? PyFloat_AsDouble(given) : 0;
    bool over;
    int failure;
    if (!core || PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    over = player_wait(core, (uint64_t)(seconds * 1e9), &failure);
    Py_END_ALLOW_THREADS
    char text[256];
    if (failure != RTMW_OK)
        return PyErr_Format(error_of(self), "the replay has stopped: %s",
                            rtmw_explain(failure, core->error, text, sizeof text));
    return PyBool_FromLong(over);
}

static PyObject *Player_counters(PyObject *self, PyObject *unused)
{
    struct player *core = running(self);
    (void)unused;
    PyObject *list = core ? PyList_New(core->track_count) : NULL;
    for (uint32_t i = 0; list && i < core->track_count; i++) {
        const struct track *t = core->tracks[i];
        PyObject *row =
            Py_BuildValue("(KKKKKKKI)", load_relaxed(&t->published), load_relaxed(&t->bytes), load_relaxed(&t->expired),
                          load_relaxed(&t->timed_out), load_relaxed(&t->exhausted), load_relaxed(&t->too_large),
                          load_relaxed(&t->unheard), rtmw_publisher_matched(t->publisher));
        if (!row) return Py_DECREF(list), NULL;
        PyList_SET_ITEM(list, i, row);
    }
    return list;
}

static PyObject *rows_of(const struct histogram *h)
{
    PyObject *list = PyList_New(0);
    for (uint32_t bucket = 0; list && bucket < HISTOGRAM_BUCKETS; bucket++) {
        uint64_t count = load_relaxed(&h->count[bucket]);
        if (!count) continue;
        PyObject *row = Py_BuildValue("(KKK)", histogram_lowest_ns(bucket), histogram_lowest_ns(bucket + 1) - 1, count);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *Player_timing(PyObject *self, PyObject *unused)
{
    struct player *core = running(self);
    (void)unused;
    if (!core) return NULL;
    const struct pacing *t = &core->pacing;
    return Py_BuildValue("NNK", rows_of(&core->lateness), rows_of(&t->overslept), load_relaxed(&t->spun_ns));
}

#define NAMED(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef player_methods[] = {{"track", NAMED(Player_track), NULL},
                                       {"feed", NAMED(Player_feed), NULL},
                                       {"end", Player_end, METH_O, NULL},
                                       {"clear", Player_clear, METH_O, NULL},
                                       {"pause", Player_pause, METH_O, NULL},
                                       {"step", Player_step, METH_NOARGS, NULL},
                                       {"rate", Player_rate, METH_O, NULL},
                                       {"position", Player_position, METH_NOARGS, NULL},
                                       {"wait", Player_wait, METH_O, NULL},
                                       {"counters", Player_counters, METH_NOARGS, NULL},
                                       {"timing", Player_timing, METH_NOARGS, NULL},
                                       {"close", Player_close, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyType_Slot player_slots[] = {{Py_tp_new, Player_new},
                                     {Py_tp_dealloc, Player_dealloc},
                                     {Py_tp_methods, player_methods},
                                     {0, NULL}};
static PyType_Spec player_spec = {"rtmw.player._player.Player", sizeof(Player), 0, Py_TPFLAGS_DEFAULT, player_slots};

/* What numpy makes a dtype of. */
static PyObject *cue_layout(void)
{
    return Py_BuildValue("{s[ssssssss]s[ssssssss]s[nnnnnnnn]sn}", "names", "log_ns", "source_ns", "lifetime_ns",
                         "position", "size", "buffer", "track", "priority", "formats", "i8", "i8", "i8", "u8", "u8",
                         "u4", "u2", "i1", "offsets", offsetof(struct cue, log_ns), offsetof(struct cue, source_ns),
                         offsetof(struct cue, lifetime_ns), offsetof(struct cue, position), offsetof(struct cue, size),
                         offsetof(struct cue, buffer), offsetof(struct cue, track), offsetof(struct cue, priority),
                         "itemsize", sizeof(struct cue));
}

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *errors = PyImport_ImportModule("rtmw.errors");
    if (errors) state->error = PyObject_GetAttrString(errors, "RtmwError");
    Py_XDECREF(errors);
    PyObject *type = state->error ? PyType_FromModuleAndSpec(module, &player_spec, NULL) : NULL;
    PyObject *layout = type ? cue_layout() : NULL;
    int failed =
        !layout || PyModule_AddType(module, (PyTypeObject *)type) || PyModule_AddObjectRef(module, "CUE", layout);
    Py_XDECREF(type);
    Py_XDECREF(layout);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.player._player", NULL, sizeof(State), NULL, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__player(void) { return PyModuleDef_Init(&module); }
