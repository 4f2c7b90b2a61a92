/* Line: the calls of a process to one service, and the taking of their replies. Call: one of them.
 *
 * One thread takes at a time, and keeps that right while it waits for a reply, so that those of a call keep their order.
 * A reply is given to its call undecoded: the caller decodes it, in its own thread, so that what a class or a handler of a
 * signal raises meanwhile ends no other call. All of this is C, since such a handler may raise between any two calls that
 * Python makes: here the right is given back whatever is raised. A handler may call within the wait of its own thread,
 * which takes then, too.
 */
#include "../shm/_core.h"

static const double WATCH_S = 0.05;

typedef struct {
    PyObject_HEAD
    PyObject *owner, *number, *arrived, *value, *outcome, *wake, *loop;
    double end;
    unsigned long long server;
} Call;

typedef struct {
    PyTypeObject *call, *subscriber;
    PyObject *lease_expired;
} CallsState;

typedef struct {
    PyObject_HEAD
    CallsState *state;
    PyObject *kept, *calls, *receive, *take; /* all but the first are borrowed from it */
    Subscriber *servers;                     /* of what servers say; borrowed, too */
    unsigned long long id, server, begun, late;
    unsigned long taker; /* the thread that takes; 0: none */
    bool was_refused;    /* another thread wanted to take meanwhile */
    Py_ssize_t unread_most;
    double holds_s, next_look_s;
} Line;

/* ---- calls ---- */

#define MEMBERS_OF_CALL(each) each(owner) each(number) each(arrived) each(value) each(outcome) each(wake) each(loop)

static int Call_traverse(PyObject *object, visitproc visit, void *arg)
{
    Call *self = (Call *)object;
    Py_VISIT(Py_TYPE(object));
#define VISIT(name) Py_VISIT(self->name);
    MEMBERS_OF_CALL(VISIT)
    return 0;
}

static int Call_clear(PyObject *object)
{
    Call *self = (Call *)object;
#define CLEAR(name) Py_CLEAR(self->name);
    MEMBERS_OF_CALL(CLEAR)
    return 0;
}

static void Call_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Call_clear(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

#define MEMBER(name, kind, flags) {#name, kind, offsetof(Call, name), flags, NULL}
static PyMemberDef Call_members[] = {MEMBER(owner, T_OBJECT, READONLY),
                                     MEMBER(number, T_OBJECT, READONLY),
                                     MEMBER(arrived, T_OBJECT, READONLY),
                                     MEMBER(value, T_OBJECT, READONLY),
                                     MEMBER(outcome, T_OBJECT, 0),
                                     MEMBER(wake, T_OBJECT, 0),
                                     MEMBER(loop, T_OBJECT, 0),
                                     MEMBER(end, T_DOUBLE, READONLY),
                                     MEMBER(server, T_ULONGLONG, READONLY),
                                     {NULL, 0, 0, 0, NULL}};
static PyType_Slot Call_slots[] = {{Py_tp_traverse, Call_traverse},
                                   {Py_tp_clear, Call_clear},
                                   {Py_tp_dealloc, Call_dealloc},
                                   {Py_tp_members, Call_members},
                                   {0, NULL}};
static PyType_Spec Call_spec = {"rtmw.requests._calls.Call", sizeof(Call), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                Call_slots};

/* false: it was not made whole, and an exception is set. */
static bool is_whole(const Line *self)
{
    if (!self->kept) PyErr_SetString(PyExc_RuntimeError, "a Line is used before its __init__ has ended");
    return self->kept != NULL;
}

/* begin(owner, end, arrived): a call, which the caller puts into `calls` where it takes it away whatever is raised. The
 * server that was seen last is looked for again when one has said something, or that look is old: while nobody waited,
 * another one may have come. */
static PyObject *Line_begin(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *unused)
{
    Line *self = (Line *)object;
    (void)unused;
    if (!is_whole(self)) return NULL;
    double end = count == 3 ? PyFloat_AsDouble(args[1]) : 0, now = (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
    bool has_said;
    if (count != 3 || (args[2] != Py_None && !PyList_Check(args[2])))
        return PyErr_Format(PyExc_TypeError, "begin(owner, end, list or None)");
    if (end == -1 && PyErr_Occurred()) return NULL;
    GUARD_BEGIN(self->servers);
    has_said = subscriber_is_behind(self->servers, 0);
    GUARD_END();
    if (has_said || !self->server || now >= self->holds_s) {
        PyObject *looked = PyObject_CallMethod(object, "look", NULL);
        if (!looked) return NULL;
        Py_DECREF(looked);
    }
    unsigned long long server = self->server;
    if (!server) {
        Py_XDECREF(PyObject_CallMethod(object, "raise_no_server", NULL));
        return NULL;
    }
    Call *call = PyObject_GC_New(Call, self->state->call);
    if (!call) return NULL;
    memset((char *)call + sizeof(PyObject), 0, sizeof *call - sizeof(PyObject));
    call->end = end;
    call->server = server;
    call->owner = Py_NewRef(args[0]);
    call->arrived = args[2] == Py_None ? NULL : Py_NewRef(args[2]);
    call->number = PyLong_FromUnsignedLongLong(++self->begun);
    PyObject_GC_Track((PyObject *)call);
    if (!PyDict_GET_SIZE(self->calls)) self->next_look_s = now + WATCH_S;
    if (!call->number) Py_CLEAR(call);
    return (PyObject *)call;
}

/* ---- replies ---- */

enum { LAST = 2, FAILED = 4, FEW = 8 };

/* false: an exception is set. A last one ends the call before anything else happens that could let another thread run, so
 * that nobody else ends it, too. */
static bool give(Line *self, Call *call, uint32_t flags, PyObject *data)
{
    if (flags & LAST) {
        if (PyDict_DelItem(self->calls, call->number) < 0) return false;
        Py_XSETREF(call->outcome, Py_NewRef(data));
    } else if (!call->arrived) {
        Py_XSETREF(call->value, Py_NewRef(data));
    } else if (PyList_Append(call->arrived, data) < 0) {
        return false;
    } else if (PyList_GET_SIZE(call->arrived) > self->unread_most) {
        PyObject *told = PyObject_CallMethod((PyObject *)self, "give_up_unread", "O", (PyObject *)call);
        Py_XDECREF(told);
        return told != NULL; /* it has woken the call */
    }
    PyObject *wake = call->wake;
    if (!wake || wake == Py_None) return true;
    Py_INCREF(wake); /* it takes itself away when it runs */
    PyObject *woken = PyObject_CallNoArgs(wake);
    Py_DECREF(wake);
    Py_XDECREF(woken);
    return woken != NULL;
}

/* Gives a reply to its call, if that is not over. false: an exception is set. A reply is copied out of the domain's memory
 * where its caller may keep it for long: what it leaves unread of a stream, beyond a few, and what becomes an error. */
static bool deliver(Line *self, PyObject *sample)
{
    const rtmw_message *message = &((Sample *)sample)->core;
    struct {
        uint64_t client, call;
        uint32_t flags;
    } head = {0, 0, 0};
    if (message->size >= 24) memcpy(&head, (const char *)message->data + 4, 20); /* it lies as wire.py says */
    PyObject *number = PyLong_FromUnsignedLongLong(head.call);
    Call *call = number && head.client == self->id ? (Call *)PyDict_GetItemWithError(self->calls, number) : NULL;
    Py_XDECREF(number);
    if (!call) return self->late += !PyErr_Occurred(), !PyErr_Occurred();
    Py_INCREF((PyObject *)call);
    bool is_copied = head.flags & FAILED || (call->arrived && PyList_GET_SIZE(call->arrived) >= FEW);
    PyObject *data =
        is_copied ? PyBytes_FromStringAndSize(message->data, (Py_ssize_t)message->size) : Py_NewRef(sample);
    bool is_given = data && give(self, call, head.flags, data);
    Py_XDECREF(data);
    Py_DECREF((PyObject *)call);
    return is_given;
}

/* What is there; with seconds, what comes within them. NULL without an exception: nothing. */
static PyObject *next_reply(Line *self, PyObject *seconds)
{
    PyObject *sample = seconds ? PyObject_CallOneArg(self->receive, seconds) : PyObject_CallNoArgs(self->take);
    if (sample && sample != Py_None) return sample;
    Py_XDECREF(sample);
    if (sample) return NULL;
    if (PyErr_ExceptionMatches(PyExc_TimeoutError)) return PyErr_Clear(), NULL;
    if (!PyErr_ExceptionMatches(self->state->lease_expired)) return NULL;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    Py_XDECREF(PyObject_CallMethod((PyObject *)self, "lose", "O", error));
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return NULL;
}

/* take(seconds): give replies to their calls: all that are there, or with seconds the next one, which is waited for.
 * False: another thread takes. That passes its right on when its call is over, or here, if it only takes what is there. */
static PyObject *Line_take(PyObject *object, PyObject *seconds)
{
    Line *self = (Line *)object;
    unsigned long me = PyThread_get_thread_ident(), before = self->taker;
    double wait = PyFloat_AsDouble(seconds);
    if ((wait == -1 && PyErr_Occurred()) || !is_whole(self)) return NULL;
    if (before && before != me) {
        self->was_refused = true;
        Py_RETURN_FALSE;
    }
    self->taker = me;
    for (bool goes_on = true; goes_on;) {
        PyObject *sample = next_reply(self, wait > 0 ? seconds : NULL);
        goes_on = sample && deliver(self, sample) && wait <= 0;
        Py_XDECREF(sample);
    }
    self->taker = before;
    if (PyErr_Occurred()) return NULL;
    if (wait > 0 || !self->was_refused) Py_RETURN_TRUE;
    self->was_refused = false;
    PyObject *told = PyObject_CallMethod(object, "pass_on", NULL);
    Py_XDECREF(told);
    return told ? Py_NewRef(Py_True) : NULL;
}

/* ---- the line ---- */

static struct PyModuleDef calls_module;

/* Line(calls, receive and take of the replies, the subscriber of what servers say, id, unread_most) */
static int Line_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Line *self = (Line *)object;
    (void)kwargs;
    if (self->kept) return PyErr_SetString(PyExc_RuntimeError, "a Line is made once"), -1;
    self->state = PyModule_GetState(PyType_GetModuleByDef(Py_TYPE(object), &calls_module));
    if (!PyArg_ParseTuple(args, "O!OOO!Kn", &PyDict_Type, &self->calls, &self->receive, &self->take,
                          self->state->subscriber, &self->servers, &self->id, &self->unread_most))
        return -1;
    self->kept = Py_NewRef(args); /* the tuple keeps all that is borrowed from it */
    return 0;
}

static int Line_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Line *)object)->kept);
    return 0;
}

static int Line_clear(PyObject *object)
{
    Py_CLEAR(((Line *)object)->kept);
    return 0;
}

static void Line_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Line_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

GUARD_FAST(Line_begin);
GUARD(Line_take);

static PyMethodDef Line_methods[] = {
    {"begin", FAST(GUARDED(Line_begin)), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"take", GUARDED(Line_take), METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef Line_members[] = {{"id", T_ULONGLONG, offsetof(Line, id), READONLY, NULL},
                                     {"server", T_ULONGLONG, offsetof(Line, server), 0, NULL},
                                     {"begun", T_ULONGLONG, offsetof(Line, begun), READONLY, NULL},
                                     {"late", T_ULONGLONG, offsetof(Line, late), READONLY, NULL},
                                     {"taker", T_ULONG, offsetof(Line, taker), READONLY, NULL},
                                     {"holds_s", T_DOUBLE, offsetof(Line, holds_s), 0, NULL},
                                     {"next_look_s", T_DOUBLE, offsetof(Line, next_look_s), 0, NULL},
                                     {NULL, 0, 0, 0, NULL}};
static PyType_Slot Line_slots[] = {{Py_tp_init, Line_init},
                                   {Py_tp_traverse, Line_traverse},
                                   {Py_tp_clear, Line_clear},
                                   {Py_tp_dealloc, Line_dealloc},
                                   {Py_tp_methods, Line_methods},
                                   {Py_tp_members, Line_members},
                                   {0, NULL}};
static PyType_Spec Line_spec = {"rtmw.requests._calls.Line", sizeof(Line), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, Line_slots};

/* ---- the module ---- */

static int calls_exec(PyObject *module)
{
    CallsState *state = PyModule_GetState(module);
    PyObject *errors = PyImport_ImportModule("rtmw.errors"), *core = PyImport_ImportModule("rtmw.shm._core"), *line;
    if (!errors || !core) return Py_XDECREF(errors), Py_XDECREF(core), -1;
    state->subscriber = (PyTypeObject *)PyObject_GetAttrString(core, "Subscriber");
    Py_DECREF(core);
    state->lease_expired = PyObject_GetAttrString(errors, "LeaseExpired");
    Py_DECREF(errors);
    state->call = (PyTypeObject *)PyType_FromModuleAndSpec(module, &Call_spec, NULL);
    if (PyErr_Occurred() || PyModule_AddType(module, state->call)) return -1;
    if (!(line = PyType_FromModuleAndSpec(module, &Line_spec, NULL))) return -1;
    int failed = PyModule_AddType(module, (PyTypeObject *)line);
    Py_DECREF(line);
    return failed;
}

static void calls_free(void *module)
{
    CallsState *state = PyModule_GetState(module);
    Py_CLEAR(state->call);
    Py_CLEAR(state->subscriber);
    Py_CLEAR(state->lease_expired);
}

static PyModuleDef_Slot calls_slots[] = {{Py_mod_exec, calls_exec}, GUARD_SLOT{0, NULL}};
static struct PyModuleDef calls_module = {
    PyModuleDef_HEAD_INIT, "rtmw.requests._calls", NULL, sizeof(CallsState), NULL, calls_slots, NULL, NULL, calls_free};

PyMODINIT_FUNC PyInit__calls(void);
PyMODINIT_FUNC PyInit__calls(void) { return PyModuleDef_Init(&calls_module); }
