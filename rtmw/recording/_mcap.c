/* Python's view of what recordings do in C; the only file of it that knows Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "chunk.h"

/* ---- Chunk ---- */

typedef struct {
    PyObject_HEAD
    struct chunk core;
    Py_ssize_t exports; /* views of its records */
} Chunk;

static struct chunk *chunk_core(PyObject *self) { return &((Chunk *)self)->core; }

/* To change it would pull the memory away under its views. */
static struct chunk *changeable(PyObject *self)
{
    if (!((Chunk *)self)->exports) return chunk_core(self);
    PyErr_SetString(PyExc_BufferError, "the chunk cannot change while there are views of its records");
    return NULL;
}

static PyObject *Chunk_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"limit", NULL};
    Py_ssize_t limit;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "n", names, &limit)) return NULL;
    if (limit < 1) return PyErr_Format(PyExc_ValueError, "a chunk of %zd bytes", limit);
    Chunk *self = (Chunk *)type->tp_alloc(type, 0);
    if (!self || chunk_open(&self->core, (size_t)limit)) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void Chunk_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    chunk_close(chunk_core(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Chunk_is_full_for(PyObject *self, PyObject *given)
{
    size_t payload = PyLong_AsSize_t(given);
    if (payload == (size_t)-1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(chunk_is_full_for(chunk_core(self), payload));
}

static PyObject *Chunk_append(PyObject *self, PyObject *args)
{
    struct chunk_row row = {0};
    unsigned long long log_time, publish_time, sequence, publisher;
    long long expires;
    Py_buffer payload;
    struct chunk *core = changeable(self);
    if (!core || !PyArg_ParseTuple(args, "Hy*KKKbKLb", &row.channel, &payload, &log_time, &publish_time, &sequence,
                                   &row.priority, &publisher, &expires, &row.flags))
        return NULL;
    row.log_time = log_time;
    row.sequence = sequence;
    row.publisher = publisher;
    row.expires = expires;
    bool done = chunk_append(core, &row, publish_time, payload.buf, (size_t)payload.len);
    PyBuffer_Release(&payload);
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
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

/* Appends rows from `first` on until the next one belongs into another chunk. Its number, or -1: one lies outside of the
 * data, -2: no memory. */
static Py_ssize_t append_rows(struct chunk *core, const Py_buffer *data, const Py_buffer *columns,
                              const uint16_t *channels, size_t first)
{
    size_t rows = (size_t)(columns[CHANNEL].len / COLUMN_BYTES[CHANNEL]), bytes = (size_t)data->len;
    for (; first < rows; first++) {
        uint64_t position = cell(&columns[POSITION], first), size = cell(&columns[SIZE], first);
        if (size > bytes || position > bytes - size) return -1;
        if (chunk_is_full_for(core, size)) break;
        struct chunk_row row = {.channel = channels[cell(&columns[CHANNEL], first)],
                                .log_time = cell(&columns[LOG_TIME], first),
                                .sequence = cell(&columns[SEQUENCE], first),
                                .publisher = cell(&columns[PUBLISHER], first),
                                .expires = (int64_t)cell(&columns[EXPIRES], first),
                                .priority = (uint8_t)cell(&columns[PRIORITY], first),
                                .flags = (uint8_t)cell(&columns[FLAGS], first)};
        uint64_t published = cell(&columns[PUBLISH_TIME], first);
        if (!chunk_append(core, &row, published, (const char *)data->buf + position, size)) return -2;
    }
    return (Py_ssize_t)first;
}

static bool columns_fit(const Py_buffer *columns)
{
    Py_ssize_t rows = columns[CHANNEL].len / COLUMN_BYTES[CHANNEL];
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].itemsize != COLUMN_BYTES[i] || columns[i].len != rows * COLUMN_BYTES[i]) {
            PyErr_Format(PyExc_ValueError, "column %d: %zd items of %zd bytes, of %zd bytes wanted", i, rows,
                         COLUMN_BYTES[i], columns[i].itemsize);
            return false;
        }
    return true;
}

static PyObject *extend_with(struct chunk *core, const Py_buffer *data, const Py_buffer *columns,
                             const Py_buffer *channels, Py_ssize_t first)
{
    if (!columns_fit(columns)) return NULL;
    if (channels->len != CHUNK_CHANNELS * 2 || first < 0)
        return PyErr_Format(PyExc_ValueError, "a map of %zd bytes, from row %zd on", channels->len, first);
    Py_ssize_t next;
    Py_BEGIN_ALLOW_THREADS
    next = append_rows(core, data, columns, channels->buf, (size_t)first);
    Py_END_ALLOW_THREADS
    if (next == -1) return PyErr_Format(PyExc_ValueError, "a payload lies outside of the data");
    return next == -2 ? PyErr_NoMemory() : PyLong_FromSsize_t(next);
}

static PyObject *Chunk_extend(PyObject *self, PyObject *args)
{
    Py_buffer data, channels, columns[COLUMNS];
    PyObject *given, *result = NULL;
    Py_ssize_t first;
    int got = 0;
    struct chunk *core = changeable(self);
    if (!core || !PyArg_ParseTuple(args, "y*O!y*n", &data, &PyTuple_Type, &given, &channels, &first)) return NULL;
    if (PyTuple_GET_SIZE(given) != COLUMNS)
        PyErr_Format(PyExc_ValueError, "%zd columns, not %d", PyTuple_GET_SIZE(given), COLUMNS);
    else
        while (got < COLUMNS && !PyObject_GetBuffer(PyTuple_GET_ITEM(given, got), &columns[got], PyBUF_ND)) got++;
    if (got == COLUMNS) result = extend_with(core, &data, columns, &channels, first);
    while (got) PyBuffer_Release(&columns[--got]);
    PyBuffer_Release(&channels);
    PyBuffer_Release(&data);
    return result;
}

static PyObject *Chunk_prepend(PyObject *self, PyObject *given)
{
    Py_buffer records;
    struct chunk *core = changeable(self);
    if (!core || PyObject_GetBuffer(given, &records, PyBUF_SIMPLE)) return NULL;
    bool done = chunk_prepend(core, records.buf, (size_t)records.len);
    PyBuffer_Release(&records);
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *Chunk_clear(PyObject *self, PyObject *unused)
{
    struct chunk *core = changeable(self);
    (void)unused;
    if (!core) return NULL;
    chunk_clear(core);
    Py_RETURN_NONE;
}

static PyObject *Chunk_indexes(PyObject *self, PyObject *unused)
{
    struct chunk *core = chunk_core(self);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)chunk_indexes_size(core));
    (void)unused;
    if (bytes) chunk_write_indexes(core, (uint8_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

static PyObject *Chunk_channels(PyObject *self, PyObject *unused)
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

static PyObject *Chunk_side(PyObject *self, PyObject *unused)
{
    struct chunk *core = chunk_core(self);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)chunk_side_size(core));
    (void)unused;
    if (bytes) chunk_write_side(core, (uint8_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

static Py_ssize_t Chunk_length(PyObject *self) { return (Py_ssize_t)chunk_core(self)->count; }

static int Chunk_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct chunk *core = chunk_core(self);
    if (PyBuffer_FillInfo(view, self, core->records, (Py_ssize_t)core->used, 1, flags)) return -1;
    ((Chunk *)self)->exports++;
    return 0;
}

static void Chunk_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)view;
    ((Chunk *)self)->exports--;
}

static PyObject *Chunk_address(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(chunk_core(self));
}

static PyObject *Chunk_start(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(chunk_core(self)->start_ns);
}

static PyObject *Chunk_end(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(chunk_core(self)->end_ns);
}

static PyObject *Chunk_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(chunk_core(self)->used);
}

static PyMethodDef chunk_methods[] = {{"is_full_for", Chunk_is_full_for, METH_O, NULL},
                                      {"append", Chunk_append, METH_VARARGS, NULL},
                                      {"extend", Chunk_extend, METH_VARARGS, NULL},
                                      {"prepend", Chunk_prepend, METH_O, NULL},
                                      {"clear", Chunk_clear, METH_NOARGS, NULL},
                                      {"indexes", Chunk_indexes, METH_NOARGS, NULL},
                                      {"channels", Chunk_channels, METH_NOARGS, NULL},
                                      {"side", Chunk_side, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

static PyGetSetDef chunk_attributes[] = {{"address", Chunk_address, NULL, NULL, NULL},
                                         {"start_ns", Chunk_start, NULL, NULL, NULL},
                                         {"end_ns", Chunk_end, NULL, NULL, NULL},
                                         {"size", Chunk_size, NULL, NULL, NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot chunk_slots[] = {{Py_tp_new, Chunk_new},
                                    {Py_tp_dealloc, Chunk_dealloc},
                                    {Py_tp_methods, chunk_methods},
                                    {Py_tp_getset, chunk_attributes},
                                    {Py_sq_length, Chunk_length},
                                    {Py_bf_getbuffer, Chunk_get_buffer},
                                    {Py_bf_releasebuffer, Chunk_release_buffer},
                                    {0, NULL}};
static PyType_Spec chunk_spec = {"rtmw.recording._mcap.Chunk", sizeof(Chunk), 0, Py_TPFLAGS_DEFAULT, chunk_slots};

/* ---- module ---- */

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int code = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return code;
}

static int module_exec(PyObject *module) { return add_type(module, &chunk_spec); }

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.recording._mcap", NULL, 0, NULL, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__mcap(void) { return PyModuleDef_Init(&module); }
