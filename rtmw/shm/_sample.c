/* Sample: a message where it lies, held until its last view is gone. It holds the region and not the subscriber: that
 * leaves its topic with the last reference to it, whatever samples of it still live. */
#include "_core.h"
#include "topics.h"

SampleContext *sample_context(State *state, PyObject *region, PyObject *topic, PyObject *decode, bool any)
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
