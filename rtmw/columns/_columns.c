#include "_columns.h"

static PyMethodDef columns_functions[] = {
    {"pack", (PyCFunction)(void (*)(void))pack, METH_FASTCALL,
     "pack(data, position, size) -> (rows, offsets, values)\n\nThe payloads side by side."},
    {NULL, NULL, 0, NULL},
};

static int add_codes(PyObject *module)
{
    static const struct {
        const char *name;
        int code;
    } codes[] = {{"NUMBER", COLUMN_NUMBER}, {"BOOLEAN", COLUMN_BOOLEAN},     {"CHAR", COLUMN_CHAR},
                 {"ENUM", COLUMN_ENUM},     {"BITMASK", COLUMN_BITMASK},     {"TEXT", COLUMN_TEXT},
                 {"OCTETS", COLUMN_OCTETS}, {"OCTET_ROW", COLUMN_OCTET_ROW}, {"SEQUENCE", COLUMN_SEQUENCE},
                 {"ARRAY", COLUMN_ARRAY},   {"STRUCT", COLUMN_STRUCT},       {"UNION", COLUMN_UNION},
                 {"BIT", COLUMN_BIT}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (PyModule_AddIntConstant(module, codes[i].name, codes[i].code)) return -1;
    return 0;
}

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, (PyTypeObject *)type)) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int columns_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    state->memory_type = add_type(module, &Memory_spec);
    state->array_type = state->memory_type ? add_type(module, &Array_spec) : NULL;
    PyTypeObject *program = state->array_type ? add_type(module, &Program_spec) : NULL;
    Py_XDECREF(program);
    return program ? add_codes(module) : -1;
}

static int columns_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);
    if (!state) return 0;
    Py_VISIT(state->memory_type);
    Py_VISIT(state->array_type);
    return 0;
}

static int columns_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    if (!state) return 0;
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->array_type);
    return 0;
}

static PyModuleDef_Slot columns_slots[] = {{Py_mod_exec, columns_exec}, {0, NULL}};
static struct PyModuleDef columns_module = {
    PyModuleDef_HEAD_INIT,          .m_name = "rtmw.columns._columns", .m_size = sizeof(struct module_state),
    .m_methods = columns_functions, .m_slots = columns_slots,          .m_traverse = columns_traverse,
    .m_clear = columns_clear};

PyMODINIT_FUNC PyInit__columns(void) { return PyModuleDef_Init(&columns_module); }
