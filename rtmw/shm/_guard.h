/* The protection of an object of the glue that the GIL gives, on a Python without one: one thread at a time is in its
 * methods, and another one only while that waits or runs Python code.
 *
 * Py_GIL_DISABLED: a critical section of the object. The interpreter suspends it where a thread would give up the GIL, so
 * what a method may believe is the same on both: that nothing of its object changes until it waits or runs Python code,
 * and that all may have changed afterwards. On a Python with the GIL nothing of this is compiled.
 *
 * It guards the Python object and the life of the handle of the core in it. The core itself takes any number of threads
 * (rtmw.h, Threads).
 */
#ifndef RTMW_GUARD_H
#define RTMW_GUARD_H

#include <Python.h>

#ifdef Py_GIL_DISABLED

#define GUARD_BEGIN(object)          Py_BEGIN_CRITICAL_SECTION(object)
#define GUARD_END()                  Py_END_CRITICAL_SECTION()
#define GUARD_BEGIN_BOTH(one, other) Py_BEGIN_CRITICAL_SECTION2(one, other)
#define GUARD_END_BOTH()             Py_END_CRITICAL_SECTION2()

/* function_guarded(self, …): the method that stands in the table of its type. */
#define GUARDED(function) function##_guarded
#define GUARD_(function, parameters, ...)         \
    static PyObject *GUARDED(function) parameters \
    {                                             \
        PyObject *result;                         \
        GUARD_BEGIN(self);                        \
        result = function(__VA_ARGS__);           \
        GUARD_END();                              \
        return result;                            \
    }                                             \
    _Static_assert(1, "takes the semicolon")

#define GUARD(function)      GUARD_(function, (PyObject * self, PyObject * argument), self, argument)
#define GUARD_GET(function)  GUARD_(function, (PyObject * self, void *closure), self, closure)
#define GUARD_NEXT(function) GUARD_(function, (PyObject * self), self)
#define GUARD_FAST(function)                                                                                           \
    GUARD_(function, (PyObject * self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames), self, args, count, \
           kwnames)

/* The module needs no GIL. */
#define GUARD_SLOT {Py_mod_gil, Py_MOD_GIL_NOT_USED},

/* An item of a list or tuple that other threads may change, as a new reference; NULL: there is none any more. */
static inline PyObject *item_of(PyObject *sequence, Py_ssize_t index)
{
    if (PyTuple_Check(sequence))
        return index < PyTuple_GET_SIZE(sequence) ? Py_NewRef(PyTuple_GET_ITEM(sequence, index)) : NULL;
    PyObject *item = PyList_GetItemRef(sequence, index);
    if (!item) PyErr_Clear();
    return item;
}

#else

#define GUARD_BEGIN(object)          {
#define GUARD_END()                  }
#define GUARD_BEGIN_BOTH(one, other) {
#define GUARD_END_BOTH()             }
#define GUARDED(function)            function
#define GUARD(function)              _Static_assert(1, "the GIL guards it")
#define GUARD_GET(function)          GUARD(function)
#define GUARD_NEXT(function)         GUARD(function)
#define GUARD_FAST(function)         GUARD(function)
#define GUARD_SLOT

static inline PyObject *item_of(PyObject *sequence, Py_ssize_t index)
{
    return index < PySequence_Fast_GET_SIZE(sequence) ? Py_NewRef(PySequence_Fast_GET_ITEM(sequence, index)) : NULL;
}

#endif
#endif
