/* The only file with Python.h: reads arguments, calls one core function, maps the code, builds the result.
 *
 *   Region · Publisher · Subscriber   own a handle of the core        Loan · Sample   lend a block as a buffer
 *
 * rtmw.Publisher and rtmw.Subscriber derive from the types here; publish, take and receive are these methods.
 * Codes become exceptions in rtmw/shm/failures.py. The GIL is released for waiting only.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <structmember.h>

#include "books.h"
#include "histogram.h"
#include "region.h"
#include "type_argument.h"

enum { WRONG_TYPE = 100 }; /* beyond rtmw_code: the value has no buffer */
enum { PUBLISH_AT_ONCE = 64, TAKE_AT_ONCE = 64 };

typedef struct {
    PyObject *failure; /* rtmw.shm.failures.failure(code, subject, detail) -> exception */
    PyObject *closed_error;
    PyTypeObject *region, *publisher, *subscriber, *loan, *sample;
} State;

static struct PyModuleDef core_module;

static State *state_of(PyTypeObject *type) { return PyModule_GetState(PyType_GetModuleByDef(type, &core_module)); }

static PyObject *fail(PyObject *self, int code, PyObject *subject, uint64_t detail)
{
    int system_error = errno;
    if (PyErr_Occurred()) return NULL;
    State *state = state_of(Py_TYPE(self));
    if (code == RTMW_SYSTEM) detail = (uint64_t)system_error;
    PyObject *error =
        PyObject_CallFunction(state->failure, "iOK", code, subject ? subject : Py_None, (unsigned long long)detail);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

/* 146 years: long enough for ever, and far from where sums overflow. */
#define LONGEST_NS (UINT64_C(1) << 62)

/* Seconds, or None, in nanoseconds. false: an exception is set. */
static bool seconds(PyObject *value, uint64_t none, uint64_t *ns)
{
    if (value == NULL || value == Py_None) {
        *ns = none;
        return true;
    }
    double s = PyFloat_AsDouble(value);
    if (s == -1.0 && PyErr_Occurred()) return false;
    if (!(s >= 0)) {
        PyErr_Format(PyExc_ValueError, "%R is not a time in seconds; it must be 0 or more, or None", value);
        return false;
    }
    *ns = s < (double)LONGEST_NS / 1e9 ? (uint64_t)(s * 1e9) : LONGEST_NS;
    return true;
}

static uint64_t remaining(uint64_t end)
{
    if (end == UINT64_MAX) return UINT64_MAX;
    uint64_t now = monotonic_ns();
    return end > now ? end - now : 0;
}

static uint64_t ends_after(uint64_t ns)
{
    if (ns == UINT64_MAX) return UINT64_MAX;
    uint64_t now = monotonic_ns();
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

/* ---- Region ---- */

typedef struct {
    PyObject_HEAD
    struct rtmw_region *core;
    PyObject *weak;
} Region;

static int Region_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    unsigned int domain;
    uint32_t version = 0;
    if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_SetString(PyExc_TypeError, "Region takes a domain number"), -1;
    if (!PyArg_ParseTuple(args, "I", &domain)) return -1;
    int code = region_attach(domain, &((Region *)self)->core, &version);
    if (code == RTMW_OK) return 0;
    PyObject *subject = PyLong_FromUnsignedLong(domain);
    fail(self, code, subject, version);
    Py_XDECREF(subject);
    return -1;
}

static void Region_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (((Region *)self)->weak) PyObject_ClearWeakRefs(self);
    if (((Region *)self)->core) rtmw_detach(((Region *)self)->core);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Region_fileno(PyObject *self, PyObject *unused)
{
    (void)unused;
    int fd = region_socket(((Region *)self)->core);
    return fd < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(fd);
}

static PyObject *Region_drain(PyObject *self, PyObject *unused)
{
    (void)unused;
    drain(region_socket(((Region *)self)->core));
    Py_RETURN_NONE;
}

/* Not made before a fork. */
static PyObject *Region_is_current(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(!is_forked(((Region *)self)->core));
}

/* Appends a new reference to a list, and takes it away from the caller. */
static int append_new(PyObject *list, PyObject *item)
{
    int result = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return result;
}

static PyObject *finished(PyObject *list, int failed)
{
    if (!failed) return list;
    Py_XDECREF(list);
    return NULL;
}

/* A name in shared memory, with its zero or without. Copied first: somebody may write it meanwhile. */
static PyObject *name_at(const char *shared, size_t size)
{
    char name[NAME_BYTES];
    memcpy(name, shared, size);
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strnlen(name, size), "replace");
}

static PyObject *band_sequences(struct rtmw_region *r, struct topic *t)
{
    PyObject *bands = PyTuple_New(BANDS);
    for (uint32_t b = 0; bands && b < BANDS; b++) {
        uint64_t tail = band_tail_sequence(r, &t->band[b]), head = band_head_sequence(&t->band[b], tail);
        PyTuple_SET_ITEM(bands, b, Py_BuildValue("KK", (unsigned long long)head, (unsigned long long)tail));
    }
    return bands;
}

static PyObject *Region_topics(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->topics_top) && i < r->header->topics; i++) {
        struct topic *t = &r->topics[i];
        if (slot_state_of(load_seq(&t->word)) != SLOT_ACTIVE) continue;
        failed =
            append_new(list, Py_BuildValue("INKN", i, name_at(t->name, NAME_BYTES),
                                           (unsigned long long)load_relaxed(&t->retired_bytes), band_sequences(r, t)));
    }
    return finished(list, failed);
}

static uint32_t owner_pid(struct rtmw_region *r, uint32_t owner)
{
    return owner < PARTICIPANTS ? participant_pid(load_seq(&r->participants[owner].word)) : 0;
}

static PyObject *Region_publishers(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->publishers_top) && i < r->header->publishers; i++) {
        uint64_t word = load_seq(&r->publisher_words[i]);
        struct publisher_block *p = &r->publishers[i];
        uint8_t reliability = load_relaxed(&p->reliability);
        if (slot_state_of(word) != SLOT_ACTIVE || reliability > RTMW_RELIABLE) continue;
        failed = append_new(list, Py_BuildValue("IKIBBIIKKKKK", slot_topic(word),
                                                (unsigned long long)load_relaxed(&p->identity), p->type, reliability,
                                                p->priority, p->depth, p->history,
                                                (unsigned long long)load_relaxed(&p->published),
                                                (unsigned long long)load_relaxed(&p->bytes),
                                                (unsigned long long)load_relaxed(&p->timed_out),
                                                (unsigned long long)load_relaxed(&p->exhausted),
                                                (unsigned long long)load_relaxed(&p->lifetime_ns)));
    }
    return finished(list, failed);
}

static PyObject *subscriber_counters(struct rtmw_region *r, struct topic *t, struct subscriber_block *s)
{
    return Py_BuildValue("KKKKKKKKKK", (unsigned long long)load_relaxed(&s->received),
                         (unsigned long long)load_relaxed(&s->bytes), (unsigned long long)waiting_for(r, t, s),
                         (unsigned long long)load_relaxed(&s->missed), (unsigned long long)load_relaxed(&s->expired),
                         (unsigned long long)load_relaxed(&s->thinned), (unsigned long long)load_relaxed(&s->unmatched),
                         (unsigned long long)load_relaxed(&s->other_types),
                         (unsigned long long)load_relaxed(&s->deadlines_missed),
                         (unsigned long long)load_relaxed(&s->lapses));
}

/* (shortest, longest, count) of each bucket that is not empty; times in nanoseconds. */
static PyObject *latency_buckets(struct rtmw_region *r, uint32_t slot)
{
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t bucket = 0; !failed && slot < r->header->histograms && bucket < HISTOGRAM_BUCKETS; bucket++) {
        uint64_t count = load_relaxed(&r->histograms[slot].count[bucket]);
        if (count)
            failed = append_new(list, Py_BuildValue("KKK", (unsigned long long)histogram_lowest_ns(bucket),
                                                    (unsigned long long)histogram_lowest_ns(bucket + 1) - 1,
                                                    (unsigned long long)count));
    }
    return finished(list, failed);
}

static uint64_t subscriber_identity(struct rtmw_region *r, uint64_t word, uint32_t slot)
{
    uint32_t owner = slot_owner(word);
    return endpoint_identity(owner < PARTICIPANTS ? load_seq(&r->participants[owner].word) : 0, word, slot);
}

static PyObject *cursors(struct rtmw_region *r, struct topic *t, struct subscriber_block *s)
{
    PyObject *sequences = PyTuple_New(BANDS);
    for (uint32_t b = 0; sequences && b < BANDS; b++) {
        uint64_t near = band_tail_sequence(r, &t->band[b]);
        uint64_t cursor = sequence_near(link_tag(load_seq(&s->cursor[b])), near);
        PyTuple_SET_ITEM(sequences, b, PyLong_FromUnsignedLongLong(cursor));
    }
    return sequences;
}

static PyObject *Region_subscribers(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->subscribers_top) && i < r->header->subscribers; i++) {
        uint64_t word = load_seq(&r->subscriber_words[i]);
        struct subscriber_block *s = &r->subscribers[i];
        uint8_t reliability = load_relaxed(&s->reliability);
        if (slot_state_of(word) < SLOT_ACTIVE || slot_topic(word) >= r->header->topics) continue;
        if (reliability > RTMW_RELIABLE) continue; /* nobody writes that: the region is damaged */
        struct topic *t = &r->topics[slot_topic(word)];
        failed =
            append_new(list,
                       Py_BuildValue("IKIBINNN(IKKB)", slot_topic(word),
                                     (unsigned long long)subscriber_identity(r, word, i), s->type, reliability,
                                     s->depth, subscriber_counters(r, t, s), cursors(r, t, s), latency_buckets(r, i),
                                     s->history, (unsigned long long)load_relaxed(&s->min_interval_ns),
                                     (unsigned long long)load_relaxed(&s->deadline_ns), load_relaxed(&s->exact)));
    }
    return finished(list, failed);
}

static PyObject *Region_participants(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++) {
        uint64_t word = load_seq(&r->participants[slot].word);
        if (participant_state_of(word) == ABSENT) continue;
        unsigned int loaned = 0, held = 0;
        for (uint32_t i = 0; i < r->header->descriptors; i++) {
            uint64_t state = load_relaxed(&r->descriptors[i].state);
            enum descriptor_kind kind = state_kind(state);
            loaned += (kind == LOANED || kind == APPENDING) && state_owner(state) == slot;
            held += load_relaxed(&r->descriptors[i].holders[slot >> 6]) >> (slot & 63) & 1;
        }
        failed = append_new(list, Py_BuildValue("IINNII", slot, participant_pid(word),
                                                name_at(r->participants[slot].name, sizeof r->participants->name),
                                                PyBool_FromLong(slot == r->me || !participant_is_dead(r, slot)), loaned,
                                                held));
    }
    return finished(list, failed);
}

/* Of the programs that are attached, by pid. */
static PyObject *Region_names(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    PyObject *names = PyDict_New();
    for (uint32_t slot = 0; names && slot < PARTICIPANTS; slot++) {
        uint64_t word = load_seq(&r->participants[slot].word);
        if (participant_state_of(word) == ABSENT) continue;
        PyObject *pid = PyLong_FromUnsignedLong(participant_pid(word));
        PyObject *name = name_at(r->participants[slot].name, sizeof r->participants->name);
        int failed = !pid || !name || PyDict_SetItem(names, pid, name);
        Py_XDECREF(pid);
        Py_XDECREF(name);
        if (failed) Py_CLEAR(names);
    }
    return names;
}

static PyObject *Region_types(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    PyObject *types = PyDict_New();
    for (uint32_t i = 0; types && i < r->header->types; i++) {
        struct type_entry *t = &r->types[i];
        uint32_t bytes = load_relaxed(&t->bytes);
        if (slot_state_of(load_seq(&t->word)) != SLOT_ACTIVE || bytes > TYPE_BYTES) continue;
        PyObject *key = PyLong_FromUnsignedLong(i);
        PyObject *entry = Py_BuildValue("Ny#", name_at(t->name, TYPE_NAME_BYTES), t->description, (Py_ssize_t)bytes);
        int failed = !key || !entry || PyDict_SetItem(types, key, entry);
        Py_XDECREF(key);
        Py_XDECREF(entry);
        if (failed) Py_CLEAR(types);
    }
    return types;
}

/* Without the hold of who looks. */
static PyObject *holder_pids(struct rtmw_region *r, struct descriptor *d)
{
    PyObject *pids = PyList_New(0);
    int failed = pids == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++)
        if ((load_seq(&d->holders[slot >> 6]) >> (slot & 63) & 1) && (slot != r->me || r->refs[d - r->descriptors] > 1))
            failed = append_new(pids, PyLong_FromUnsignedLong(owner_pid(r, slot)));
    return finished(pids, failed);
}

enum { PREVIEW = 64 };

static PyObject *queued_message(struct rtmw_region *r, uint32_t band, uint32_t index, uint64_t sequence)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t size = load_relaxed(&d->size);
    const void *payload = payload_of(r, d, size);
    Py_ssize_t shown = payload && size < PREVIEW ? (Py_ssize_t)size : PREVIEW;
    return Py_BuildValue("IKKIKKKNy#", band, (unsigned long long)sequence, (unsigned long long)size,
                         (unsigned int)d->type, (unsigned long long)d->publisher, (unsigned long long)d->source_time_ns,
                         (unsigned long long)d->expires_ns, holder_pids(r, d), payload ? payload : "",
                         payload ? shown : 0);
}

/* Walks as a subscriber would: each message is held while it is looked at. */
static int step_locked(struct rtmw_region *r, struct band *b, uint32_t *index, uint64_t *sequence)
{
    uint64_t missed = 0;
    lock_take(&r->lock); /* never while Python objects are made: collecting garbage may release a sample */
    int stepped = queue_step(r, b, index, sequence, &missed);
    lock_give(&r->lock);
    return stepped;
}

static PyObject *Region_queue(PyObject *self, PyObject *topic)
{
    struct rtmw_region *r = ((Region *)self)->core;
    if (is_forked(r)) return fail(self, RTMW_FORKED, NULL, 0);
    unsigned long slot = PyLong_AsUnsignedLong(topic);
    if (PyErr_Occurred()) return NULL;
    if (slot >= r->header->topics) return PyErr_Format(PyExc_IndexError, "there is no topic slot %lu", slot);
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t band = BANDS; !failed && band-- > 0;) {
        struct band *b = &r->topics[slot].band[band];
        uint64_t tail = band_tail_sequence(r, b), head = band_head_sequence(b, tail);
        uint64_t sequence = head ? head - 1 : 0;
        uint32_t index = NIL;
        while (!failed && sequence < tail && step_locked(r, b, &index, &sequence) == STEP_OK)
            if (descriptor_is_message(&r->descriptors[index]))
                failed = append_new(list, queued_message(r, band, index, sequence));
        if (index != NIL) rtmw_release(r, index);
    }
    return finished(list, failed);
}

/* trace(topic, on): once off for each on. */
static PyObject *Region_trace(PyObject *self, PyObject *args)
{
    struct rtmw_region *r = ((Region *)self)->core;
    unsigned int topic;
    int on;
    if (!PyArg_ParseTuple(args, "Ip", &topic, &on)) return NULL;
    if (topic >= r->header->topics) return PyErr_Format(PyExc_IndexError, "there is no topic slot %u", topic);
    int code = RTMW_OK;
    if (on)
        code = trace_begin(r, topic);
    else
        trace_end(r, topic);
    return code == RTMW_OK ? Py_NewRef(Py_None) : fail(self, code, NULL, 0);
}

static PyObject *traced_event(const struct trace_event *e)
{
    static const char *const kinds[] = {"published", "taken",       "missed",    "expired",  "thinned",
                                        "unmatched", "other_types", "timed_out", "exhausted"};
    const char *kind = e->kind < sizeof kinds / sizeof *kinds ? kinds[e->kind] : "unknown";
    return Py_BuildValue("sIIIKKKKKK", kind, e->topic, e->band, e->count, (unsigned long long)e->at_ns,
                         (unsigned long long)e->who, (unsigned long long)e->publisher, (unsigned long long)e->sequence,
                         (unsigned long long)e->size, (unsigned long long)e->published_ns);
}

/* events(at, known) -> (events, at, known, lost), from a ticket on, oldest first; both are what the last call gave. Who
 * writes an event has from one call to the next to do so. */
static PyObject *Region_events(PyObject *self, PyObject *args)
{
    struct rtmw_region *r = ((Region *)self)->core;
    struct trace_event event;
    unsigned long long at, known, lost = 0, next = trace_next(r), oldest;
    if (!PyArg_ParseTuple(args, "KK", &at, &known)) return NULL;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    oldest = next > r->header->trace_entries ? next - r->header->trace_entries : 0;
    if (at < oldest) {
        lost = oldest - at;
        at = oldest;
    }
    for (; !failed && at < next; at++) {
        enum trace_found found = trace_read(r, at, &event);
        if (found == TRACE_LATER && at >= known) break;
        if (found == TRACE_READ)
            failed = append_new(list, traced_event(&event));
        else
            lost++;
    }
    return finished(list, failed) ? Py_BuildValue("NKKK", list, at, next, lost) : NULL;
}

static PyObject *Region_trace_next(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(trace_next(((Region *)self)->core));
}

static PyObject *Region_examine(PyObject *self, PyObject *fix)
{
    struct rtmw_region *r = ((Region *)self)->core;
    uint32_t swept = 0, freed = 0;
    if (is_forked(r)) return fail(self, RTMW_FORKED, NULL, 0);
    struct books *books = PyMem_Malloc(sizeof *books);
    uint8_t *marks = PyMem_Malloc(books_marks(r));
    PyObject *problems = PyList_New(0), *result = NULL;
    if (books && marks && problems) {
        if (PyObject_IsTrue(fix)) books_repair(r, &swept, &freed);
        books_examine(r, books, marks);
        int failed = 0;
        for (uint32_t i = 0; !failed && i < books->problems; i++)
            failed = append_new(problems, PyUnicode_FromString(books->problem[i]));
        if (!failed)
            result = Py_BuildValue("IIIIIIIIIIO", RTMW_LAYOUT_VERSION, r->header->descriptors, books->free,
                                   books->loaned, books->queued, books->held, r->header->pages, books->granules_used,
                                   swept, freed, problems);
    }
    PyMem_Free(books);
    PyMem_Free(marks);
    Py_XDECREF(problems);
    return result;
}

/* Control and blocks, and what is kept about them here. */
static PyObject *Region_mapped_bytes(PyObject *self, void *unused)
{
    (void)unused;
    const struct header *h = ((Region *)self)->core->header;
    return PyLong_FromUnsignedLongLong(h->control_bytes + h->pool_bytes + h->descriptors * sizeof(uint32_t));
}

/* Grows with each new topic: a hint of when it is worth asking for their names. */
static PyObject *Region_topic_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(load_relaxed(&((Region *)self)->core->hints->topics_top));
}

static PyObject *Region_lock_memory(PyObject *self, PyObject *unused)
{
    (void)unused;
    int code = rtmw_lock_memory(((Region *)self)->core);
    return code == RTMW_OK ? Py_NewRef(Py_None) : fail(self, code, NULL, 0);
}

static PyObject *Region_pool_bytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((Region *)self)->core->header->pool_bytes);
}

static PyObject *Region_sweep(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = ((Region *)self)->core;
    if (is_forked(r)) return fail(self, RTMW_FORKED, NULL, 0);
    lock_take(&r->lock);
    uint32_t swept = sweep_the_dead(r);
    lock_give(&r->lock);
    return PyLong_FromUnsignedLong(swept);
}

static PyMethodDef Region_methods[] = {
    {"fileno", Region_fileno, METH_NOARGS, NULL},
    {"drain", Region_drain, METH_NOARGS, NULL},
    {"is_current", Region_is_current, METH_NOARGS, NULL},
    {"topics", Region_topics, METH_NOARGS, NULL},
    {"publishers", Region_publishers, METH_NOARGS, NULL},
    {"subscribers", Region_subscribers, METH_NOARGS, NULL},
    {"participants", Region_participants, METH_NOARGS, NULL},
    {"names", Region_names, METH_NOARGS, NULL},
    {"types", Region_types, METH_NOARGS, NULL},
    {"queue", Region_queue, METH_O, NULL},
    {"lock_memory", Region_lock_memory, METH_NOARGS, NULL},
    {"trace", Region_trace, METH_VARARGS, NULL},
    {"trace_next", Region_trace_next, METH_NOARGS, NULL},
    {"events", Region_events, METH_VARARGS, NULL},
    {"examine", Region_examine, METH_O, NULL},
    {"sweep", Region_sweep, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Region_getset[] = {{"pool_bytes", Region_pool_bytes, NULL, NULL, NULL},
                                      {"mapped_bytes", Region_mapped_bytes, NULL, NULL, NULL},
                                      {"topic_count", Region_topic_count, NULL, NULL, NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Region_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(Region, weak), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};
static PyType_Slot Region_slots[] = {{Py_tp_init, Region_init},       {Py_tp_dealloc, Region_dealloc},
                                     {Py_tp_methods, Region_methods}, {Py_tp_getset, Region_getset},
                                     {Py_tp_members, Region_members}, {0, NULL}};
static PyType_Spec Region_spec = {"rtmw.shm._core.Region", sizeof(Region), 0, Py_TPFLAGS_DEFAULT, Region_slots};

/* ---- what publishers and subscribers share ---- */

/* The same as read_type, and `...` is RTMW_ANY. */
static bool read_type_or_any(PyObject *given, rtmw_type *space, const rtmw_type **type)
{
    if (given != Py_Ellipsis) return read_type(given, space, type);
    *type = RTMW_ANY;
    return true;
}

/* Bytes of a topic name; what the core could not tell apart from another name (a zero byte ends it there) is refused. */
static const char *topic_name(PyObject *self, PyObject *topic)
{
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(topic, &length);
    if (name && strlen(name) == (size_t)length) return name;
    PyErr_Clear(); /* a lone surrogate has no UTF-8 */
    fail(self, RTMW_BAD_NAME, topic, 0);
    return NULL;
}

/* ---- Publisher and Loan ---- */

typedef struct {
    PyObject_HEAD
    PyObject *region, *topic, *encode, *write;
    rtmw_publisher *core;
    uint64_t max_blocking_ns;
    uint32_t busy; /* threads inside a wait; the last one out finishes close() */
    bool closed;
    PyTypeObject *loan_type;
} Publisher;

typedef struct {
    PyObject_HEAD
    Publisher *publisher;
    rtmw_loan core;
    rtmw_message_qos qos;
    Py_ssize_t exports;
    bool open, kept; /* kept: published while views of it live */
} Loan;

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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!UOOOibIIOO", names, state->region, &region, &topic, &type_tuple,
                                     &encode, &write, &reliability, &qos.priority, &qos.depth, &qos.history, &lifetime,
                                     &max_blocking))
        return -1;
    qos.reliability = (rtmw_reliability)reliability;
    if (!read_type_or_any(type_tuple, &space, &type) || !seconds(lifetime, 0, &qos.lifetime_ns) ||
        !seconds(max_blocking, UINT64_MAX, &self->max_blocking_ns))
        return -1;
    const char *name = topic_name(object, topic);
    if (!name) return -1;
    int code = rtmw_publisher_open(((Region *)region)->core, name, type, &qos, &self->core);
    if (code != RTMW_OK) return fail(object, code, topic, 0), -1;
    self->region = Py_NewRef(region);
    self->topic = Py_NewRef(topic);
    self->encode = encode == Py_None ? NULL : Py_NewRef(encode);
    self->write = write == Py_None ? NULL : Py_NewRef(write);
    self->loan_type = state->loan;
    return 0;
}

static void publisher_finish(Publisher *self)
{
    if (self->closed && self->busy == 0 && self->core) {
        rtmw_publisher_close(self->core);
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

/* The one argument of a method, by position or by name. NULL: an exception is set. */
static PyObject *only_argument(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *name)
{
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (count + named == 1 && (count == 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) == 0))
        return args[0];
    return PyErr_Format(PyExc_TypeError, "exactly one argument is needed: %s", name);
}

/* The first argument (`name`, by position or by name), and priority=, lifetime=, valid_until= of publish and loan. */
static bool parse_call(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, const char *first_name,
                       PyObject **first, rtmw_message_qos *qos)
{
    PyObject *const *values = args + count;
    *first = count == 1 ? args[0] : NULL;
    *qos = (rtmw_message_qos){.priority = -1};
    if (count > 1)
        return PyErr_Format(PyExc_TypeError, "one argument by position, %s; %zd are given", first_name, count), false;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = values[i];
        if (PyUnicode_CompareWithASCIIString(name, "priority") == 0) {
            if (value == Py_None) continue;
            long priority = PyLong_AsLong(value);
            if (priority == -1 && PyErr_Occurred()) return false;
            if (priority < 0 || priority >= BANDS)
                return PyErr_Format(PyExc_ValueError, "priority %ld does not exist; there are 0 (lowest) to 7",
                                    priority),
                       false;
            qos->priority = (int)priority;
        } else if (PyUnicode_CompareWithASCIIString(name, "lifetime") == 0) {
            if (!seconds(value, 0, &qos->lifetime_ns)) return false;
            if (value != Py_None && qos->lifetime_ns == 0) qos->lifetime_ns = 1; /* 0 seconds: expired at once */
        } else if (PyUnicode_CompareWithASCIIString(name, "valid_until") == 0) {
            if (!seconds(value, 0, &qos->expires_ns)) return false;
            if (value != Py_None && qos->expires_ns == 0) qos->expires_ns = 1; /* 1970: expired */
        } else if (*first == NULL && PyUnicode_CompareWithASCIIString(name, first_name) == 0) {
            *first = value;
        } else {
            return PyErr_Format(PyExc_TypeError,
                                "unexpected keyword argument %R; there are priority, lifetime, valid_until", name),
                   false;
        }
    }
    return *first || (PyErr_Format(PyExc_TypeError, "missing argument: %s", first_name), false);
}

/* Python code may have run since the last look: an encoder, a signal handler, another thread. */
static bool is_open(Publisher *self)
{
    if (self->core && !self->closed) return true;
    return fail((PyObject *)self, RTMW_CLOSED, self->topic, 0), false;
}

/* After RTMW_FULL or RTMW_NO_MEMORY: true, try again; false, give up (or an exception is set). */
static bool wait_for_room(Publisher *self, int code, uint64_t *end)
{
    bool may_wait = self->core->qos.reliability == RTMW_RELIABLE && (code == RTMW_FULL || code == RTMW_NO_MEMORY);
    if (!may_wait) return false;
    if (*end == 0) *end = ends_after(self->max_blocking_ns);
    uint64_t left = remaining(*end);
    if (left == 0) return false;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    rtmw_publisher_wait(self->core, left);
    Py_END_ALLOW_THREADS
    self->busy--;
    publisher_finish(self);
    return PyErr_CheckSignals() == 0 && is_open(self);
}

/* 1: published, 0: refused and counted, -1: an exception is set */
static int verdict(Publisher *self, int code, uint64_t size)
{
    if (code == RTMW_OK) return 1;
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

/* A large payload is written where it will lie. */
static int publish_in_place(Publisher *self, PyObject *value, uint64_t size, const rtmw_message_qos *qos)
{
    rtmw_loan loan;
    uint64_t end = 0;
    int code, result = -1;
    if (!is_open(self)) return -1;
    do code = rtmw_loan_take(self->core, size, &loan);
    while (code != RTMW_OK && wait_for_room(self, code, &end));
    if (code != RTMW_OK) return verdict(self, code, size);
    code = RTMW_CLOSED;
    if (write_loan(self, value, &loan) && is_open(self)) {
        do code = loan_append(self->core, &loan, qos);
        while (code != RTMW_OK && wait_for_room(self, code, &end));
        result = verdict(self, code, size);
        if (result == 1) publisher_flush(self->core);
    }
    if (code != RTMW_OK) loan_give_back(((Region *)self->region)->core, loan.descriptor);
    return result;
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
};

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
    struct part *part = &batch->part[batch->count];
    keep->encoded = encoded;
    keep->view.obj = NULL;
    if (PyBytes_CheckExact(encoded)) {
        *part = (struct part){PyBytes_AS_STRING(encoded), (uint64_t)PyBytes_GET_SIZE(encoded)};
    } else if (PyObject_GetBuffer(encoded, &keep->view, PyBUF_SIMPLE) == 0) {
        *part = (struct part){keep->view.buf, (uint64_t)keep->view.len};
    } else {
        PyErr_Clear();
        Py_DECREF(encoded);
        return fail((PyObject *)self, WRONG_TYPE, (PyObject *)Py_TYPE(value), 0), false;
    }
    batch->count++;
    return true;
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
        publisher_flush(self->core);
        end = 0; /* each message has max_blocking to itself */
    } while (*code != RTMW_OK && wait_for_room(self, *code, &end));
    return published;
}

/* How many were published. `*result`: the verdict on all of them. */
static uint32_t batch_publish(struct batch *batch, Publisher *self, const rtmw_message_qos *qos, int *result)
{
    int code = RTMW_OK;
    *result = -1;
    if (!is_open(self)) return 0;
    uint32_t published = batch->count ? batch_copy(batch, self, qos, &code) : 0;
    *result = verdict(self, code, published < batch->count ? batch->part[published].size : 0);
    if (*result != 1 || !batch->large) return published;
    *result = publish_in_place(self, batch->large, batch->large_size, qos);
    return published + (*result == 1);
}

static PyObject *Publisher_publish(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Publisher *self = (Publisher *)object;
    struct part part;
    struct keep keep;
    struct batch batch = {&part, &keep, 0, NULL, 0};
    rtmw_message_qos qos;
    PyObject *value;
    int published;
    if (!is_open(self) || !parse_call(args, count, kwnames, "value", &value, &qos)) return NULL;
    if (!batch_add(&batch, self, value)) return NULL;
    batch_publish(&batch, self, &qos, &published);
    batch_release(&batch);
    return published < 0 ? NULL : PyBool_FromLong(published);
}

/* The next values of a list, as many as go at once. false: one could not be encoded; those before it are in the batch. */
static bool batch_fill(struct batch *batch, Publisher *self, PyObject *list, Py_ssize_t from)
{
    bool added = true;
    for (; added && !batch->large && batch->count < PUBLISH_AT_ONCE; from++) {
        if (from >= PySequence_Fast_GET_SIZE(list)) break; /* looked at each time: an encoder may shorten it */
        PyObject *value = Py_NewRef(PySequence_Fast_GET_ITEM(list, from));
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
    struct batch batch = {part, keep, 0, NULL, 0};
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
    if (!values || !is_open(self)) return NULL;
    PyObject *list = PySequence_Fast(values, "publish_many takes an iterable of values");
    if (!list) return NULL;
    Py_ssize_t count = 0;
    int result;
    do count += publish_next(self, list, count, &result);
    while (result == 1);
    Py_DECREF(list);
    return result < 0 ? NULL : PyLong_FromSsize_t(count);
}

static PyObject *Publisher_loan(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Publisher *self = (Publisher *)object;
    rtmw_message_qos qos;
    PyObject *wanted;
    if (!parse_call(args, count, kwnames, "size", &wanted, &qos)) return NULL;
    Py_ssize_t size = PyNumber_AsSsize_t(wanted, PyExc_OverflowError);
    if ((size == -1 && PyErr_Occurred()) || !is_open(self)) return NULL;
    if (size < 0) return PyErr_Format(PyExc_ValueError, "a loan of %zd bytes is not possible; ask for 0 or more", size);
    Loan *loan = PyObject_New(Loan, self->loan_type);
    if (!loan) return NULL;
    *loan = (Loan){.ob_base = loan->ob_base, .publisher = (Publisher *)Py_NewRef(object), .qos = qos};
    uint64_t end = 0;
    int code;
    do code = rtmw_loan_take(self->core, (uint64_t)size, &loan->core);
    while (code != RTMW_OK && wait_for_room(self, code, &end));
    loan->open = code == RTMW_OK;
    if (loan->open) return (PyObject *)loan;
    if (code == RTMW_NO_MEMORY && self->core) publisher_refused(self->core, code);
    fail(object, code, self->topic, (uint64_t)size);
    Py_DECREF(loan);
    return NULL;
}

static PyObject *Publisher_matched(PyObject *object, void *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    return is_open(self) ? PyLong_FromUnsignedLong(rtmw_publisher_matched(self->core)) : NULL;
}

static PyObject *Publisher_counters(PyObject *object, PyObject *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    if (!is_open(self)) return NULL;
    struct publisher_block *p = self->core->block;
    return Py_BuildValue("KKKK", (unsigned long long)p->published, (unsigned long long)p->bytes,
                         (unsigned long long)p->timed_out, (unsigned long long)p->exhausted);
}

static PyObject *Publisher_identity(PyObject *object, void *unused)
{
    (void)unused;
    Publisher *self = (Publisher *)object;
    return is_open(self) ? PyLong_FromUnsignedLongLong(self->core->block->identity) : NULL;
}

static PyObject *Publisher_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((Publisher *)object)->closed);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
static PyMethodDef Publisher_methods[] = {
    {"publish", FAST(Publisher_publish), METH_FASTCALL | METH_KEYWORDS,
     "publish(value, *, priority=None, lifetime=None, valid_until=None) -> bool\n\n"
     "Append a message; True when it is in the queue. False: refused, and counted in stats()."},
    {"publish_many", FAST(Publisher_publish_many), METH_FASTCALL | METH_KEYWORDS,
     "publish_many(values) -> int\n\nPublish in order until one is refused; how many were published. Wakes sleepers "
     "once."},
    {"loan", FAST(Publisher_loan), METH_FASTCALL | METH_KEYWORDS,
     "loan(size, *, priority=None, lifetime=None, valid_until=None) -> Loan\n\nA block of `size` bytes to write into."},
    {"close", Publisher_close, METH_NOARGS,
     "close()\n\nGive the endpoint back. What it published stays in the queues."},
    {"_counters", Publisher_counters, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Publisher_getset[] = {{"subscribers", Publisher_matched, NULL,
                                          "Subscribers that get its messages at present.", NULL},
                                         {"identity", Publisher_identity, NULL, "What samples show as their publisher.",
                                          NULL},
                                         {"closed", Publisher_closed, NULL, "True after close().", NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Publisher_members[] = {{"topic", T_OBJECT, offsetof(Publisher, topic), READONLY,
                                           "Name of the topic."},
                                          {NULL, 0, 0, 0, NULL}};
static PyType_Slot Publisher_slots[] = {{Py_tp_init, Publisher_init},         {Py_tp_dealloc, Publisher_dealloc},
                                        {Py_tp_traverse, Publisher_traverse}, {Py_tp_clear, Publisher_clear},
                                        {Py_tp_methods, Publisher_methods},   {Py_tp_getset, Publisher_getset},
                                        {Py_tp_members, Publisher_members},   {0, NULL}};
static PyType_Spec Publisher_spec = {"rtmw.shm._core.Publisher", sizeof(Publisher), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, Publisher_slots};

static bool loan_is_open(Loan *self)
{
    if (self->open) return true;
    return fail((PyObject *)self, RTMW_CLOSED, self->publisher->topic, 0), false;
}

static void loan_end(Loan *self)
{
    struct rtmw_region *r = ((Region *)self->publisher->region)->core;
    if (self->open) loan_give_back(r, self->core.descriptor); /* also when its publisher was closed meanwhile */
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

static int Loan_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Loan *self = (Loan *)object;
    if (!loan_is_open(self)) return -1;
    if (PyBuffer_FillInfo(view, object, self->core.data, (Py_ssize_t)self->core.size, 0, flags)) return -1;
    self->exports++;
    return 0;
}

static void Loan_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    Loan *self = (Loan *)object;
    if (--self->exports > 0 || !self->kept) return;
    rtmw_release(((Region *)self->publisher->region)->core, self->core.descriptor);
    self->kept = false; /* an open loan goes on: its publication was refused, and may be tried again */
}

static PyObject *Loan_data(PyObject *self, void *unused)
{
    (void)unused;
    return loan_is_open((Loan *)self) ? PyMemoryView_FromObject(self) : NULL;
}

/* Views that the writer still has stay valid memory; what is written through them after this is the writer's error. */
static PyObject *Loan_publish(PyObject *object, PyObject *unused)
{
    (void)unused;
    Loan *self = (Loan *)object;
    Publisher *publisher = self->publisher;
    if (!loan_is_open(self) || !is_open(publisher)) return NULL;
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

static PyMethodDef Loan_methods[] = {
    {"publish", Loan_publish, METH_NOARGS,
     "publish() -> bool\n\nAppend the message. False: refused; it may be tried again."},
    {"drop", Loan_drop, METH_NOARGS, "drop()\n\nGive the block back unpublished."},
    {"__enter__", Loan_enter, METH_NOARGS, NULL},
    {"__exit__", Loan_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Loan_getset[] = {{"data", Loan_data, NULL, "The block, writable.", NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot Loan_slots[] = {{Py_tp_dealloc, Loan_dealloc},
                                   {Py_tp_methods, Loan_methods},
                                   {Py_tp_getset, Loan_getset},
                                   {Py_bf_getbuffer, Loan_getbuffer},
                                   {Py_bf_releasebuffer, Loan_releasebuffer},
                                   {0, NULL}};
static PyType_Spec Loan_spec = {"rtmw.Loan", sizeof(Loan), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                Loan_slots};

/* ---- Subscriber and Sample ---- */

typedef struct {
    PyObject_HEAD
    PyObject *region, *topic, *decode;
    rtmw_subscriber *core;
    uint64_t spin_ns;
    uint32_t busy; /* threads inside a wait; the last one out finishes close() */
    bool closed, any;
    PyTypeObject *sample_type;
} Subscriber;

typedef struct {
    PyObject_HEAD
    Subscriber *subscriber;
    rtmw_message core;
    PyObject *value;
    Py_ssize_t exports;
    bool held;
} Sample;

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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!UOOiIIOOOO", names, state->region, &region, &topic, &type_tuple,
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
    int code = rtmw_subscriber_open(((Region *)region)->core, name, type, &qos, &self->core);
    if (code != RTMW_OK) return fail(object, code, topic, 0), -1;
    self->region = Py_NewRef(region);
    self->topic = Py_NewRef(topic);
    self->decode = decode == Py_None ? NULL : Py_NewRef(decode);
    self->any = type == RTMW_ANY;
    self->sample_type = state->sample;
    return 0;
}

static void subscriber_finish(Subscriber *self)
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
    if (self->core && !self->closed) subscriber_shut(self->core);
    self->closed = true;
    subscriber_finish(self);
    Py_RETURN_NONE;
}

static int Subscriber_traverse(PyObject *object, visitproc visit, void *arg)
{
    Subscriber *self = (Subscriber *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->decode);
    return 0;
}

static int Subscriber_clear(PyObject *object)
{
    Py_CLEAR(((Subscriber *)object)->decode);
    return 0;
}

static void Subscriber_dealloc(PyObject *object)
{
    Subscriber *self = (Subscriber *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->core) rtmw_subscriber_close(self->core);
    Py_XDECREF(self->decode);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->region);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool subscribed(Subscriber *self)
{
    if (self->core && !self->closed) return true;
    return fail((PyObject *)self, RTMW_CLOSED, self->topic, 0), false;
}

/* Owns the message; that is released when there is no memory for the sample. */
static PyObject *sample_of(Subscriber *self, const rtmw_message *message)
{
    Sample *sample = PyObject_New(Sample, self->sample_type);
    if (!sample) {
        rtmw_release(((Region *)self->region)->core, message->descriptor);
        return NULL;
    }
    sample->subscriber = (Subscriber *)Py_NewRef((PyObject *)self);
    sample->core = *message;
    sample->value = NULL;
    sample->exports = 0;
    sample->held = true;
    return (PyObject *)sample;
}

/* false: an exception is set. What was taken is in `messages` also then. When there is nothing, fileno() is not readable
 * until there is. */
static bool take_messages(Subscriber *self, rtmw_message *messages, uint32_t most, uint32_t *count)
{
    int code = take_some(self->core, messages, most, count);
    if (code == RTMW_EMPTY && !*count && self->core->socket >= 0 && subscriber_rearm(self->core))
        code = take_some(self->core, messages, most, count);
    if (code == RTMW_OK || code == RTMW_EMPTY) return true;
    return fail((PyObject *)self, code, self->topic, self->core->missed_at_lapse), false;
}

/* A sample, or NULL without an exception: nothing to take. */
static PyObject *take_one(Subscriber *self)
{
    rtmw_message message;
    uint32_t count;
    return take_messages(self, &message, 1, &count) && count ? sample_of(self, &message) : NULL;
}

static PyObject *Subscriber_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!subscribed((Subscriber *)object)) return NULL;
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
            rtmw_release(((Region *)self->region)->core, messages[i].descriptor);
        else
            failed = append_new(list, sample_of(self, &messages[i]));
    return failed ? -1 : (Py_ssize_t)count;
}

static PyObject *Subscriber_take_many(PyObject *object, PyObject *const *args, Py_ssize_t given, PyObject *kwnames)
{
    Subscriber *self = (Subscriber *)object;
    PyObject *limit = only_argument(args, given, kwnames, "limit");
    if (!limit) return NULL;
    Py_ssize_t most = PyNumber_AsSsize_t(limit, PyExc_OverflowError), taken = 1;
    if (most == -1 && PyErr_Occurred()) return NULL;
    if (!subscribed(self)) return NULL;
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

/* Waits with the GIL released. RTMW_OK: look again; else an exception is set. */
static bool wait_once(Subscriber *self, uint64_t end)
{
    int code;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = subscriber_wait(self->core, end, self->spin_ns);
    Py_END_ALLOW_THREADS
    self->busy--;
    subscriber_finish(self);
    if (PyErr_CheckSignals() || !subscribed(self)) return false;
    if (code == RTMW_OK || code == RTMW_INTERRUPTED) return true;
    return fail((PyObject *)self, code, self->topic, 0), false;
}

static PyObject *receive_until(Subscriber *self, uint64_t end)
{
    for (;;) {
        PyObject *sample = take_one(self);
        if (sample || PyErr_Occurred()) return sample;
        if (self->spin_ns >= GLANCE_NS && subscriber_glance(self->core)) continue;
        if (!wait_once(self, end)) return NULL;
    }
}

static PyObject *Subscriber_receive(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *timeout = count == 1 || (kwnames && PyTuple_GET_SIZE(kwnames) == 1) ? args[0] : NULL;
    uint64_t ns;
    if (count > 1 || (kwnames && (PyTuple_GET_SIZE(kwnames) + count > 1 ||
                                  PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "timeout") != 0)))
        return PyErr_Format(PyExc_TypeError, "receive takes one argument: timeout, in seconds or None");
    if (!seconds(timeout, UINT64_MAX, &ns) || !subscribed((Subscriber *)object)) return NULL;
    return receive_until((Subscriber *)object, ends_after(ns));
}

static bool is_closed_error(Subscriber *self)
{
    return PyErr_ExceptionMatches(state_of(Py_TYPE((PyObject *)self))->closed_error);
}

static PyObject *Subscriber_next(PyObject *object)
{
    Subscriber *self = (Subscriber *)object;
    if (self->closed) return NULL;
    PyObject *sample = receive_until(self, UINT64_MAX);
    if (!sample && self->closed && is_closed_error(self))
        PyErr_Clear(); /* closed meanwhile: the end of the iteration */
    return sample;
}

static PyObject *Subscriber_arm(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscribed(self) ? PyBool_FromLong(subscriber_arm(self->core)) : NULL;
}

static PyObject *Subscriber_fileno(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscribed(self)) return NULL;
    if (is_forked(self->core->region)) return fail(object, RTMW_FORKED, self->topic, 0);
    int fd = subscriber_socket(self->core);
    return fd < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(fd);
}

/* Seconds until the deadline, None without one. For asyncio, which waits by itself. */
static PyObject *Subscriber_deadline_left(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscribed(self)) return NULL;
    uint64_t at = load_relaxed(&self->core->deadline_at_ns);
    return at ? PyFloat_FromDouble((double)remaining(at) / 1e9) : Py_NewRef(Py_None);
}

static PyObject *Subscriber_counters(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscribed(self) ? subscriber_counters(self->core->region, self->core->topic, self->core->block) : NULL;
}

static PyObject *Subscriber_latency(PyObject *object, PyObject *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    return subscribed(self) ? latency_buckets(self->core->region, self->core->slot) : NULL;
}

static PyObject *Subscriber_identity(PyObject *object, void *unused)
{
    (void)unused;
    Subscriber *self = (Subscriber *)object;
    if (!subscribed(self)) return NULL;
    struct rtmw_subscriber *s = self->core;
    return PyLong_FromUnsignedLongLong(endpoint_identity(s->region->my_word, s->word, s->slot));
}

static PyObject *Subscriber_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((Subscriber *)object)->closed);
}

static PyMethodDef Subscriber_methods[] = {
    {"take", Subscriber_take, METH_NOARGS, "take() -> Sample | None\n\nThe next message, or None. Never waits."},
    {"take_many", FAST(Subscriber_take_many), METH_FASTCALL | METH_KEYWORDS,
     "take_many(limit) -> list[Sample]\n\nAt most `limit` messages. Never waits."},
    {"receive", FAST(Subscriber_receive), METH_FASTCALL | METH_KEYWORDS,
     "receive(timeout=None) -> Sample\n\nThe next message; waits up to `timeout` seconds.\n\n"
     "Raises TimeoutError, or DeadlineMissed when the deadline passes without a message."},
    {"fileno", Subscriber_fileno, METH_NOARGS,
     "fileno() -> int\n\nA file descriptor of this subscriber alone, for select and its kin: readable while there may "
     "be\n"
     "something to take. When it is, call take() until it returns None."},
    {"close", Subscriber_close, METH_NOARGS,
     "close()\n\nLeave the topic. Who waits on it is woken. Samples stay valid."},
    {"_arm", Subscriber_arm, METH_NOARGS, NULL},
    {"_deadline_left", Subscriber_deadline_left, METH_NOARGS, NULL},
    {"_counters", Subscriber_counters, METH_NOARGS, NULL},
    {"_latency", Subscriber_latency, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Subscriber_getset[] = {{"identity", Subscriber_identity, NULL, "What tools show it by.", NULL},
                                          {"closed", Subscriber_closed, NULL, "True after close().", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Subscriber_members[] = {{"topic", T_OBJECT, offsetof(Subscriber, topic), READONLY,
                                            "Name of the topic."},
                                           {NULL, 0, 0, 0, NULL}};
static PyType_Slot Subscriber_slots[] = {{Py_tp_init, Subscriber_init},         {Py_tp_dealloc, Subscriber_dealloc},
                                         {Py_tp_traverse, Subscriber_traverse}, {Py_tp_clear, Subscriber_clear},
                                         {Py_tp_methods, Subscriber_methods},   {Py_tp_getset, Subscriber_getset},
                                         {Py_tp_members, Subscriber_members},   {Py_tp_iter, PyObject_SelfIter},
                                         {Py_tp_iternext, Subscriber_next},     {0, NULL}};
static PyType_Spec Subscriber_spec = {"rtmw.shm._core.Subscriber", sizeof(Subscriber), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, Subscriber_slots};

static void sample_let_go(Sample *self)
{
    if (!self->held || self->exports) return;
    self->held = false;
    rtmw_release(((Region *)self->subscriber->region)->core, self->core.descriptor);
}

static void Sample_dealloc(PyObject *object)
{
    Sample *self = (Sample *)object;
    PyTypeObject *type = Py_TYPE(object);
    sample_let_go(self);
    Py_XDECREF(self->value);
    Py_DECREF(self->subscriber);
    PyObject_Free(object);
    Py_DECREF(type);
}

static bool sample_is_held(Sample *self)
{
    if (!self->held) PyErr_SetString(PyExc_ValueError, "the sample was released; its memory is gone");
    return self->held;
}

static int Sample_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Sample *self = (Sample *)object;
    if (!sample_is_held(self)) return -1;
    if (PyBuffer_FillInfo(view, object, (void *)self->core.data, (Py_ssize_t)self->core.size, 1, flags)) return -1;
    self->exports++;
    return 0;
}

static void Sample_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    ((Sample *)object)->exports--;
}

static PyObject *Sample_data(PyObject *self, void *unused)
{
    (void)unused;
    return PyMemoryView_FromObject(self);
}

/* Kept when decoding left no view of the memory behind: a numpy array is made anew, for it would keep its own sample. */
static PyObject *Sample_value(PyObject *object, void *unused)
{
    (void)unused;
    Sample *self = (Sample *)object;
    Subscriber *subscriber = self->subscriber;
    if (self->value) return Py_NewRef(self->value);
    if (!sample_is_held(self)) return NULL;
    if (!subscriber->decode) return PyBytes_FromStringAndSize(self->core.data, (Py_ssize_t)self->core.size);
    Py_ssize_t before = self->exports;
    PyObject *value = subscriber->any ? PyObject_CallFunction(subscriber->decode, "iO", (int)self->core.type, object)
                                      : PyObject_CallOneArg(subscriber->decode, object);
    if (value && self->exports == before) self->value = Py_NewRef(value);
    return value;
}

static PyObject *Sample_type_name(PyObject *object, void *unused)
{
    (void)unused;
    Sample *self = (Sample *)object;
    struct rtmw_region *r = ((Region *)self->subscriber->region)->core;
    if (self->core.type >= r->header->types) return PyUnicode_FromString("bytes");
    return name_at(r->types[self->core.type].name, TYPE_NAME_BYTES);
}

static PyObject *Sample_expires(PyObject *object, void *unused)
{
    (void)unused;
    uint64_t expires = ((Sample *)object)->core.expires_ns;
    return expires ? PyLong_FromUnsignedLongLong(expires) : Py_NewRef(Py_None);
}

static PyObject *Sample_topic(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(((Sample *)object)->subscriber->topic);
}

static PyObject *Sample_release(PyObject *object, PyObject *unused)
{
    (void)unused;
    Sample *self = (Sample *)object;
    if (self->exports)
        return PyErr_Format(PyExc_BufferError, "the sample still has views; it comes back when the last one goes");
    sample_let_go(self);
    Py_RETURN_NONE;
}

static PyMethodDef Sample_methods[] = {
    {"release", Sample_release, METH_NOARGS,
     "release()\n\nGive the memory back now. Raises BufferError while views of it live."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Sample_getset[] = {{"value", Sample_value, NULL, "The message, decoded.", NULL},
                                      {"data", Sample_data, NULL, "The payload where it lies, read-only.", NULL},
                                      {"topic", Sample_topic, NULL, "Name of the topic.", NULL},
                                      {"type_name", Sample_type_name, NULL, "Name of the message type.", NULL},
                                      {"expires_ns", Sample_expires, NULL, "Wall clock in nanoseconds; None: never.",
                                       NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Sample_members[] = {{"sequence", T_ULONGLONG, offsetof(Sample, core.sequence), READONLY,
                                        "Dense within topic and priority, from 1."},
                                       {"priority", T_UBYTE, offsetof(Sample, core.priority), READONLY, "0 to 7."},
                                       {"source_time_ns", T_ULONGLONG, offsetof(Sample, core.source_time_ns), READONLY,
                                        "Wall clock at publishing."},
                                       {"publisher", T_ULONGLONG, offsetof(Sample, core.publisher), READONLY,
                                        "Identity; the upper 32 bits are the process id."},
                                       {NULL, 0, 0, 0, NULL}};
static PyType_Slot Sample_slots[] = {{Py_tp_dealloc, Sample_dealloc},
                                     {Py_tp_methods, Sample_methods},
                                     {Py_tp_getset, Sample_getset},
                                     {Py_tp_members, Sample_members},
                                     {Py_bf_getbuffer, Sample_getbuffer},
                                     {Py_bf_releasebuffer, Sample_releasebuffer},
                                     {0, NULL}};
static PyType_Spec Sample_spec = {"rtmw.Sample", sizeof(Sample), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Sample_slots};

/* ---- module ---- */

enum { WAIT_MOST = 4096 };

/* wait_any(subscribers, timeout): those that have something to say; [] when the time is up. */
static PyObject *core_wait_any(PyObject *module, PyObject *args)
{
    PyObject *subscribers, *timeout, *result = PyList_New(0);
    rtmw_subscriber **cores = NULL;
    bool *ready = NULL;
    uint64_t ns;
    int code = RTMW_INTERRUPTED;
    if (!result || !PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &subscribers, &timeout) ||
        !seconds(timeout, UINT64_MAX, &ns))
        goto failed;
    Py_ssize_t count = PyTuple_GET_SIZE(subscribers);
    cores = PyMem_Calloc((size_t)count + 1, sizeof *cores);
    ready = PyMem_Calloc((size_t)count + 1, sizeof *ready);
    if (!cores || !ready) goto failed;
    for (Py_ssize_t i = 0; i < count; i++) {
        Subscriber *s = (Subscriber *)PyTuple_GET_ITEM(subscribers, i);
        if (!PyObject_TypeCheck((PyObject *)s, ((State *)PyModule_GetState(module))->subscriber) || !subscribed(s))
            goto failed;
        cores[i] = s->core;
    }
    for (Py_ssize_t i = 0; i < count; i++) ((Subscriber *)PyTuple_GET_ITEM(subscribers, i))->busy++;
    for (uint64_t end = ends_after(ns); code == RTMW_INTERRUPTED && !PyErr_CheckSignals();) {
        Py_BEGIN_ALLOW_THREADS
        code = rtmw_wait_any(cores, ready, (size_t)count, remaining(end));
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Subscriber *s = (Subscriber *)PyTuple_GET_ITEM(subscribers, i);
        s->busy--;
        subscriber_finish(s);
        if (code == RTMW_OK && ready[i] && PyList_Append(result, (PyObject *)s)) goto failed;
    }
    if (code == RTMW_FORKED && count) fail(PyTuple_GET_ITEM(subscribers, 0), code, NULL, 0);
    if (PyErr_Occurred()) goto failed;
    PyMem_Free(cores);
    PyMem_Free(ready);
    return result;
failed:
    PyMem_Free(cores);
    PyMem_Free(ready);
    Py_XDECREF(result);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static PyObject *core_control_bytes(PyObject *module, PyObject *pool)
{
    (void)module;
    unsigned long long bytes = PyLong_AsUnsignedLongLong(pool);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(region_control_bytes(bytes));
}

static PyObject *core_format(PyObject *module, PyObject *args)
{
    (void)module;
    int fd;
    unsigned long long pool, nonce;
    if (!PyArg_ParseTuple(args, "iKK", &fd, &pool, &nonce)) return NULL;
    if (region_format(fd, pool, nonce) != RTMW_OK) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
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

static PyMethodDef core_methods[] = {
    {"wait_any", core_wait_any, METH_VARARGS, NULL},
    {"control_bytes", core_control_bytes, METH_O, NULL},
    {"format", core_format, METH_VARARGS, NULL},
    {"names", core_names, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

static int core_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *failures = PyImport_ImportModule("rtmw.shm.failures");
    if (!failures) return -1;
    state->failure = PyObject_GetAttrString(failures, "failure");
    PyObject *errors = PyObject_GetAttrString(failures, "errors");
    state->closed_error = errors ? PyObject_GetAttrString(errors, "ClosedError") : NULL;
    Py_XDECREF(errors);
    Py_DECREF(failures);
    if (!state->failure || !state->closed_error) return -1;
    static const struct {
        const char *name;
        long code;
    } codes[] = {{"NO_MEMORY", RTMW_NO_MEMORY},
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
                 {"WRONG_TYPE", WRONG_TYPE},
                 {"LAYOUT_VERSION", RTMW_LAYOUT_VERSION},
                 {"PAGE", PAGE},
                 {"GRANULES_A_PAGE", GRANULES_A_PAGE},
                 {"SMALLEST_POOL", SMALLEST_POOL},
                 {"LARGEST_POOL", LARGEST_POOL},
                 {"TYPE_RAW", TYPE_RAW},
                 {"TYPE_ANY", TYPE_ANY}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (PyModule_AddIntConstant(module, codes[i].name, codes[i].code)) return -1;
    if (add_type(module, &Region_spec, &state->region) || add_type(module, &Publisher_spec, &state->publisher) ||
        add_type(module, &Subscriber_spec, &state->subscriber) || add_type(module, &Loan_spec, &state->loan))
        return -1;
    return add_type(module, &Sample_spec, &state->sample);
}

static PyModuleDef_Slot core_slots[] = {{Py_mod_exec, core_exec}, {0, NULL}};
static struct PyModuleDef core_module = {PyModuleDef_HEAD_INIT, .m_name = "rtmw.shm._core", .m_size = sizeof(State),
                                         .m_methods = core_methods, .m_slots = core_slots};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&core_module); }
