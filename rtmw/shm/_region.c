/* Region: this process, attached to a domain, and what tools see of it, as lists and dicts: topics, endpoints, programs,
 * types; messages that lie in queues; traces. */
#include "_core.h"

#include <errno.h>

#include "histogram.h"
#include "inspect.h"
#include "queue.h"
#include "wait.h"

/* ======== tables ======== */

/* The tables of the region as lists and dicts: what tools show of topics, endpoints, programs and types. Topics and types are
 * known by their lives: the number of a slot may mean another one a moment later. */

/* Of counters and limits, for Py_BuildValue. */
static unsigned long long number(const uint64_t *word) { return load_relaxed(word); }

/* Adds new references to a dict, and takes them away from the caller. */
static int put_new(PyObject *dict, PyObject *key, PyObject *value)
{
    int result = key && value ? PyDict_SetItem(dict, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return result;
}

/* Of each band: how many messages were published, and how many of them are kept. */
static PyObject *band_counts(struct rtmw_region *r, struct topic *t)
{
    PyObject *bands = PyTuple_New(BANDS);
    for (uint32_t b = 0; bands && b < BANDS; b++) {
        uint64_t tail = band_tail_sequence(r, &t->band[b]), start = band_start(&t->band[b], tail);
        uint64_t began = load_relaxed(&t->band[b].began);
        PyTuple_SET_ITEM(bands, b,
                         Py_BuildValue("KK", (unsigned long long)(tail - began),
                                       (unsigned long long)(tail > start ? tail - start : 0)));
    }
    return bands;
}

static PyObject *Region_topics(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->topics_top) && i < r->header->topics; i++) {
        char name[NAME_BYTES];
        uint64_t life = topic_read(r, i, name);
        if (!life) continue;
        failed = append_new(list, Py_BuildValue("KNKNI", (unsigned long long)life, name_at(name, NAME_BYTES),
                                                number(&r->topics[i].retired_bytes), band_counts(r, &r->topics[i]),
                                                load_relaxed(&r->topics[i].history)));
    }
    return finished(list, failed);
}

static PyObject *type_indices(const struct contents *contents)
{
    PyObject *types = PyTuple_New(contents->types);
    for (uint32_t i = 0; types && i < contents->types; i++)
        PyTuple_SET_ITEM(types, i, PyLong_FromUnsignedLongLong(contents->type[i]));
    return types;
}

/* Of the topics in whose queues something lies, by their lives: messages, bytes of the pool, types. */
static PyObject *Region_contents(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    PyObject *dict = PyDict_New();
    int failed = dict == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->topics_top) && i < r->header->topics; i++) {
        struct contents contents;
        uint64_t life = topic_life(r, i);
        if (!life) continue;
        contents_count(r, &r->topics[i], &contents);
        if (contents.messages || contents.bytes)
            failed = put_new(dict, PyLong_FromUnsignedLongLong(life),
                             Py_BuildValue("IKN", contents.messages, (unsigned long long)contents.bytes,
                                           type_indices(&contents)));
    }
    return finished(dict, failed);
}

/* The life of the topic that an endpoint is of. It goes on for as long as the endpoint; so what is read while the word
 * of the endpoint stays the same one's is the right one, the life of its type as well. 0: the endpoint has gone. */
static uint64_t topic_of(struct rtmw_region *r, const uint64_t *endpoint, uint64_t word)
{
    if (slot_topic(word) >= r->header->topics) return 0;
    uint64_t life = topic_life(r, slot_topic(word)), now = load_seq(endpoint);
    return slot_state_of(now) >= SLOT_ACTIVE && slot_generation(now) == slot_generation(word) ? life : 0;
}

/* The topic whose rows are asked for, by its life; 0: all. false: with a Python error. */
static bool asked_topic(PyObject *args, unsigned long long *life)
{
    *life = 0;
    return PyArg_ParseTuple(args, "|K", life);
}

static PyObject *Region_topic_life(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    return text ? PyLong_FromUnsignedLongLong(topic_find(region_of(self), text)) : NULL;
}

static PyObject *Region_publishers(PyObject *self, PyObject *args)
{
    unsigned long long asked;
    struct rtmw_region *r = region_of(self);
    struct owners owners = {{0}, {0}};
    if (!asked_topic(args, &asked)) return NULL;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->publishers_top) && i < r->header->publishers; i++) {
        uint64_t word = load_seq(&r->publisher_words[i]);
        struct publisher_block *p = &r->publishers[i];
        uint8_t reliability = load_relaxed(&p->reliability);
        if (slot_state_of(word) != SLOT_ACTIVE || reliability > RTMW_RELIABLE) continue;
        unsigned long long type = type_life(r, load_seq(&p->type));
        uint64_t topic = topic_of(r, &r->publisher_words[i], word); /* behind the type */
        if (!topic || (asked && topic != asked)) continue;
        failed =
            append_new(list, Py_BuildValue("KKKBBIIKKKKKKNK", (unsigned long long)topic, number(&p->identity), type,
                                           reliability, p->priority, p->depth, p->history, number(&p->published),
                                           number(&p->bytes), number(&p->timed_out), number(&p->exhausted),
                                           number(&p->max_blocking), number(&p->lifetime_ns),
                                           PyBool_FromLong(!owner_is_dead(r, slot_owner(word), &owners)),
                                           number(&p->held_by_history)));
    }
    return finished(list, failed);
}

PyObject *subscriber_counters(struct rtmw_region *r, struct topic *t, struct subscriber_block *s)
{
    struct unread unread = unread_by(r, t, s);
    bool missed = load_relaxed(&s->reliability) != RTMW_RELIABLE; /* else it has expired: see outcome_gone */
    unsigned long long gone = unread.gone;
    return Py_BuildValue("KKKKKKKKKK", number(&s->received), number(&s->bytes), (unsigned long long)unread.waiting,
                         number(&s->missed) + number(&s->missed_afar) + (missed ? gone : 0),
                         number(&s->expired) + number(&s->expired_afar) + (missed ? 0 : gone),
                         number(&s->thinned) + number(&s->thinned_afar), number(&s->unmatched), number(&s->other_types),
                         number(&s->deadlines_missed), number(&s->lapses));
}

PyObject *latency_buckets(struct rtmw_region *r, uint32_t slot)
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

/* A parked one lives until its time is over. */
static PyObject *subscriber_lives(struct rtmw_region *r, uint32_t slot, uint64_t word, struct owners *owners)
{
    return PyBool_FromLong(slot_is_parked(word) ? !parked_is_over(r, slot, word)
                                                : !owner_is_dead(r, slot_owner(word), owners));
}

static PyObject *Region_subscribers(PyObject *self, PyObject *args)
{
    unsigned long long asked;
    struct rtmw_region *r = region_of(self);
    struct owners owners = {{0}, {0}};
    if (!asked_topic(args, &asked)) return NULL;
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t i = 0; !failed && i < load_seq(&r->hints->subscribers_top) && i < r->header->subscribers; i++) {
        uint64_t word = load_seq(&r->subscriber_words[i]);
        struct subscriber_block *s = &r->subscribers[i];
        uint8_t reliability = load_relaxed(&s->reliability);
        if (slot_state_of(word) < SLOT_ACTIVE) continue;
        if (reliability > RTMW_RELIABLE) continue; /* nobody writes that: the region is damaged */
        unsigned long long type = type_life(r, load_seq(&s->type));
        uint64_t topic = topic_of(r, &r->subscriber_words[i], word); /* behind the type */
        if (!topic || (asked && topic != asked)) continue;
        struct topic *t = &r->topics[link_index(topic)];
        failed = append_new(list, Py_BuildValue("KKKBINNN(IKKBKON)", (unsigned long long)topic,
                                                (unsigned long long)subscriber_identity(r, word, i), type, reliability,
                                                s->depth, subscriber_counters(r, t, s), cursors(r, t, s),
                                                latency_buckets(r, i), s->history, number(&s->min_interval_ns),
                                                number(&s->deadline_ns), load_relaxed(&s->exact), number(&s->lease_ns),
                                                slot_is_parked(word) ? Py_True : Py_False,
                                                subscriber_lives(r, i, word, &owners)));
    }
    return finished(list, failed);
}

static PyObject *program_name(struct rtmw_region *r, uint32_t slot)
{
    return name_at(r->participants[slot].name, sizeof r->participants->name);
}

static void count_holds(struct rtmw_region *r, uint32_t slot, unsigned int *loaned, unsigned int *held)
{
    *loaned = *held = 0;
    for (uint32_t i = 0; i < r->header->descriptors; i++) {
        uint64_t state = load_relaxed(&r->descriptors[i].state);
        enum descriptor_kind kind = state_kind(state);
        *loaned += (kind == LOANED || kind == APPENDING) && state_owner(state) == slot;
        *held += load_relaxed(&r->descriptors[i].holders[slot >> 6]) >> (slot & 63) & 1;
    }
}

static PyObject *Region_participants(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++) {
        uint64_t word = load_seq(&r->participants[slot].word);
        unsigned int loaned, held;
        if (participant_state_of(word) == ABSENT) continue;
        count_holds(r, slot, &loaned, &held);
        PyObject *lives = PyBool_FromLong(slot == r->me || !participant_is_dead(r, slot));
        failed = append_new(list, Py_BuildValue("IINNII", slot, participant_pid(word), program_name(r, slot), lives,
                                                loaned, held));
    }
    return finished(list, failed);
}

/* Of the programs that are attached, by pid. */
static PyObject *Region_names(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    PyObject *names = PyDict_New();
    int failed = names == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++) {
        uint64_t word = load_seq(&r->participants[slot].word);
        if (participant_state_of(word) == ABSENT) continue;
        failed = put_new(names, PyLong_FromUnsignedLong(participant_pid(word)), program_name(r, slot));
    }
    return finished(names, failed);
}

static PyObject *Region_types(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    PyObject *types = PyDict_New();
    int failed = types == NULL;
    for (uint32_t i = 0; !failed && i < r->header->types; i++) {
        rtmw_type_copy copy;
        uint64_t life = type_read(r, i, &copy);
        if (!life) continue;
        PyObject *name = name_at(copy.name, TYPE_NAME_BYTES);
        failed = put_new(types, PyLong_FromUnsignedLongLong(life),
                         Py_BuildValue("Ny#", name, copy.description, (Py_ssize_t)copy.description_bytes));
    }
    return finished(types, failed);
}

static PyObject *Region_endpoints_fingerprint(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(endpoints_fingerprint(region_of(self)));
}

static PyObject *Region_participants_fingerprint(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(participants_fingerprint(region_of(self)));
}

static PyObject *Region_identity(PyObject *self, PyObject *publisher)
{
    unsigned long long raw = PyLong_AsUnsignedLongLong(publisher);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromUnsignedLongLong(rtmw_identity(region_of(self), raw));
}

/* ======== messages of a queue ======== */

/* The messages of a topic, as tools show them without taking or holding them. */

static PyObject *holder_pids(struct rtmw_region *r, const uint64_t *holders)
{
    PyObject *pids = PyList_New(0);
    int failed = pids == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++)
        if (holders[slot >> 6] >> (slot & 63) & 1)
            failed = append_new(pids, PyLong_FromUnsignedLong(participant_pid(load_seq(&r->participants[slot].word))));
    return finished(pids, failed);
}

enum { PREVIEW = 64, LARGEST_PREVIEW = 1 << 20 };

static PyObject *queued_message(struct rtmw_region *r, uint32_t band, const uint64_t *preview, const struct peeked *m)
{
    uint64_t now = monotonic_ns(), expires = m->expires_ns;
    lock_take(&r->lock);
    if (expires) expires = on_clock(expires, now, realtime_ns(r, now));
    lock_give(&r->lock);
    return Py_BuildValue("IKKKKKKNy#i", band, (unsigned long long)m->sequence, (unsigned long long)m->size,
                         (unsigned long long)m->type, (unsigned long long)m->publisher,
                         (unsigned long long)m->source_time_ns, (unsigned long long)expires, holder_pids(r, m->holders),
                         (const char *)preview, (Py_ssize_t)m->shown, m->reliability);
}

/* queue(life, most=64): [] when that life of the topic is over, or ends meanwhile. `most`: bytes of each payload. */
static PyObject *Region_queue(PyObject *self, PyObject *arguments)
{
    struct rtmw_region *r = region_of(self);
    struct peeked message;
    unsigned long long life;
    unsigned int most = PREVIEW;
    if (!PyArg_ParseTuple(arguments, "K|I", &life, &most)) return NULL;
    uint32_t slot = link_index(life);
    if (slot >= r->header->topics) return PyErr_Format(PyExc_IndexError, "there is no topic slot %u", slot);
    if (most > LARGEST_PREVIEW)
        return PyErr_Format(PyExc_ValueError, "a preview has %u bytes at most", LARGEST_PREVIEW);
    uint64_t *preview = PyMem_Calloc(most / 8 + 1, 8);
    if (!preview) return PyErr_NoMemory();
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t band = BANDS; !failed && band-- > 0;) {
        struct peek at = {.band = &r->topics[slot].band[band], .index = NIL, .preview = preview, .room = most};
        uint64_t tail = band_tail_sequence(r, at.band);
        at.last = band_start(at.band, tail);
        while (!failed && at.last < tail && peek_next(r, &at, &message))
            failed = append_new(list, queued_message(r, band, preview, &message));
    }
    PyMem_Free(preview);
    if (!failed && topic_life(r, slot) != life) failed = PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL);
    return finished(list, failed);
}

/* ======== trace ======== */

/* The trace as Python reads it; see trace.c. */

/* trace(life, on) -> bool: once off for each on. False: the topic is not there any more. */
static PyObject *Region_trace(PyObject *self, PyObject *args)
{
    struct rtmw_region *r = region_of(self);
    unsigned long long life;
    int on;
    if (!PyArg_ParseTuple(args, "Kp", &life, &on)) return NULL;
    uint32_t topic = link_index(life);
    if (topic >= r->header->topics) return PyErr_Format(PyExc_IndexError, "there is no topic slot %u", topic);
    int code = RTMW_OK;
    if (on)
        code = trace_begin(r, life);
    else
        trace_end(r, topic);
    return code == RTMW_OK || code == RTMW_EMPTY ? PyBool_FromLong(code == RTMW_OK) : fail(self, code, NULL, 0);
}

/* A topic that is traced goes on for as long as it is; so the slot in an event of it says which life it is of. */
static PyObject *traced_event(struct rtmw_region *r, const struct trace_event *e)
{
    static const char *const kinds[] = {"published", "taken",       "missed",    "expired",  "thinned",
                                        "unmatched", "other_types", "timed_out", "exhausted"};
    const char *kind = e->kind < sizeof kinds / sizeof *kinds ? kinds[e->kind] : "unknown";
    uint64_t life = e->topic < r->header->topics ? topic_life(r, e->topic) : 0;
    return Py_BuildValue("sKIIKKKKKK", kind, (unsigned long long)life, e->band, e->count, (unsigned long long)e->at_ns,
                         (unsigned long long)e->who, (unsigned long long)e->publisher, (unsigned long long)e->sequence,
                         (unsigned long long)e->size, (unsigned long long)e->published_ns);
}

/* events(at, known) -> (events, at, known, lost), from a ticket on, oldest first; both are what the last call gave. The
 * writer of an event has from one call to the next to write it. */
static PyObject *Region_events(PyObject *self, PyObject *args)
{
    struct rtmw_region *r = region_of(self);
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
            failed = append_new(list, traced_event(r, &event));
        else
            lost++;
    }
    return finished(list, failed) ? Py_BuildValue("NKKK", list, at, next, lost) : NULL;
}

static PyObject *Region_trace_next(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(trace_next(region_of(self)));
}

/* ======== region ======== */

static int Region_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    unsigned int domain;
    uint32_t version = 0;
    int look_on = 0, is_tool = 0;
    if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_SetString(PyExc_TypeError, "Region takes no keywords"), -1;
    if (!PyArg_ParseTuple(args, "I|pp", &domain, &look_on, &is_tool)) return -1;
    enum attaching how = look_on ? TO_LOOK_ON : is_tool ? AS_TOOL : TO_TAKE_PART;
    int code = region_attach(domain, how, &((Region *)self)->core, &version);
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
    if (region_of(self)) rtmw_detach(region_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Region_drain(PyObject *self, PyObject *unused)
{
    (void)unused;
    drain(region_socket(region_of(self)));
    Py_RETURN_NONE;
}

static PyObject *fail_domain(PyObject *self, int code)
{
    int system_error = errno;
    PyObject *subject = PyUnicode_FromFormat("domain %u", region_of(self)->domain);
    errno = system_error;
    fail(self, code, subject, 0);
    Py_XDECREF(subject);
    return NULL;
}

/* false: an exception says why this process may not use the region any more, or not change it. */
static bool is_usable(PyObject *self, bool to_change)
{
    int code = region_state(region_of(self));
    if (code == RTMW_OK || (code == RTMW_OBSERVER && !to_change)) return true;
    fail_domain(self, code);
    return false;
}

static PyObject *Region_is_current(PyObject *self, PyObject *unused)
{
    (void)unused;
    int code = region_state(region_of(self));
    return PyBool_FromLong(code == RTMW_OK || code == RTMW_OBSERVER);
}

static PyObject *Region_check_current(PyObject *self, PyObject *unused)
{
    (void)unused;
    return is_usable(self, false) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *Region_fileno(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_usable(self, true)) return NULL;
    int fd = region_socket(region_of(self));
    return fd < 0 ? fail_domain(self, RTMW_SYSTEM) : PyLong_FromLong(fd);
}

static PyObject *Region_examine(PyObject *self, PyObject *fix)
{
    struct rtmw_region *r = region_of(self);
    uint32_t swept = 0, freed = 0;
    int to_fix = PyObject_IsTrue(fix);
    if (to_fix < 0 || !is_usable(self, to_fix)) return NULL;
    struct books *books = PyMem_Malloc(sizeof *books);
    uint8_t *marks = PyMem_Malloc(books_marks(r));
    PyObject *problems = PyList_New(0), *result = NULL;
    if (!books || !marks) {
        PyErr_NoMemory();
    } else if (problems) {
        if (to_fix) books_repair(r, &swept, &freed);
        books_examine(r, books, marks);
        int failed = 0;
        for (uint32_t i = 0; !failed && i < books->problems; i++)
            failed = append_new(problems, PyUnicode_DecodeUTF8(books->problem[i], (Py_ssize_t)strlen(books->problem[i]),
                                                               "replace"));
        if (!failed)
            result = Py_BuildValue("IIIIIIIIIIIO", RTMW_LAYOUT_VERSION, r->header->descriptors, books->free,
                                   books->loaned, books->queued, books->held, r->header->pages, books->granules_used,
                                   books->granules_kept, swept, freed, problems);
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
    const struct header *h = region_of(self)->header;
    return PyLong_FromUnsignedLongLong(h->control_bytes + h->pool_bytes +
                                       h->descriptors * sizeof *region_of(self)->refs);
}

/* How many entries each table has, by its name; of the participants, those that programs can be. */
static PyObject *Region_capacity(PyObject *self, void *unused)
{
    (void)unused;
    const struct header *h = region_of(self)->header;
    return Py_BuildValue("{sI sI sI sI si}", "topics", h->topics, "types", h->types, "publishers", h->publishers,
                         "subscribers", h->subscribers, "participants", PARTICIPANTS - 1);
}

/* Grows with each new topic: a hint of when it is worth asking for their names. */
static PyObject *Region_topic_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(load_relaxed(&region_of(self)->hints->topics_made));
}

static PyObject *Region_lock_memory(PyObject *self, PyObject *unused)
{
    (void)unused;
    int code = rtmw_lock_memory(region_of(self));
    return code == RTMW_OK ? Py_NewRef(Py_None) : fail(self, code, NULL, 0);
}

static PyObject *Region_pool_bytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(region_of(self)->header->pool_bytes);
}

static PyObject *Region_reserve(PyObject *self, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble((double)region_of(self)->header->reserve / RESERVE_WHOLE);
}

static PyObject *Region_nonce(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(region_of(self)->header->nonce);
}

/* The slot of this process among the participants; none, if it only looks on. */
static PyObject *Region_slot(PyObject *self, void *unused)
{
    (void)unused;
    const struct rtmw_region *r = region_of(self);
    return is_observer(r) ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(r->me);
}

/* The process that has this slot of the participants; 0: none. */
static PyObject *Region_pid_at(PyObject *self, PyObject *slot)
{
    unsigned long index = PyLong_AsUnsignedLong(slot);
    if (PyErr_Occurred()) return NULL;
    uint64_t word = index < PARTICIPANTS ? load_seq(&region_of(self)->participants[index].word) : 0;
    return PyLong_FromUnsignedLong(participant_state_of(word) == ABSENT ? 0 : participant_pid(word));
}

static PyObject *Region_sweep(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    if (!is_usable(self, true)) return NULL;
    lock_take(&r->lock);
    uint32_t swept = sweep_the_dead(r);
    lock_give(&r->lock);
    return PyLong_FromUnsignedLong(swept);
}

static PyObject *Region_sweep_parked(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct rtmw_region *r = region_of(self);
    if (!is_usable(self, true)) return NULL;
    lock_take(&r->lock);
    uint32_t ended = parked_sweep(r);
    lock_give(&r->lock);
    return PyLong_FromUnsignedLong(ended);
}

static PyObject *Region_clear(PyObject *self, PyObject *topic)
{
    uint64_t messages;
    if (!is_usable(self, true)) return NULL;
    const char *name = topic_name(self, topic);
    if (!name) return NULL;
    int code = rtmw_topic_clear(region_of(self), name, &messages);
    return code == RTMW_OK ? PyLong_FromUnsignedLongLong(messages) : fail(self, code, topic, 0);
}

static PyObject *Region_sweep_from_last_slot(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_usable(self, true)) return NULL;
    sweep_from_last_slot(region_of(self));
    Py_RETURN_NONE;
}

static PyMethodDef Region_methods[] = {
    {"fileno", Region_fileno, METH_NOARGS, NULL},
    {"drain", Region_drain, METH_NOARGS, NULL},
    {"is_current", Region_is_current, METH_NOARGS, NULL},
    {"check_current", Region_check_current, METH_NOARGS, NULL},
    {"topics", Region_topics, METH_NOARGS, NULL},
    {"contents", Region_contents, METH_NOARGS, NULL},
    {"topic_life", Region_topic_life, METH_O, NULL},
    {"publishers", Region_publishers, METH_VARARGS, NULL},
    {"subscribers", Region_subscribers, METH_VARARGS, NULL},
    {"participants", Region_participants, METH_NOARGS, NULL},
    {"names", Region_names, METH_NOARGS, NULL},
    {"types", Region_types, METH_NOARGS, NULL},
    {"identity", Region_identity, METH_O, NULL},
    {"endpoints_fingerprint", Region_endpoints_fingerprint, METH_NOARGS, NULL},
    {"participants_fingerprint", Region_participants_fingerprint, METH_NOARGS, NULL},
    {"queue", Region_queue, METH_VARARGS, NULL},
    {"lock_memory", Region_lock_memory, METH_NOARGS, NULL},
    {"trace", Region_trace, METH_VARARGS, NULL},
    {"trace_next", Region_trace_next, METH_NOARGS, NULL},
    {"events", Region_events, METH_VARARGS, NULL},
    {"examine", Region_examine, METH_O, NULL},
    {"clear", Region_clear, METH_O, NULL},
    {"sweep", Region_sweep, METH_NOARGS, NULL},
    {"sweep_parked", Region_sweep_parked, METH_NOARGS, NULL},
    {"pid_at", Region_pid_at, METH_O, NULL},
    {"sweep_from_last_slot", Region_sweep_from_last_slot, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Region_getset[] = {{"pool_bytes", Region_pool_bytes, NULL, NULL, NULL},
                                      {"reserve", Region_reserve, NULL, NULL, NULL},
                                      {"nonce", Region_nonce, NULL, NULL, NULL},
                                      {"mapped_bytes", Region_mapped_bytes, NULL, NULL, NULL},
                                      {"capacity", Region_capacity, NULL, NULL, NULL},
                                      {"topic_count", Region_topic_count, NULL, NULL, NULL},
                                      {"slot", Region_slot, NULL, NULL, NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef Region_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(Region, weak), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};
static PyType_Slot Region_slots[] = {{Py_tp_init, Region_init},       {Py_tp_dealloc, Region_dealloc},
                                     {Py_tp_methods, Region_methods}, {Py_tp_getset, Region_getset},
                                     {Py_tp_members, Region_members}, {0, NULL}};
PyType_Spec Region_spec = {"rtmw.shm._core.Region", sizeof(Region), 0, Py_TPFLAGS_DEFAULT, Region_slots};
