/* Columns as Python sees them: what its files share that know Python. What payloads and columns are, column_*.c know.
 *
 *   _columns.c   the module      _memory.c   Memory, and rows that are lent      _array.c    Array
 *   _program.c   Program         _decode.c   from payloads to columns            _encode.c   and back
 *   _ranges.c    from payloads to the least and the largest number of each column
 */
#ifndef RTMW_COLUMNS_GLUE_H
#define RTMW_COLUMNS_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arrow_array.h"
#include "column.h"

typedef struct {
    PyObject_HEAD
    struct column_program program;
    PyObject *labels; /* which lend their text */
} Program;

struct module_state {
    PyTypeObject *memory_type, *array_type;
};

/* Payloads of Python, until they are given back. */
struct lent {
    struct column_rows rows;
    Py_buffer data, position, size;
};

extern PyType_Spec Memory_spec, Array_spec, Program_spec;

static inline bool wrong(PyObject *type, const char *reason) { return PyErr_SetString(type, reason), false; }

/* Takes the bytes over that a place names; None if there are none. */
PyObject *memory_of(struct module_state *state, void *place, uint64_t size);

/* The columns that were built, which are handed over. */
PyObject *array_of(struct module_state *state, struct column_build *build);

/* Of data, position and size. false: an exception is set, and nothing is to be given back. */
bool borrow(PyObject *const *given, struct lent *lent);
void give_back(struct lent *lent);

/* All rows into columns. False: one is damaged, and that is not permitted, or no memory; build->fault says which. */
struct outcome {
    uint64_t damaged; /* rows */
    uint64_t first;   /* of them */
    uint32_t failed;  /* op */
    char reason[CDR_REASON];
};
bool decode_rows(struct column_build *build, const struct column_rows *rows, bool permissive, struct outcome *outcome);

/* The exception for what failed and is no damage; NULL. */
PyObject *fail(enum column_fault fault);

/* Methods of Program, and a function of the module; see _columns.pyi. */
PyObject *Program_decode(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                         PyObject *names);
PyObject *Program_encode(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                         PyObject *names);
PyObject *Program_ranges(PyObject *object, PyObject *const *args, Py_ssize_t count);
PyObject *pack(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
