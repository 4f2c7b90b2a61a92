/* What recordings do in C, as Python sees it: ChunkBuilder, which is written, and scan, field and walk, which read
 * (_mcap.pyi). What a chunk holds, chunk.c knows; how records are read, scan.c. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "chunk.h"
#include "scan.h"

/* ---- ChunkBuilder: message records on their way into a recording ---- */

typedef struct {
    PyObject_HEAD
    struct chunk core;
    Py_ssize_t exports; /* views of its records */
} ChunkBuilder;

static struct chunk *chunk_core(PyObject *self) { return &((ChunkBuilder *)self)->core; }

/* To change it would pull the memory away under its views. */
static struct chunk *changeable(PyObject *self)
{
    if (!((ChunkBuilder *)self)->exports) return chunk_core(self);
    PyErr_SetString(PyExc_BufferError, "the chunk cannot change while there are views of its records");
    return NULL;
}

static PyObject *ChunkBuilder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"limit", NULL};
    Py_ssize_t limit;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "n", names, &limit)) return NULL;
    if (limit < 1) return PyErr_Format(PyExc_ValueError, "a chunk of %zd bytes", limit);
    ChunkBuilder *self = (ChunkBuilder *)type->tp_alloc(type, 0);
    if (!self || chunk_open(&self->core, (size_t)limit)) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void ChunkBuilder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    chunk_close(chunk_core(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *ChunkBuilder_is_full_for(PyObject *self, PyObject *given)
{
    size_t payload = PyLong_AsSize_t(given);
    if (payload == (size_t)-1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(chunk_is_full_for(chunk_core(self), payload));
}

static struct chunk *before_1970(void)
{
    PyErr_SetString(PyExc_ValueError, "times are nanoseconds since 1970, and not negative");
    return NULL;
}

static PyObject *ChunkBuilder_append(PyObject *self, PyObject *args)
{
    struct chunk_row row = {0};
    unsigned long long sequence, publisher;
    long long log_time, publish_time, expires;
    Py_buffer payload;
    if (!PyArg_ParseTuple(args, "Hy*LLKbKLb", &row.channel, &payload, &log_time, &publish_time, &sequence,
                          &row.priority, &publisher, &expires, &row.flags))
        return NULL;
    row.log_time = (uint64_t)log_time;
    row.sequence = sequence;
    row.publisher = publisher;
    row.expires = expires;
    struct chunk *core = log_time < 0 || publish_time < 0 ? before_1970() : changeable(self);
    bool done = core && chunk_append(core, &row, (uint64_t)publish_time, payload.buf, (size_t)payload.len);
    PyBuffer_Release(&payload);
    if (done) Py_RETURN_NONE;
    return core ? PyErr_NoMemory() : NULL;
}

/* The columns of a batch, in this order. */
enum { CHANNEL, SEQUENCE, LOG_TIME, PUBLISH_TIME, POSITION, SIZE, PRIORITY, PUBLISHER, EXPIRES, FLAGS, COLUMNS };
static const Py_ssize_t COLUMN_BYTES[COLUMNS] = {2, 8, 8, 8, 8, 8, 1, 8, 8, 1};

static uint64_t cell(const Py_buffer *column, size_t row)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)column->buf + row * (size_t)column->itemsize, (size_t)column->itemsize);
    return value;
}

enum { OUTSIDE = -1, NO_MEMORY = -2, BEFORE_1970 = -3 };

/* Appends rows from `first` on until the next one belongs into another chunk. Its number, or what is wrong. */
static Py_ssize_t append_rows(struct chunk *core, const Py_buffer *data, const Py_buffer *columns,
                              const uint16_t *channels, size_t first)
{
    size_t rows = (size_t)(columns[CHANNEL].len / COLUMN_BYTES[CHANNEL]), bytes = (size_t)data->len;
    for (; first < rows; first++) {
        uint64_t position = cell(&columns[POSITION], first), size = cell(&columns[SIZE], first);
        if (size > bytes || position > bytes - size) return OUTSIDE;
        if (chunk_is_full_for(core, size)) break;
        struct chunk_row row = {.channel = channels[cell(&columns[CHANNEL], first)],
                                .log_time = cell(&columns[LOG_TIME], first),
                                .sequence = cell(&columns[SEQUENCE], first),
                                .publisher = cell(&columns[PUBLISHER], first),
                                .expires = (int64_t)cell(&columns[EXPIRES], first),
                                .priority = (uint8_t)cell(&columns[PRIORITY], first),
                                .flags = (uint8_t)cell(&columns[FLAGS], first)};
        uint64_t published = cell(&columns[PUBLISH_TIME], first);
        if ((row.log_time | published) >> 63) return BEFORE_1970;
        if (!chunk_append(core, &row, published, (const char *)data->buf + position, size)) return NO_MEMORY;
    }
    return (Py_ssize_t)first;
}

static bool columns_fit(const Py_buffer *columns)
{
    Py_ssize_t rows = columns[CHANNEL].len / COLUMN_BYTES[CHANNEL];
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].itemsize != COLUMN_BYTES[i] || columns[i].len != rows * COLUMN_BYTES[i]) {
            PyErr_Format(PyExc_ValueError,
                         "column %d has %zd bytes in items of %zd, and should have %zd items of %zd bytes", i,
                         columns[i].len, columns[i].itemsize, rows, COLUMN_BYTES[i]);
            return false;
        }
    return true;
}

static PyObject *extend_with(PyObject *self, const Py_buffer *data, const Py_buffer *columns, const Py_buffer *channels,
                             Py_ssize_t first)
{
    struct chunk *core = changeable(self);
    if (!core || !columns_fit(columns)) return NULL;
    if (channels->len != CHUNK_CHANNELS * 2 || first < 0)
        return PyErr_Format(PyExc_ValueError, "a map of %zd bytes, from row %zd on", channels->len, first);
    Py_ssize_t next;
    ((ChunkBuilder *)self)->exports++; /* a thread that changes it meanwhile gets an error */
    Py_BEGIN_ALLOW_THREADS;
    next = append_rows(core, data, columns, channels->buf, (size_t)first);
    Py_END_ALLOW_THREADS;
    ((ChunkBuilder *)self)->exports--;
    if (next >= 0) return PyLong_FromSsize_t(next);
    if (next == NO_MEMORY) return PyErr_NoMemory();
    if (next == BEFORE_1970) return (void)before_1970(), NULL;
    return PyErr_Format(PyExc_ValueError, "a payload lies outside of the data");
}

static PyObject *ChunkBuilder_extend(PyObject *self, PyObject *args)
{
    Py_buffer data, channels, columns[COLUMNS];
    PyObject *given, *result = NULL;
    Py_ssize_t first;
    int got = 0;
    if (!PyArg_ParseTuple(args, "y*O!y*n", &data, &PyTuple_Type, &given, &channels, &first)) return NULL;
    if (PyTuple_GET_SIZE(given) != COLUMNS)
        PyErr_Format(PyExc_ValueError, "%zd columns, not %d", PyTuple_GET_SIZE(given), COLUMNS);
    else
        while (got < COLUMNS && !PyObject_GetBuffer(PyTuple_GET_ITEM(given, got), &columns[got], PyBUF_ND)) got++;
    if (got == COLUMNS) result = extend_with(self, &data, columns, &channels, first);
    while (got) PyBuffer_Release(&columns[--got]);
    PyBuffer_Release(&channels);
    PyBuffer_Release(&data);
    return result;
}

static PyObject *ChunkBuilder_prepend(PyObject *self, PyObject *given)
{
    Py_buffer records;
    if (PyObject_GetBuffer(given, &records, PyBUF_SIMPLE)) return NULL;
    struct chunk *core = changeable(self);
    bool done = core && chunk_prepend(core, records.buf, (size_t)records.len);
    PyBuffer_Release(&records);
    if (done) Py_RETURN_NONE;
    return core ? PyErr_NoMemory() : NULL;
}

static PyObject *ChunkBuilder_clear(PyObject *self, PyObject *unused)
{
    struct chunk *core = changeable(self);
    (void)unused;
    if (!core) return NULL;
    chunk_clear(core);
    Py_RETURN_NONE;
}

static PyObject *ChunkBuilder_indexes(PyObject *self, PyObject *unused)
{
    struct chunk *core = chunk_core(self);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)chunk_indexes_size(core));
    (void)unused;
    if (bytes) chunk_write_indexes(core, (uint8_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

static PyObject *ChunkBuilder_channels(PyObject *self, PyObject *unused)
{
    struct chunk *core = chunk_core(self);
    PyObject *list = PyList_New((Py_ssize_t)core->channel_count);
    (void)unused;
    for (size_t i = 0; list && i < core->channel_count; i++) {
        const struct chunk_channel *channel = &core->channels[i];
        PyObject *row = Py_BuildValue("HIK", channel->channel, channel->count, channel->index_offset);
        if (!row) return Py_DECREF(list), NULL;
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

static PyObject *ChunkBuilder_places(PyObject *self, PyObject *unused)
{
    struct chunk *core = chunk_core(self);
    Py_ssize_t bytes = (Py_ssize_t)(core->count * sizeof(int64_t));
    PyObject *position = PyBytes_FromStringAndSize(NULL, bytes), *size = PyBytes_FromStringAndSize(NULL, bytes);
    (void)unused;
    if (position && size)
        chunk_write_places(core, (int64_t *)PyBytes_AS_STRING(position), (int64_t *)PyBytes_AS_STRING(size));
    return Py_BuildValue("NN", position, size); /* which drops the other if one is NULL */
}

static PyObject *ChunkBuilder_side(PyObject *self, PyObject *unused)
{
    struct chunk *core = chunk_core(self);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)chunk_side_size(core));
    (void)unused;
    if (bytes) chunk_write_side(core, (uint8_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

enum { LATEST = 16 }; /* publishers of a channel that are told apart */

static PyObject *message_at(const struct chunk *core, const struct chunk_row *row)
{
    const uint8_t *at = core->records + row->offset;
    uint64_t length, publish_time;
    memcpy(&length, at + 1, 8);
    memcpy(&publish_time, at + MESSAGE_HEAD - 8, 8);
    Py_ssize_t size = (Py_ssize_t)length - (MESSAGE_HEAD - 9);
    return Py_BuildValue("y#KKKBKL", at + MESSAGE_HEAD, size, row->log_time, publish_time, row->sequence, row->priority,
                         row->publisher, (long long)row->expires);
}

static bool is_among(const uint64_t *publishers, Py_ssize_t count, uint64_t publisher)
{
    while (count)
        if (publishers[--count] == publisher) return true;
    return false;
}

/* The last message of each publisher in a channel, in no order. */
static PyObject *ChunkBuilder_latest(PyObject *self, PyObject *given)
{
    struct chunk *core = chunk_core(self);
    unsigned long channel = PyLong_AsUnsignedLong(given);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    uint64_t publishers[LATEST];
    for (size_t i = core->count; list && i-- && PyList_GET_SIZE(list) < LATEST;) {
        const struct chunk_row *row = &core->rows[i];
        if (row->channel != channel || is_among(publishers, PyList_GET_SIZE(list), row->publisher)) continue;
        publishers[PyList_GET_SIZE(list)] = row->publisher;
        PyObject *message = message_at(core, row);
        if (!message || PyList_Append(list, message)) Py_CLEAR(list);
        Py_XDECREF(message);
    }
    return list;
}

static Py_ssize_t ChunkBuilder_length(PyObject *self) { return (Py_ssize_t)chunk_core(self)->count; }

static int ChunkBuilder_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct chunk *core = chunk_core(self);
    if (PyBuffer_FillInfo(view, self, core->records, (Py_ssize_t)core->used, 1, flags)) return -1;
    ((ChunkBuilder *)self)->exports++;
    return 0;
}

static void ChunkBuilder_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)view;
    ((ChunkBuilder *)self)->exports--;
}

static PyObject *ChunkBuilder_address(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(chunk_core(self));
}

static PyObject *ChunkBuilder_start(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(chunk_core(self)->start_ns);
}

static PyObject *ChunkBuilder_end(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(chunk_core(self)->end_ns);
}

static PyObject *ChunkBuilder_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(chunk_core(self)->used);
}

static PyMethodDef ChunkBuilder_methods[] = {{"is_full_for", ChunkBuilder_is_full_for, METH_O, NULL},
                                             {"append", ChunkBuilder_append, METH_VARARGS, NULL},
                                             {"extend", ChunkBuilder_extend, METH_VARARGS, NULL},
                                             {"prepend", ChunkBuilder_prepend, METH_O, NULL},
                                             {"places", ChunkBuilder_places, METH_NOARGS, NULL},
                                             {"clear", ChunkBuilder_clear, METH_NOARGS, NULL},
                                             {"indexes", ChunkBuilder_indexes, METH_NOARGS, NULL},
                                             {"channels", ChunkBuilder_channels, METH_NOARGS, NULL},
                                             {"side", ChunkBuilder_side, METH_NOARGS, NULL},
                                             {"latest", ChunkBuilder_latest, METH_O, NULL},
                                             {NULL, NULL, 0, NULL}};

static PyGetSetDef ChunkBuilder_attributes[] = {{"address", ChunkBuilder_address, NULL, NULL, NULL},
                                                {"start_ns", ChunkBuilder_start, NULL, NULL, NULL},
                                                {"end_ns", ChunkBuilder_end, NULL, NULL, NULL},
                                                {"size", ChunkBuilder_size, NULL, NULL, NULL},
                                                {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot ChunkBuilder_slots[] = {{Py_tp_new, ChunkBuilder_new},
                                           {Py_tp_dealloc, ChunkBuilder_dealloc},
                                           {Py_tp_methods, ChunkBuilder_methods},
                                           {Py_tp_getset, ChunkBuilder_attributes},
                                           {Py_sq_length, ChunkBuilder_length},
                                           {Py_bf_getbuffer, ChunkBuilder_get_buffer},
                                           {Py_bf_releasebuffer, ChunkBuilder_release_buffer},
                                           {0, NULL}};
static PyType_Spec ChunkBuilder_spec = {"rtmw.recording._mcap.ChunkBuilder", sizeof(ChunkBuilder), 0,
                                        Py_TPFLAGS_DEFAULT, ChunkBuilder_slots};

/* ---- scan, field and walk: what is read of a recording many records at a time ---- */

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

static PyObject *scan(PyObject *module, PyObject *arguments)
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

static PyObject *field(PyObject *module, PyObject *arguments)
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

static PyObject *walk(PyObject *module, PyObject *arguments)
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

/* ---- the module ---- */

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int code = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return code;
}

static int module_exec(PyObject *module) { return add_type(module, &ChunkBuilder_spec); }

static PyMethodDef module_methods[] = {{"scan", scan, METH_VARARGS, NULL},
                                       {"field", field, METH_VARARGS, NULL},
                                       {"walk", walk, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.recording._mcap", NULL, 0, module_methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__mcap(void) { return PyModuleDef_Init(&module); }
