/* Loan: a block that is being written. Published or dropped; else it goes back with its last view. */
#include "_core.h"

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

PyObject *Publisher_loan(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
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
