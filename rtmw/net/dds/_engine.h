/* Python's view of the engine: what its files share that know Python.
 *
 *   _engine.c   Engine, and the module
 *   _route.c    Route: one topic in one direction, and what it has counted
 *   _shown.c    DataEvent, and what DDS shows of others: functions of the module
 */
#ifndef RTMW_NET_GLUE_H
#define RTMW_NET_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../_glue.h"
#include "engine.h"

typedef struct {
    PyObject_HEAD
    struct engine *core; /* until it is closed, and all of its routes are */
    bool is_closed;
    Py_ssize_t holders; /* of `core`: its routes, and itself until it is closed */
} Engine;

typedef struct {
    PyTypeObject *route_type;
    PyObject *error;
} State;

extern PyType_Spec Engine_spec, Route_spec, DataEvent_spec;
extern PyMethodDef shown_methods[];

static inline State *state_of(PyTypeObject *type) { return PyType_GetModuleState(type); }

/* NULL: an exception is set. */
static inline struct engine *open_engine(PyObject *self)
{
    struct engine *core = ((Engine *)self)->is_closed ? NULL : ((Engine *)self)->core;
    if (!core) PyErr_SetString(state_of(Py_TYPE(self))->error, "the engine is closed");
    return core;
}

/* _engine.c: one holder of the core less; the last one ends it. Keeps the exception that is set. */
void engine_let_go(PyObject *self);

/* _route.c: methods of Engine that open one */
PyObject *Engine_outbound(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *Engine_inbound(PyObject *self, PyObject *args, PyObject *keywords);

/* _route.c: of one route by name, and the sum by which it is seen to move; that of all */
PyObject *outbound_counters(struct outbound *);
PyObject *inbound_counters(const struct inbound *);
uint64_t outbound_total(struct outbound *);
uint64_t inbound_total(const struct inbound *);
PyObject *Engine_total(PyObject *self, PyObject *unused);

#endif
