/* Merge: the messages of many subscribers in one order. Source: one of these subscribers, and what is counted of it.
 *
 * The first message of each topic is taken ahead into a heap, and one of each higher priority that comes behind it. A
 * source of which the heap has nothing is looked at again by each take while sources are few; else looking takes a third
 * of the time at most. A look reads the ends of the bands, and goes to the subscriber where they have moved; one that is
 * due to `_follow` takes, too, for a publisher that died between linking a message and moving the end.
 */
#include "../shm/_core.h"

enum { FEW = 8, FOLLOW_NS = 10000000 };

typedef struct {
    PyObject_HEAD
    Subscriber *subscriber;
    const struct topic *topic;
    PyObject *take; /* its method */
    uint32_t held_of[BANDS], held;
    uint32_t taking; /* calls of `take` that are on their way: others may come in between */
    Py_ssize_t held_bytes, expired, expired_bytes; /* expired: while they were held */
    Py_ssize_t missed;                             /* gone before it began */
} Source;

/* One of the sources, and what the ends of its topic were like when it had nothing. The topic is mapped as long as the
 * source lives. */
struct place {
    const uint32_t *bands;
    const uint64_t *tail; /* of the only band that is used. There are several: &NEVER, and the subscriber is asked */
    uint64_t passed;
    Source *source;
    uint32_t seen; /* of `bands`; NONE: unknown */
};
enum { NONE = 1 << BANDS };
static const uint64_t NEVER = UINT64_MAX;

/* ---- a binary heap of messages: the highest priority first, then the time of publishing ---- */

struct entry {
    uint64_t time_ns; /* of publishing */
    uint32_t priority;
    Source *source; /* references */
    PyObject *sample;
};

struct heap {
    struct entry *entries;
    size_t count, room;
};

static bool goes_before(const struct entry *a, const struct entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->time_ns < b->time_ns;
}

/* false: no memory. */
static bool heap_reserve(struct heap *h)
{
    if (h->count < h->room) return true;
    size_t room = h->room ? 2 * h->room : 64;
    struct entry *larger = realloc(h->entries, room * sizeof *larger);
    if (!larger) return false;
    h->entries = larger;
    h->room = room;
    return true;
}

/* There is room. */
static void heap_push(struct heap *h, struct entry e)
{
    size_t at = h->count++;
    for (; at && goes_before(&e, &h->entries[(at - 1) / 2]); at = (at - 1) / 2)
        h->entries[at] = h->entries[(at - 1) / 2];
    h->entries[at] = e;
}

/* It is not empty. */
static struct entry heap_pop(struct heap *h)
{
    struct entry first = h->entries[0], last = h->entries[--h->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < h->count) {
        if (child + 1 < h->count && goes_before(&h->entries[child + 1], &h->entries[child])) child++;
        if (!goes_before(&h->entries[child], &last)) break;
        h->entries[at] = h->entries[child];
        at = child;
    }
    h->entries[at] = last;
    return first;
}

typedef struct {
    PyObject_HEAD
    struct heap heap;
    struct place *places;
    size_t count, room;
    uint64_t follow_at, look_at; /* CLOCK_MONOTONIC */
    bool is_whole;               /* each look takes: descriptors are made quiet by that */
    bool is_shut;
    PyObject *kept; /* the exception that take_many met behind messages that it gave */
} Merge;

typedef struct {
    PyTypeObject *source, *subscriber;
} MergeState;

static struct PyModuleDef merge_module;

static MergeState *state_of_merge(PyObject *object)
{
    return PyModule_GetState(PyType_GetModuleByDef(Py_TYPE(object), &merge_module));
}

/* ---- sources ---- */

/* Is there a message of this priority or a higher one behind the cursor? A hint. A reference to the source is held. */
static bool has_news(const Source *s, uint32_t least)
{
    bool found;
    GUARD_BEGIN(s->subscriber); /* its close takes the core away */
    found = subscriber_is_behind(s->subscriber, least);
    GUARD_END();
    return found;
}

/* The priority above the highest that is in the heap. */
static uint32_t above_held(const Source *s)
{
    uint32_t band = BANDS;
    while (band && !s->held_of[band - 1]) band--;
    return band;
}

static int Source_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Source *self = (Source *)object;
    MergeState *state = state_of_merge(object);
    unsigned long long p[BANDS];
    PyObject *subscriber;
    if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_SetString(PyExc_TypeError, "no keywords"), -1;
    if (!PyArg_ParseTuple(args, "O!(KKKKKKKK)", state->subscriber, &subscriber, &p[0], &p[1], &p[2], &p[3], &p[4],
                          &p[5], &p[6], &p[7]))
        return -1;
    Py_XSETREF(self->take, PyObject_GetAttrString(subscriber, "take"));
    Py_XSETREF(self->subscriber, (Subscriber *)Py_NewRef(subscriber));
    if (!self->take) return -1;
    GUARD_BEGIN(subscriber);
    rtmw_subscriber *core = self->subscriber->core;
    self->topic = core ? core->topic : NULL;
    for (uint8_t band = 0; core && band < BANDS; band++) {
        uint64_t start = rtmw_subscriber_start(core, band), passed = p[band] > start ? p[band] : start;
        uint64_t begins = p[band] ? rtmw_subscriber_skip(core, band, p[band]) : start;
        if (begins > passed) self->missed += (Py_ssize_t)(begins - passed); /* the core forgets these */
    }
    GUARD_END();
    if (!self->topic) Py_XDECREF(PyObject_CallNoArgs(self->take)); /* says that it is closed */
    return self->topic ? 0 : -1;
}

static void Source_dealloc(PyObject *object)
{
    Source *self = (Source *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->take);
    Py_XDECREF(self->subscriber);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef Source_members[] = {{"subscriber", T_OBJECT_EX, offsetof(Source, subscriber), READONLY, NULL},
                                       {"held", T_UINT, offsetof(Source, held), READONLY, NULL},
                                       {"held_bytes", T_PYSSIZET, offsetof(Source, held_bytes), READONLY, NULL},
                                       {"missed", T_PYSSIZET, offsetof(Source, missed), READONLY, NULL},
                                       {"expired", T_PYSSIZET, offsetof(Source, expired), READONLY, NULL},
                                       {"expired_bytes", T_PYSSIZET, offsetof(Source, expired_bytes), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};
static PyType_Slot Source_slots[] = {{Py_tp_init, Source_init},
                                     {Py_tp_dealloc, Source_dealloc},
                                     {Py_tp_members, Source_members},
                                     {0, NULL}};
static PyType_Spec Source_spec = {"rtmw.many._merge.Source", sizeof(Source), 0, Py_TPFLAGS_DEFAULT, Source_slots};

/* ---- the heap and the sources ---- */

static void push(Merge *m, Source *s, PyObject *sample)
{
    const rtmw_message *message = &((Sample *)sample)->core;
    s->held++;
    s->held_of[message->priority]++;
    s->held_bytes += (Py_ssize_t)message->size;
    heap_push(&m->heap, (struct entry){message->source_time_ns, message->priority, (Source *)Py_NewRef(s), sample});
}

/* The caller has the references now. */
static struct entry pop(Merge *m)
{
    struct entry first = heap_pop(&m->heap);
    Source *s = first.source;
    s->held--;
    s->held_of[first.priority]--;
    s->held_bytes -= (Py_ssize_t)((Sample *)first.sample)->core.size;
    return first;
}

/* Takes the next message of a source into the heap. 1; 0: there is none; -1: an exception is set. */
static int advance(Merge *m, Source *s)
{
    PyObject *taken;
    if (!heap_reserve(&m->heap)) return PyErr_NoMemory(), -1;
    s->taking++;
    taken = PyObject_CallNoArgs(s->take);
    s->taking--;
    if (!taken || taken == Py_None) return Py_XDECREF(taken), taken ? 0 : -1;
    if (heap_reserve(&m->heap)) return push(m, s, taken), 1; /* again: meanwhile others may have taken */
    return Py_DECREF(taken), PyErr_NoMemory(), -1;
}

static struct place place_of(Source *s)
{
    const struct topic *topic = s->topic;
    uint32_t bands = load_relaxed(&topic->bands);
    bool is_one = bands && !(bands & (bands - 1));
    const uint64_t *tail = is_one ? &topic->band[(uint32_t)__builtin_ctz(bands) % BANDS].tail : &NEVER;
    return (struct place){&topic->bands, tail, is_one || !bands ? load_relaxed(tail) : 0, s, bands};
}

/* The first place from `i` on whose topic has more than when it had nothing; `count`: none. */
static size_t moved(const struct place *places, size_t i, size_t count)
{
    for (; i < count; i++)
        if (load_relaxed(places[i].bands) != places[i].seen || load_relaxed(places[i].tail) != places[i].passed) break;
    return i;
}

/* false: an exception is set. `_follow` is Python's: it adds sources and removes some. */
static bool look(Merge *m, uint64_t now)
{
    bool whole = m->is_whole || now >= m->follow_at;
    if (whole) {
        m->follow_at = now + FOLLOW_NS; /* first: other threads need not follow, too */
        PyObject *followed = PyObject_CallMethod((PyObject *)m, "_follow", NULL);
        if (!followed) return false;
        Py_DECREF(followed);
        now = clock_ns(CLOCK_MONOTONIC);
    }
    for (size_t i = 0; (i = whole ? i : moved(m->places, i, m->count)) < m->count; i++) {
        struct place before = place_of(m->places[i].source);
        Source *s = (Source *)Py_NewRef(before.source);
        bool is_due = has_news(s, above_held(s));
        if (!is_due && !s->held && m->places[i].source == s) m->places[i] = before;
        int advanced = is_due || (whole && !s->held) ? advance(m, s) : 0;
        Py_DECREF(s);
        if (advanced < 0) return false;
    }
    uint64_t end = clock_ns(CLOCK_MONOTONIC);
    m->look_at = end + 2 * (end - now);
    return true;
}

/* A new reference to a sample; NULL without an exception: there is nothing. */
static PyObject *next_of(Merge *m)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if ((!m->heap.count || m->count <= FEW || now >= m->look_at) && !look(m, now)) return NULL;
    while (m->heap.count) {
        struct entry first = pop(m);
        Source *s = first.source;
        const rtmw_message *message = &((Sample *)first.sample)->core;
        bool is_over = message->ends_ns && message->ends_ns <= now;
        if ((!s->held || has_news(s, above_held(s))) && advance(m, s) < 0) {
            if (heap_reserve(&m->heap)) /* there was room for it before */
                push(m, s, first.sample);
            else
                Py_DECREF((PyObject *)first.sample);
            Py_DECREF(s);
            return NULL;
        }
        s->expired += is_over;
        s->expired_bytes += is_over ? (Py_ssize_t)message->size : 0;
        Py_DECREF(s);
        if (!is_over) return first.sample;
        Py_DECREF((PyObject *)first.sample);
    }
    return NULL;
}

static bool is_open(Merge *m)
{
    if (!m->is_shut) return true;
    PyObject *raised = PyObject_CallMethod((PyObject *)m, "_check", NULL);
    Py_XDECREF(raised);
    return raised != NULL;
}

/* false: an exception is set; one that was kept is raised once. */
static bool may_take(Merge *m)
{
    if (!is_open(m)) return false;
    PyObject *kept = m->kept;
    if (!kept) return true;
    m->kept = NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(kept), kept);
    Py_DECREF(kept);
    return false;
}

/* The exception that is set is for the next call. Its frames may hold the merge: they are dropped. */
static void keep(Merge *m)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyException_SetTraceback(value, Py_None);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_XSETREF(m->kept, value);
}

static PyObject *Merge_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    Merge *self = (Merge *)object;
    PyObject *sample = may_take(self) ? next_of(self) : NULL;
    return sample || PyErr_Occurred() ? sample : Py_NewRef(Py_None);
}

static PyObject *Merge_take_many(PyObject *object, PyObject *limit)
{
    Merge *self = (Merge *)object;
    Py_ssize_t most = PyNumber_AsSsize_t(limit, PyExc_OverflowError);
    if ((most == -1 && PyErr_Occurred()) || !may_take(self)) return NULL;
    PyObject *list = PyList_New(0), *sample;
    while (list && PyList_GET_SIZE(list) < most) {
        if (!(sample = next_of(self))) break;
        if (append_new(list, sample) < 0) Py_CLEAR(list);
    }
    if (list && PyErr_Occurred()) { /* what was taken is given, and the next call says what is wrong */
        if (PyList_GET_SIZE(list) && PyErr_ExceptionMatches(PyExc_Exception))
            keep(self);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* false: an exception is set. */
static bool is_source(PyObject *object, PyObject *source)
{
    if (PyObject_TypeCheck(source, state_of_merge(object)->source) && ((Source *)source)->topic) return true;
    PyErr_Format(PyExc_TypeError, "%R is not a Source with a subscriber", source);
    return false;
}

static PyObject *Merge_add(PyObject *object, PyObject *source)
{
    Merge *self = (Merge *)object;
    if (!is_source(object, source)) return NULL;
    if (self->count == self->room) {
        size_t room = self->room ? 2 * self->room : 16;
        struct place *larger = realloc(self->places, room * sizeof *larger);
        if (!larger) return PyErr_NoMemory();
        self->places = larger;
        self->room = room;
    }
    Source *s = (Source *)Py_NewRef(source);
    self->places[self->count++] = (struct place){&s->topic->bands, &NEVER, 0, s, NONE};
    Py_RETURN_NONE;
}

static PyObject *Merge_remove(PyObject *object, PyObject *source)
{
    Merge *self = (Merge *)object;
    for (size_t i = 0; i < self->count; i++) {
        Source *s = self->places[i].source;
        if ((PyObject *)s != source || s->held || s->taking) continue;
        self->count--;
        for (; i < self->count; i++) self->places[i] = self->places[i + 1];
        Py_DECREF(source);
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

static PyObject *Merge_advance(PyObject *object, PyObject *source)
{
    if (!is_source(object, source)) return NULL;
    int advanced = advance((Merge *)object, (Source *)source);
    return advanced < 0 ? NULL : PyBool_FromLong(advanced);
}

static PyObject *Merge_look_whole(PyObject *object, PyObject *unused)
{
    (void)unused;
    ((Merge *)object)->is_whole = true;
    Py_RETURN_NONE;
}

static PyObject *Merge_shut(PyObject *object, PyObject *unused)
{
    (void)unused;
    Merge *self = (Merge *)object;
    self->is_shut = true;
    Py_CLEAR(self->kept);
    while (self->heap.count) {
        struct entry first = pop(self);
        Py_DECREF((PyObject *)first.sample);
        Py_DECREF((PyObject *)first.source);
    }
    while (self->count) Py_DECREF((PyObject *)self->places[--self->count].source);
    Py_RETURN_NONE;
}

static void Merge_dealloc(PyObject *object)
{
    Merge *self = (Merge *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(Merge_shut(object, NULL));
    free(self->heap.entries);
    free(self->places);
    type->tp_free(object);
    Py_DECREF(type);
}

GUARD(Merge_take);
GUARD(Merge_take_many);
GUARD(Merge_add);
GUARD(Merge_remove);
GUARD(Merge_advance);
GUARD(Merge_look_whole);
GUARD(Merge_shut);

static PyMethodDef Merge_methods[] = {
    {"take", GUARDED(Merge_take), METH_NOARGS, "take($self, /)\n--\n\nThe next message, or None. Never waits."},
    {"take_many", GUARDED(Merge_take_many), METH_O,
     "take_many($self, limit, /)\n--\n\nAt most `limit` messages. Never waits."},
    {"_add", GUARDED(Merge_add), METH_O, NULL},
    {"_remove", GUARDED(Merge_remove), METH_O, NULL},
    {"_advance", GUARDED(Merge_advance), METH_O, NULL},
    {"_look_whole", GUARDED(Merge_look_whole), METH_NOARGS, NULL},
    {"_shut", GUARDED(Merge_shut), METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot Merge_slots[] = {{Py_tp_dealloc, Merge_dealloc}, {Py_tp_methods, Merge_methods}, {0, NULL}};
static PyType_Spec Merge_spec = {"rtmw.many._merge.Merge", sizeof(Merge), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 Merge_slots};

/* ---- the module ---- */

static int merge_exec(PyObject *module)
{
    MergeState *state = PyModule_GetState(module);
    PyObject *core = PyImport_ImportModule("rtmw.shm._core"), *merge;
    if (!core) return -1;
    state->subscriber = (PyTypeObject *)PyObject_GetAttrString(core, "Subscriber");
    Py_DECREF(core);
    state->source = (PyTypeObject *)PyType_FromModuleAndSpec(module, &Source_spec, NULL);
    if (!state->subscriber || !state->source || PyModule_AddType(module, state->source)) return -1;
    if (!(merge = PyType_FromModuleAndSpec(module, &Merge_spec, NULL))) return -1;
    int failed = PyModule_AddType(module, (PyTypeObject *)merge);
    Py_DECREF(merge);
    return failed;
}

static void merge_free(void *module)
{
    MergeState *state = PyModule_GetState(module);
    Py_CLEAR(state->subscriber);
    Py_CLEAR(state->source);
}

static PyModuleDef_Slot merge_slots[] = {{Py_mod_exec, merge_exec}, GUARD_SLOT{0, NULL}};
static struct PyModuleDef merge_module = {
    PyModuleDef_HEAD_INIT, "rtmw.many._merge", NULL, sizeof(MergeState), NULL, merge_slots, NULL, NULL, merge_free};

PyMODINIT_FUNC PyInit__merge(void);
PyMODINIT_FUNC PyInit__merge(void) { return PyModuleDef_Init(&merge_module); }
