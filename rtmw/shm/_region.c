/* Region: this process, attached to a domain. */
#include <errno.h>

#include "_core.h"
#include "inspect.h"
#include "region.h"
#include "topics.h"
#include "trace.h"
#include "wait.h"

static int Region_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    unsigned int domain;
    uint32_t version = 0;
    int look_on = 0, is_tool = 0;
    if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_SetString(PyExc_TypeError, "Region takes no keywords"), -1;
    if (!PyArg_ParseTuple(args, "I|pp", &domain, &look_on, &is_tool)) return -1;
    enum attaching how = look_on ? TO_LOOK_ON : is_tool ? AS_TOOL : TO_TAKE_PART;
    int code = region_attach(domain, how, &((Region *)self)->core, &version);
    if (code == RTMW_OK) return 0;
    PyObject *subject = PyLong_FromUnsignedLong(domain);
    fail(self, code, subject, version);
    Py_XDECREF(subject);
    return -1;
}

static void Region_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (((Region *)self)->weak) PyObject_ClearWeakRefs(self);
    if (region_of(self)) rtmw_detach(region_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Region_drain(PyObject *self, PyObject *unused)
{
    (void)unused;
    drain(region_socket(region_of(self)));
    Py_RETURN_NONE;
}

static PyObject *fail_domain(PyObject *self, int code)
{
    int system_error = errno;
    PyObject *subject = PyUnicode_FromFormat("domain %u", region_of(self)->domain);
    errno = system_error;
    fail(self, code, subject, 0);
    Py_XDECREF(subject);
    return NULL;
}

/* false: an exception says why this process may not use the region any more, or not change it. */
static bool is_usable(PyObject *self, bool to_change)
{
    int code = region_state(region_of(self));
    if (code == RTMW_OK || (code == RTMW_OBSERVER && !to_change)) return true;
    fail_domain(self, code);
    return false;
}

static PyObject *Region_is_current(PyObject *self, PyObject *unused)
{
    (void)unused;
    int code = region_state(region_of(self));
    return PyBool_FromLong(code == RTMW_OK || code == RTMW_OBSERVER);
}

static PyObject *Region_check_current(PyObject *self, PyObject *unused)
{
    (void)unused;
    return is_usable(self, false) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *Region_fileno(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_usable(self, true)) return NULL;
    int fd = region_socket(region_of(self));
    return fd < 0 ? fail_domain(self, RTMW_SYSTEM) : PyLong_FromLong(fd);
}

static PyObject *Region_examine(PyObject *self, PyObject *fix)
{
    struct rtmw_region *r = region_of(self);
    uint32_t swept = 0, freed = 0;
    int to_fix = PyObject_IsTrue(fix);
    if (to_fix < 0 || !is_usable(self, to_fix)) return NULL;
    struct books *books = PyMem_Malloc(sizeof *books);
    uint8_t *marks = PyMem_Malloc(books_marks(r));
    PyObject *problems = PyList_New(0), *result = NULL;
    if (!books || !marks) {
        PyErr_NoMemory();
    } else if (problems) {
        if (to_fix) books_repair(r, &swept, &freed);
        books_examine(r, books, marks);
        int failed = 0;
        for (uint32_t i = 0; !failed && i < books->problems; i++)
            failed = append_new(problems, PyUnicode_DecodeUTF8(books->problem[i], (Py_ssize_t)strlen(books->problem[i]),
                                                               "replace"));
        if (!failed)
            result = Py_BuildValue("IIIIIIIIIIIO", RTMW_LAYOUT_VERSION, r->header->descriptors, books->free,
                                   books->loaned, books->queued, books->held, r->header->pages, books->granules_used,
                                   books->granules_kept, swept, freed, problems);
    }
    PyMem_Free(books);
    PyMem_Free(marks);
    Py_XDECREF(problems);
    return result;
}

/* Control and blocks, and what is kept about them here. */
static PyObject *Region_mapped_bytes(PyObject *self, void *unused)
{
    (void)unused;
    const struct header *h = region_of(self)->header;
    return PyLong_FromUnsignedLongLong(h->control_bytes + h->pool_bytes +
                                       h->descriptors * sizeof *region_of(self)->refs);
}

/* How many entries each table has, by its name; of the participants, those that programs can be. */
static PyObject *Region_capacity(PyObject *self, void *unused)
{
    (void)unused;
    const struct header *h = region_of(self)->header;
    return Py_BuildValue("{sI sI sI sI si}", "topics", h->topics, "types", h->types, "publishers", h->publishers,
                         "subscribers", h->subscribers, "participants", PARTICIPANTS - 1);
}

/* Grows with each new topic: a hint of when it is worth asking for their names. */
static PyObject *Region_topic_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(load_relaxed(&region_of(self)->hints->topics_made));
}

static PyObject *Region_lock_memory(PyObject *self, PyObject *unused)
{
    (void)unused;
    int code = rtmw_lock_memory(region_of(self));
    return code == RTMW_OK ? Py_NewRef(Py_None) : fail(self, code, NULL, 0);
}

static PyObject *Region_pool_bytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(region_of(self)->header->pool_bytes);
}

static PyObject *Region_reserve(PyObject *self, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble((double)region_of(self)->header->reserve / RESERVE_WHOLE);
}

static PyObject *Region_nonce(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(region_of(self)->header->nonce);
}

/* The slot of this process among the participants; none, if it only looks on. */
static PyObject *Region_slot(PyObject *self, void *unused)
{
    (void)unused;
    const struct rtmw_region *r = region_of(self);
    return is_observer(r) ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(r->me);
}

/* The process that has this slot of the participants; 0: none. */
static PyObject *Region_pid_at(PyObject *self, PyObject *slot)
{
    unsigned long index = PyLong_AsUnsignedLong(slot);
    if (PyErr_Occurred()) return NULL;
    uint64_t word = index < PARTICIPANTS ? load_seq(&region_of(self)->participants[index].word) : 0;
    return PyLong_FromUnsignedLong(participant_state_of(word) == ABSENT ? 0 : participant_pid(word));
}

static PyObject *Region_sweep(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    if (!is_usable(self, true)) return NULL;
    lock_take(&r->lock);
    uint32_t swept = sweep_the_dead(r);
    lock_give(&r->lock);
    return PyLong_FromUnsignedLong(swept);
}

static PyObject *Region_sweep_parked(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    if (!is_usable(self, true)) return NULL;
    lock_take(&r->lock);
    uint32_t ended = parked_sweep(r);
    lock_give(&r->lock);
    return PyLong_FromUnsignedLong(ended);
}

static PyObject *Region_clear(PyObject *self, PyObject *topic)
{
    uint64_t messages;
    if (!is_usable(self, true)) return NULL;
    const char *name = topic_name(self, topic);
    if (!name) return NULL;
    int code = rtmw_topic_clear(region_of(self), name, &messages);
    return code == RTMW_OK ? PyLong_FromUnsignedLongLong(messages) : fail(self, code, topic, 0);
}

static PyObject *Region_sweep_from_last_slot(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_usable(self, true)) return NULL;
    sweep_from_last_slot(region_of(self));
    Py_RETURN_NONE;
}

static PyMethodDef Region_methods[] = {
    {"fileno", Region_fileno, METH_NOARGS, NULL},
    {"drain", Region_drain, METH_NOARGS, NULL},
    {"is_current", Region_is_current, METH_NOARGS, NULL},
    {"check_current", Region_check_current, METH_NOARGS, NULL},
    {"topics", Region_topics, METH_NOARGS, NULL},
    {"contents", Region_contents, METH_NOARGS, NULL},
    {"topic_life", Region_topic_life, METH_O, NULL},
    {"publishers", Region_publishers, METH_VARARGS, NULL},
    {"subscribers", Region_subscribers, METH_VARARGS, NULL},
    {"participants", Region_participants, METH_NOARGS, NULL},
    {"names", Region_names, METH_NOARGS, NULL},
    {"types", Region_types, METH_NOARGS, NULL},
    {"identity", Region_identity, METH_O, NULL},
    {"endpoints_fingerprint", Region_endpoints_fingerprint, METH_NOARGS, NULL},
    {"participants_fingerprint", Region_participants_fingerprint, METH_NOARGS, NULL},
    {"queue", Region_queue, METH_VARARGS, NULL},
    {"lock_memory", Region_lock_memory, METH_NOARGS, NULL},
    {"trace", Region_trace, METH_VARARGS, NULL},
    {"trace_next", Region_trace_next, METH_NOARGS, NULL},
    {"events", Region_events, METH_VARARGS, NULL},
    {"examine", Region_examine, METH_O, NULL},
    {"clear", Region_clear, METH_O, NULL},
    {"sweep", Region_sweep, METH_NOARGS, NULL},
    {"sweep_parked", Region_sweep_parked, METH_NOARGS, NULL},
    {"pid_at", Region_pid_at, METH_O, NULL},
    {"sweep_from_last_slot", Region_sweep_from_last_slot, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Region_getset[] = {{"pool_bytes", Region_pool_bytes, NULL, NULL, NULL},
                                      {"reserve", Region_reserve, NULL, NULL, NULL},
                                      {"nonce", Region_nonce, NULL, NULL, NULL},
                                      {"mapped_bytes", Region_mapped_bytes, NULL, NULL, NULL},
                                      {"capacity", Region_capacity, NULL, NULL, NULL},
                                      {"topic_count", Region_topic_count, NULL, NULL, NULL},
                                      {"slot", Region_slot, NULL, NULL, NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Region_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(Region, weak), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};
static PyType_Slot Region_slots[] = {{Py_tp_init, Region_init},       {Py_tp_dealloc, Region_dealloc},
                                     {Py_tp_methods, Region_methods}, {Py_tp_getset, Region_getset},
                                     {Py_tp_members, Region_members}, {0, NULL}};
PyType_Spec Region_spec = {"rtmw.shm._core.Region", sizeof(Region), 0, Py_TPFLAGS_DEFAULT, Region_slots};
