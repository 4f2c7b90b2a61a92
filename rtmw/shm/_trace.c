/* The trace as Python reads it; see trace.c. */
#include "_core.h"

/* trace(topic, on): once off for each on. */
PyObject *Region_trace(PyObject *self, PyObject *args)
{
    struct rtmw_region *r = region_of(self);
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
            failed = append_new(list, traced_event(&event));
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
