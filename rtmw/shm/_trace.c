/* The trace as Python reads it; see trace.c. */
#include "_core.h"
#include "topics.h"
#include "trace.h"

/* trace(life, on) -> bool: once off for each on. False: the topic is not there any more. */
PyObject *Region_trace(PyObject *self, PyObject *args)
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
PyObject *Region_events(PyObject *self, PyObject *args)
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

PyObject *Region_trace_next(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(trace_next(region_of(self)));
}
