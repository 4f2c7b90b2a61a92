/* Shared by the files that know Python, which are one module. Each holds types and what is done with them, and no algorithm:
 * it reads arguments, calls one core function, maps the code, builds the result.
 *
 *   _core.c         the module with its types, and what all of them need: errors, times, names, lists
 *   _region.c       Region, a handle of the domain, and what tools see through it
 *   _publisher.c    Publisher: publish, publish_many; Loan
 *   _subscriber.c   Subscriber: take, receive, wait_any; Sample
 *
 * The files call each other in a circle: the module names the types, and the types find their state and their errors by the
 * module. In one file they would have 2,400 lines.
 *
 * A Sample outlives its Subscriber: it holds a SampleContext, in which lies what all samples of a subscriber share.
 * rtmw.Publisher and rtmw.Subscriber derive from the types here; publish, take and receive are these methods. Loan and
 * Sample lend a block as a buffer. Codes become exceptions in rtmw/shm/failures.py. The GIL is released for waiting only.
 */
#ifndef RTMW_GLUE_H
#define RTMW_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "core.h"

/* ======== guard ======== */

/* The protection of an object of the glue that the GIL gives, on a Python without one: one thread at a time is in its
 * methods, and another one only while that waits or runs Python code.
 *
 * Py_GIL_DISABLED: a critical section of the object. The interpreter suspends it where a thread would give up the GIL, so
 * what a method may believe is the same on both: that nothing of its object changes until it waits or runs Python code,
 * and that all may have changed afterwards. On a Python with the GIL nothing of this is compiled.
 *
 * It guards the Python object and the life of the handle of the core in it. The core itself takes any number of threads
 * (rtmw.h, Threads).
 */

#ifdef Py_GIL_DISABLED

#define GUARD_BEGIN(object)          Py_BEGIN_CRITICAL_SECTION(object)
#define GUARD_END()                  Py_END_CRITICAL_SECTION()
#define GUARD_BEGIN_BOTH(one, other) Py_BEGIN_CRITICAL_SECTION2(one, other)
#define GUARD_END_BOTH()             Py_END_CRITICAL_SECTION2()

/* function_guarded(self, …): the method that stands in the table of its type. */
#define GUARDED(function) function##_guarded
#define GUARD_(function, parameters, ...)         \
    static PyObject *GUARDED(function) parameters \
    {                                             \
        PyObject *result;                         \
        GUARD_BEGIN(self);                        \
        result = function(__VA_ARGS__);           \
        GUARD_END();                              \
        return result;                            \
    }                                             \
    _Static_assert(1, "takes the semicolon")

#define GUARD(function)      GUARD_(function, (PyObject * self, PyObject * argument), self, argument)
#define GUARD_GET(function)  GUARD_(function, (PyObject * self, void *closure), self, closure)
#define GUARD_NEXT(function) GUARD_(function, (PyObject * self), self)
#define GUARD_FAST(function)                                                                                           \
    GUARD_(function, (PyObject * self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames), self, args, count, \
           kwnames)

/* The module needs no GIL. */
#define GUARD_SLOT {Py_mod_gil, Py_MOD_GIL_NOT_USED},

/* An item of a list or tuple that other threads may change, as a new reference; NULL: there is none any more. */
static inline PyObject *item_of(PyObject *sequence, Py_ssize_t index)
{
    if (PyTuple_Check(sequence))
        return index < PyTuple_GET_SIZE(sequence) ? Py_NewRef(PyTuple_GET_ITEM(sequence, index)) : NULL;
    PyObject *item = PyList_GetItemRef(sequence, index);
    if (!item) PyErr_Clear();
    return item;
}

#else

#define GUARD_BEGIN(object)          {
#define GUARD_END()                  }
#define GUARD_BEGIN_BOTH(one, other) {
#define GUARD_END_BOTH()             }
#define GUARDED(function)            function
#define GUARD(function)              _Static_assert(1, "the GIL guards it")
#define GUARD_GET(function)          GUARD(function)
#define GUARD_NEXT(function)         GUARD(function)
#define GUARD_FAST(function)         GUARD(function)
#define GUARD_SLOT

static inline PyObject *item_of(PyObject *sequence, Py_ssize_t index)
{
    return index < PySequence_Fast_GET_SIZE(sequence) ? Py_NewRef(PySequence_Fast_GET_ITEM(sequence, index)) : NULL;
}

#endif

/* ======== objects ======== */

enum { WRONG_TYPE = 100 }; /* beyond rtmw_code: the value has no buffer */

typedef struct {
    PyObject_HEAD
    struct rtmw_region *core;
    PyObject *weak;
} Region;

typedef struct {
    PyObject_HEAD
    Region *region;
    PyObject *topic, *encode, *write;
    rtmw_publisher *core;
    uint64_t max_blocking_ns;
    uint32_t busy;        /* threads inside a wait; the last one out finishes close() */
    bool closed, forgets; /* it closes with rtmw_publisher_forget */
    PyTypeObject *loan_type;
} Publisher;

/* Objects that the samples of one subscriber need and the subscriber does not keep alive. Nothing in it changes. */
typedef struct {
    PyObject_HEAD
    Region *region; /* attached while a sample lives: its memory lies there */
    PyObject *topic, *decode;
    bool any; /* decode(life of the type, sample), else decode(sample); NULL: raw bytes */
} SampleContext;

typedef struct {
    PyObject_HEAD
    Region *region;
    PyObject *topic;
    SampleContext *context;
    rtmw_subscriber *core;
    uint64_t spin_ns;
    uint64_t tells_after_ns; /* a wait without limit calls _log_silence() then; 0: it does not */
    uint32_t busy;           /* as a publisher's */
    bool closed;
    PyTypeObject *sample_type;
} Subscriber;

typedef struct {
    PyObject_HEAD
    SampleContext *context;
    rtmw_message core;
    uint64_t type; /* its life: topics.c */
    PyObject *value;
    Py_ssize_t exports;
    bool held;
} Sample;

typedef struct {
    PyObject *failure; /* rtmw.shm.failures.failure(code, subject, detail) -> exception */
    PyObject *closed_error;
    PyTypeObject *region, *publisher, *subscriber, *loan, *sample, *sample_context;
} State;

extern PyType_Spec Region_spec, Publisher_spec, Subscriber_spec, Loan_spec, Sample_spec, SampleContext_spec;

/* Functions of fewer arguments than their table says. */
#define FAST(function) ((PyCFunction)(void (*)(void))(function))

PyObject *core_wait_any(PyObject *self, PyObject *argument); /* _subscriber.c */

/* ---- _core.c ---- */

State *state_of(PyTypeObject *type);

/* Sets the exception of a code, unless one is set already. Always NULL. */
PyObject *fail(PyObject *self, int code, PyObject *subject, uint64_t detail);
/* Of a loan for which there is no memory; who is in its way, as publisher_blockers says. Always NULL. */
PyObject *fail_exhausted(PyObject *self, PyObject *topic, uint64_t size, PyObject *blockers);

/* Seconds, or None, in nanoseconds. false: an exception is set. */
bool seconds(PyObject *value, uint64_t none, uint64_t *ns);
uint64_t ends_after(uint64_t ns); /* UINT64_MAX: never. Here and below */
uint64_t remaining(uint64_t end);

/* A name in shared memory, with its zero or without. */
PyObject *name_at(const char *shared, size_t size);

/* Appends a new reference to a list, and takes it away from the caller. */
static inline int append_new(PyObject *list, PyObject *item)
{
    int result = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return result;
}

/* The list or dict that was filled step by step, or NULL in its place. */
static inline PyObject *finished(PyObject *filled, int failed)
{
    if (!failed) return filled;
    Py_XDECREF(filled);
    return NULL;
}

/* The one argument of a method, by position or by name. NULL: an exception is set. */
PyObject *only_argument(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *name);

/* Of publishers and subscribers: the same as read_type, and `...` is RTMW_ANY. */
bool read_type_or_any(PyObject *given, rtmw_type *space, const rtmw_type **type);
/* Bytes of a topic name; what the core could not tell apart from another name (a zero byte ends it there) is refused. */
const char *topic_name(PyObject *self, PyObject *topic);

/* Memory of an object that views may show; `exports` counts them. */
struct viewed {
    void *data;
    size_t size;
    bool is_readonly;
    Py_ssize_t *exports;
};

/* For the buffer protocol, with the guard of `owner`. Not 0: an exception is set. */
static inline int fill_view(PyObject *owner, struct viewed viewed, Py_buffer *view, int flags)
{
    int code = PyBuffer_FillInfo(view, owner, viewed.data, (Py_ssize_t)viewed.size, viewed.is_readonly, flags);
    if (code == 0) ++*viewed.exports;
    return code;
}

/* ---- Subscriber ---- */

/* Is there a message of this priority or a higher one behind the cursor? A hint, which a publisher that died may keep
 * false; true, too, of a closed subscriber, whose take says so. Called with its guard. */
static inline bool subscriber_is_behind(const Subscriber *subscriber, uint32_t least)
{
    struct rtmw_subscriber *core = subscriber->core;
    if (!core || subscriber->closed) return true; /* take says so */
    uint32_t bands = load_relaxed(&core->topic->bands) >> least << least;
    for (; bands; bands &= bands - 1) {
        uint32_t band = (uint32_t)__builtin_ctz(bands);
        if (band < BANDS && link_tag(load_relaxed(&core->topic->band[band].tail)) != (core->sequence[band] & TAG_MASK))
            return true;
    }
    return false;
}

/* ---- Region ---- */

static inline struct rtmw_region *region_of(PyObject *self) { return ((Region *)self)->core; }

/* _region.c */
PyObject *subscriber_counters(struct rtmw_region *r, struct topic *t, struct subscriber_block *s);
/* (shortest, longest, count) of each bucket that is not empty; times in nanoseconds. */
PyObject *latency_buckets(struct rtmw_region *r, uint32_t slot);

#endif
