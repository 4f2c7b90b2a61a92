/* Python's view of the log: what its files share that know Python, which are one module.
 *
 *   _log.c      the module, and functions of a folder and of its cursors       _writer.c   Writer
 *   _reader.c   Reader and Record, runs, stretches of an index
 *
 * They call each other in a circle: the module names the types, and these raise the errors of the module. In one file they
 * would have 1,350 lines.
 */
#ifndef RTMW_LOG_GLUE_H
#define RTMW_LOG_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "reader.h"
#include "writer.h"

extern PyType_Spec Writer_spec, Reader_spec, Record_spec;

/* Sets the error of a code, as rtmw/log/failures.py makes it; gives NULL. `subject`: the path of the log. */
PyObject *fail(PyObject *subject, int code, const struct log_fault *fault);
/* The folder of a descriptor and a uuid; false: with a Python error. */
bool folder_of(struct log_folder *folder, int descriptor, const Py_buffer *uuid);
/* The arguments of a function of a folder: path of the log, descriptor, uuid, and a number. False: with a Python error. */
struct asked {
    PyObject *subject;
    struct log_folder folder;
    unsigned long long number;
};
bool asked_of(PyObject *args, const char *format, struct asked *asked);
/* Seconds of a timeout, or None, as the end on the monotonic clock; false: with a Python error. */
bool deadline_of(PyObject *timeout, uint64_t *deadline);

/* _reader.c: what a Reader reads with, and the path of its log; NULL: with a Python error, because it is closed. */
struct reader *reader_core(PyObject *object, PyObject **subject);

/* _writer.c: when what is appended goes to the disk: with the next that somebody waits for; now; and the call waits for it.
 * ENDS may be added: records that end work, for which a full disk leaves a reserve. FENCED: the record is a fence. */
enum { HELD, STARTED, SYNCED, ENDS = 4, FENCED = 8 };

/* _reader.c. The state of the module is a reference to Record. */
PyObject *Reader_take(PyObject *object, PyObject *args);

/* _reader.c: RUN_…: what is wanted of records besides position, time and epoch. */
enum { RUN_KEYS = 1, RUN_IDS = 2, RUN_DATA = 4 };
PyObject *Reader_run(PyObject *object, PyObject *args);
PyObject *stretches(PyObject *module, PyObject *args);

/* _log.c */
PyObject *cursor_make(PyObject *module, PyObject *args);
PyObject *cursor_read(PyObject *module, PyObject *args);
PyObject *cursor_hold(PyObject *module, PyObject *args);
PyObject *cursor_write(PyObject *module, PyObject *args);
PyObject *cursor_delete(PyObject *module, PyObject *args);

#endif
