/* Subscriber: an endpoint from its opening to its close. Its messages come through _take.c. */
#include <errno.h>

#include "_core.h"
#include "waiting.h"

static int Subscriber_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"region",  "topic",        "type",     "decode", "reliability", "depth",
                            "history", "min_interval", "deadline", "lease",  "spin",        NULL};
    Subscriber *self = (Subscriber *)object;
    PyObject *region, *topic, *type_tuple, *decode, *min_interval, *deadline, *lease, *spin;
    rtmw_subscriber_qos qos = RTMW_SUBSCRIBER_QOS;
    rtmw_type space;
    const rtmw_type *type;
    int reliability;
    State *state = state_of(Py_TYPE(object));
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOOiIIOOOO", names, state->region, &region, &topic, &type_tuple,
                                     &decode, &reliability, &qos.depth, &qos.history, &min_interval, &deadline, &lease,
                                     &spin))
        return -1;
    qos.reliability = (rtmw_reliability)reliability;
    if (!read_type_or_any(type_tuple, &space, &type) || !seconds(min_interval, 0, &qos.min_interval_ns) ||
        !seconds(deadline, 0, &qos.deadline_ns) || !seconds(lease, 0, &qos.lease_ns) ||
        !seconds(spin, UINT64_MAX, &self->spin_ns))
        return -1;
    const char *name = topic_name(object, topic);
    if (!name) return -1;
    self->context = sample_context(state, region, topic, decode, type == RTMW_ANY);
    if (!self->context) return -1;
    int code = rtmw_subscriber_open(region_of(region), name, type, &qos, &self->core);
    if (code != RTMW_OK) return fail(object, code, topic, 0), -1;
    self->region = (Region *)Py_NewRef(region);
    self->topic = Py_NewRef(topic);
    self->sample_type = state->sample;
    return 0;
}

void subscriber_finish(Subscriber *self)
{
    if (self->closed && self->busy == 0 && self->core) {
        rtmw_subscriber_close(self->core);
        self->core = NULL;
    }
}

static PyObject *Subscriber_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (self->core && !self->closed) rtmw_subscriber_shut(self->core);
    self->closed = true;
    subscriber_finish(self);
    Py_RETURN_NONE;
}

/* No clear: a cycle is broken in the context, or in the dict of a subclass. */
static int Subscriber_traverse(PyObject *object, visitproc visit, void *arg)
{
    Subscriber *self = (Subscriber *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->context);
    return 0;
}

static void Subscriber_dealloc(PyObject *object)
{
    Subscriber *self = (Subscriber *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->core) rtmw_subscriber_close(self->core);
    Py_XDECREF(self->context);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->region);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Subscriber_arm(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscriber_is_open(self) ? PyBool_FromLong(subscriber_arm(self->core)) : NULL;
}

static PyObject *Subscriber_fileno(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    if (is_forked(self->core->region)) return fail(object, RTMW_FORKED, self->topic, 0);
    int fd = subscriber_pollable(self->core), system_error = errno;
    if (fd >= 0) return PyLong_FromLong(fd);
    PyObject *subject = PyUnicode_FromFormat("topic %R", self->topic);
    errno = system_error;
    fail(object, RTMW_SYSTEM, subject, 0);
    Py_XDECREF(subject);
    return NULL;
}

/* Seconds until the deadline, None without one. For asyncio, which waits by itself. */
static PyObject *Subscriber_deadline_left(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    uint64_t at = load_relaxed(&self->core->deadline_at_ns);
    return at ? PyFloat_FromDouble((double)remaining(at) / 1e9) : Py_NewRef(Py_None);
}

/* Seconds after which asyncio looks by itself: at the deadline at the latest, None without one. */
static PyObject *Subscriber_look_in(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    uint64_t at = load_relaxed(&self->core->deadline_at_ns), left = at ? remaining(at) : 0;
    uint64_t look = look_up_ns(self->core);
    return at ? PyFloat_FromDouble((double)(left < look ? left : look) / 1e9) : Py_NewRef(Py_None);
}

static PyObject *Subscriber_counters(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscriber_is_open(self) ? subscriber_counters(self->core->region, self->core->topic, self->core->block)
                                    : NULL;
}

static PyObject *Subscriber_latency(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscriber_is_open(self) ? latency_buckets(self->core->region, self->core->slot) : NULL;
}

static PyObject *Subscriber_identity(PyObject *object, void *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscriber_is_open(self)) return NULL;
    struct rtmw_subscriber *s = self->core;
    return PyLong_FromUnsignedLongLong(endpoint_identity(s->region->my_word, s->word, s->slot));
}

static PyObject *Subscriber_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((Subscriber *)object)->closed);
}

GUARD(Subscriber_take);
GUARD_FAST(Subscriber_take_many);
GUARD_FAST(Subscriber_receive);
GUARD_NEXT(Subscriber_next);
GUARD(Subscriber_close);
GUARD(Subscriber_arm);
GUARD(Subscriber_fileno);
GUARD(Subscriber_deadline_left);
GUARD(Subscriber_look_in);
GUARD(Subscriber_counters);
GUARD(Subscriber_latency);
GUARD_GET(Subscriber_identity);
GUARD_GET(Subscriber_closed);

static PyMethodDef Subscriber_methods[] = {
    {"take", GUARDED(Subscriber_take), METH_NOARGS, "take($self, /)\n--\n\nThe next message, or None. Never waits."},
    {"take_many", FAST(GUARDED(Subscriber_take_many)), METH_FASTCALL | METH_KEYWORDS,
     "take_many($self, limit)\n--\n\nAt most `limit` messages. Never waits."},
    {"receive", FAST(GUARDED(Subscriber_receive)), METH_FASTCALL | METH_KEYWORDS,
     "receive($self, timeout=None)\n--\n\nThe next message; waits up to `timeout` seconds. None: no limit, and after 2 "
     "s it is logged once why nothing\n"
     "comes, if nobody publishes or a publisher is not matched.\n\n"
     "Raises TimeoutError with that reason, or DeadlineMissed when the deadline passes without a message."},
    {"fileno", GUARDED(Subscriber_fileno), METH_NOARGS,
     "fileno($self, /)\n--\n\nA file descriptor of this subscriber alone, for select and its kin: readable while there "
     "may "
     "be\n"
     "something to take. When it is, call take() until it returns None. It is readable without a message, too: when "
     "the\n"
     "deadline passes, and twice a second (four times a deadline), so that no stopped publisher keeps one unseen."},
    {"close", GUARDED(Subscriber_close), METH_NOARGS,
     "close($self, /)\n--\n\nLeave the topic. Threads that wait on it are woken. Samples stay valid."},
    {"_arm", GUARDED(Subscriber_arm), METH_NOARGS, NULL},
    {"_deadline_left", GUARDED(Subscriber_deadline_left), METH_NOARGS, NULL},
    {"_look_in", GUARDED(Subscriber_look_in), METH_NOARGS, NULL},
    {"_counters", GUARDED(Subscriber_counters), METH_NOARGS, NULL},
    {"_latency", GUARDED(Subscriber_latency), METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Subscriber_getset[] = {{"identity", GUARDED(Subscriber_identity), NULL, "What tools show it by.",
                                           NULL},
                                          {"closed", GUARDED(Subscriber_closed), NULL, "True after close().", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Subscriber_members[] = {{"topic", T_OBJECT, offsetof(Subscriber, topic), READONLY,
                                            "Name of the topic."},
                                           {"_tells_after_ns", T_ULONGLONG, offsetof(Subscriber, tells_after_ns), 0,
                                            NULL},
                                           {NULL, 0, 0, 0, NULL}};
static PyType_Slot Subscriber_slots[] = {{Py_tp_init, Subscriber_init},
                                         {Py_tp_dealloc, Subscriber_dealloc},
                                         {Py_tp_traverse, Subscriber_traverse},
                                         {Py_tp_methods, Subscriber_methods},
                                         {Py_tp_getset, Subscriber_getset},
                                         {Py_tp_members, Subscriber_members},
                                         {Py_tp_iter, PyObject_SelfIter},
                                         {Py_tp_iternext, GUARDED(Subscriber_next)},
                                         {0, NULL}};
PyType_Spec Subscriber_spec = {"rtmw.shm._core.Subscriber", sizeof(Subscriber), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, Subscriber_slots};
