/* Writer: the one who appends. */
#include <unistd.h>

#include "../shm/atomics.h"
#include "_log.h"
#include "reader.h"

enum { IDLE_NS = 100000000, MARK_NS = 10000000 };

typedef struct {
    PyObject_HEAD
    struct writer core;
    PyObject *subject; /* path of the log, for errors */
    bool is_open;      /* core is; `closed` ends its threads, and leaves its memory to who is inside */
    bool closed;
    pid_t owner; /* the process that has the threads: a child of it has not */
} Writer;

static PyObject *Writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"subject", "folder", "uuid", "most", "window", "retention", "replicated", NULL};
    PyObject *subject;
    int descriptor, is_replicated = 0, code = LOG_OK;
    Py_buffer uuid;
    unsigned long long most;
    unsigned int window, per_key;
    unsigned long long age_ns, bytes, cursors_ns;
    struct log_folder folder;
    struct log_fault fault = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Oiy*KI(KKKI)|p", names, &subject, &descriptor, &uuid, &most,
                                     &window, &age_ns, &bytes, &cursors_ns, &per_key, &is_replicated))
        return NULL;
    bool done = folder_of(&folder, descriptor, &uuid);
    PyBuffer_Release(&uuid);
    Writer *self = done ? (Writer *)type->tp_alloc(type, 0) : NULL;
    if (!self) return NULL;
    folder.is_replicated = is_replicated;
    self->subject = Py_NewRef(subject);
    self->owner = getpid();
    struct writer_options options = {most,         IDLE_NS, window, {age_ns, bytes, cursors_ns, per_key},
                                     WRITER_BATCH, MARK_NS};
    Py_BEGIN_ALLOW_THREADS
    code = writer_open(&self->core, &folder, &options, &fault);
    Py_END_ALLOW_THREADS
    self->is_open = code == LOG_OK;
    if (self->is_open) return (PyObject *)self;
    fail(subject, code, &fault);
    Py_DECREF(self);
    return NULL;
}

/* What the core says, as a Python error. Of a writer that failed: its fault, and what positions are concerned. Of a full
 * disk: how many bytes the next segment needs. */
static PyObject *explain(Writer *self, int code, uint64_t from, uint64_t to)
{
    struct log_fault fault = {0};
    if (code == LOG_FAILED) fault = self->core.fault;
    fault.from = code == LOG_FULL ? self->core.lacks : from;
    fault.to = to;
    return fail(self->subject, code, &fault);
}

/* The threads, and whoever has the lock, are those of the process that opened it. */
static bool is_ours(Writer *self)
{
    if (self->owner == getpid()) return true;
    PyObject *errors = PyImport_ImportModule("rtmw.errors"),
             *error = errors ? PyObject_GetAttrString(errors, "ForkedError") : NULL;
    if (error)
        PyErr_Format(
            error,
            "%S: opened before fork() and appended to in the child; the child has to open rtmw.Log itself, after "
            "the parent has closed it",
            self->subject);
    Py_XDECREF(error);
    Py_XDECREF(errors);
    return false;
}

static bool is_usable(Writer *self)
{
    if (self->closed) return fail(self->subject, LOG_CLOSED, &(struct log_fault){0}), false;
    return is_ours(self);
}

struct call {
    const struct record_parts *parts;
    size_t count;
    int how; /* HELD, STARTED or SYNCED, perhaps with ENDS or FENCED */
    uint64_t deadline;
    bool is_taken; /* the result: if not, nothing was appended */
    uint64_t first, end;
};

static int take(struct writer *core, struct call *call)
{
    if (call->how & FENCED) return writer_append_fence(core, call->parts, call->deadline, &call->first, &call->end);
    int (*append_so)(struct writer *, const struct record_parts *, size_t, uint64_t, uint64_t *, uint64_t *) =
        call->how & ENDS ? writer_append_end : writer_append;
    return append_so(core, call->parts, call->count, call->deadline, &call->first, &call->end);
}

/* Signals are answered by Python, and the call goes on unless that raises. It takes and waits while the GIL is released
 * once: of many threads each waits for it once more whenever it is released, and that is most of what an append costs. */
static int append(Writer *self, struct call *call)
{
    int code, how = call->how & ~(ENDS | FENCED);
    call->is_taken = false;
    do {
        Py_BEGIN_ALLOW_THREADS
        code = call->is_taken ? LOG_OK : take(&self->core, call);
        call->is_taken = code == LOG_OK;
        if (call->is_taken && how == STARTED) writer_start(&self->core, 0);
        if (call->is_taken && how == SYNCED) code = writer_wait(&self->core, call->end, call->deadline);
        Py_END_ALLOW_THREADS
    } while (code == LOG_INTERRUPTED && !PyErr_CheckSignals());
    return code;
}

static int wait_for(Writer *self, uint64_t end, uint64_t deadline)
{
    int code;
    do {
        Py_BEGIN_ALLOW_THREADS
        code = writer_wait(&self->core, end, deadline);
        Py_END_ALLOW_THREADS
    } while (code == LOG_INTERRUPTED && !PyErr_CheckSignals());
    return code;
}

/* LOG_INTERRUPTED comes with the error of a signal's handler. */
static PyObject *refused(Writer *self, int code)
{
    uint64_t next = load_acquire(&self->core.durable);
    return code == LOG_INTERRUPTED ? NULL : explain(self, code, next, next);
}

static PyObject *unanswered(Writer *self, int code, uint64_t first, uint64_t end)
{
    return code == LOG_INTERRUPTED ? NULL : explain(self, code, first, end);
}

static PyObject *Writer_append(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    Writer *self = (Writer *)object;
    Py_buffer data = {0}, labels = {0};
    uint64_t deadline;
    if (count != 4 && count != 5)
        return PyErr_SetString(PyExc_TypeError, "append takes data, labels, how, timeout and perhaps a time"), NULL;
    int how = (int)PyLong_AsLong(args[2]);
    uint64_t time_ns = count == 5 ? PyLong_AsUnsignedLongLong(args[4]) : 0;
    if (PyErr_Occurred() || !deadline_of(args[3], &deadline) || !is_usable(self)) return NULL;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE)) return NULL;
    if (args[1] != Py_None && PyObject_GetBuffer(args[1], &labels, PyBUF_SIMPLE)) return PyBuffer_Release(&data), NULL;
    struct record_parts parts = {labels.buf, data.buf, (size_t)labels.len, (size_t)data.len, time_ns};
    struct call call = {.parts = &parts, .count = 1, .how = how, .deadline = deadline};
    int code = append(self, &call);
    PyBuffer_Release(&data);
    if (labels.obj) PyBuffer_Release(&labels);
    if (code && !call.is_taken && code != LOG_ID_TAKEN) return refused(self, code);
    if (code) return unanswered(self, code, call.first, call.end);
    return Py_BuildValue("KK", (unsigned long long)call.first, (unsigned long long)call.end);
}

static uint64_t size_of(const struct record_parts *parts)
{
    return record_size((uint64_t)parts->labels_size + parts->data_size);
}

/* Of records that lie one after the other: where each begins, and where the last one ends. */
static PyObject *positions_of(const struct record_parts *parts, size_t count, uint64_t position)
{
    uint64_t first = position, size = size_of(&parts[0]), end = first;
    bool is_even = true;
    for (size_t n = 0; n < count; n++) {
        is_even = is_even && size_of(&parts[n]) == size;
        end += size_of(&parts[n]);
    }
    if (is_even) {
        PyObject *range = PyObject_CallFunction((PyObject *)&PyRange_Type, "KKK", (unsigned long long)first,
                                                (unsigned long long)end, (unsigned long long)size);
        return range ? Py_BuildValue("NK", range, (unsigned long long)end) : NULL;
    }
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t n = 0; list && n < count; n++) {
        PyObject *begin = PyLong_FromUnsignedLongLong(position);
        position += size_of(&parts[n]);
        if (begin)
            PyList_SET_ITEM(list, (Py_ssize_t)n, begin);
        else
            Py_CLEAR(list);
    }
    return list ? Py_BuildValue("NK", list, (unsigned long long)end) : NULL;
}

static PyObject *Writer_append_many(PyObject *object, PyObject *args)
{
    Writer *self = (Writer *)object;
    PyObject *list, *positions = NULL;
    PyObject *timeout = Py_None;
    Py_buffer labels = {0};
    uint64_t deadline;
    int how;
    if (!PyArg_ParseTuple(args, "O!i|z*O", &PyList_Type, &list, &how, &labels, &timeout)) return NULL;
    if (!deadline_of(timeout, &deadline) || !is_usable(self)) return PyBuffer_Release(&labels), NULL;
    size_t count = (size_t)PyList_GET_SIZE(list), held = 0;
    Py_buffer *buffers = PyMem_Calloc(count + 1, sizeof *buffers);
    struct record_parts *parts = PyMem_Calloc(count + 1, sizeof *parts);
    bool has_all = buffers && parts;
    if (!has_all) PyErr_NoMemory();
    for (; has_all && held < count && held < (size_t)PyList_GET_SIZE(list); held++) {
        has_all = !PyObject_GetBuffer(PyList_GET_ITEM(list, (Py_ssize_t)held), &buffers[held], PyBUF_SIMPLE);
        if (!has_all) break;
        parts[held] = (struct record_parts){.data = buffers[held].buf, .data_size = (size_t)buffers[held].len};
    }
    if (held) parts[0].labels = labels.buf, parts[0].labels_size = (size_t)labels.len;
    struct call call = {.parts = parts, .count = held, .how = how, .deadline = deadline};
    int code = has_all && held ? append(self, &call) : LOG_OK;
    if (code && call.is_taken) unanswered(self, code, call.first, call.end);
    if (code && !call.is_taken) refused(self, code);
    if (has_all && !code) positions = positions_of(parts, held, call.first);
    PyBuffer_Release(&labels);
    for (size_t n = 0; n < held; n++) PyBuffer_Release(&buffers[n]);
    PyMem_Free(buffers);
    PyMem_Free(parts);
    return positions;
}

/* Whole batches of another node; the position behind them. */
static PyObject *Writer_append_raw(PyObject *object, PyObject *args)
{
    Writer *self = (Writer *)object;
    Py_buffer bytes;
    unsigned int epoch;
    PyObject *timeout;
    uint64_t deadline, next;
    struct log_fault fault = {0};
    int code;
    if (!PyArg_ParseTuple(args, "y*IO", &bytes, &epoch, &timeout)) return NULL;
    bool done = deadline_of(timeout, &deadline) && is_usable(self);
    struct writer_raw raw = {.bytes = bytes.buf, .size = (uint64_t)bytes.len, .epoch = epoch};
    do {
        if (!done) break;
        Py_BEGIN_ALLOW_THREADS
        code = writer_append_raw(&self->core, &raw, deadline, &fault);
        Py_END_ALLOW_THREADS
    } while (code == LOG_INTERRUPTED && !PyErr_CheckSignals());
    PyBuffer_Release(&bytes);
    if (!done) return NULL;
    next = writer_look(&self->core, &self->core.next);
    if (code == LOG_REFUSED) return fail(self->subject, code, &fault);
    if (code) return code == LOG_INTERRUPTED ? NULL : explain(self, code, next, next);
    return PyLong_FromUnsignedLongLong(next);
}

/* Whole batches that are not durable yet, as bytes, or None. */
static PyObject *Writer_tail(PyObject *object, PyObject *args)
{
    Writer *self = (Writer *)object;
    PyObject *made = NULL;
    unsigned long long position;
    Py_ssize_t size;
    struct raw_run run = {0};
    int code = LOG_OK;
    if (!PyArg_ParseTuple(args, "Kn", &position, &size) || !is_usable(self)) return NULL;
    if (size < 1) return PyErr_SetString(PyExc_ValueError, "the size of raw bytes is 1 or more"), NULL;
    for (run.needs = (size_t)size; run.needs && !code;) {
        Py_XDECREF(made);
        made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)run.needs);
        if (!made) return NULL;
        run.room = run.needs;
        run.to = (uint8_t *)PyBytes_AS_STRING(made);
        code = writer_tail(&self->core, position, &run);
    }
    if (!code) return _PyBytes_Resize(&made, (Py_ssize_t)run.size) ? NULL : made;
    Py_DECREF(made);
    Py_RETURN_NONE;
}

static PyObject *Writer_commit(PyObject *object, PyObject *given)
{
    Writer *self = (Writer *)object;
    uint64_t committed = PyLong_AsUnsignedLongLong(given), next;
    if (PyErr_Occurred() || !is_usable(self)) return NULL;
    next = load_acquire(&self->core.durable);
    int code = writer_commit(&self->core, committed);
    if (code) return explain(self, code, next, next);
    Py_RETURN_NONE;
}

/* (position, end, kind) of the batch that has the id of these labels, or None; and the floor of the window. */
static PyObject *Writer_find_id(PyObject *object, PyObject *given)
{
    Writer *self = (Writer *)object;
    Py_buffer labels;
    struct id_entry found;
    uint64_t floor;
    if (!is_usable(self) || PyObject_GetBuffer(given, &labels, PyBUF_SIMPLE)) return NULL;
    bool is_there = writer_find_id(&self->core, labels.buf, (size_t)labels.len, &found, &floor);
    PyBuffer_Release(&labels);
    if (!is_there) return Py_BuildValue("OK", Py_None, (unsigned long long)floor);
    return Py_BuildValue("(KKI)K", (unsigned long long)found.position, (unsigned long long)id_entry_end(&found),
                         found.kind ? found.kind : RECORD_DATA, (unsigned long long)floor);
}

static PyObject *Writer_set_epoch(PyObject *object, PyObject *given)
{
    Writer *self = (Writer *)object;
    unsigned long epoch = PyLong_AsUnsignedLong(given);
    if (PyErr_Occurred() || !is_usable(self)) return NULL;
    if (epoch > UINT32_MAX || !writer_set_epoch(&self->core, (uint32_t)epoch))
        return PyErr_Format(PyExc_ValueError, "epoch %lu is not possible; the log has records of a higher one", epoch);
    Py_RETURN_NONE;
}

/* What was taken goes to the disk now; of no effect where the writer is closed, or that of a parent. */
static PyObject *Writer_start(PyObject *object, PyObject *args)
{
    Writer *self = (Writer *)object;
    unsigned long long awaited = 0;
    if (!PyArg_ParseTuple(args, "|K", &awaited)) return NULL;
    if (!self->closed && self->owner == getpid()) writer_start(&self->core, awaited);
    Py_RETURN_NONE;
}

static PyObject *Writer_write_ahead(PyObject *object, PyObject *unused)
{
    Writer *self = (Writer *)object;
    (void)unused;
    if (self->closed || self->owner != getpid()) Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    writer_write_ahead(&self->core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Writer_try_flush(PyObject *object, PyObject *unused)
{
    Writer *self = (Writer *)object;
    bool has_flushed = false;
    (void)unused;
    if (self->closed || self->owner != getpid()) Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS
    has_flushed = writer_try_flush(&self->core);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(has_flushed);
}

static PyObject *Writer_wait(PyObject *object, PyObject *args)
{
    Writer *self = (Writer *)object;
    unsigned long long end;
    PyObject *timeout;
    uint64_t deadline;
    if (!PyArg_ParseTuple(args, "KO", &end, &timeout) || !deadline_of(timeout, &deadline)) return NULL;
    if (load_acquire(&self->core.durable) < end && !self->closed && !is_ours(self)) return NULL;
    int code = load_acquire(&self->core.durable) >= end ? LOG_OK
               : self->closed                           ? LOG_FAILED
                                                        : wait_for(self, end, deadline);
    if (code) return unanswered(self, code, load_acquire(&self->core.durable), end);
    Py_RETURN_NONE;
}

/* Where the log begins then. */
static PyObject *Writer_trim(PyObject *object, PyObject *given)
{
    Writer *self = (Writer *)object;
    uint64_t start = 0, before = PyLong_AsUnsignedLongLong(given);
    int code;
    if (PyErr_Occurred() || !is_usable(self)) return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS
        code = writer_trim(&self->core, before, &start);
        Py_END_ALLOW_THREADS
    } while (code == LOG_INTERRUPTED && !PyErr_CheckSignals());
    if (code) return refused(self, code);
    return PyLong_FromUnsignedLongLong(start);
}

static PyObject *Writer_ask_trim(PyObject *object, PyObject *given)
{
    Writer *self = (Writer *)object;
    uint64_t before = PyLong_AsUnsignedLongLong(given);
    if (PyErr_Occurred() || !is_usable(self)) return NULL;
    writer_ask_trim(&self->core, before);
    Py_RETURN_NONE;
}

static PyObject *Writer_add_eventfd(PyObject *object, PyObject *given)
{
    int descriptor = (int)PyLong_AsLong(given);
    if ((descriptor == -1 && PyErr_Occurred()) || !is_ours((Writer *)object)) return NULL;
    return PyBool_FromLong(writer_add_eventfd(&((Writer *)object)->core, descriptor));
}

static PyObject *Writer_remove_eventfd(PyObject *object, PyObject *given)
{
    int descriptor = (int)PyLong_AsLong(given);
    if (descriptor == -1 && PyErr_Occurred()) return NULL;
    if (((Writer *)object)->owner == getpid()) writer_remove_eventfd(&((Writer *)object)->core, descriptor);
    Py_RETURN_NONE;
}

static PyObject *Writer_counters(PyObject *object, PyObject *unused)
{
    Writer *self = (Writer *)object;
    struct writer_counters c = {0};
    uint64_t queued = 0, bytes = 0, oldest_ns = 0;
    (void)unused;
    if (self->owner == getpid()) writer_counters(&self->core, &c, &queued, &bytes, &oldest_ns);
    return Py_BuildValue("KKKKKKKKKKKKIKKK", c.records, c.bytes, c.batches, c.syncs, c.largest_batch, c.rolls,
                         c.refused, c.failed_spares, queued, bytes, oldest_ns, c.repeated, c.ids, c.held, c.compacted,
                         c.failed_compactions);
}

static PyObject *Writer_close(PyObject *object, PyObject *unused)
{
    Writer *self = (Writer *)object;
    struct log_fault fault = {0};
    int code = LOG_OK;
    (void)unused;
    if (self->closed) Py_RETURN_NONE;
    self->closed = true;
    if (!self->is_open || self->owner != getpid()) Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    code = writer_close(&self->core, &fault);
    Py_END_ALLOW_THREADS
    if (code) return explain(self, code, load_acquire(&self->core.durable), self->core.next);
    Py_RETURN_NONE;
}

static void Writer_dealloc(PyObject *object)
{
    Writer *self = (Writer *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    Py_XDECREF(Writer_close(object, NULL));
    PyErr_Restore(kind, error, trace);
    if (self->is_open) writer_free(&self->core);
    Py_CLEAR(self->subject);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Writer_durable(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(load_acquire(&((Writer *)object)->core.durable));
}

/* `where`: the number's place in struct writer. */
static PyObject *Writer_number(PyObject *object, void *where)
{
    struct writer *core = &((Writer *)object)->core;
    if (!is_usable((Writer *)object)) return NULL;
    return PyLong_FromUnsignedLongLong(writer_look(core, (const uint64_t *)((char *)core + (size_t)where)));
}

static PyObject *Writer_epoch(PyObject *object, void *unused)
{
    struct writer *core = &((Writer *)object)->core;
    (void)unused;
    if (!is_usable((Writer *)object)) return NULL;
    return PyLong_FromUnsignedLong(writer_last_epoch(core));
}

static PyObject *Writer_cut(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((Writer *)object)->core.cut);
}

static PyObject *Writer_failed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong((long)load_acquire(&((Writer *)object)->core.failed));
}

static PyMethodDef writer_methods[] = {{"append", (PyCFunction)(void (*)(void))Writer_append, METH_FASTCALL, NULL},
                                       {"append_many", Writer_append_many, METH_VARARGS, NULL},
                                       {"append_raw", Writer_append_raw, METH_VARARGS, NULL},
                                       {"tail", Writer_tail, METH_VARARGS, NULL},
                                       {"commit", Writer_commit, METH_O, NULL},
                                       {"find_id", Writer_find_id, METH_O, NULL},
                                       {"set_epoch", Writer_set_epoch, METH_O, NULL},
                                       {"start", Writer_start, METH_VARARGS, NULL},
                                       {"write_ahead", Writer_write_ahead, METH_NOARGS, NULL},
                                       {"try_flush", Writer_try_flush, METH_NOARGS, NULL},
                                       {"wait", Writer_wait, METH_VARARGS, NULL},
                                       {"trim", Writer_trim, METH_O, NULL},
                                       {"ask_trim", Writer_ask_trim, METH_O, NULL},
                                       {"add_eventfd", Writer_add_eventfd, METH_O, NULL},
                                       {"remove_eventfd", Writer_remove_eventfd, METH_O, NULL},
                                       {"counters", Writer_counters, METH_NOARGS, NULL},
                                       {"close", Writer_close, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyGetSetDef writer_members[] = {{"durable", Writer_durable, NULL, NULL, NULL},
                                       {"next", Writer_number, NULL, NULL, (void *)offsetof(struct writer, next)},
                                       {"last_base", Writer_number, NULL, NULL,
                                        (void *)offsetof(struct writer, last_base)},
                                       {"last_size", Writer_number, NULL, NULL,
                                        (void *)offsetof(struct writer, newest_size)},
                                       {"last_epoch", Writer_epoch, NULL, NULL, NULL},
                                       {"cut", Writer_cut, NULL, NULL, NULL},
                                       {"failed", Writer_failed, NULL, NULL, NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot writer_slots[] = {{Py_tp_new, Writer_new},
                                     {Py_tp_dealloc, Writer_dealloc},
                                     {Py_tp_methods, writer_methods},
                                     {Py_tp_getset, writer_members},
                                     {0, NULL}};
PyType_Spec Writer_spec = {"rtmw.log._log.Writer", sizeof(Writer), 0, Py_TPFLAGS_DEFAULT, writer_slots};
