/* Python's view of what recordings do in C: what its files share that know Python.
 *
 *   _mcap.c   the module       _chunk.c   ChunkBuilder, which is written       _scan.c   scan, field, walk, which read
 */
#ifndef RTMW_RECORDING_GLUE_H
#define RTMW_RECORDING_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyType_Spec ChunkBuilder_spec;

/* Functions of the module; see _mcap.pyi. */
PyObject *scan(PyObject *module, PyObject *arguments);
PyObject *field(PyObject *module, PyObject *arguments);
PyObject *walk(PyObject *module, PyObject *arguments);

#endif
