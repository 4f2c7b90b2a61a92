#include "_mcap.h"

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int code = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return code;
}

static int module_exec(PyObject *module) { return add_type(module, &ChunkBuilder_spec); }

static PyMethodDef module_methods[] = {{"scan", scan, METH_VARARGS, NULL},
                                       {"field", field, METH_VARARGS, NULL},
                                       {"walk", walk, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "rtmw.recording._mcap", NULL, 0, module_methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__mcap(void) { return PyModuleDef_Init(&module); }
