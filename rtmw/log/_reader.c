/* Reader, and what it gives: Record, one as a Python object; runs, many as columns. */
#include "_log.h"

#include <stddef.h>
#include <structmember.h>

#include "reader.h"

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

/* ======== record ======== */

/* Record: one record as a Python object of its own. LogRecord is a subclass of it: its instances are made here, without a
 * call of Python, and their numbers become objects when they are asked for. */

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

/* ======== run ======== */

/* Reader.run: many records as columns. What a run is, reader.h says. */

enum { LEAST_BYTES = 64 * 1024 }; /* more than the text of the longest label needs */

/* Memory of a column: a bytes object that nobody else has seen yet. NULL: with a Python error. */
static void *column(PyObject **made, size_t bytes)
{
    *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    return *made ? PyBytes_AS_STRING(*made) : NULL;
}

enum {
    POSITION,
    TIME,
    EPOCH,
    PLACE,
    SIZE,
    DATA_BYTES,
    KEY_TEXT,
    KEY_ENDS,
    KEY_THERE,
    ID_TEXT,
    ID_ENDS,
    ID_THERE,
    COLUMNS
};

static bool make_texts(struct run_texts *texts, PyObject **made, size_t rows, size_t bytes)
{
    texts->room = bytes;
    return (texts->text = column(&made[0], bytes)) && (texts->ends = column(&made[1], rows * sizeof *texts->ends)) &&
           (texts->is_there = column(&made[2], rows));
}

static bool make_columns(struct run *run, PyObject **made, unsigned wanted)
{
    bool done = (run->position = column(&made[POSITION], run->room * sizeof *run->position)) &&
                (run->time_ns = column(&made[TIME], run->room * sizeof *run->time_ns)) &&
                (run->epoch = column(&made[EPOCH], run->room * sizeof *run->epoch));
    if (done && wanted & RUN_DATA)
        done = (run->place = column(&made[PLACE], run->room * sizeof *run->place)) &&
               (run->size = column(&made[SIZE], run->room * sizeof *run->size)) &&
               (run->data = column(&made[DATA_BYTES], run->data_room));
    if (done && wanted & RUN_KEYS) done = make_texts(&run->keys, &made[KEY_TEXT], run->room, run->data_room);
    if (done && wanted & RUN_IDS) done = make_texts(&run->ids, &made[ID_TEXT], run->room, run->data_room);
    return done;
}

/* Gives back what is not filled. */
static bool shrink(struct run *run, PyObject **made)
{
    const size_t n = run->count;
    const size_t sizes[COLUMNS] = {
        n * sizeof *run->position,
        n * sizeof *run->time_ns,
        n * sizeof *run->epoch,
        n * sizeof *run->place,
        n * sizeof *run->size,
        run->data_size,
        run->keys.size,
        n * sizeof *run->keys.ends,
        n,
        run->ids.size,
        n * sizeof *run->ids.ends,
        n,
    };
    for (int i = 0; i < COLUMNS; i++)
        if (made[i] && _PyBytes_Resize(&made[i], (Py_ssize_t)sizes[i])) return false;
    return true;
}

static void drop(PyObject **made)
{
    for (int i = 0; i < COLUMNS; i++) Py_CLEAR(made[i]);
}

static PyObject *or_none(PyObject *made) { return made ? made : Py_None; }

static PyObject *texts_of(PyObject **made)
{
    return made[0] ? PyTuple_Pack(3, made[0], made[1], made[2]) : Py_NewRef(Py_None);
}

static PyObject *result_of(struct run *run, PyObject **made)
{
    if (!shrink(run, made)) return NULL;
    return Py_BuildValue("nOOOOOONNKI", (Py_ssize_t)run->count, made[POSITION], made[TIME], made[EPOCH],
                         or_none(made[PLACE]), or_none(made[SIZE]), or_none(made[DATA_BYTES]),
                         texts_of(&made[KEY_TEXT]), texts_of(&made[ID_TEXT]), (unsigned long long)run->other_position,
                         run->other_kind);
}

/* A run, again with more room if the first record has more bytes than there are. */
static int read_run(struct reader *core, uint64_t limit, struct run *run, PyObject **made, unsigned wanted,
                    struct log_fault *fault)
{
    for (;;) {
        if (!make_columns(run, made, wanted)) return -1;
        int code = run_read(core, limit, run, fault);
        if (!run->needs) return code;
        drop(made);
        *run = (struct run){.room = 1,
                            .data_room = run->needs > LEAST_BYTES ? run->needs : LEAST_BYTES,
                            .start_ns = run->start_ns,
                            .end_ns = run->end_ns};
    }
}

PyObject *Reader_run(PyObject *object, PyObject *args)
{
    PyObject *subject, *made[COLUMNS] = {0}, *result = NULL;
    struct reader *core = reader_core(object, &subject);
    unsigned long long limit, start_ns, end_ns;
    unsigned wanted;
    Py_ssize_t rows, bytes;
    struct log_fault fault = {0};
    if (!core || !PyArg_ParseTuple(args, "KIKKnn", &limit, &wanted, &start_ns, &end_ns, &rows, &bytes)) return NULL;
    if (rows < 1 || rows > INT32_MAX || bytes > INT32_MAX)
        return PyErr_SetString(PyExc_ValueError, "a run has from 1 to 2^31 - 1 records, and as many bytes"), NULL;
    struct run run = {.room = (size_t)rows, .start_ns = start_ns, .end_ns = end_ns};
    run.data_room = bytes > LEAST_BYTES ? (size_t)bytes : LEAST_BYTES;
    int code = read_run(core, limit, &run, made, wanted, &fault);
    if (code > 0 && code != LOG_AT_END && !run.count)
        fail(subject, code, &fault);
    else if (code >= 0 && !run.count && !run.other_kind)
        result = Py_NewRef(Py_None);
    else if (code >= 0)
        result = result_of(&run, made);
    drop(made);
    return result;
}

/* Of the index of a segment: where its records end, how many there are, their earliest time, and its stretches. */
PyObject *stretches(PyObject *module, PyObject *args)
{
    struct asked a = {0};
    struct index index;
    (void)module;
    if (!asked_of(args, "Oiy*K", &a)) return NULL;
    if (!index_read(&a.folder, a.number, &index)) Py_RETURN_NONE;
    PyObject *made = Py_BuildValue("KKKy#", (unsigned long long)index.head.end, (unsigned long long)index.head.records,
                                   (unsigned long long)index.head.earliest_ns, (const char *)index.stretches,
                                   (Py_ssize_t)(index.head.count * sizeof *index.stretches));
    index_free(&index);
    return made;
}
