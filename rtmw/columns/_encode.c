/* From columns, which Arrow lends, to payloads. */
#include "_columns.h"

#include <stdlib.h>

struct arrays {
    struct column_source *sources;
    Py_buffer *views; /* three a source: validity, offsets, values */
    uint32_t count;
};

static bool lend_buffer(PyObject *given, Py_buffer *view, const uint8_t **place)
{
    if (given == Py_None) return true;
    if (PyObject_GetBuffer(given, view, PyBUF_SIMPLE)) return false;
    *place = view->buf;
    return true;
}

static bool read_source(PyObject *tuple, struct column_source *source, Py_buffer *views)
{
    long long offset;
    PyObject *validity, *offsets, *values;
    if (!PyTuple_Check(tuple)) return wrong(PyExc_TypeError, "a source is a tuple");
    if (!PyArg_ParseTuple(tuple, "LOOO", &offset, &validity, &offsets, &values)) return false;
    source->offset = offset;
    return lend_buffer(validity, &views[0], &source->validity) && lend_buffer(offsets, &views[1], &source->offsets) &&
           lend_buffer(values, &views[2], &source->values);
}

static void drop_arrays(struct arrays *arrays)
{
    for (uint32_t i = 0; arrays->views && i < 3 * arrays->count; i++) PyBuffer_Release(&arrays->views[i]);
    PyMem_Free(arrays->views);
    PyMem_Free(arrays->sources);
}

static bool read_arrays(const struct column_program *program, PyObject *list, struct arrays *arrays)
{
    if (PyList_GET_SIZE(list) != (Py_ssize_t)program->count)
        return wrong(PyExc_ValueError, "as many sources as ops are needed");
    arrays->count = program->count;
    arrays->sources = PyMem_Calloc(program->count, sizeof *arrays->sources);
    arrays->views = PyMem_Calloc(program->count, 3 * sizeof *arrays->views);
    if (!arrays->sources || !arrays->views) return PyErr_NoMemory(), false;
    for (uint32_t i = 0; i < program->count; i++)
        if (!read_source(PyList_GET_ITEM(list, i), &arrays->sources[i], &arrays->views[3 * i])) return false;
    return true;
}

struct places {
    int64_t *position, *size;
    int64_t done; /* rows */
};

static bool encode_rows(const struct column_program *program, uint16_t header, const struct arrays *arrays,
                        struct column_output *output, struct places *places, int64_t rows)
{
    places->position = malloc(((size_t)rows + 1) * sizeof *places->position);
    places->size = malloc(((size_t)rows + 1) * sizeof *places->size);
    if (!places->position || !places->size) return output->fault = COLUMN_NO_MEMORY, false;
    for (int64_t *done = &places->done; *done < rows; ++*done) {
        places->position[*done] = (int64_t)output->size;
        if (!column_encode(program, header, arrays->sources, *done, output)) return false;
        places->size[*done] = (int64_t)output->size - places->position[*done];
    }
    return true;
}

static PyObject *encoded(struct module_state *state, struct column_output *output, struct places *places)
{
    if (output->fault == COLUMN_NO_MEMORY) return PyErr_NoMemory();
    if (output->fault) return Py_BuildValue("OLIs", Py_None, (long long)places->done, output->failed, output->reason);
    uint64_t bytes = (uint64_t)places->done * sizeof *places->size;
    PyObject *data = memory_of(state, &output->bytes, output->size);
    PyObject *position = memory_of(state, &places->position, bytes), *size = memory_of(state, &places->size, bytes);
    return Py_BuildValue("(NNN)LIs", data, position, size, (long long)places->done, 0, "");
}

PyObject *Program_encode(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    (void)names;
    const struct column_program *program = &((Program *)object)->program;
    if (count != 3 || !PyList_Check(args[2])) return wrong(PyExc_TypeError, "encode takes header, rows, sources"), NULL;
    long long header = PyLong_AsLongLong(args[0]), rows = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    if (rows < 0) return wrong(PyExc_ValueError, "rows are not negative"), NULL;
    struct arrays arrays = {0};
    struct column_output output = {0};
    struct places places = {0};
    PyObject *result = NULL;
    if (read_arrays(program, args[2], &arrays)) {
        Py_BEGIN_ALLOW_THREADS;
        encode_rows(program, (uint16_t)header, &arrays, &output, &places, rows);
        Py_END_ALLOW_THREADS;
        result = encoded(PyType_GetModuleState(type), &output, &places);
    }
    free(output.bytes);
    free(places.position);
    free(places.size);
    drop_arrays(&arrays);
    return result;
}
