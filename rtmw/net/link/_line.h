/* Python's view of lines: what its files share that know Python.
 *
 *   _line.c         Bus, Line, and the module     _route.c   Route: one topic in one direction
 *   _connection.c   Context, Connection
 */
#ifndef RTMW_LINK_GLUE_H
#define RTMW_LINK_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../_glue.h"
#include "link.h"

typedef struct {
    PyObject_HEAD
    rtmw_region *region; /* until it is closed, and all of its lines are */
    struct carried *carried;
    uint32_t wire_domain;
    struct lines *lines; /* NULL: they did not begin */
    bool is_closed;
    Py_ssize_t holders; /* of `region`: its lines, and itself until it is closed */
} Bus;

typedef struct {
    PyObject_HEAD
    PyObject *bus;
    struct line *core; /* until it is closed, and all of its routes are */
    bool is_closed;
    Py_ssize_t holders; /* of `core`: its routes, and itself until it is closed */
} Line;

typedef struct {
    PyTypeObject *bus_type, *route_type, *context_type, *connection_type;
    PyObject *error, *tls_error;
} State;

extern PyType_Spec Bus_spec, Line_spec, Route_spec, Context_spec, Connection_spec;

static inline State *state_of(PyTypeObject *type) { return PyType_GetModuleState(type); }

/* NULL: an exception is set. */
static inline struct line *open_line(PyObject *self)
{
    struct line *core = ((Line *)self)->is_closed ? NULL : ((Line *)self)->core;
    if (!core) PyErr_SetString(state_of(Py_TYPE(self))->error, "the line is closed");
    return core;
}

/* _line.c: one holder of the core less; the last one frees it. */
void line_let_go(PyObject *line);

/* _route.c: methods of Line that open one */
PyObject *Line_outbound(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *Line_inbound(PyObject *self, PyObject *args, PyObject *keywords);

/* _connection.c */
struct channel *connection_channel(PyObject *connection); /* NULL: an exception is set */
void connection_give(PyObject *connection);               /* the channel is another's from here on */
PyObject *openssl_version(PyObject *module, PyObject *args);

#endif
