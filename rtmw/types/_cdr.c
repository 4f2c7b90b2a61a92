/* Codec: a program that values and payloads are walked along. */
#include "_cdr.h"

typedef struct {
    PyObject_HEAD
    struct cdr_program program;
    PyObject *explain; /* (value, error) -> the error to raise when a value could not be encoded */
    PyObject *rescue;  /* (data, position, error) -> the value, or raises, when a payload could not be decoded */
} Codec;

static PyObject *Codec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *ops, *explain, *rescue;
    unsigned short header;
    unsigned char align;
    static char *names[] = {"ops", "header", "align", "explain", "rescue", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!HbOO", names, &PyList_Type, &ops, &header, &align, &explain,
                                     &rescue))
        return NULL;
    Codec *self = (Codec *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->program.header = header;
    self->program.align = align;
    self->explain = Py_NewRef(explain);
    self->rescue = Py_NewRef(rescue);
    if (program_read(&self->program, ops)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static int Codec_traverse(PyObject *object, visitproc visit, void *arg)
{
    Codec *self = (Codec *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->explain);
    Py_VISIT(self->rescue);
    return program_visit(&self->program, visit, arg);
}

/* A cycle leads through explain and rescue always; the ops stay whole as long as somebody may encode. */
static int Codec_clear(PyObject *object)
{
    Py_CLEAR(((Codec *)object)->explain);
    Py_CLEAR(((Codec *)object)->rescue);
    return 0;
}

static void Codec_dealloc(PyObject *object)
{
    Codec *self = (Codec *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Codec_clear(object);
    program_drop(&self->program);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The present error as an object, with `reason` if there is none. NULL: one that must not be hidden by another. */
static PyObject *caught(const char *reason)
{
    PyObject *type, *error, *trace;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, reason);
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) return NULL;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

enum {
    SMALL = 1024,
    BULK = 32768, /* a row so large is worth a second walk, so that it is copied once */
};

struct output {
    struct cdr_writer writer;
    PyObject *bytes; /* once the payload has outgrown `small` */
    bool in_place;   /* a row of BULK shall not be written here */
    bool is_bulk;
    uint8_t small[SMALL];
};

static bool output_grow(struct cdr_writer *writer, size_t needed)
{
    struct output *o = (struct output *)writer;
    o->is_bulk = o->in_place && needed - writer->position >= BULK;
    if (o->is_bulk) return false;
    if (needed > (size_t)PY_SSIZE_T_MAX / 2) return PyErr_NoMemory(), false;
    Py_ssize_t capacity = (Py_ssize_t)(needed + needed / 2);
    if (o->bytes) {
        if (_PyBytes_Resize(&o->bytes, capacity)) return false;
    } else {
        o->bytes = PyBytes_FromStringAndSize(NULL, capacity);
        if (!o->bytes) return false;
        memcpy(PyBytes_AS_STRING(o->bytes), o->small, writer->position);
    }
    writer->base = (uint8_t *)PyBytes_AS_STRING(o->bytes);
    writer->capacity = (size_t)capacity;
    return true;
}

static PyObject *output_finish(struct output *o)
{
    Py_ssize_t size = (Py_ssize_t)o->writer.position;
    if (!o->bytes) return PyBytes_FromStringAndSize((const char *)o->small, size);
    _PyBytes_Resize(&o->bytes, size);
    return o->bytes;
}

/* Raises what `explain` makes of the present error, or of the reason why the writer stopped. */
static PyObject *raise_explained(Codec *self, PyObject *value, const struct cdr_writer *w)
{
    PyObject *error = caught(w->reason);
    PyObject *explained = error ? PyObject_CallFunctionObjArgs(self->explain, value, error, NULL) : NULL;
    if (explained) PyErr_SetObject((PyObject *)Py_TYPE(explained), explained);
    Py_XDECREF(error);
    Py_XDECREF(explained);
    return NULL;
}

static PyObject *measured(Codec *self, PyObject *value)
{
    struct cdr_writer w = {.base = NULL};
    if (cdr_encode(&self->program, &w, VALUE(value))) return PyLong_FromSize_t(w.position);
    return raise_explained(self, value, &w);
}

static PyObject *encoded(Codec *self, PyObject *value, bool in_place)
{
    struct output o;
    o.writer = (struct cdr_writer){.base = o.small, .capacity = SMALL, .grow = output_grow};
    o.bytes = NULL;
    o.in_place = in_place;
    o.is_bulk = false;
    if (cdr_encode(&self->program, &o.writer, VALUE(value))) return output_finish(&o);
    Py_XDECREF(o.bytes);
    return o.is_bulk ? measured(self, value) : raise_explained(self, value, &o.writer);
}

static PyObject *Codec_encode(PyObject *self, PyObject *value) { return encoded((Codec *)self, value, false); }

static PyObject *Codec_begin(PyObject *self, PyObject *value) { return encoded((Codec *)self, value, true); }

static bool has_changed(struct cdr_writer *w, size_t needed)
{
    (void)needed;
    snprintf(w->reason, sizeof w->reason, "it changed while it was encoded");
    return false;
}

static PyObject *Codec_write(PyObject *object, PyObject *args)
{
    Codec *self = (Codec *)object;
    PyObject *value;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "Ow*", &value, &view)) return NULL;
    struct cdr_writer w = {.base = view.buf, .capacity = (size_t)view.len, .grow = has_changed};
    bool done = cdr_encode(&self->program, &w, VALUE(value));
    if (done && w.position != w.capacity) done = has_changed(&w, w.position);
    PyBuffer_Release(&view);
    return done ? Py_NewRef(Py_None) : raise_explained(self, value, &w);
}

static PyObject *Codec_decode(PyObject *object, PyObject *data)
{
    Codec *self = (Codec *)object;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    struct cdr_reader r = {.in = {.base = view.buf, .end = (size_t)view.len}};
    PyObject *value = OBJECT(cdr_decode(&self->program, &r));
    if (!value) {
        PyObject *error = caught(r.reason), *memory = error ? PyMemoryView_FromObject(data) : NULL;
        if (memory) value = PyObject_CallFunction(self->rescue, "OnO", memory, (Py_ssize_t)r.in.position, error);
        Py_XDECREF(memory);
        Py_XDECREF(error);
    }
    PyBuffer_Release(&view);
    return value;
}

static PyMethodDef Codec_methods[] = {
    {"encode", Codec_encode, METH_O, "encode(value) -> bytes\n\nThe payload; raises what `explain` gives."},
    {"begin", Codec_begin, METH_O,
     "begin(value) -> bytes | int\n\nThe payload; or, if it is large, its size, for the memory that `write` fills."},
    {"write", Codec_write, METH_VARARGS,
     "write(value, memory)\n\nThe payload into memory of exactly the size that begin() gave."},
    {"decode", Codec_decode, METH_O, "decode(data)\n\nThe value; or what `rescue` gives."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot Codec_slots[] = {{Py_tp_new, Codec_new},           {Py_tp_dealloc, Codec_dealloc},
                                    {Py_tp_traverse, Codec_traverse}, {Py_tp_clear, Codec_clear},
                                    {Py_tp_methods, Codec_methods},   {0, NULL}};
static PyType_Spec Codec_spec = {"rtmw.types._cdr.Codec", sizeof(Codec), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                 Codec_slots};

static int cdr_exec(PyObject *module)
{
    static const struct {
        const char *name;
        int code;
    } codes[] = {{"SIGNED", CDR_SIGNED},       {"UNSIGNED", CDR_UNSIGNED},
                 {"FLOAT", CDR_FLOAT},         {"BOOLEAN", CDR_BOOLEAN},
                 {"CHAR", CDR_CHAR},           {"ENUM", CDR_ENUM},
                 {"BITMASK", CDR_BITMASK},     {"TEXT", CDR_TEXT},
                 {"OCTETS", CDR_OCTETS},       {"OCTET_LIST", CDR_OCTET_LIST},
                 {"OCTET_ROW", CDR_OCTET_ROW}, {"SEQUENCE", CDR_SEQUENCE},
                 {"ARRAY", CDR_ARRAY},         {"OPTIONAL", CDR_OPTIONAL},
                 {"STRUCT", CDR_STRUCT},       {"UNION", CDR_UNION}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (PyModule_AddIntConstant(module, codes[i].name, codes[i].code)) return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &Codec_spec, NULL);
    int result = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot cdr_slots[] = {{Py_mod_exec, cdr_exec}, {0, NULL}};
static struct PyModuleDef cdr_module = {PyModuleDef_HEAD_INIT, .m_name = "rtmw.types._cdr", .m_slots = cdr_slots};

PyMODINIT_FUNC PyInit__cdr(void) { return PyModuleDef_Init(&cdr_module); }
