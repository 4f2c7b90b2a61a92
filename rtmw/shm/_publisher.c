/* Publisher and Loan: an endpoint from its opening to its close, and all that it publishes.
 *
 *   publish, publish_many   values are encoded, and given to the core in batches
 *   Loan                    a block that the program writes itself
 */
#include "_core.h"

#include "wait.h"

/* ======== publishing ======== */

/* close(), once nobody is inside a wait. */
static void publisher_finish(Publisher *self);

/* Python code may have run since the last look: an encoder, a signal handler, another thread. false: an exception. */
static bool publisher_is_open(Publisher *self)
{
    if (self->core && !self->closed) return true;
    return fail((PyObject *)self, RTMW_CLOSED, self->topic, 0), false;
}

/* publish and publish_many: values are encoded, and given to the core in batches. */

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

/* The first argument (`name`, by position or by name), and priority=, lifetime=, valid_until=. */
static bool parse_options(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *first_name,
                          PyObject **first, rtmw_message_qos *qos)
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

static bool parse_call(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *first_name,
                       PyObject **first, rtmw_message_qos *qos)
{
    *first = count == 1 ? args[0] : NULL;
    *qos = (rtmw_message_qos){.priority = -1};
    return (*first && !kwnames) || parse_options(args, count, kwnames, first_name, first, qos);
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

/* After RTMW_FULL or RTMW_NO_MEMORY: true, try again; false, give up (or an exception is set). `end` begins as 0. */
static bool wait_for_room(Publisher *self, int code, uint64_t *end)
{
    if (!may_wait(self, code)) return false;
    if (*end == 0) *end = ends_after(self->max_blocking_ns);
    return remaining(*end) != 0 && sleep_for_room(self, *end);
}

/* 0: refused and counted, -1: an exception is set. */
static int not_published(Publisher *self, int code, uint64_t size)
{
    if (PyErr_Occurred()) return -1;
    if (code == RTMW_FULL || code == RTMW_NO_MEMORY) return publisher_refused(self->core, code), 0;
    return fail((PyObject *)self, code, self->topic, size), -1;
}

/* The same, and 1: published. */
static int verdict(Publisher *self, int code, uint64_t size)
{
    return code == RTMW_OK ? 1 : not_published(self, code, size);
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

static PyObject *Publisher_publish(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return publish_one((Publisher *)self, args, count, kwnames, 0);
}

static PyObject *Publisher_try(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    uint64_t ns;
    if (count < 1) return PyErr_Format(PyExc_TypeError, "missing argument: seconds");
    if (!seconds(args[0], UINT64_MAX, &ns)) return NULL;
    return publish_one((Publisher *)self, args + 1, count - 1, kwnames, ends_after(ns));
}

static PyObject *Publisher_sleep(PyObject *object, PyObject *given)
{
    Publisher *self = (Publisher *)object;
    uint64_t ns;
    if (!publisher_is_open(self) || !seconds(given, UINT64_MAX, &ns)) return NULL;
    if (!sleep_for_room(self, ends_after(ns)) && PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Whether the queues have room for a message of this priority: else a try is in vain, and its encoding too. */
static PyObject *Publisher_has_room(PyObject *object, PyObject *priority)
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

static PyObject *Publisher_publish_many(PyObject *object, PyObject *const *args, Py_ssize_t given, PyObject *kwnames)
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

/* ======== loan ======== */

/* Who is in its way, as a list of tuples; see blockers_of. */
static PyObject *publisher_blockers(Publisher *self, uint32_t most, uint32_t looks);

/* Loan: a block that is being written. Published or dropped; else it goes back with its last view. */

typedef struct {
    PyObject_HEAD
    Publisher *publisher;
    rtmw_loan core;
    rtmw_message_qos qos;
    Py_ssize_t exports;
    bool open, kept; /* kept: published while views of it live */
} Loan;

static bool loan_is_open(Loan *self)
{
    if (self->open) return true;
    return fail((PyObject *)self, RTMW_CLOSED, self->publisher->topic, 0), false;
}

static void loan_end(Loan *self)
{
    struct rtmw_region *r = self->publisher->region->core;
    if (self->open) loan_give_back(r, &self->core); /* also when its publisher was closed meanwhile */
    if (self->kept && self->exports == 0) rtmw_release(r, self->core.descriptor);
    self->open = self->kept = false;
}

static void Loan_dealloc(PyObject *object)
{
    Loan *self = (Loan *)object;
    PyTypeObject *type = Py_TYPE(object);
    loan_end(self);
    Py_DECREF(self->publisher);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int loan_lend(Loan *self, Py_buffer *view, int flags)
{
    if (!loan_is_open(self)) return -1;
    return fill_view((PyObject *)self, (struct viewed){self->core.data, self->core.size, false, &self->exports}, view,
                     flags);
}

static int Loan_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    int code;
    GUARD_BEGIN(object);
    code = loan_lend((Loan *)object, view, flags);
    GUARD_END();
    return code;
}

static void loan_view_ends(Loan *self)
{
    if (--self->exports > 0 || !self->kept) return;
    rtmw_release(self->publisher->region->core, self->core.descriptor);
    self->kept = false; /* an open loan goes on: its publication was refused, and may be tried again */
}

static void Loan_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    GUARD_BEGIN(object);
    loan_view_ends((Loan *)object);
    GUARD_END();
}

static PyObject *Loan_data(PyObject *self, void *unused)
{
    (void)unused;
    return loan_is_open((Loan *)self) ? PyMemoryView_FromObject(self) : NULL;
}

/* Views that the writer still has stay valid memory; what is written through them after this is the writer's error. */
static PyObject *loan_publish(Loan *self, Publisher *publisher)
{
    if (!loan_is_open(self) || !publisher_is_open(publisher)) return NULL;
    if (self->exports && !self->kept) {
        loan_keep(publisher->core, &self->core);
        self->kept = true;
    }
    self->open = false; /* while this thread waits for room, no other may publish or drop it */
    uint64_t end = 0;
    int code;
    do code = rtmw_loan_publish(publisher->core, &self->core, &self->qos);
    while (code != RTMW_OK && wait_for_room(publisher, code, &end));
    self->open = code != RTMW_OK;
    int published = verdict(publisher, code, self->core.size);
    return published < 0 ? NULL : PyBool_FromLong(published);
}

static PyObject *Loan_publish(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *result, *publisher = (PyObject *)((Loan *)object)->publisher;
    GUARD_BEGIN_BOTH(object, publisher);
    result = loan_publish((Loan *)object, (Publisher *)publisher);
    GUARD_END_BOTH();
    return result;
}

static PyObject *Loan_drop(PyObject *object, PyObject *unused)
{
    (void)unused;
    Loan *self = (Loan *)object;
    if (self->open && self->exports)
        return PyErr_Format(PyExc_BufferError, "the loan still has views; delete them before drop()");
    loan_end(self);
    Py_RETURN_NONE;
}

static PyObject *Loan_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* Not published: dropped; with views alive, when the last one goes. */
static PyObject *Loan_exit(PyObject *self, PyObject *args)
{
    (void)args;
    if (((Loan *)self)->exports == 0) loan_end((Loan *)self);
    Py_RETURN_NONE;
}

static PyObject *Loan_repr(PyObject *object)
{
    Loan *self = (Loan *)object;
    return PyUnicode_FromFormat("<rtmw.Loan %R size=%llu%s>", self->publisher->topic,
                                (unsigned long long)self->core.size, self->open ? "" : ", closed");
}

PyDoc_STRVAR(Loan_doc, "A block of shared memory to write a message into before it is published. Made by "
                       "Publisher.loan.\n\n"
                       "It is a writable buffer, and a context manager: what is not published at the end of its block "
                       "is dropped.\nAfter publish() returned True nothing may be written any more.");

GUARD(Loan_drop);
GUARD(Loan_exit);
GUARD_GET(Loan_data);

static PyMethodDef Loan_methods[] = {
    {"publish", Loan_publish, METH_NOARGS,
     "publish($self, /)\n--\n\nAppend the message, and close the loan. False: refused; it may be tried again."},
    {"drop", GUARDED(Loan_drop), METH_NOARGS,
     "drop($self, /)\n--\n\nGive the block back unpublished; a second call does nothing. Raises BufferError while "
     "views "
     "of it live."},
    {"__enter__", Loan_enter, METH_NOARGS, "__enter__($self, /)\n--\n\nThe loan itself."},
    {"__exit__", GUARDED(Loan_exit), METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n--\n\nDrop what was not published; with views alive, when the last one "
     "goes."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Loan_getset[] = {{"data", GUARDED(Loan_data), NULL, "The block, writable.", NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot Loan_slots[] = {{Py_tp_dealloc, Loan_dealloc},
                                   {Py_tp_doc, (void *)Loan_doc},
                                   {Py_tp_repr, Loan_repr},
                                   {Py_tp_methods, Loan_methods},
                                   {Py_tp_getset, Loan_getset},
                                   {Py_bf_getbuffer, Loan_getbuffer},
                                   {Py_bf_releasebuffer, Loan_releasebuffer},
                                   {0, NULL}};
PyType_Spec Loan_spec = {"rtmw.Loan", sizeof(Loan), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         Loan_slots};

enum { NAMED = 3, LOOKED_AT = 256 }; /* subscribers, for the words of a refusal, which has to be quick */

static void fail_naming(Publisher *self, uint64_t size)
{
    publisher_refused(self->core, RTMW_NO_MEMORY);
    PyObject *blockers = publisher_blockers(self, NAMED, LOOKED_AT);
    if (blockers) fail_exhausted((PyObject *)self, self->topic, size, blockers);
    Py_XDECREF(blockers);
}

static PyObject *Publisher_loan(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Publisher *self = (Publisher *)object;
    rtmw_message_qos qos;
    PyObject *wanted;
    if (!parse_call(args, count, kwnames, "size", &wanted, &qos)) return NULL;
    Py_ssize_t size =
        PyLong_CheckExact(wanted) ? PyLong_AsSsize_t(wanted) : PyNumber_AsSsize_t(wanted, PyExc_OverflowError);
    if ((size == -1 && PyErr_Occurred()) || !publisher_is_open(self)) return NULL;
    if (size < 0) return PyErr_Format(PyExc_ValueError, "a loan of %zd bytes is not possible; ask for 0 or more", size);
    Loan *loan = PyObject_New(Loan, self->loan_type);
    if (!loan) return NULL;
    loan->publisher = (Publisher *)Py_NewRef(object);
    loan->qos = qos;
    loan->exports = 0;
    loan->open = loan->kept = false;
    uint64_t end = 0;
    int code;
    do code = loan_take(self->core, (uint64_t)size, &loan->qos, &loan->core);
    while (code != RTMW_OK && wait_for_room(self, code, &end));
    loan->open = code == RTMW_OK;
    if (loan->open) return (PyObject *)loan;
    if (code == RTMW_NO_MEMORY && self->core)
        fail_naming(self, (uint64_t)size);
    else
        fail(object, code, self->topic, (uint64_t)size);
    Py_DECREF(loan);
    return NULL;
}

/* ======== publisher ======== */

static int Publisher_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"region",   "topic", "type",    "encode",   "write",        "reliability",
                            "priority", "depth", "history", "lifetime", "max_blocking", NULL};
    Publisher *self = (Publisher *)object;
    PyObject *region, *topic, *type_tuple, *encode, *write, *lifetime, *max_blocking;
    rtmw_publisher_qos qos = RTMW_PUBLISHER_QOS;
    rtmw_type space;
    const rtmw_type *type;
    int reliability;
    State *state = state_of(Py_TYPE(object));
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOOOibIIOO", names, state->region, &region, &topic, &type_tuple,
                                     &encode, &write, &reliability, &qos.priority, &qos.depth, &qos.history, &lifetime,
                                     &max_blocking))
        return -1;
    qos.reliability = (rtmw_reliability)reliability;
    if (!read_type_or_any(type_tuple, &space, &type) || !seconds(lifetime, 0, &qos.lifetime_ns) ||
        !seconds(max_blocking, UINT64_MAX, &self->max_blocking_ns))
        return -1;
    const char *name = topic_name(object, topic);
    if (!name) return -1;
    int code = rtmw_publisher_open(region_of(region), name, type, &qos, &self->core);
    if (code != RTMW_OK) return fail(object, code, topic, 0), -1;
    uint64_t blocking = self->max_blocking_ns;
    store_relaxed(&self->core->block->max_blocking, blocking == UINT64_MAX ? blocking : blocking + 1);
    self->region = (Region *)Py_NewRef(region);
    self->topic = Py_NewRef(topic);
    self->encode = encode == Py_None ? NULL : Py_NewRef(encode);
    self->write = write == Py_None ? NULL : Py_NewRef(write);
    self->loan_type = state->loan;
    return 0;
}

static void publisher_finish(Publisher *self)
{
    if (self->closed && self->busy == 0 && self->core) {
        self->forgets ? rtmw_publisher_forget(self->core) : rtmw_publisher_close(self->core);
        self->core = NULL;
    }
}

static PyObject *Publisher_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((Publisher *)self)->closed = true;
    publisher_finish((Publisher *)self);
    Py_RETURN_NONE;
}

static PyObject *Publisher_forget(PyObject *self, PyObject *unused)
{
    ((Publisher *)self)->forgets = true;
    return Publisher_close(self, unused);
}

static int Publisher_traverse(PyObject *object, visitproc visit, void *arg)
{
    Publisher *self = (Publisher *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->encode);
    Py_VISIT(self->write);
    return 0;
}

static int Publisher_clear(PyObject *object)
{
    Py_CLEAR(((Publisher *)object)->encode);
    Py_CLEAR(((Publisher *)object)->write);
    return 0;
}

static void Publisher_dealloc(PyObject *object)
{
    Publisher *self = (Publisher *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->core) rtmw_publisher_close(self->core);
    Py_XDECREF(self->encode);
    Py_XDECREF(self->write);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->region);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Publisher_matched(PyObject *object, void *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    return publisher_is_open(self) ? PyLong_FromUnsignedLong(rtmw_publisher_matched(self->core)) : NULL;
}

enum { MOST_BLOCKERS = 64 };

static PyObject *Publisher_counters(PyObject *object, PyObject *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    if (!publisher_is_open(self)) return NULL;
    struct publisher_block *p = self->core->block;
    return Py_BuildValue("KKKKK", (unsigned long long)p->published, (unsigned long long)p->bytes,
                         (unsigned long long)p->timed_out, (unsigned long long)p->exhausted,
                         (unsigned long long)p->held_by_history);
}

/* Program, pid, topic, depth, messages unread, whether its queue is full. */
static PyObject *shown_blocker(struct rtmw_region *r, const struct blocker *b)
{
    const struct participant *program = b->owner < PARTICIPANTS ? &r->participants[b->owner] : NULL;
    char topic[NAME_BYTES];
    topic_read(r, b->topic, topic);
    return Py_BuildValue("NINIKN", program ? name_at(program->name, sizeof program->name) : PyUnicode_FromString("?"),
                         program ? participant_pid(load_seq(&program->word)) : 0, name_at(topic, NAME_BYTES), b->depth,
                         (unsigned long long)b->unread, PyBool_FromLong(b->is_full));
}

/* They are found first, and shown then: to make objects may run other code of the program. */
static PyObject *publisher_blockers(Publisher *self, uint32_t most, uint32_t looks)
{
    struct blocker found[MOST_BLOCKERS];
    uint32_t count = blockers_of(self->core, found, most < MOST_BLOCKERS ? most : MOST_BLOCKERS, looks);
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < count; i++)
        failed = append_new(list, shown_blocker(self->region->core, &found[i]));
    return finished(list, failed);
}

static PyObject *Publisher_blockers(PyObject *object, PyObject *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    return publisher_is_open(self) ? publisher_blockers(self, MOST_BLOCKERS, UINT32_MAX) : NULL;
}

static PyObject *Publisher_identity(PyObject *object, void *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    return publisher_is_open(self)
               ? PyLong_FromUnsignedLongLong(rtmw_identity(self->core->region, self->core->identity))
               : NULL;
}

static PyObject *Publisher_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((Publisher *)object)->closed);
}

GUARD_FAST(Publisher_publish);
GUARD_FAST(Publisher_publish_many);
GUARD_FAST(Publisher_loan);
GUARD_FAST(Publisher_try);
GUARD(Publisher_sleep);
GUARD(Publisher_has_room);
GUARD(Publisher_close);
GUARD(Publisher_forget);
GUARD(Publisher_counters);
GUARD(Publisher_blockers);
GUARD_GET(Publisher_matched);
GUARD_GET(Publisher_identity);
GUARD_GET(Publisher_closed);

static PyMethodDef Publisher_methods[] = {
    {"publish", FAST(GUARDED(Publisher_publish)), METH_FASTCALL | METH_KEYWORDS,
     "publish($self, value, *, priority=None, lifetime=None, valid_until=None)\n--\n\n"
     "Append a message; True when it is in the queue. False: refused, and counted in stats()."},
    {"publish_many", FAST(GUARDED(Publisher_publish_many)), METH_FASTCALL | METH_KEYWORDS,
     "publish_many($self, values)\n--\n\nPublish in order until one is refused; how many were published. Wakes "
     "sleepers "
     "once."},
    {"loan", FAST(GUARDED(Publisher_loan)), METH_FASTCALL | METH_KEYWORDS,
     "loan($self, size, *, priority=None, lifetime=None, valid_until=None)\n--\n\nA block of `size` bytes to write "
     "into."},
    {"close", GUARDED(Publisher_close), METH_NOARGS,
     "close($self, /)\n--\n\nGive the endpoint back. What it published stays in the queues."},
    {"_try", FAST(GUARDED(Publisher_try)), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_sleep", GUARDED(Publisher_sleep), METH_O, NULL},
    {"_has_room", GUARDED(Publisher_has_room), METH_O, NULL},
    {"_forget", GUARDED(Publisher_forget), METH_NOARGS, NULL},
    {"_counters", GUARDED(Publisher_counters), METH_NOARGS, NULL},
    {"_blockers", GUARDED(Publisher_blockers), METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Publisher_getset[] = {{"subscribers", GUARDED(Publisher_matched), NULL,
                                          "Subscribers that get its messages at present.", NULL},
                                         {"identity", GUARDED(Publisher_identity), NULL,
                                          "What samples show as their publisher.", NULL},
                                         {"closed", GUARDED(Publisher_closed), NULL, "True after close().", NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Publisher_members[] = {{"topic", T_OBJECT, offsetof(Publisher, topic), READONLY,
                                           "Name of the topic."},
                                          {NULL, 0, 0, 0, NULL}};
static PyType_Slot Publisher_slots[] = {{Py_tp_init, Publisher_init},         {Py_tp_dealloc, Publisher_dealloc},
                                        {Py_tp_traverse, Publisher_traverse}, {Py_tp_clear, Publisher_clear},
                                        {Py_tp_methods, Publisher_methods},   {Py_tp_getset, Publisher_getset},
                                        {Py_tp_members, Publisher_members},   {0, NULL}};
PyType_Spec Publisher_spec = {"rtmw.shm._core.Publisher", sizeof(Publisher), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, Publisher_slots};
