/* Reader: one who goes through the records. */
#include "_log.h"

typedef struct {
    PyObject_HEAD
    struct reader core;
    PyObject *subject;
    bool is_open;
} Reader;

static PyObject *Reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"subject", "folder", "uuid", "position", "begins", NULL};
    PyObject *subject;
    int descriptor;
    Py_buffer uuid;
    unsigned long long position;
    int begins = 0;
    struct log_folder folder;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Oiy*K|p", names, &subject, &descriptor, &uuid, &position,
                                     &begins))
        return NULL;
    bool done = folder_of(&folder, descriptor, &uuid);
    PyBuffer_Release(&uuid);
    Reader *self = done ? (Reader *)type->tp_alloc(type, 0) : NULL;
    if (!self) return NULL;
    self->subject = Py_NewRef(subject);
    void (*open_so)(struct reader *, const struct log_folder *, uint64_t) = begins ? reader_open_at : reader_open;
    (descriptor < 0 ? reader_open_fed : open_so)(&self->core, &folder, position);
    self->core.may_be_cut = descriptor >= 0;
    self->is_open = true;
    return (PyObject *)self;
}

static struct reader *open_core(Reader *self)
{
    if (self->is_open) return &self->core;
    fail(self->subject, LOG_CLOSED, &(struct log_fault){0});
    return NULL;
}

struct reader *reader_core(PyObject *object, PyObject **subject)
{
    *subject = ((Reader *)object)->subject;
    return open_core((Reader *)object);
}

static PyObject *tuple_of(const struct reader_record *r)
{
    return Py_BuildValue("KKKIBy#y#", (unsigned long long)r->head.lsn, (unsigned long long)r->end,
                         (unsigned long long)r->head.time_ns, r->head.epoch, r->head.kind, r->labels,
                         (Py_ssize_t)r->labels_size, r->data, (Py_ssize_t)r->data_size);
}

/* (position, end, time_ns, epoch, kind, labels, data), or None. The interpreter is kept: mostly the record is in memory. */
static PyObject *Reader_next(PyObject *object, PyObject *given)
{
    Reader *self = (Reader *)object;
    struct reader *core = open_core(self);
    unsigned long long limit = core ? PyLong_AsUnsignedLongLong(given) : 0;
    struct reader_record r;
    struct log_fault fault = {0};
    if (!core || PyErr_Occurred()) return NULL;
    int code = reader_next(core, limit, &r, &fault);
    if (code == LOG_AT_END) Py_RETURN_NONE;
    if (code) return fail(self->subject, code, &fault);
    return tuple_of(&r);
}

static PyObject *Reader_seek_time(PyObject *object, PyObject *args)
{
    Reader *self = (Reader *)object;
    struct reader *core = open_core(self);
    unsigned long long time_ns, limit;
    struct log_fault fault = {0};
    int code;
    if (!core || !PyArg_ParseTuple(args, "KK", &time_ns, &limit)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = reader_seek_time(core, time_ns, limit, &fault);
    Py_END_ALLOW_THREADS
    if (code != LOG_OK && code != LOG_AT_END) return fail(self->subject, code, &fault);
    Py_RETURN_NONE;
}

static PyObject *Reader_feed(PyObject *object, PyObject *given)
{
    struct reader *core = open_core((Reader *)object);
    Py_buffer bytes;
    if (!core) return NULL;
    if (!core->is_fed) return PyErr_SetString(PyExc_ValueError, "only a reader without a folder is fed"), NULL;
    if (PyObject_GetBuffer(given, &bytes, PyBUF_SIMPLE)) return NULL;
    bool done = reader_feed(core, bytes.buf, (size_t)bytes.len);
    PyBuffer_Release(&bytes);
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Whole batches as bytes, or None. */
static PyObject *Reader_raw(PyObject *object, PyObject *args)
{
    Reader *self = (Reader *)object;
    struct reader *core = open_core(self);
    PyObject *made = NULL;
    unsigned long long limit;
    Py_ssize_t size;
    struct raw_run run = {0};
    struct log_fault fault = {0};
    int code = LOG_OK;
    if (!core || !PyArg_ParseTuple(args, "Kn", &limit, &size)) return NULL;
    if (size < 1) return PyErr_SetString(PyExc_ValueError, "the size of raw bytes is 1 or more"), NULL;
    core->may_be_cut = false; /* nobody but the log's service asks for them, and it would know */
    for (run.needs = (size_t)size; run.needs && !code;) {
        Py_XDECREF(made);
        made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)run.needs);
        if (!made) return NULL;
        run.room = run.needs;
        run.to = (uint8_t *)PyBytes_AS_STRING(made);
        Py_BEGIN_ALLOW_THREADS
        code = reader_raw(core, limit, &run, &fault);
        Py_END_ALLOW_THREADS
    }
    if (!code && !_PyBytes_Resize(&made, (Py_ssize_t)run.size)) return made;
    Py_XDECREF(made);
    if (code == LOG_AT_END) Py_RETURN_NONE;
    return code ? fail(self->subject, code, &fault) : NULL;
}

/* Long, where much is damaged: without the interpreter. */
static PyObject *Reader_scan(PyObject *object, PyObject *args)
{
    Reader *self = (Reader *)object;
    struct reader *core = open_core(self);
    unsigned long long base, from;
    struct reader_record r;
    struct log_fault fault = {0};
    int code;
    if (!core || !PyArg_ParseTuple(args, "KK", &base, &from)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = reader_scan(core, base, from, &r, &fault);
    Py_END_ALLOW_THREADS
    if (code == LOG_AT_END) Py_RETURN_NONE;
    return code ? fail(self->subject, code, &fault) : tuple_of(&r);
}

static PyObject *Reader_close(PyObject *object, PyObject *unused)
{
    Reader *self = (Reader *)object;
    (void)unused;
    if (self->is_open) reader_close(&self->core);
    self->is_open = false;
    Py_RETURN_NONE;
}

static void Reader_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(Reader_close(object, NULL));
    Py_CLEAR(((Reader *)object)->subject);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Reader_position(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((Reader *)object)->core.position);
}

static PyObject *Reader_is_whole(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((Reader *)object)->core.is_whole);
}

static PyMethodDef reader_methods[] = {{"next", Reader_next, METH_O, NULL},
                                       {"take", Reader_take, METH_VARARGS, NULL},
                                       {"run", Reader_run, METH_VARARGS, NULL},
                                       {"raw", Reader_raw, METH_VARARGS, NULL},
                                       {"feed", Reader_feed, METH_O, NULL},
                                       {"scan", Reader_scan, METH_VARARGS, NULL},
                                       {"seek_time", Reader_seek_time, METH_VARARGS, NULL},
                                       {"close", Reader_close, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyGetSetDef reader_members[] = {{"position", Reader_position, NULL, NULL, NULL},
                                       {"is_whole", Reader_is_whole, NULL, NULL, NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot reader_slots[] = {{Py_tp_new, Reader_new},
                                     {Py_tp_dealloc, Reader_dealloc},
                                     {Py_tp_methods, reader_methods},
                                     {Py_tp_getset, reader_members},
                                     {0, NULL}};
PyType_Spec Reader_spec = {"rtmw.log._log.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT, reader_slots};
