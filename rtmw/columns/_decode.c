/* From payloads to columns. */
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

PyObject *fail(enum column_fault fault)
{
    if (fault == COLUMN_NO_MEMORY) return PyErr_NoMemory();
    return wrong(PyExc_OverflowError, "a column of more than 2 GiB"), NULL;
}

/* Py_BuildValue drops the others if one of them is NULL, and returns NULL; so in _encode.c. */
static PyObject *result_of(struct module_state *state, struct column_build *build, bool done,
                           const struct outcome *outcome)
{
    if (!done && build->fault != COLUMN_DAMAGED) return fail(build->fault);
    struct column *rows = build->columns;
    PyObject *validity = memory_of(state, &rows->validity, (rows->rows + 7) / 8);
    PyObject *columns = done ? array_of(state, build) : Py_NewRef(Py_None);
    return Py_BuildValue("NNKKIs", columns, validity, (unsigned long long)outcome->damaged,
                         (unsigned long long)outcome->first, outcome->failed, outcome->reason);
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

static PyObject *packed(struct module_state *state, struct column *c)
{
    PyObject *offsets = memory_of(state, &c->offsets, (c->rows + 1) * sizeof *c->offsets);
    return Py_BuildValue("KNN", (unsigned long long)c->rows, offsets, memory_of(state, &c->values, c->size));
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
    PyObject *parts = done ? packed(PyModule_GetState(module), build.columns) : fail(build.fault);
    column_drop(&build);
    give_back(&lent);
    return parts;
}
