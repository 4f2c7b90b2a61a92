/* From payloads to columns, each of them handed out as memory. */
#include "_columns.h"

#include <string.h>

static void note(struct outcome *outcome, const struct column_build *build, uint64_t row)
{
    if (outcome->damaged++) return;
    outcome->first = row;
    outcome->failed = build->failed;
    memcpy(outcome->reason, build->reason, sizeof outcome->reason);
}

bool decode_rows(struct column_build *build, const struct column_rows *rows, bool permissive, struct outcome *outcome)
{
    if (column_decode_fixed(build, rows)) return true;
    for (uint64_t i = 0; i < rows->count; i++) {
        if (column_decode(build, rows->base + rows->position[i], (size_t)rows->size[i])) continue;
        if (build->fault != COLUMN_DAMAGED) return false;
        note(outcome, build, i);
        if (!permissive || !column_append_null(build, 0)) return false;
    }
    return true;
}

static uint64_t values_size(const struct column_op *op, const struct column *c)
{
    if (op->code == COLUMN_NUMBER) return c->rows * op->width;
    return op->code == COLUMN_BOOLEAN || op->code == COLUMN_BIT ? (c->rows + 7) / 8 : c->size;
}

/* Py_BuildValue drops the others if one of them is NULL, and returns NULL; so in _encode.c. */
static PyObject *column_parts(struct module_state *state, const struct column_op *op, struct column *c)
{
    PyObject *validity = memory_of(state, &c->validity, (c->rows + 7) / 8);
    PyObject *offsets = memory_of(state, &c->offsets, (c->rows + 1) * sizeof *c->offsets);
    PyObject *values = memory_of(state, &c->values, values_size(op, c));
    return Py_BuildValue("KNNN", (unsigned long long)c->rows, validity, offsets, values);
}

static PyObject *columns_of(struct module_state *state, struct column_build *build)
{
    PyObject *list = PyList_New((Py_ssize_t)build->program->count);
    for (uint32_t i = 0; list && i < build->program->count; i++) {
        PyObject *parts = column_parts(state, &build->program->ops[i], &build->columns[i]);
        if (!parts) return Py_DECREF(list), NULL;
        PyList_SET_ITEM(list, (Py_ssize_t)i, parts);
    }
    return list;
}

static PyObject *fail(enum column_fault fault)
{
    if (fault == COLUMN_NO_MEMORY) return PyErr_NoMemory();
    return wrong(PyExc_OverflowError, "a column of more than 2 GiB"), NULL;
}

static PyObject *result_of(struct module_state *state, struct column_build *build, bool done,
                           const struct outcome *outcome)
{
    if (!done && build->fault != COLUMN_DAMAGED) return fail(build->fault);
    PyObject *columns = done ? columns_of(state, build) : Py_NewRef(Py_None);
    return Py_BuildValue("NKKIs", columns, (unsigned long long)outcome->damaged, (unsigned long long)outcome->first,
                         outcome->failed, outcome->reason);
}

PyObject *Program_decode(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    (void)names;
    if (count != 4) return wrong(PyExc_TypeError, "decode takes data, position, size, permissive"), NULL;
    struct lent lent;
    int permissive = PyObject_IsTrue(args[3]);
    if (permissive < 0 || !borrow(args, &lent)) return NULL;
    struct column_build build;
    struct outcome outcome = {0};
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = column_start(&build, &((Program *)object)->program, lent.rows.count) &&
           decode_rows(&build, &lent.rows, permissive, &outcome);
    Py_END_ALLOW_THREADS;
    PyObject *result = result_of(PyType_GetModuleState(type), &build, done, &outcome);
    column_drop(&build);
    give_back(&lent);
    return result;
}

static bool pack_rows(struct column_build *build, const struct column_rows *rows)
{
    for (uint64_t i = 0; i < rows->count; i++)
        if (!column_append_bytes(build, 0, rows->base + rows->position[i], (size_t)rows->size[i])) return false;
    return true;
}

/* Payloads side by side, as a column of octets. */
PyObject *pack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    static const struct column_op octets = {.code = COLUMN_OCTETS};
    static const struct column_program program = {.count = 1, .ops = &octets};
    if (count != 3) return wrong(PyExc_TypeError, "pack takes data, position, size"), NULL;
    struct lent lent;
    struct column_build build;
    if (!borrow(args, &lent)) return NULL;
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = column_start(&build, &program, lent.rows.count) && pack_rows(&build, &lent.rows);
    Py_END_ALLOW_THREADS;
    PyObject *parts = done ? column_parts(PyModule_GetState(module), &octets, build.columns) : fail(build.fault);
    column_drop(&build);
    give_back(&lent);
    return parts;
}
