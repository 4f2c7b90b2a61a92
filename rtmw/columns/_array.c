/* Array: columns that wait to be taken over, by their address. */
#include "_columns.h"

typedef struct {
    PyObject_HEAD
    struct ArrowArray array;
} Array;

/* The reader that took the columns over has set `release` to NULL. */
static void Array_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct ArrowArray *array = &((Array *)self)->array;
    if (array->release) array->release(array);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Array_address(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(&((Array *)self)->array);
}

static PyGetSetDef Array_getters[] = {{"address", Array_address, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot Array_slots[] = {{Py_tp_dealloc, Array_dealloc}, {Py_tp_getset, Array_getters}, {0, NULL}};
PyType_Spec Array_spec = {"rtmw.columns._columns.Array", sizeof(Array), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Array_slots};

PyObject *array_of(struct module_state *state, struct column_build *build)
{
    Array *made = (Array *)state->array_type->tp_alloc(state->array_type, 0);
    if (!made || column_hand_over(build, &made->array)) return (PyObject *)made;
    Py_DECREF(made);
    return fail(build->fault);
}
