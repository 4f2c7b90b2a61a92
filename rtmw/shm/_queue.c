/* The messages of a topic, as tools show them without taking them. */
#include "_core.h"

/* Without the hold of who looks. */
static PyObject *holder_pids(struct rtmw_region *r, struct descriptor *d)
{
    PyObject *pids = PyList_New(0);
    int failed = pids == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++)
        if ((load_seq(&d->holders[slot >> 6]) >> (slot & 63) & 1) && (slot != r->me || r->refs[d - r->descriptors] > 1))
            failed = append_new(pids, PyLong_FromUnsignedLong(participant_pid(load_seq(&r->participants[slot].word))));
    return finished(pids, failed);
}

enum { PREVIEW = 64 };

static PyObject *queued_message(struct rtmw_region *r, uint32_t band, uint32_t index, uint64_t sequence)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t size = load_relaxed(&d->size);
    lock_take(&r->lock);
    uint64_t expires = expires_realtime_ns(r, d, monotonic_ns());
    lock_give(&r->lock);
    const void *payload = payload_of(r, d, size);
    Py_ssize_t shown = payload && size < PREVIEW ? (Py_ssize_t)size : PREVIEW;
    return Py_BuildValue("IKKIKKKNy#", band, (unsigned long long)sequence, (unsigned long long)size,
                         (unsigned int)d->type, (unsigned long long)d->publisher, (unsigned long long)d->source_time_ns,
                         (unsigned long long)expires, holder_pids(r, d), payload ? payload : "", payload ? shown : 0);
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

/* queue(life): [] when that life of the topic is over, or ends meanwhile. */
PyObject *Region_queue(PyObject *self, PyObject *topic)
{
    struct rtmw_region *r = region_of(self);
    if (is_forked(r)) return fail(self, RTMW_FORKED, NULL, 0);
    unsigned long long life = PyLong_AsUnsignedLongLong(topic);
    if (PyErr_Occurred()) return NULL;
    uint32_t slot = link_index(life);
    if (slot >= r->header->topics) return PyErr_Format(PyExc_IndexError, "there is no topic slot %u", slot);
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t band = BANDS; !failed && band-- > 0;) {
        struct band *b = &r->topics[slot].band[band];
        uint64_t tail = band_tail_sequence(r, b), sequence = band_start(b, tail);
        uint32_t index = NIL;
        while (!failed && sequence < tail && step_locked(r, b, &index, &sequence) == STEP_OK)
            if (descriptor_is_message(&r->descriptors[index]))
                failed = append_new(list, queued_message(r, band, index, sequence));
        lock_take(&r->lock);
        if (index != NIL) let_go(r, index);
        lock_give(&r->lock);
    }
    if (!failed && topic_life(r, slot) != life) failed = PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL);
    return finished(list, failed);
}
