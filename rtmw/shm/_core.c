/* The module, and what all files of the glue need. */
#include <errno.h>

#include "_core.h"
#include "_type_argument.h"
#include "wait.h"

static struct PyModuleDef core_module;

State *state_of(PyTypeObject *type) { return PyModule_GetState(PyType_GetModuleByDef(type, &core_module)); }

static PyObject *raise_error(PyObject *error)
{
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

static PyObject *raise_failure(State *state, int code, PyObject *subject, uint64_t detail)
{
    return raise_error(
        PyObject_CallFunction(state->failure, "iOK", code, subject ? subject : Py_None, (unsigned long long)detail));
}

PyObject *fail_exhausted(PyObject *self, PyObject *topic, uint64_t size, PyObject *blockers)
{
    return raise_error(PyObject_CallFunction(state_of(Py_TYPE(self))->failure, "iOKO", RTMW_NO_MEMORY, topic,
                                             (unsigned long long)size, blockers));
}

PyObject *fail(PyObject *self, int code, PyObject *subject, uint64_t detail)
{
    int system_error = errno;
    if (PyErr_Occurred()) return NULL;
    if (code == RTMW_SYSTEM || code == RTMW_NO_LOCKS) detail = (uint64_t)system_error;
    return raise_failure(state_of(Py_TYPE(self)), code, subject, detail);
}

bool seconds(PyObject *value, uint64_t none, uint64_t *ns)
{
    if (value == NULL || value == Py_None) {
        *ns = none;
        return true;
    }
    double s = PyFloat_AsDouble(value);
    bool is_number = s != -1.0 || !PyErr_Occurred();
    if (!is_number && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    if (!is_number || !(s >= 0)) {
        PyErr_Format(is_number ? PyExc_ValueError : PyExc_TypeError,
                     "%R is not a time in seconds; it must be 0 or more, or None", value);
        return false;
    }
    *ns = s < (double)LONGEST_NS / 1e9 ? (uint64_t)(s * 1e9) : LONGEST_NS;
    if (s > 0 && *ns == 0) *ns = 1; /* 0 is none in some places, and for ever in none of a user's */
    return true;
}

uint64_t remaining(uint64_t end)
{
    if (end == UINT64_MAX) return UINT64_MAX;
    uint64_t now = monotonic_ns();
    return end > now ? end - now : 0;
}

uint64_t ends_after(uint64_t ns)
{
    if (ns == UINT64_MAX) return UINT64_MAX;
    uint64_t now = monotonic_ns();
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

PyObject *name_at(const char *shared, size_t size)
{
    char name[NAME_BYTES]; /* copied first: somebody may write it meanwhile */
    memcpy(name, shared, size);
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strnlen(name, size), "replace");
}

PyObject *only_argument(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *name)
{
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (count + named == 1 && (count == 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) == 0))
        return args[0];
    return PyErr_Format(PyExc_TypeError, "exactly one argument is needed: %s", name);
}

bool read_type_or_any(PyObject *given, rtmw_type *space, const rtmw_type **type)
{
    if (given != Py_Ellipsis) return read_type(given, space, type);
    *type = RTMW_ANY;
    return true;
}

const char *topic_name(PyObject *self, PyObject *topic)
{
    Py_ssize_t length;
    if (!PyUnicode_Check(topic)) {
        PyErr_Format(PyExc_TypeError, "topic=%R is not possible; the name of a topic must be str", topic);
        return NULL;
    }
    const char *name = PyUnicode_AsUTF8AndSize(topic, &length);
    if (name && strlen(name) == (size_t)length) return name;
    PyErr_Clear(); /* a lone surrogate has no UTF-8 */
    fail(self, RTMW_BAD_NAME, topic, 0);
    return NULL;
}

static PyObject *core_control_bytes(PyObject *module, PyObject *pool)
{
    (void)module;
    unsigned long long bytes = PyLong_AsUnsignedLongLong(pool);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(region_control_bytes(bytes));
}

/* create(domain, pool, reserve, group): False, there is one already. group -1: for this user alone. */
static PyObject *core_create(PyObject *module, PyObject *args)
{
    unsigned int domain, reserve;
    unsigned long long pool;
    int code;
    long long group;
    if (!PyArg_ParseTuple(args, "IKIL", &domain, &pool, &reserve, &group)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code =
        group < 0 ? rtmw_create(domain, pool, reserve) : rtmw_create_for_group(domain, pool, reserve, (uint32_t)group);
    Py_END_ALLOW_THREADS
    if (code == RTMW_OTHER_TIME) return raise_failure(PyModule_GetState(module), code, PyTuple_GET_ITEM(args, 0), 0);
    if (code == RTMW_BAD_SIZE) return PyErr_Format(PyExc_ValueError, "%s", rtmw_describe(code));
    return code == RTMW_OK || code == RTMW_EXISTS ? PyBool_FromLong(code == RTMW_OK)
                                                  : PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *core_is_topic_name(PyObject *module, PyObject *name)
{
    (void)module;
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(name, &length);
    if (bytes) return PyBool_FromLong(strlen(bytes) == (size_t)length && is_topic_name(bytes));
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return NULL;
    PyErr_Clear(); /* a lone surrogate has no UTF-8 */
    Py_RETURN_FALSE;
}

/* names(domain, nonce): the control object and the blocks object. */
static PyObject *core_names(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int domain;
    unsigned long long nonce;
    char control[64], blocks[64];
    if (!PyArg_ParseTuple(args, "IK", &domain, &nonce)) return NULL;
    snprintf(control, sizeof control, REGION_CONTROL, domain);
    snprintf(blocks, sizeof blocks, REGION_BLOCKS, domain, nonce);
    return Py_BuildValue("ss", control, blocks);
}

/* explain(code, errno): a sentence. */
static PyObject *core_explain(PyObject *module, PyObject *args)
{
    int code, number;
    char text[256];
    (void)module;
    if (!PyArg_ParseTuple(args, "ii", &code, &number)) return NULL;
    return PyUnicode_DecodeLocale(rtmw_explain(code, number, text, sizeof text), "surrogateescape");
}

static PyMethodDef core_methods[] = {
    {"wait_any", core_wait_any, METH_VARARGS, NULL},
    {"control_bytes", core_control_bytes, METH_O, NULL},
    {"create", core_create, METH_VARARGS, NULL},
    {"names", core_names, METH_VARARGS, NULL},
    {"is_topic_name", core_is_topic_name, METH_O, NULL},
    {"explain", core_explain, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

static const struct {
    const char *name;
    long value;
} constants[] = {
    {"NO_MEMORY", RTMW_NO_MEMORY},
    {"TIMEOUT", RTMW_TIMEOUT},
    {"DEADLINE", RTMW_DEADLINE},
    {"LAPSED", RTMW_LAPSED},
    {"CLOSED", RTMW_CLOSED},
    {"TOO_LARGE", RTMW_TOO_LARGE},
    {"BAD_NAME", RTMW_BAD_NAME},
    {"NO_PARTICIPANT_SLOT", RTMW_NO_PARTICIPANT_SLOT},
    {"NO_TOPIC_SLOT", RTMW_NO_TOPIC_SLOT},
    {"NO_ENDPOINT_SLOT", RTMW_NO_ENDPOINT_SLOT},
    {"NO_TYPE_SLOT", RTMW_NO_TYPE_SLOT},
    {"NOT_FOUND", RTMW_NOT_FOUND},
    {"VERSION", RTMW_VERSION},
    {"DAMAGED", RTMW_DAMAGED},
    {"DENIED", RTMW_DENIED},
    {"FORKED", RTMW_FORKED},
    {"SYSTEM", RTMW_SYSTEM},
    {"BAD_LOAN", RTMW_BAD_LOAN},
    {"SWEPT", RTMW_SWEPT},
    {"NO_LOCKS", RTMW_NO_LOCKS},
    {"OTHER_TIME", RTMW_OTHER_TIME},
    {"OBSERVER", RTMW_OBSERVER},
    {"BAD_QOS", RTMW_BAD_QOS},
    {"BAD_TIMES", RTMW_BAD_TIMES},
    {"WRONG_TYPE", WRONG_TYPE},
    {"LOOK_UP_NS", LOOK_UP_NS},
    {"LAYOUT_VERSION", RTMW_LAYOUT_VERSION},
    {"PAGE", PAGE},
    {"GRANULES_A_PAGE", GRANULES_A_PAGE},
    {"SMALLEST_POOL", SMALLEST_POOL},
    {"LARGEST_POOL", LARGEST_POOL},
    {"RESERVE_WHOLE", RESERVE_WHOLE},
    {"RESERVE_MOST", RESERVE_MOST},
    {"TYPE_RAW", TYPE_RAW},
    {"TYPE_ANY", TYPE_ANY},
};

static int find_failures(State *state)
{
    PyObject *failures = PyImport_ImportModule("rtmw.shm.failures");
    PyObject *errors = failures ? PyObject_GetAttrString(failures, "errors") : NULL;
    state->failure = errors ? PyObject_GetAttrString(failures, "failure") : NULL;
    state->closed_error = errors ? PyObject_GetAttrString(errors, "ClosedError") : NULL;
    Py_XDECREF(errors);
    Py_XDECREF(failures);
    return state->failure && state->closed_error ? 0 : -1;
}

static int core_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (find_failures(state)) return -1;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value)) return -1;
    if (add_type(module, &Region_spec, &state->region) || add_type(module, &Publisher_spec, &state->publisher) ||
        add_type(module, &Subscriber_spec, &state->subscriber) || add_type(module, &Loan_spec, &state->loan))
        return -1;
    state->sample_context = (PyTypeObject *)PyType_FromModuleAndSpec(module, &SampleContext_spec, NULL);
    return state->sample_context ? add_type(module, &Sample_spec, &state->sample) : -1;
}

static PyModuleDef_Slot core_slots[] = {{Py_mod_exec, core_exec}, GUARD_SLOT{0, NULL}};
static struct PyModuleDef core_module = {PyModuleDef_HEAD_INIT, .m_name = "rtmw.shm._core", .m_size = sizeof(State),
                                         .m_methods = core_methods, .m_slots = core_slots};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&core_module); }
