/* publish and publish_many: values are encoded, and given to the core in batches. */
#include "_core.h"
#include "waiting.h"

enum { PUBLISH_AT_ONCE = 64 };

static bool parse_priority(PyObject *value, rtmw_message_qos *qos)
{
    if (value == Py_None) return true;
    long priority = PyBool_Check(value) ? BANDS : PyLong_AsLong(value); /* True is no number to a user */
    if (priority == -1 && PyErr_Occurred()) return false;
    qos->priority = (int)priority;
    if (priority >= 0 && priority < BANDS) return true;
    return PyErr_Format(PyExc_ValueError, "priority %R does not exist; there are 0 (lowest) to 7", value), false;
}

/* A time of 0 is over at once; but to the core 0 is none. */
static bool parse_time(PyObject *value, uint64_t *ns)
{
    if (!seconds(value, 0, ns)) return false;
    if (value != Py_None && *ns == 0) *ns = 1;
    return true;
}

static bool parse_option(PyObject *name, PyObject *value, rtmw_message_qos *qos)
{
    if (PyUnicode_CompareWithASCIIString(name, "priority") == 0) return parse_priority(value, qos);
    if (PyUnicode_CompareWithASCIIString(name, "lifetime") == 0) return parse_time(value, &qos->lifetime_ns);
    if (PyUnicode_CompareWithASCIIString(name, "valid_until") == 0) return parse_time(value, &qos->expires_ns);
    return PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R; there are priority, lifetime, valid_until",
                        name),
           false;
}

bool parse_options(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *first_name, PyObject **first,
                   rtmw_message_qos *qos)
{
    if (count > 1)
        return PyErr_Format(PyExc_TypeError, "one argument by position, %s; %zd are given", first_name, count), false;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[count + i];
        if (*first == NULL && PyUnicode_CompareWithASCIIString(name, first_name) == 0)
            *first = value;
        else if (!parse_option(name, value, qos))
            return false;
    }
    return *first || (PyErr_Format(PyExc_TypeError, "missing argument: %s", first_name), false);
}

/* Whether there may be room later, for which a publish waits. */
static bool may_wait(const Publisher *self, int code)
{
    return self->core->qos.reliability == RTMW_RELIABLE && (code == RTMW_FULL || code == RTMW_NO_MEMORY);
}

/* Sleeps until there may be room, or a slice of time is over. false: closed meanwhile, or a signal raised. */
static bool sleep_for_room(Publisher *self, uint64_t end)
{
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    publisher_wait(self->core, end);
    Py_END_ALLOW_THREADS
    self->busy--;
    publisher_finish(self);
    return PyErr_CheckSignals() == 0 && publisher_is_open(self);
}

bool wait_for_room(Publisher *self, int code, uint64_t *end)
{
    if (!may_wait(self, code)) return false;
    if (*end == 0) *end = ends_after(self->max_blocking_ns);
    return remaining(*end) != 0 && sleep_for_room(self, *end);
}

int not_published(Publisher *self, int code, uint64_t size)
{
    if (PyErr_Occurred()) return -1;
    if (code == RTMW_FULL || code == RTMW_NO_MEMORY) return publisher_refused(self->core, code), 0;
    return fail((PyObject *)self, code, self->topic, size), -1;
}

/* Lets `write` fill the loan; it shall have no view of it afterwards. */
static bool write_loan(Publisher *self, PyObject *value, const rtmw_loan *loan)
{
    PyObject *memory = PyMemoryView_FromMemory(loan->data, (Py_ssize_t)loan->size, PyBUF_WRITE);
    PyObject *written = memory ? PyObject_CallFunctionObjArgs(self->write, value, memory, NULL) : NULL;
    PyObject *released = written ? PyObject_CallMethod(memory, "release", NULL) : NULL;
    Py_XDECREF(memory);
    Py_XDECREF(written);
    Py_XDECREF(released);
    return released != NULL;
}

/* Messages on their way into the core: where their bytes are, and what keeps these alive. */
struct keep {
    PyObject *encoded;
    Py_buffer view; /* obj NULL: encoded is bytes, which need none */
};
struct batch {
    struct part *part;
    struct keep *keep;
    uint32_t count;
    PyObject *large; /* a value that comes after them, to be written in place; or NULL */
    uint64_t large_size;
    uint64_t until; /* a try, which does not wait; before this time it comes again, and is not refused. 0: no try */
};
enum { COMES_AGAIN = 2 }; /* beyond a verdict */

static bool waits(Publisher *self, const struct batch *batch, int code, uint64_t *end)
{
    return code != RTMW_OK && !batch->until && wait_for_room(self, code, end);
}

static int judge(Publisher *self, const struct batch *batch, int code, uint64_t size)
{
    bool again = batch->until && may_wait(self, code) && remaining(batch->until) != 0;
    return again ? COMES_AGAIN : verdict(self, code, size);
}

/* A large payload is written where it will lie. */
static int publish_in_place(Publisher *self, const struct batch *batch, const rtmw_message_qos *qos)
{
    rtmw_loan loan;
    uint64_t end = 0, size = batch->large_size;
    int code, result = -1;
    if (!publisher_is_open(self)) return -1;
    do code = loan_take(self->core, size, qos, &loan);
    while (waits(self, batch, code, &end));
    if (code != RTMW_OK) return judge(self, batch, code, size);
    code = RTMW_CLOSED;
    if (write_loan(self, batch->large, &loan) && publisher_is_open(self)) {
        do code = loan_append(self->core, &loan, qos);
        while (waits(self, batch, code, &end));
        result = judge(self, batch, code, size);
        if (result == 1) rtmw_publisher_flush(self->core);
    }
    if (code != RTMW_OK) loan_give_back(self->region->core, &loan);
    return result;
}

/* Where the bytes of keep->encoded are. One that lends no memory in one piece, as every second byte of a memoryview, is
 * replaced by a copy. false: it lends none; or an exception is set. */
static bool find_bytes(struct keep *keep, struct part *part)
{
    if (!PyBytes_CheckExact(keep->encoded)) {
        if (!PyObject_CheckBuffer(keep->encoded)) return false;
        if (PyObject_GetBuffer(keep->encoded, &keep->view, PyBUF_SIMPLE) == 0) {
            *part = (struct part){keep->view.buf, (uint64_t)keep->view.len};
            return true;
        }
        PyErr_Clear();
        keep->view.obj = NULL;
        PyObject *copy = PyBytes_FromObject(keep->encoded);
        if (!copy) return false;
        Py_SETREF(keep->encoded, copy);
    }
    *part = (struct part){PyBytes_AS_STRING(keep->encoded), (uint64_t)PyBytes_GET_SIZE(keep->encoded)};
    return true;
}

static bool batch_add(struct batch *batch, Publisher *self, PyObject *value)
{
    PyObject *encoded = self->encode ? PyObject_CallOneArg(self->encode, value) : Py_NewRef(value);
    if (!encoded) return false;
    if (self->write && PyLong_CheckExact(encoded)) {
        batch->large = Py_NewRef(value);
        batch->large_size = PyLong_AsUnsignedLongLong(encoded);
        Py_DECREF(encoded);
        return true;
    }
    struct keep *keep = &batch->keep[batch->count];
    keep->encoded = encoded;
    keep->view.obj = NULL;
    if (find_bytes(keep, &batch->part[batch->count])) return batch->count++, true;
    Py_DECREF(keep->encoded);
    return fail((PyObject *)self, WRONG_TYPE, (PyObject *)Py_TYPE(value), 0), false;
}

static void batch_release(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->keep[i].view.obj) PyBuffer_Release(&batch->keep[i].view);
        Py_DECREF(batch->keep[i].encoded);
    }
    Py_XDECREF(batch->large);
}

/* In order until one is refused; how many. Nobody waits for room while others sleep unwoken. */
static uint32_t batch_copy(struct batch *batch, Publisher *self, const rtmw_message_qos *qos, int *code)
{
    uint32_t published = 0, now;
    uint64_t end = 0;
    do {
        *code = publish_quietly(self->core, batch->part + published, batch->count - published, qos, &now);
        published += now;
        if (!now) continue;
        rtmw_publisher_flush(self->core);
        end = 0; /* each message has max_blocking to itself */
    } while (waits(self, batch, *code, &end));
    return published;
}

/* How many were published. `*result`: the verdict on all of them. */
static uint32_t batch_publish(struct batch *batch, Publisher *self, const rtmw_message_qos *qos, int *result)
{
    int code = RTMW_OK;
    *result = -1;
    if (!publisher_is_open(self)) return 0;
    uint32_t published = batch->count ? batch_copy(batch, self, qos, &code) : 0;
    *result = judge(self, batch, code, published < batch->count ? batch->part[published].size : 0);
    if (*result != 1 || !batch->large) return published;
    *result = publish_in_place(self, batch, qos);
    return published + (*result == 1);
}

/* `until`: as of a batch. */
static PyObject *publish_one(Publisher *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                             uint64_t until)
{
    struct part part;
    struct keep keep;
    struct batch batch = {&part, &keep, 0, NULL, 0, until};
    rtmw_message_qos qos;
    PyObject *value;
    int published;
    if (!publisher_is_open(self) || !parse_call(args, count, kwnames, "value", &value, &qos)) return NULL;
    if (!batch_add(&batch, self, value)) return NULL;
    batch_publish(&batch, self, &qos, &published);
    batch_release(&batch);
    if (published == COMES_AGAIN) Py_RETURN_NONE;
    return published < 0 ? NULL : PyBool_FromLong(published);
}

PyObject *Publisher_publish(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return publish_one((Publisher *)self, args, count, kwnames, 0);
}

PyObject *Publisher_try(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    uint64_t ns;
    if (count < 1) return PyErr_Format(PyExc_TypeError, "missing argument: seconds");
    if (!seconds(args[0], UINT64_MAX, &ns)) return NULL;
    return publish_one((Publisher *)self, args + 1, count - 1, kwnames, ends_after(ns));
}

PyObject *Publisher_sleep(PyObject *object, PyObject *given)
{
    Publisher *self = (Publisher *)object;
    uint64_t ns;
    if (!publisher_is_open(self) || !seconds(given, UINT64_MAX, &ns)) return NULL;
    if (!sleep_for_room(self, ends_after(ns)) && PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Whether the queues have room for a message of this priority: else a try is in vain, and its encoding too. */
PyObject *Publisher_has_room(PyObject *object, PyObject *priority)
{
    Publisher *self = (Publisher *)object;
    unsigned long band = PyLong_AsUnsignedLong(priority);
    if (PyErr_Occurred() || !publisher_is_open(self)) return NULL;
    return PyBool_FromLong(publisher_has_room(self->core, (uint32_t)(band % BANDS)));
}

/* The next values of a list, as many as go at once. false: one could not be encoded; those before it are in the batch. */
static bool batch_fill(struct batch *batch, Publisher *self, PyObject *list, Py_ssize_t from)
{
    bool added = true;
    for (; added && !batch->large && batch->count < PUBLISH_AT_ONCE; from++) {
        PyObject *value = item_of(list, from);
        if (!value) break; /* looked at each time: an encoder may shorten it */
        added = batch_add(batch, self, value);
        Py_DECREF(value);
    }
    return added;
}

/* One step of publish_many; how many were published. `*result`: as a verdict; 0 too when nothing is left. */
static uint32_t publish_next(Publisher *self, PyObject *list, Py_ssize_t from, int *result)
{
    const rtmw_message_qos qos = {-1, 0, 0, 0, 0};
    struct part part[PUBLISH_AT_ONCE];
    struct keep keep[PUBLISH_AT_ONCE];
    struct batch batch = {part, keep, 0, NULL, 0, 0};
    PyObject *type, *value, *traceback;
    bool filled = batch_fill(&batch, self, list, from);
    *result = 0;
    if (!filled) PyErr_Fetch(&type, &value, &traceback);
    uint32_t published = batch.count || batch.large ? batch_publish(&batch, self, &qos, result) : 0;
    batch_release(&batch);
    if (filled) return published;
    if (*result < 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    *result = -1;
    return published;
}

PyObject *Publisher_publish_many(PyObject *object, PyObject *const *args, Py_ssize_t given, PyObject *kwnames)
{
    Publisher *self = (Publisher *)object;
    PyObject *values = only_argument(args, given, kwnames, "values");
    if (!values || !publisher_is_open(self)) return NULL;
    PyObject *list = PySequence_Fast(values, "publish_many takes an iterable of values");
    if (!list) return NULL;
    Py_ssize_t count = 0;
    int result;
    do count += publish_next(self, list, count, &result);
    while (result == 1);
    Py_DECREF(list);
    return result < 0 ? NULL : PyLong_FromSsize_t(count);
}
