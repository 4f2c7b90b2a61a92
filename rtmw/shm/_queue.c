/* The messages of a topic, as tools show them without taking or holding them. */
#include "_core.h"

static PyObject *holder_pids(struct rtmw_region *r, const uint64_t *holders)
{
    PyObject *pids = PyList_New(0);
    int failed = pids == NULL;
    for (uint32_t slot = 0; !failed && slot < PARTICIPANTS; slot++)
        if (holders[slot >> 6] >> (slot & 63) & 1)
            failed = append_new(pids, PyLong_FromUnsignedLong(participant_pid(load_seq(&r->participants[slot].word))));
    return finished(pids, failed);
}

static PyObject *queued_message(struct rtmw_region *r, uint32_t band, const struct peeked *m)
{
    return Py_BuildValue("IKKIKKKNy#", band, (unsigned long long)m->sequence, (unsigned long long)m->size,
                         (unsigned int)m->type, (unsigned long long)m->publisher, (unsigned long long)m->source_time_ns,
                         (unsigned long long)m->expires_ns, holder_pids(r, m->holders), (const char *)m->preview,
                         (Py_ssize_t)m->shown);
}

PyObject *Region_queue(PyObject *self, PyObject *topic)
{
    struct rtmw_region *r = region_of(self);
    struct peeked message;
    unsigned long slot = PyLong_AsUnsignedLong(topic);
    if (PyErr_Occurred()) return NULL;
    if (slot >= r->header->topics) return PyErr_Format(PyExc_IndexError, "there is no topic slot %lu", slot);
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (uint32_t band = BANDS; !failed && band-- > 0;) {
        struct peek at = {.band = &r->topics[slot].band[band], .index = NIL};
        uint64_t tail = band_tail_sequence(r, at.band);
        while (!failed && at.last < tail && peek_next(r, &at, &message))
            failed = append_new(list, queued_message(r, band, &message));
    }
    return finished(list, failed);
}
