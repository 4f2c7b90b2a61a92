/* The module, and functions of a folder and of its cursors. */
#include "_log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "folder.h"
#include "reader.h"
#include "recover.h"
#include "segment.h"

enum { UUID_BYTES = 16 };

PyObject *fail(PyObject *subject, int code, const struct log_fault *fault)
{
    PyObject *module = PyImport_ImportModule("rtmw.log.failures");
    PyObject *error = module ? PyObject_CallMethod(module, "failure", "OissiKK", subject, code,
                                                   fault->what ? fault->what : "", fault->file, fault->error,
                                                   (unsigned long long)fault->from, (unsigned long long)fault->to)
                             : NULL;
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(module);
    return NULL;
}

bool folder_of(struct log_folder *folder, int descriptor, const Py_buffer *uuid)
{
    *folder = (struct log_folder){.io = &log_io_system, .folder = descriptor};
    if (uuid->len != UUID_BYTES) return PyErr_SetString(PyExc_ValueError, "a uuid has 16 bytes"), false;
    memcpy(folder->uuid, uuid->buf, UUID_BYTES);
    folder->seed = record_seed(folder->uuid);
    return true;
}

bool deadline_of(PyObject *timeout, uint64_t *deadline)
{
    *deadline = WRITER_FOREVER;
    if (timeout == Py_None) return true;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred()) return false;
    if (!(seconds >= 0)) return PyErr_SetString(PyExc_ValueError, "a timeout is a number of seconds, 0 or more"), false;
    if (seconds < 1e9) *deadline = log_io_system.now_ns(NULL, LOG_CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    return true;
}

static PyObject *create(PyObject *module, PyObject *args)
{
    PyObject *subject;
    int descriptor, code = LOG_OK;
    Py_buffer uuid, description;
    unsigned long long segment, base = 0, copied = 0;
    int is_replicated = 0;
    struct log_folder folder;
    struct log_fault fault = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "Oiy*Ky*|pKK", &subject, &descriptor, &uuid, &segment, &description, &is_replicated,
                          &base, &copied))
        return NULL;
    bool done = folder_of(&folder, descriptor, &uuid);
    if (done) {
        struct log_creation creation = {segment, base, description.buf, (uint32_t)description.len, copied};
        folder.is_replicated = is_replicated;
        Py_BEGIN_ALLOW_THREADS
        code = log_create(&folder, &creation, &fault);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&uuid);
    PyBuffer_Release(&description);
    if (!done) return NULL;
    if (code) return fail(subject, code, &fault);
    Py_RETURN_NONE;
}

static PyObject *identify(PyObject *module, PyObject *args)
{
    PyObject *subject;
    struct log_folder folder = {.io = &log_io_system};
    struct log_fault fault = {0};
    void *description = NULL;
    uint32_t size = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oi", &subject, &folder.folder)) return NULL;
    int code = log_identify(&folder, &description, &size, &fault);
    if (code == LOG_NO_LOG) Py_RETURN_NONE;
    if (code) return fail(subject, code, &fault);
    PyObject *found = Py_BuildValue("y#y#O", folder.uuid, (Py_ssize_t)UUID_BYTES, description, (Py_ssize_t)size,
                                    folder.is_replicated ? Py_True : Py_False);
    free(description);
    return found;
}

bool asked_of(PyObject *args, const char *format, struct asked *asked)
{
    int descriptor;
    Py_buffer uuid;
    if (!PyArg_ParseTuple(args, format, &asked->subject, &descriptor, &uuid, &asked->number)) return false;
    bool done = folder_of(&asked->folder, descriptor, &uuid);
    PyBuffer_Release(&uuid);
    return done;
}

static PyObject *recover(PyObject *module, PyObject *args)
{
    struct asked a = {0}; /* with a number that is not 0: of a replicated log */
    struct log_fault fault = {0};
    struct recovered found;
    int code;
    (void)module;
    if (!asked_of(args, "Oiy*|K", &a)) return NULL;
    a.folder.is_replicated = a.number;
    Py_BEGIN_ALLOW_THREADS
    code = log_recover(&a.folder, false, &found, &fault);
    if (code == LOG_OK) segment_close(&a.folder, &found.last);
    Py_END_ALLOW_THREADS
    if (code) return fail(a.subject, code, &fault);
    return PyLong_FromUnsignedLongLong(found.cut);
}

static PyObject *bounds(PyObject *module, PyObject *args)
{
    struct asked a = {0}; /* as of recover */
    struct log_fault fault = {0};
    uint64_t earliest = 0, end = 0;
    (void)module;
    if (!asked_of(args, "Oiy*|K", &a)) return NULL;
    a.folder.is_replicated = a.number;
    int code = log_bounds(&a.folder, &earliest, &end, &fault);
    if (code) return fail(a.subject, code, &fault);
    return Py_BuildValue("KK", (unsigned long long)earliest, (unsigned long long)end);
}

static PyObject *truncate_log(PyObject *module, PyObject *args)
{
    struct asked a = {0};
    struct log_fault fault = {0};
    int code;
    (void)module;
    if (!asked_of(args, "Oiy*K", &a)) return NULL;
    a.folder.is_replicated = true;
    Py_BEGIN_ALLOW_THREADS
    code = log_truncate(&a.folder, a.number, &fault);
    Py_END_ALLOW_THREADS
    if (code) return fail(a.subject, code, &fault);
    Py_RETURN_NONE;
}

static PyObject *epochs(PyObject *module, PyObject *args)
{
    struct asked a = {0};
    struct log_fault fault = {0};
    struct log_epoch *table;
    size_t count;
    int code;
    (void)module;
    if (!asked_of(args, "Oiy*K", &a)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = log_epochs(&a.folder, a.number, &table, &count, &fault);
    Py_END_ALLOW_THREADS
    PyObject *made = code ? fail(a.subject, code, &fault) : PyList_New(0);
    for (size_t n = 0; made && n < count; n++) {
        PyObject *entry = Py_BuildValue("IK", table[n].epoch, (unsigned long long)table[n].start);
        if (!entry || PyList_Append(made, entry)) Py_CLEAR(made);
        Py_XDECREF(entry);
    }
    free(table);
    return made;
}

static PyObject *segment(PyObject *module, PyObject *args)
{
    struct asked a = {0};
    struct segment s;
    struct segment_mark mark;
    struct log_fault fault = {0};
    (void)module;
    if (!asked_of(args, "Oiy*K", &a)) return NULL;
    int code = segment_open(&a.folder, a.number, 0, &s, &fault);
    if (!code) {
        code = segment_read_mark(&a.folder, &s, &mark, &fault);
        segment_close(&a.folder, &s);
    }
    if (code) return fail(a.subject, code, &fault);
    unsigned long long removed = s.is_compacted ? s.end - s.base - s.bytes : 0;
    return Py_BuildValue("KKIKK", (unsigned long long)s.size, (unsigned long long)mark.durable, mark.flags,
                         (unsigned long long)mark.time_ns, removed);
}

static PyObject *index_of(PyObject *module, PyObject *args)
{
    struct asked a = {0};
    struct index index;
    (void)module;
    if (!asked_of(args, "Oiy*K", &a)) return NULL;
    if (!index_read(&a.folder, a.number, &index)) Py_RETURN_NONE;
    index_free(&index);
    return Py_BuildValue("KKK", (unsigned long long)index.head.records, (unsigned long long)index.head.earliest_ns,
                         (unsigned long long)index.head.latest_ns);
}

/* A descriptor that is readable when the file has been written. */
static PyObject *watch(PyObject *module, PyObject *args)
{
    PyObject *path;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    int descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), error = errno;
    if (descriptor >= 0 && inotify_add_watch(descriptor, PyBytes_AS_STRING(path), IN_MODIFY) < 0) {
        error = errno;
        close(descriptor);
        descriptor = -1;
    }
    Py_DECREF(path);
    errno = error;
    return descriptor < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(descriptor);
}

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int code = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return code;
}

static int module_exec(PyObject *module)
{
    static const struct {
        const char *name;
        int value;
    } numbers[] = {{"TIMEOUT", LOG_TIMEOUT},
                   {"FULL", LOG_FULL},
                   {"TOO_LARGE", LOG_TOO_LARGE},
                   {"FAILED", LOG_FAILED},
                   {"CLOSED", LOG_CLOSED},
                   {"NO_MEMORY", LOG_NO_MEMORY},
                   {"DAMAGED", LOG_DAMAGED},
                   {"VERSION", LOG_VERSION_OTHER},
                   {"TRIMMED", LOG_TRIMMED},
                   {"NO_RECORD", LOG_NO_RECORD},
                   {"NO_LOG", LOG_NO_LOG},
                   {"ID_TAKEN", LOG_ID_TAKEN},
                   {"REFUSED", LOG_REFUSED},
                   {"FENCE", RECORD_FENCE},
                   {"FORMAT", LOG_VERSION},
                   {"SEGMENT_FIRST", SEGMENT_FIRST},
                   {"SEGMENT_LEAST", SEGMENT_LEAST},
                   {"SEGMENT_DATA", SEGMENT_DATA},
                   {"ENDS", ENDS},
                   {"FENCED", FENCED},
                   {"HELD", HELD},
                   {"STARTED", STARTED},
                   {"SYNCED", SYNCED},
                   {"RUN_KEYS", RUN_KEYS},
                   {"RUN_IDS", RUN_IDS},
                   {"RUN_DATA", RUN_DATA}};
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
        if (PyModule_AddIntConstant(module, numbers[n].name, numbers[n].value)) return -1;
    PyObject *none = PyLong_FromUnsignedLongLong(RETENTION_ALL);
    int code = none ? PyModule_AddObjectRef(module, "NO_LIMIT", none) : -1;
    Py_XDECREF(none);
    if (code || add_type(module, &Writer_spec) || add_type(module, &Reader_spec)) return -1;
    PyObject **record = PyModule_GetState(module);
    *record = PyType_FromModuleAndSpec(module, &Record_spec, NULL);
    return *record ? PyModule_AddType(module, (PyTypeObject *)*record) : -1;
}

static PyMethodDef module_methods[] = {{"cursor_make", cursor_make, METH_VARARGS, NULL},
                                       {"cursor_read", cursor_read, METH_VARARGS, NULL},
                                       {"cursor_hold", cursor_hold, METH_VARARGS, NULL},
                                       {"cursor_write", cursor_write, METH_VARARGS, NULL},
                                       {"cursor_delete", cursor_delete, METH_VARARGS, NULL},
                                       {"create", create, METH_VARARGS, NULL},
                                       {"identify", identify, METH_VARARGS, NULL},
                                       {"recover", recover, METH_VARARGS, NULL},
                                       {"bounds", bounds, METH_VARARGS, NULL},
                                       {"segment", segment, METH_VARARGS, NULL},
                                       {"truncate", truncate_log, METH_VARARGS, NULL},
                                       {"epochs", epochs, METH_VARARGS, NULL},
                                       {"index", index_of, METH_VARARGS, NULL},
                                       {"stretches", stretches, METH_VARARGS, NULL},
                                       {"watch", watch, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.log._log", NULL, sizeof(PyObject *), module_methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__log(void) { return PyModuleDef_Init(&module); }

/* ======== cursors ======== */

/* Cursors: files of two marks (folder.h). The caller holds the lock of the cursor, but for cursor_read. */

struct call {
    PyObject *subject;
    struct log_folder folder;
    const char *name;
    unsigned long long position;
};

/* false: with a Python error. */
static bool parse(PyObject *args, const char *format, struct call *call)
{
    int descriptor;
    Py_buffer uuid;
    if (!PyArg_ParseTuple(args, format, &call->subject, &descriptor, &uuid, &call->name, &call->position)) return false;
    bool done = folder_of(&call->folder, descriptor, &uuid);
    PyBuffer_Release(&uuid);
    return done;
}

/* Acts without the interpreter. */
static PyObject *change(PyObject *args, const char *format, int (*act)(const struct call *, struct log_fault *))
{
    struct call call = {0};
    struct log_fault fault = {0};
    int code;
    if (!parse(args, format, &call)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = act(&call, &fault);
    Py_END_ALLOW_THREADS
    if (code) return fail(call.subject, code, &fault);
    Py_RETURN_NONE;
}

static int make(const struct call *call, struct log_fault *fault)
{
    return marks_make(&call->folder, call->name, MARKS_CURSOR, call->position, 0, fault);
}

static int commit(const struct call *call, struct log_fault *fault)
{
    return cursor_commit(&call->folder, call->name, call->position, fault);
}

static int take(const struct call *call, struct log_fault *fault)
{
    return cursor_take(&call->folder, call->name, call->position, fault);
}

static int discard(const struct call *call, struct log_fault *fault)
{
    return cursor_remove(&call->folder, call->name, fault);
}

PyObject *cursor_make(PyObject *module, PyObject *args)
{
    (void)module;
    return change(args, "Oiy*sK", make);
}

PyObject *cursor_read(PyObject *module, PyObject *args)
{
    struct call call = {0};
    struct log_fault fault = {0};
    uint64_t position, time_ns;
    (void)module;
    if (!parse(args, "Oiy*s", &call)) return NULL;
    int code = cursor_look(&call.folder, call.name, &position, &time_ns, &fault);
    if (code == LOG_AT_END) Py_RETURN_NONE;
    if (code) return fail(call.subject, code, &fault);
    return Py_BuildValue("KK", (unsigned long long)position, (unsigned long long)time_ns);
}

PyObject *cursor_hold(PyObject *module, PyObject *args)
{
    (void)module;
    return change(args, "Oiy*sK", take);
}

PyObject *cursor_write(PyObject *module, PyObject *args)
{
    (void)module;
    return change(args, "Oiy*sK", commit);
}

PyObject *cursor_delete(PyObject *module, PyObject *args)
{
    (void)module;
    return change(args, "Oiy*s", discard);
}
