/* Publisher: an endpoint from its opening to its close. Its messages go through _publish.c and _loan.c. */
#include "_core.h"
#include "topics.h"
#include "waiting.h"

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

void publisher_finish(Publisher *self)
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
PyObject *publisher_blockers(Publisher *self, uint32_t most, uint32_t looks)
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
