/* What a Python value is: what the files of the codec share that know Python. Where bytes lie is decided in cdr_*.c.
 *
 *   _cdr.c   Codec, and the module       _program.c   ops and their objects       _encode.c  _decode.c   from and to values
 *
 * `type` and `extra` of an op (see program.py, which makes them):
 *   boolean   extra: {False: 0, True: 1}, which refuses what is merely truthy
 *   enum      type: the class; extra: ("_value_", {number: enumerator}, function from any other value to its number)
 *   bitmask   extra: (function to a number, function from a number)
 *   sequence  extra: function from bytes to an array, else None: a list
 *   struct    type: the class; extra: names of its members, if it must be called with them, else None.
 *             type `tuple`: a value is a tuple of the members, and `extra` their names
 *   union     type: the class; extra: ({label: branch}, default branch, implicit label, names of its parts)
 */
#ifndef RTMW_CDR_GLUE_H
#define RTMW_CDR_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cdr.h"

#define OBJECT(value)    ((PyObject *)(value))
#define VALUE(object)    ((cdr_value *)(object))
#define EXTRA(op, index) PyTuple_GET_ITEM(OBJECT((op)->extra), index)

enum { ENUM_VALUE, ENUM_MEMBERS, ENUM_NUMBER, ENUM_EXTRAS };
enum { MASK_NUMBER, MASK_VALUE, MASK_EXTRAS };
enum { UNION_BRANCHES, UNION_DEFAULT, UNION_IMPLICIT, UNION_NAMES, UNION_EXTRAS };

static inline bool wrong(PyObject *type, const char *reason) { return PyErr_SetString(type, reason), false; }

/* Reads a list of ops, each a tuple. false: an exception is set, and what was read is to be dropped. */
bool program_read(struct cdr_program *program, PyObject *list);
int program_visit(const struct cdr_program *program, visitproc visit, void *arg);
void program_drop(struct cdr_program *program);

#endif
