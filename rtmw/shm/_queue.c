/* The messages of a topic, as tools show them without taking or holding them. */
#include "_core.h"
#include "topics.h"

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
PyObject *Region_queue(PyObject *self, PyObject *arguments)
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
