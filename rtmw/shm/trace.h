/* The trace: what happened to the messages of a topic, for tools that look on. */
#ifndef RTMW_TRACE_H
#define RTMW_TRACE_H

#include "core.h"

/* trace.c */
struct trace_event {
    enum trace_kind kind;
    uint32_t topic, band, count;
    uint64_t at_ns, who, publisher, sequence, size, published_ns; /* as in struct trace_entry */
};
static inline bool is_traced(const struct topic *t)
{
    return __builtin_expect((load_relaxed(&t->tracers[0]) | load_relaxed(&t->tracers[1])) != 0, 0);
}
void trace_write(struct rtmw_region *, const struct trace_event *);
void trace_published(struct rtmw_publisher *, uint32_t band, struct descriptor *);
void trace_refused(struct rtmw_publisher *, enum trace_kind);
void trace_reached(struct rtmw_subscriber *, enum trace_kind, uint32_t band);
void trace_gone(struct rtmw_subscriber *, enum trace_kind, uint32_t band, uint64_t last, uint64_t count);
enum trace_found { TRACE_READ, TRACE_LATER, TRACE_LOST }; /* LATER: it is being written, or its writer died just now */
uint64_t trace_next(struct rtmw_region *);                /* the ticket of the next event */
enum trace_found trace_read(struct rtmw_region *, uint64_t ticket, struct trace_event *);
int trace_begin(struct rtmw_region *, uint64_t life); /* RTMW_EMPTY: the topic is not there any more */
void trace_end(struct rtmw_region *, uint32_t topic); /* once for each trace_begin */
void trace_sweep(struct rtmw_region *, uint32_t dead);

#endif
