/* Cursors: files of two marks (marks.h). The caller holds the lock of the cursor, but for cursor_read. */
#include "_log.h"
#include "cursor.h"

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
