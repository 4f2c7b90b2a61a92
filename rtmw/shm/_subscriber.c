/* Subscriber: an endpoint from its opening to its close, its takes and waits, and the wait for several; and the samples that
 * it takes. */
#include "_core.h"

#include <errno.h>

#include "wait.h"

/* ======== sample ======== */

/* Sample: a message where it lies, held until its last view is gone. It holds the region and not the subscriber: that
 * leaves its topic with the last reference to it, whatever samples of it still live. */

/* New references to all that is given; NULL: an exception is set. */
static SampleContext *sample_context(State *state, PyObject *region, PyObject *topic, PyObject *decode, bool any)
{
    SampleContext *self = PyObject_GC_New(SampleContext, state->sample_context);
    if (!self) return NULL;
    self->region = (Region *)Py_NewRef(region);
    self->topic = Py_NewRef(topic);
    self->decode = decode == Py_None ? NULL : Py_NewRef(decode);
    self->any = any;
    PyObject_GC_Track(self);
    return self;
}

static int SampleContext_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((SampleContext *)object)->decode);
    return 0;
}

static int SampleContext_clear(PyObject *object)
{
    Py_CLEAR(((SampleContext *)object)->decode);
    return 0;
}

static void SampleContext_dealloc(PyObject *object)
{
    SampleContext *self = (SampleContext *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->decode);
    Py_DECREF(self->topic);
    Py_DECREF(self->region);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

static PyType_Slot SampleContext_slots[] = {{Py_tp_dealloc, SampleContext_dealloc},
                                            {Py_tp_traverse, SampleContext_traverse},
                                            {Py_tp_clear, SampleContext_clear},
                                            {0, NULL}};
PyType_Spec SampleContext_spec = {"rtmw.shm._core.SampleContext", sizeof(SampleContext), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  SampleContext_slots};

static void sample_let_go(Sample *self)
{
    if (!self->held || self->exports) return;
    self->held = false;
    rtmw_release(self->context->region->core, self->core.descriptor);
}

static void Sample_dealloc(PyObject *object)
{
    Sample *self = (Sample *)object;
    PyTypeObject *type = Py_TYPE(object);
    sample_let_go(self);
    Py_XDECREF(self->value);
    Py_DECREF(self->context);
    PyObject_Free(object);
    Py_DECREF(type);
}

static bool sample_is_held(Sample *self)
{
    if (!self->held) PyErr_SetString(PyExc_ValueError, "the sample was released; its memory is gone");
    return self->held;
}

static int sample_lend(Sample *self, Py_buffer *view, int flags)
{
    if (!sample_is_held(self)) return -1;
    struct viewed payload = {(void *)self->core.data, self->core.size, true, &self->exports};
    return fill_view((PyObject *)self, payload, view, flags);
}

static int Sample_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    int code;
    GUARD_BEGIN(object);
    code = sample_lend((Sample *)object, view, flags);
    GUARD_END();
    return code;
}

static void Sample_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    GUARD_BEGIN(object);
    ((Sample *)object)->exports--;
    GUARD_END();
}

static PyObject *Sample_data(PyObject *self, void *unused)
{
    (void)unused;
    return PyMemoryView_FromObject(self);
}

/* Kept when decoding left no view of the memory behind: a numpy array is made anew, for it would keep its own sample. */
static PyObject *Sample_value(PyObject *object, void *unused)
{
    (void)unused;
    Sample *self = (Sample *)object;
    SampleContext *context = self->context;
    if (self->value) return Py_NewRef(self->value);
    if (!sample_is_held(self)) return NULL;
    if (!context->decode) return PyBytes_FromStringAndSize(self->core.data, (Py_ssize_t)self->core.size);
    Py_ssize_t before = self->exports;
    PyObject *value = context->any
                          ? PyObject_CallFunction(context->decode, "KO", (unsigned long long)self->type, object)
                          : PyObject_CallOneArg(context->decode, object);
    if (value && !self->value && self->exports == before) self->value = Py_NewRef(value);
    return value;
}

/* The type of a sample that is not raw. */
static bool sample_type(const Sample *self, rtmw_type_copy *copy)
{
    if (type_read(self->context->region->core, self->core.type, copy) == self->type) return true;
    PyErr_SetString(PyExc_ValueError, "the sample was released, and nobody uses its type any more");
    return false;
}

static PyObject *Sample_description(PyObject *object, void *unused)
{
    (void)unused;
    const Sample *self = (const Sample *)object;
    rtmw_type_copy copy;
    if (self->type == TYPE_RAW) Py_RETURN_NONE;
    if (!sample_type(self, &copy)) return NULL;
    return PyBytes_FromStringAndSize((const char *)copy.description, (Py_ssize_t)copy.description_bytes);
}

static PyObject *Sample_type_name(PyObject *object, void *unused)
{
    (void)unused;
    Sample *self = (Sample *)object;
    rtmw_type_copy copy;
    if (self->type == TYPE_RAW) return PyUnicode_FromString("bytes");
    if (!sample_type(self, &copy)) return NULL;
    PyObject *name = name_at(copy.name, TYPE_NAME_BYTES);
    PyObject *dds = PyUnicode_FromString("::"), *dot = PyUnicode_FromString(".");
    PyObject *shown =
        name && dds && dot ? PyUnicode_Replace(name, dds, dot, -1) : NULL; /* as shown_name() of rtmw.types */
    Py_XDECREF(name);
    Py_XDECREF(dds);
    Py_XDECREF(dot);
    return shown;
}

static PyObject *Sample_expires(PyObject *object, void *unused)
{
    (void)unused;
    uint64_t expires = ((Sample *)object)->core.expires_ns;
    return expires ? PyLong_FromUnsignedLongLong(expires) : Py_NewRef(Py_None);
}

static PyObject *Sample_topic(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(((Sample *)object)->context->topic);
}

static PyObject *Sample_release(PyObject *object, PyObject *unused)
{
    (void)unused;
    Sample *self = (Sample *)object;
    if (self->exports)
        return PyErr_Format(PyExc_BufferError, "the sample still has views; it comes back when the last one goes");
    sample_let_go(self);
    Py_RETURN_NONE;
}

static PyObject *Sample_repr(PyObject *object)
{
    Sample *self = (Sample *)object;
    return PyUnicode_FromFormat("<rtmw.Sample %R priority=%u sequence=%llu size=%llu%s>", self->context->topic,
                                self->core.priority, (unsigned long long)self->core.sequence,
                                (unsigned long long)self->core.size, self->held ? "" : ", released");
}

/* For notebooks. */
static PyObject *Sample_html(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *module = PyImport_ImportModule("rtmw.notebook");
    PyObject *html = module ? PyObject_CallMethod(module, "sample_html", "O", object) : NULL;
    Py_XDECREF(module);
    return html;
}

PyDoc_STRVAR(Sample_doc,
             "A message that a subscriber took, where it lies in shared memory. Made by Subscriber.\n\n"
             "Its memory is not used again while the sample or a view of it lives, also after the subscriber or the "
             "domain was\nclosed. It is a read-only buffer: memoryview(sample), or numpy.frombuffer(sample).");

GUARD(Sample_release);
GUARD_GET(Sample_value);

static PyMethodDef Sample_methods[] = {
    {"release", GUARDED(Sample_release), METH_NOARGS,
     "release($self, /)\n--\n\nGive the memory back now; a second call does nothing. Raises BufferError while views of "
     "it live."},
    {"_repr_html_", Sample_html, METH_NOARGS, "_repr_html_($self, /)\n--\n\nFor notebooks."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyObject *Sample_publisher(PyObject *object, void *unused)
{
    const Sample *self = (const Sample *)object;
    (void)unused;
    return PyLong_FromUnsignedLongLong(rtmw_identity(self->context->region->core, self->core.publisher));
}

/* The process that published it; 0: a node brought it from another host. */
static PyObject *Sample_pid(PyObject *object, void *unused)
{
    uint64_t publisher = ((const Sample *)object)->core.publisher;
    (void)unused;
    return PyLong_FromUnsignedLong(publisher & RTMW_REMOTE ? 0 : (unsigned long)(publisher >> 32));
}

static PyGetSetDef Sample_getset[] = {
    {"value", GUARDED(Sample_value), NULL, "The message, decoded.", NULL},
    {"data", Sample_data, NULL, "The payload where it lies, read-only.", NULL},
    {"topic", Sample_topic, NULL, "Name of the topic.", NULL},
    {"type_name", Sample_type_name, NULL, "Name of the message type, as its class was given it: ops.Flight.", NULL},
    {"_description", Sample_description, NULL, "The description of its type; None: bytes.", NULL},
    {"publisher", Sample_publisher, NULL, "Identity of its publisher: 63 bits, the same on each host.", NULL},
    {"_pid", Sample_pid, NULL, "Process that published it; 0: of another host.", NULL},
    {"expires_ns", Sample_expires, NULL, "Wall clock in nanoseconds; None: never.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Sample_members[] = {
    {"sequence", T_ULONGLONG, offsetof(Sample, core.sequence), READONLY, "Dense within topic and priority, from 1."},
    {"priority", T_UBYTE, offsetof(Sample, core.priority), READONLY, "0 to 7."},
    {"source_time_ns", T_ULONGLONG, offsetof(Sample, core.source_time_ns), READONLY, "Wall clock at publishing."},
    {"_ends_ns", T_ULONGLONG, offsetof(Sample, core.ends_ns), READONLY, "CLOCK_MONOTONIC in nanoseconds; 0: never."},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot Sample_slots[] = {{Py_tp_dealloc, Sample_dealloc},
                                     {Py_tp_doc, (void *)Sample_doc},
                                     {Py_tp_repr, Sample_repr},
                                     {Py_tp_methods, Sample_methods},
                                     {Py_tp_getset, Sample_getset},
                                     {Py_tp_members, Sample_members},
                                     {Py_bf_getbuffer, Sample_getbuffer},
                                     {Py_bf_releasebuffer, Sample_releasebuffer},
                                     {0, NULL}};
PyType_Spec Sample_spec = {"rtmw.Sample", sizeof(Sample), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           Sample_slots};

/* ======== taking ======== */

/* close(), once nobody is inside a wait. */
static void subscriber_finish(Subscriber *self);

/* Python code may have run since the last look. false: an exception. */
static bool subscriber_is_open(Subscriber *self)
{
    if (self->core && !self->closed) return true;
    return fail((PyObject *)self, RTMW_CLOSED, self->topic, 0), false;
}

/* take, take_many and receive: messages of the core become samples. */

enum { TAKE_AT_ONCE = 64 };
static const uint64_t TELLS_MOST_NS = 64000000000;

/* Owns the message; that is released when there is no memory for the sample. */
static PyObject *sample_of(Subscriber *self, const rtmw_message *message)
{
    Sample *sample = PyObject_New(Sample, self->sample_type);
    if (!sample) {
        rtmw_release(self->region->core, message->descriptor);
        return NULL;
    }
    sample->context = (SampleContext *)Py_NewRef((PyObject *)self->context);
    sample->core = *message;
    sample->type = type_life(self->region->core, message->type);
    sample->value = NULL;
    sample->exports = 0;
    sample->held = true;
    return (PyObject *)sample;
}

/* As rtmw_take_many; but when there is nothing among as many messages as one call looks at, it goes on behind them. */
static int take_or_look_on(Subscriber *self, rtmw_message *messages, uint32_t most, uint32_t *count)
{
    int code = rtmw_take_many(self->core, messages, most, UINT64_MAX, count);
    while (code == RTMW_AGAIN && !*count && !PyErr_CheckSignals() && subscriber_is_open(self))
        code = rtmw_take_many(self->core, messages, most, UINT64_MAX, count);
    return code;
}

/* false: an exception is set. Messages that were taken are in `messages` also then. When there is nothing, fileno() is not
 * readable until there is. */
static bool take_messages(Subscriber *self, rtmw_message *messages, uint32_t most, uint32_t *count)
{
    int code = take_or_look_on(self, messages, most, count);
    if (code == RTMW_EMPTY && !*count && self->core->pollable >= 0 && subscriber_rearm(self->core))
        code = take_or_look_on(self, messages, most, count);
    if (PyErr_Occurred()) return false;
    if (code == RTMW_OK || code == RTMW_EMPTY || code == RTMW_AGAIN) return true;
    return fail((PyObject *)self, code, self->topic, self->core->missed_at_lapse), false;
}

/* A sample, or NULL without an exception: nothing to take. */
static PyObject *take_one(Subscriber *self)
{
    rtmw_message message;
    uint32_t count;
    return take_messages(self, &message, 1, &count) && count ? sample_of(self, &message) : NULL;
}

static PyObject *Subscriber_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!subscriber_is_open((Subscriber *)object)) return NULL;
    PyObject *sample = take_one((Subscriber *)object);
    if (sample || PyErr_Occurred()) return sample;
    Py_RETURN_NONE;
}

/* Appends at most `most` samples; how many, or -1 with an exception: then they are lost, and released. */
static Py_ssize_t take_into(Subscriber *self, PyObject *list, Py_ssize_t most)
{
    rtmw_message messages[TAKE_AT_ONCE];
    uint32_t count;
    int failed = !take_messages(self, messages, most < TAKE_AT_ONCE ? (uint32_t)most : TAKE_AT_ONCE, &count);
    for (uint32_t i = 0; i < count; i++)
        if (failed)
            rtmw_release(self->region->core, messages[i].descriptor);
        else
            failed = append_new(list, sample_of(self, &messages[i]));
    return failed ? -1 : (Py_ssize_t)count;
}

static PyObject *Subscriber_take_many(PyObject *object, PyObject *const *args, Py_ssize_t given, PyObject *kwnames)
{
    Subscriber *self = (Subscriber *)object;
    PyObject *limit = only_argument(args, given, kwnames, "limit");
    if (!limit) return NULL;
    Py_ssize_t most = PyNumber_AsSsize_t(limit, PyExc_OverflowError), taken = 1;
    if (most == -1 && PyErr_Occurred()) return NULL;
    if (!subscriber_is_open(self)) return NULL;
    PyObject *list = PyList_New(0);
    bool first = true;
    while (list && most > 0 && taken > 0) {
        if (!first && (!self->core || self->closed || is_lapsed(self->core))) break; /* the next call says so */
        taken = take_into(self, list, most);
        most -= taken;
        first = false;
    }
    return list ? finished(list, taken < 0) : NULL;
}

/* Waits with the GIL released. RTMW_OK: look again; RTMW_TIMEOUT; -1: an exception is set. */
static int wait_once(Subscriber *self, uint64_t end)
{
    int code;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = subscriber_wait(self->core, end, self->spin_ns);
    Py_END_ALLOW_THREADS
    self->busy--;
    subscriber_finish(self);
    if (PyErr_CheckSignals() || !subscriber_is_open(self)) return -1;
    if (code == RTMW_OK || code == RTMW_EMPTY || code == RTMW_INTERRUPTED) return RTMW_OK;
    if (code == RTMW_TIMEOUT) return code;
    return fail((PyObject *)self, code, self->topic, 0), -1;
}

/* A wait without limit says why nothing comes, `tells_after_ns` after its begin and each time after twice as long, and
 * goes on. */
static PyObject *receive_until(Subscriber *self, uint64_t end)
{
    uint64_t tells_at = 0, rest = self->tells_after_ns;
    for (;;) {
        PyObject *sample = take_one(self);
        if (sample || PyErr_Occurred()) return sample;
        if (self->spin_ns >= GLANCE_NS && subscriber_glance(self->core)) continue;
        bool tells = end == UINT64_MAX && rest;
        if (tells && !tells_at) tells_at = ends_after(rest);
        int code = wait_once(self, tells ? tells_at : end);
        if (code < 0) return NULL;
        if (code != RTMW_TIMEOUT) continue;
        if (!tells) return fail((PyObject *)self, code, (PyObject *)self, 0);
        PyObject *told = PyObject_CallMethod((PyObject *)self, "_log_silence", NULL);
        if (!told) return NULL;
        Py_DECREF(told);
        if (rest < TELLS_MOST_NS) rest *= 2;
        tells_at = ends_after(rest);
        if (!subscriber_is_open(self)) return NULL;
    }
}

static PyObject *Subscriber_receive(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    uint64_t ns;
    if (count + named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "timeout") != 0))
        return PyErr_Format(PyExc_TypeError, "receive takes one argument: timeout, in seconds or None");
    if (!seconds(count + named ? args[0] : NULL, UINT64_MAX, &ns) || !subscriber_is_open((Subscriber *)object))
        return NULL;
    return receive_until((Subscriber *)object, ends_after(ns));
}

static bool is_closed_error(Subscriber *self)
{
    return PyErr_ExceptionMatches(state_of(Py_TYPE((PyObject *)self))->closed_error);
}

static PyObject *Subscriber_next(PyObject *object)
{
    Subscriber *self = (Subscriber *)object;
    if (self->closed) return NULL;
    PyObject *sample = receive_until(self, UINT64_MAX);
    if (!sample && self->closed && is_closed_error(self))
        PyErr_Clear(); /* closed meanwhile: the end of the iteration */
    return sample;
}

/* ======== waiting for several ======== */

/* wait_any: for the first of several subscribers that has something to say. */

/* Until it leaves, close() does not end the subscriber's handle. false: an exception is set. */
static bool enter(Subscriber *s, rtmw_subscriber **core)
{
    bool open;
    GUARD_BEGIN(s);
    open = subscriber_is_open(s);
    *core = s->core;
    s->busy += open;
    GUARD_END();
    return open;
}

static void leave(PyObject *subscribers, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Subscriber *s = (Subscriber *)PyTuple_GET_ITEM(subscribers, i);
        GUARD_BEGIN(s);
        s->busy--;
        subscriber_finish(s);
        GUARD_END();
    }
}

/* How many were entered; fewer than there are: an exception is set. */
static Py_ssize_t enter_all(PyObject *module, PyObject *subscribers, rtmw_subscriber **cores)
{
    PyTypeObject *type = ((State *)PyModule_GetState(module))->subscriber;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(subscribers); i++) {
        PyObject *s = PyTuple_GET_ITEM(subscribers, i);
        if (!PyObject_TypeCheck(s, type))
            return PyErr_Format(PyExc_TypeError, "wait_any waits for subscribers, and was given %R", s), i;
        if (!enter((Subscriber *)s, &cores[i])) return i;
    }
    return PyTuple_GET_SIZE(subscribers);
}

static PyObject *those_ready(PyObject *subscribers, const bool *ready)
{
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(subscribers); i++)
        if (ready[i]) failed = PyList_Append(list, PyTuple_GET_ITEM(subscribers, i));
    return finished(list, failed);
}

static PyObject *wait_until(PyObject *subscribers, rtmw_subscriber **cores, bool *ready, uint64_t end)
{
    Py_ssize_t count = PyTuple_GET_SIZE(subscribers);
    int code = RTMW_EMPTY;
    while ((code == RTMW_EMPTY || code == RTMW_INTERRUPTED) && !PyErr_CheckSignals()) {
        Py_BEGIN_ALLOW_THREADS
        code = wait_any(cores, ready, (size_t)count, end);
        Py_END_ALLOW_THREADS
    }
    if (PyErr_Occurred()) return NULL;
    if (code == RTMW_FORKED && count) return fail(PyTuple_GET_ITEM(subscribers, 0), code, NULL, 0);
    return code == RTMW_OK ? those_ready(subscribers, ready) : PyList_New(0);
}

/* wait_any(subscribers, timeout): those that have something to say; [] when the time is up. */
PyObject *core_wait_any(PyObject *module, PyObject *args)
{
    PyObject *subscribers, *timeout, *result = NULL;
    uint64_t ns;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &subscribers, &timeout) || !seconds(timeout, UINT64_MAX, &ns))
        return NULL;
    size_t room = (size_t)PyTuple_GET_SIZE(subscribers) + 1;
    rtmw_subscriber **cores = PyMem_Calloc(room, sizeof *cores);
    bool *ready = PyMem_Calloc(room, sizeof *ready);
    if (!cores || !ready) {
        PyErr_NoMemory();
    } else {
        Py_ssize_t entered = enter_all(module, subscribers, cores);
        if (entered == PyTuple_GET_SIZE(subscribers)) result = wait_until(subscribers, cores, ready, ends_after(ns));
        leave(subscribers, entered);
    }
    PyMem_Free(cores);
    PyMem_Free(ready);
    return result;
}

/* ======== subscriber ======== */

static int Subscriber_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"region",  "topic",        "type",     "decode", "reliability", "depth",
                            "history", "min_interval", "deadline", "lease",  "spin",        NULL};
    Subscriber *self = (Subscriber *)object;
    PyObject *region, *topic, *type_tuple, *decode, *min_interval, *deadline, *lease, *spin;
    rtmw_subscriber_qos qos = RTMW_SUBSCRIBER_QOS;
    rtmw_type space;
    const rtmw_type *type;
    int reliability;
    State *state = state_of(Py_TYPE(object));
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOOiIIOOOO", names, state->region, &region, &topic, &type_tuple,
                                     &decode, &reliability, &qos.depth, &qos.history, &min_interval, &deadline, &lease,
                                     &spin))
        return -1;
    qos.reliability = (rtmw_reliability)reliability;
    if (!read_type_or_any(type_tuple, &space, &type) || !seconds(min_interval, 0, &qos.min_interval_ns) ||
        !seconds(deadline, 0, &qos.deadline_ns) || !seconds(lease, 0, &qos.lease_ns) ||
        !seconds(spin, UINT64_MAX, &self->spin_ns))
        return -1;
    const char *name = topic_name(object, topic);
    if (!name) return -1;
    self->context = sample_context(state, region, topic, decode, type == RTMW_ANY);
    if (!self->context) return -1;
    int code = rtmw_subscriber_open(region_of(region), name, type, &qos, &self->core);
    if (code != RTMW_OK) return fail(object, code, topic, 0), -1;
    self->region = (Region *)Py_NewRef(region);
    self->topic = Py_NewRef(topic);
    self->sample_type = state->sample;
    return 0;
}

static void subscriber_finish(Subscriber *self)
{
    if (self->closed && self->busy == 0 && self->core) {
        rtmw_subscriber_close(self->core);
        self->core = NULL;
    }
}

static PyObject *Subscriber_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (self->core && !self->closed) rtmw_subscriber_shut(self->core);
    self->closed = true;
    subscriber_finish(self);
    Py_RETURN_NONE;
}

/* No clear: a cycle is broken in the context, or in the dict of a subclass. */
static int Subscriber_traverse(PyObject *object, visitproc visit, void *arg)
{
    Subscriber *self = (Subscriber *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->context);
    return 0;
}

static void Subscriber_dealloc(PyObject *object)
{
    Subscriber *self = (Subscriber *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->core) rtmw_subscriber_close(self->core);
    Py_XDECREF(self->context);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->region);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Subscriber_arm(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscriber_is_open(self) ? PyBool_FromLong(subscriber_arm(self->core)) : NULL;
}

static PyObject *Subscriber_fileno(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    if (is_forked(self->core->region)) return fail(object, RTMW_FORKED, self->topic, 0);
    int fd = subscriber_pollable(self->core), system_error = errno;
    if (fd >= 0) return PyLong_FromLong(fd);
    PyObject *subject = PyUnicode_FromFormat("topic %R", self->topic);
    errno = system_error;
    fail(object, RTMW_SYSTEM, subject, 0);
    Py_XDECREF(subject);
    return NULL;
}

/* Seconds until the deadline, None without one. For asyncio, which waits by itself. */
static PyObject *Subscriber_deadline_left(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    uint64_t at = load_relaxed(&self->core->deadline_at_ns);
    return at ? PyFloat_FromDouble((double)remaining(at) / 1e9) : Py_NewRef(Py_None);
}

/* Seconds after which asyncio looks by itself: at the deadline at the latest, None without one. */
static PyObject *Subscriber_look_in(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    uint64_t at = load_relaxed(&self->core->deadline_at_ns), left = at ? remaining(at) : 0;
    uint64_t look = look_up_ns(self->core);
    return at ? PyFloat_FromDouble((double)(left < look ? left : look) / 1e9) : Py_NewRef(Py_None);
}

static PyObject *Subscriber_counters(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscriber_is_open(self) ? subscriber_counters(self->core->region, self->core->topic, self->core->block)
                                    : NULL;
}

static PyObject *Subscriber_latency(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscriber_is_open(self) ? latency_buckets(self->core->region, self->core->slot) : NULL;
}

static PyObject *Subscriber_identity(PyObject *object, void *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    struct rtmw_subscriber *s = self->core;
    return PyLong_FromUnsignedLongLong(endpoint_identity(s->region->my_word, s->word, s->slot));
}

static PyObject *Subscriber_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((Subscriber *)object)->closed);
}

GUARD(Subscriber_take);
GUARD_FAST(Subscriber_take_many);
GUARD_FAST(Subscriber_receive);
GUARD_NEXT(Subscriber_next);
GUARD(Subscriber_close);
GUARD(Subscriber_arm);
GUARD(Subscriber_fileno);
GUARD(Subscriber_deadline_left);
GUARD(Subscriber_look_in);
GUARD(Subscriber_counters);
GUARD(Subscriber_latency);
GUARD_GET(Subscriber_identity);
GUARD_GET(Subscriber_closed);

static PyMethodDef Subscriber_methods[] = {
    {"take", GUARDED(Subscriber_take), METH_NOARGS, "take($self, /)\n--\n\nThe next message, or None. Never waits."},
    {"take_many", FAST(GUARDED(Subscriber_take_many)), METH_FASTCALL | METH_KEYWORDS,
     "take_many($self, limit)\n--\n\nAt most `limit` messages. Never waits."},
    {"receive", FAST(GUARDED(Subscriber_receive)), METH_FASTCALL | METH_KEYWORDS,
     "receive($self, timeout=None)\n--\n\nThe next message; waits up to `timeout` seconds. None: no limit, and after 2 "
     "s it is logged once why nothing\n"
     "comes, if nobody publishes or a publisher is not matched.\n\n"
     "Raises TimeoutError with that reason, or DeadlineMissed when the deadline passes without a message."},
    {"fileno", GUARDED(Subscriber_fileno), METH_NOARGS,
     "fileno($self, /)\n--\n\nA file descriptor of this subscriber alone, for select and its kin: readable while there "
     "may "
     "be\n"
     "something to take. When it is, call take() until it returns None. It is readable without a message, too: when "
     "the\n"
     "deadline passes, and twice a second (four times a deadline), so that no stopped publisher keeps one unseen."},
    {"close", GUARDED(Subscriber_close), METH_NOARGS,
     "close($self, /)\n--\n\nLeave the topic. Threads that wait on it are woken. Samples stay valid."},
    {"_arm", GUARDED(Subscriber_arm), METH_NOARGS, NULL},
    {"_deadline_left", GUARDED(Subscriber_deadline_left), METH_NOARGS, NULL},
    {"_look_in", GUARDED(Subscriber_look_in), METH_NOARGS, NULL},
    {"_counters", GUARDED(Subscriber_counters), METH_NOARGS, NULL},
    {"_latency", GUARDED(Subscriber_latency), METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Subscriber_getset[] = {{"identity", GUARDED(Subscriber_identity), NULL, "What tools show it by.",
                                           NULL},
                                          {"closed", GUARDED(Subscriber_closed), NULL, "True after close().", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Subscriber_members[] = {{"topic", T_OBJECT, offsetof(Subscriber, topic), READONLY,
                                            "Name of the topic."},
                                           {"_tells_after_ns", T_ULONGLONG, offsetof(Subscriber, tells_after_ns), 0,
                                            NULL},
                                           {NULL, 0, 0, 0, NULL}};
static PyType_Slot Subscriber_slots[] = {{Py_tp_init, Subscriber_init},
                                         {Py_tp_dealloc, Subscriber_dealloc},
                                         {Py_tp_traverse, Subscriber_traverse},
                                         {Py_tp_methods, Subscriber_methods},
                                         {Py_tp_getset, Subscriber_getset},
                                         {Py_tp_members, Subscriber_members},
                                         {Py_tp_iter, PyObject_SelfIter},
                                         {Py_tp_iternext, GUARDED(Subscriber_next)},
                                         {0, NULL}};
PyType_Spec Subscriber_spec = {"rtmw.shm._core.Subscriber", sizeof(Subscriber), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, Subscriber_slots};
