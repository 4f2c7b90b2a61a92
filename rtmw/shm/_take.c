/* take, take_many and receive: messages of the core become samples. */
#include "_core.h"
#include "topics.h"
#include "waiting.h"

enum { TAKE_AT_ONCE = 64 };
static const uint64_t TELLS_MOST_NS = 64000000000;

/* Owns the message; that is released when there is no memory for the sample. */
static PyObject *sample_of(Subscriber *self, const rtmw_message *message)
{
    Sample *sample = PyObject_New(Sample, self->sample_type);
    if (!sample) {
        rtmw_release(self->region->core, message->descriptor);
        return NULL;
    }
    sample->context = (SampleContext *)Py_NewRef((PyObject *)self->context);
    sample->core = *message;
    sample->type = type_life(self->region->core, message->type);
    sample->value = NULL;
    sample->exports = 0;
    sample->held = true;
    return (PyObject *)sample;
}

/* As rtmw_take_many; but when there is nothing among as many messages as one call looks at, it goes on behind them. */
static int take_or_look_on(Subscriber *self, rtmw_message *messages, uint32_t most, uint32_t *count)
{
    int code = rtmw_take_many(self->core, messages, most, UINT64_MAX, count);
    while (code == RTMW_AGAIN && !*count && !PyErr_CheckSignals() && subscriber_is_open(self))
        code = rtmw_take_many(self->core, messages, most, UINT64_MAX, count);
    return code;
}

/* false: an exception is set. Messages that were taken are in `messages` also then. When there is nothing, fileno() is not
 * readable until there is. */
static bool take_messages(Subscriber *self, rtmw_message *messages, uint32_t most, uint32_t *count)
{
    int code = take_or_look_on(self, messages, most, count);
    if (code == RTMW_EMPTY && !*count && self->core->pollable >= 0 && subscriber_rearm(self->core))
        code = take_or_look_on(self, messages, most, count);
    if (PyErr_Occurred()) return false;
    if (code == RTMW_OK || code == RTMW_EMPTY || code == RTMW_AGAIN) return true;
    return fail((PyObject *)self, code, self->topic, self->core->missed_at_lapse), false;
}

/* A sample, or NULL without an exception: nothing to take. */
static PyObject *take_one(Subscriber *self)
{
    rtmw_message message;
    uint32_t count;
    return take_messages(self, &message, 1, &count) && count ? sample_of(self, &message) : NULL;
}

PyObject *Subscriber_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!subscriber_is_open((Subscriber *)object)) return NULL;
    PyObject *sample = take_one((Subscriber *)object);
    if (sample || PyErr_Occurred()) return sample;
    Py_RETURN_NONE;
}

/* Appends at most `most` samples; how many, or -1 with an exception: then they are lost, and released. */
static Py_ssize_t take_into(Subscriber *self, PyObject *list, Py_ssize_t most)
{
    rtmw_message messages[TAKE_AT_ONCE];
    uint32_t count;
    int failed = !take_messages(self, messages, most < TAKE_AT_ONCE ? (uint32_t)most : TAKE_AT_ONCE, &count);
    for (uint32_t i = 0; i < count; i++)
        if (failed)
            rtmw_release(self->region->core, messages[i].descriptor);
        else
            failed = append_new(list, sample_of(self, &messages[i]));
    return failed ? -1 : (Py_ssize_t)count;
}

PyObject *Subscriber_take_many(PyObject *object, PyObject *const *args, Py_ssize_t given, PyObject *kwnames)
{
    Subscriber *self = (Subscriber *)object;
    PyObject *limit = only_argument(args, given, kwnames, "limit");
    if (!limit) return NULL;
    Py_ssize_t most = PyNumber_AsSsize_t(limit, PyExc_OverflowError), taken = 1;
    if (most == -1 && PyErr_Occurred()) return NULL;
    if (!subscriber_is_open(self)) return NULL;
    PyObject *list = PyList_New(0);
    bool first = true;
    while (list && most > 0 && taken > 0) {
        if (!first && (!self->core || self->closed || is_lapsed(self->core))) break; /* the next call says so */
        taken = take_into(self, list, most);
        most -= taken;
        first = false;
    }
    return list ? finished(list, taken < 0) : NULL;
}

/* Waits with the GIL released. RTMW_OK: look again; RTMW_TIMEOUT; -1: an exception is set. */
static int wait_once(Subscriber *self, uint64_t end)
{
    int code;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = subscriber_wait(self->core, end, self->spin_ns);
    Py_END_ALLOW_THREADS
    self->busy--;
    subscriber_finish(self);
    if (PyErr_CheckSignals() || !subscriber_is_open(self)) return -1;
    if (code == RTMW_OK || code == RTMW_EMPTY || code == RTMW_INTERRUPTED) return RTMW_OK;
    if (code == RTMW_TIMEOUT) return code;
    return fail((PyObject *)self, code, self->topic, 0), -1;
}

/* A wait without limit says why nothing comes, `tells_after_ns` after its begin and each time after twice as long, and
 * goes on. */
static PyObject *receive_until(Subscriber *self, uint64_t end)
{
    uint64_t tells_at = 0, rest = self->tells_after_ns;
    for (;;) {
        PyObject *sample = take_one(self);
        if (sample || PyErr_Occurred()) return sample;
        if (self->spin_ns >= GLANCE_NS && subscriber_glance(self->core)) continue;
        bool tells = end == UINT64_MAX && rest;
        if (tells && !tells_at) tells_at = ends_after(rest);
        int code = wait_once(self, tells ? tells_at : end);
        if (code < 0) return NULL;
        if (code != RTMW_TIMEOUT) continue;
        if (!tells) return fail((PyObject *)self, code, (PyObject *)self, 0);
        PyObject *told = PyObject_CallMethod((PyObject *)self, "_log_silence", NULL);
        if (!told) return NULL;
        Py_DECREF(told);
        if (rest < TELLS_MOST_NS) rest *= 2;
        tells_at = ends_after(rest);
        if (!subscriber_is_open(self)) return NULL;
    }
}

PyObject *Subscriber_receive(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    uint64_t ns;
    if (count + named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "timeout") != 0))
        return PyErr_Format(PyExc_TypeError, "receive takes one argument: timeout, in seconds or None");
    if (!seconds(count + named ? args[0] : NULL, UINT64_MAX, &ns) || !subscriber_is_open((Subscriber *)object))
        return NULL;
    return receive_until((Subscriber *)object, ends_after(ns));
}

static bool is_closed_error(Subscriber *self)
{
    return PyErr_ExceptionMatches(state_of(Py_TYPE((PyObject *)self))->closed_error);
}

PyObject *Subscriber_next(PyObject *object)
{
    Subscriber *self = (Subscriber *)object;
    if (self->closed) return NULL;
    PyObject *sample = receive_until(self, UINT64_MAX);
    if (!sample && self->closed && is_closed_error(self))
        PyErr_Clear(); /* closed meanwhile: the end of the iteration */
    return sample;
}
