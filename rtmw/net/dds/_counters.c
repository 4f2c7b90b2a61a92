/* Counters of routes, for Python. */
#include "_engine.h"

/* A message that the bus dropped before the engine took it counts like one that the engine dropped itself. */
PyObject *outbound_counters(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "sent", load_relaxed(&o->sent), "bytes", load_relaxed(&o->bytes),
                         "expired", load_relaxed(&o->expired) + bus.expired, "thinned", bus.thinned, "missed",
                         bus.missed, "lapses", bus.lapses, "refused", load_relaxed(&o->refused), "blocked",
                         load_relaxed(&o->blocked), "packs", load_relaxed(&o->packs), "uncopied",
                         load_relaxed(&o->uncopied));
}

PyObject *inbound_counters(const struct inbound *i)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "received", load_relaxed(&i->received), "bytes",
                         load_relaxed(&i->bytes), "lost", load_relaxed(&i->lost), "expired", load_relaxed(&i->expired),
                         "malformed", load_relaxed(&i->malformed) + load_relaxed(&i->unreadable), "corrupt",
                         load_relaxed(&i->corrupt), "implausible", load_relaxed(&i->implausible), "no_memory",
                         load_relaxed(&i->no_memory), "delayed", load_relaxed(&i->delayed), "overflowed",
                         load_relaxed(&i->overflowed), "uncopied", load_relaxed(&i->uncopied), "unchecked",
                         load_relaxed(&i->unchecked), "disposed", load_relaxed(&i->disposed), "unregistered",
                         load_relaxed(&i->unregistered), "hashed", load_relaxed(&i->hashed));
}

uint64_t outbound_total(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return bus.expired + bus.thinned + bus.missed + bus.lapses + load_relaxed(&o->sent) + load_relaxed(&o->bytes) +
           load_relaxed(&o->expired) + load_relaxed(&o->refused) + load_relaxed(&o->blocked) + load_relaxed(&o->packs) +
           load_relaxed(&o->uncopied);
}

uint64_t inbound_total(const struct inbound *i)
{
    return load_relaxed(&i->received) + load_relaxed(&i->bytes) + load_relaxed(&i->lost) + load_relaxed(&i->expired) +
           load_relaxed(&i->malformed) + load_relaxed(&i->unreadable) + load_relaxed(&i->corrupt) +
           load_relaxed(&i->implausible) + load_relaxed(&i->no_memory) + load_relaxed(&i->delayed) +
           load_relaxed(&i->overflowed) + load_relaxed(&i->uncopied) + load_relaxed(&i->unchecked) +
           load_relaxed(&i->disposed) + load_relaxed(&i->unregistered) + load_relaxed(&i->hashed);
}

PyObject *Engine_total(PyObject *self, PyObject *unused)
{
    struct engine *e = open_engine(self);
    uint64_t total = now_monotonic_ns();
    (void)unused;
    if (!e) return NULL;
    if (lock_if_free(&e->lock, LOCK_ENGINE)) { /* the sender has it for as long as it has something to send */
        total = 0;
        for (struct outbound *o = e->outbounds; o; o = o->next) total += outbound_total(o);
        for (struct inbound *i = e->inbounds; i; i = i->next) total += inbound_total(i);
        unlock(&e->lock, LOCK_ENGINE);
    }
    return PyLong_FromUnsignedLongLong(total);
}
