/* scan, field and walk: what is read of a recording many records at a time. How, scan.c and walk.c know. */
#include "_mcap.h"

#include "scan.h"

/* ValueError(position, reason): the caller, which knows the file, makes an error of it that names the file. */
static PyObject *fail(unsigned long long position, const char *reason)
{
    PyObject *arguments = Py_BuildValue("Ks", position, reason);
    if (arguments) PyErr_SetObject(PyExc_ValueError, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static bool append_records(PyObject *list, const struct mcap_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PyObject *item = Py_BuildValue("iKK", (int)records[i].opcode, (unsigned long long)records[i].position,
                                       (unsigned long long)records[i].length);
        bool done = item && !PyList_Append(list, item);
        Py_XDECREF(item);
        if (!done) return false;
    }
    return true;
}

/* The columns position and size, as long as for so many messages. */
static bool make_room(PyObject *columns[2], struct mcap_scan *scan, size_t room)
{
    Py_ssize_t bytes = (Py_ssize_t)(room * sizeof *scan->position);
    if (PyByteArray_Resize(columns[0], bytes) || PyByteArray_Resize(columns[1], bytes)) return false;
    scan->position = (int64_t *)PyByteArray_AS_STRING(columns[0]);
    scan->payload_size = (int64_t *)PyByteArray_AS_STRING(columns[1]);
    scan->room = room;
    return true;
}

/* As many messages as are expected, or more. */
static bool make_more_room(PyObject *columns[2], struct mcap_scan *scan, size_t expected)
{
    const size_t most = scan->size / (MCAP_RECORD_HEADER + MCAP_MESSAGE_HEADER);
    size_t room = scan->room ? 2 * scan->room : expected ? expected : MCAP_AT_ONCE;
    return make_room(columns, scan, room < most ? room : most);
}

static bool scan_all(PyObject *columns[2], PyObject *others, struct mcap_scan *scan, size_t expected)
{
    for (bool is_done = false; !is_done;) {
        if (scan->facts.messages == scan->room && !make_more_room(columns, scan, expected)) return false;
        Py_BEGIN_ALLOW_THREADS
        is_done = mcap_scan(scan);
        Py_END_ALLOW_THREADS
        if (scan->wrong) return fail(scan->at, scan->wrong), false;
        if (!append_records(others, scan->others, scan->found)) return false;
        scan->found = 0;
    }
    return make_room(columns, scan, scan->facts.messages);
}

/* The channel of all messages; None: they are of several, or there is none. */
static PyObject *only_channel(const struct mcap_facts *facts)
{
    return facts->some == facts->each ? PyLong_FromLong(facts->each) : Py_NewRef(Py_None);
}

PyObject *scan(PyObject *module, PyObject *arguments)
{
    Py_buffer view;
    Py_ssize_t expected;
    struct mcap_scan state;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*n", &view, &expected)) return NULL;
    PyObject *columns[2] = {PyByteArray_FromStringAndSize(NULL, 0), PyByteArray_FromStringAndSize(NULL, 0)};
    PyObject *others = PyList_New(0), *made = NULL;
    mcap_scan_begin(&state, view.buf, (size_t)view.len);
    if (columns[0] && columns[1] && others && scan_all(columns, others, &state, expected > 0 ? (size_t)expected : 0))
        made = Py_BuildValue("OOKKNON", columns[0], columns[1], state.facts.messages ? state.facts.start_ns : 0,
                             state.facts.end_ns, only_channel(&state.facts), others,
                             PyBool_FromLong(state.facts.late & 0x80));
    Py_XDECREF(columns[0]);
    Py_XDECREF(columns[1]);
    Py_XDECREF(others);
    PyBuffer_Release(&view);
    return made;
}

PyObject *field(PyObject *module, PyObject *arguments)
{
    Py_buffer data, position;
    Py_ssize_t before, width;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*nn", &data, &position, &before, &width)) return NULL;
    const struct mcap_payloads payloads = {data.buf, (size_t)data.len, position.buf,
                                           (size_t)position.len / sizeof *payloads.position};
    bool is_field = (width == 2 || width == 4 || width == 8) && width <= before && before <= MCAP_MESSAGE_HEADER;
    PyObject *made = is_field ? PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)payloads.count * width)
                              : PyErr_Format(PyExc_ValueError, "no field: %zd bytes, %zd before", width, before);
    bool is_inside = true;
    if (made) {
        uint8_t *column = (uint8_t *)PyByteArray_AS_STRING(made);
        Py_BEGIN_ALLOW_THREADS
        is_inside = mcap_field(&payloads, (size_t)before, (unsigned)width, column);
        Py_END_ALLOW_THREADS
    }
    if (!is_inside) {
        Py_CLEAR(made);
        PyErr_SetString(PyExc_ValueError, "a payload lies outside of the data");
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&position);
    return made;
}

enum { WALK_ROOM = 1024 };

PyObject *walk(PyObject *module, PyObject *arguments)
{
    Py_buffer view;
    unsigned long long base, file_size;
    size_t found;
    int is_ours;
    enum mcap_walk_end end;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*KKp", &view, &base, &file_size, &is_ours)) return NULL;
    struct mcap_walk state = {.window = view.buf, .size = (size_t)view.len, .base = base, .file_size = file_size};
    state.is_ours = is_ours;
    PyObject *entries = PyBytes_FromStringAndSize(NULL, WALK_ROOM * sizeof(struct mcap_entry));
    if (!entries || base > file_size) {
        PyBuffer_Release(&view);
        Py_XDECREF(entries);
        return entries ? fail(base, "the file has become shorter") : NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    end = mcap_walk(&state, (void *)PyBytes_AS_STRING(entries), WALK_ROOM, &found);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (_PyBytes_Resize(&entries, (Py_ssize_t)(found * sizeof(struct mcap_entry)))) return NULL;
    return Py_BuildValue("NKKiz", entries, (unsigned long long)state.base, (unsigned long long)state.needed, (int)end,
                         state.wrong);
}
