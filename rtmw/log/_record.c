/* Record: one record as a Python object of its own. LogRecord is a subclass of it: its instances are made here, without a
 * call of Python, and their numbers become objects when they are asked for. */
#include "_log.h"

#include <stddef.h>
#include <structmember.h>

enum { TAKEN_MOST = 256 }; /* records of one call: what a reader is ahead of its program at most */

typedef struct {
    PyObject_HEAD
    unsigned long long position, end, time_ns;
    unsigned int epoch;
    unsigned char kind;
    PyObject *data, *labels; /* bytes */
    PyObject *origin;        /* as it was given to Reader.take */
} Record;

static void Record_dealloc(PyObject *object)
{
    Record *self = (Record *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->data);
    Py_XDECREF(self->labels);
    Py_XDECREF(self->origin);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *record_of(PyTypeObject *type, PyObject *origin, const struct reader_record *r)
{
    Record *self = (Record *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->position = r->head.lsn;
    self->end = r->end;
    self->time_ns = r->head.time_ns;
    self->epoch = r->head.epoch;
    self->kind = r->head.kind;
    self->origin = Py_NewRef(origin);
    self->data = PyBytes_FromStringAndSize((const char *)r->data, (Py_ssize_t)r->data_size);
    self->labels = PyBytes_FromStringAndSize((const char *)r->labels, (Py_ssize_t)r->labels_size);
    if (self->data && self->labels) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static int put(PyObject *list, PyObject *made)
{
    int code = made ? PyList_Append(list, made) : -1;
    Py_XDECREF(made);
    return code;
}

/* A subclass without fields of its own: record_of sets all there are. */
static bool is_record_type(PyObject *reader, PyTypeObject *type)
{
    PyTypeObject *base = *(PyTypeObject **)PyType_GetModuleState(Py_TYPE(reader));
    return PyType_IsSubtype(type, base) && type->tp_basicsize == base->tp_basicsize;
}

/* What is there is given before an error, which the next call meets again; likewise a record of another kind is first. */
PyObject *Reader_take(PyObject *object, PyObject *args)
{
    PyObject *subject, *type, *origin, *taken;
    struct reader *core = reader_core(object, &subject);
    unsigned long long limit;
    Py_ssize_t bytes;
    struct reader_record r;
    struct log_fault fault = {0};
    int code = LOG_OK, error = 0;
    if (!core || !PyArg_ParseTuple(args, "KO!On", &limit, &PyType_Type, &type, &origin, &bytes)) return NULL;
    if (!is_record_type(object, (PyTypeObject *)type))
        return PyErr_SetString(PyExc_TypeError, "a type of records is a subclass of Record, with __slots__ = ()"), NULL;
    taken = PyList_New(0);
    while (taken && !error && bytes >= 0 && PyList_GET_SIZE(taken) < TAKEN_MOST) {
        code = reader_next(core, limit, &r, &fault);
        if (code) break;
        if (r.head.kind == RECORD_FENCE) continue;
        bool is_other = r.head.kind != RECORD_DATA;
        if (is_other && PyList_GET_SIZE(taken)) {
            reader_back(core, &r);
            break;
        }
        error = put(taken, record_of((PyTypeObject *)type, origin, &r));
        bytes -= is_other ? bytes + 1 : (Py_ssize_t)(r.end - r.head.lsn);
    }
    if (taken && !error && (!code || code == LOG_AT_END || PyList_GET_SIZE(taken))) return taken;
    Py_XDECREF(taken);
    return error || !taken ? NULL : fail(subject, code, &fault);
}

static PyMemberDef record_members[] = {
    {"position", T_ULONGLONG, offsetof(Record, position), READONLY, NULL},
    {"end", T_ULONGLONG, offsetof(Record, end), READONLY, NULL},
    {"time_ns", T_ULONGLONG, offsetof(Record, time_ns), READONLY, NULL},
    {"epoch", T_UINT, offsetof(Record, epoch), READONLY, NULL},
    {"_kind", T_UBYTE, offsetof(Record, kind), READONLY, NULL},
    {"data", T_OBJECT_EX, offsetof(Record, data), READONLY, NULL},
    {"_labels", T_OBJECT_EX, offsetof(Record, labels), READONLY, NULL},
    {"_origin", T_OBJECT_EX, offsetof(Record, origin), READONLY, NULL},
    {NULL},
};

static PyType_Slot record_slots[] = {{Py_tp_dealloc, Record_dealloc}, {Py_tp_members, record_members}, {0, NULL}};
PyType_Spec Record_spec = {"rtmw.log._log.Record", sizeof(Record), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, record_slots};
