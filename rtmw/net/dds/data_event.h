/* Tells an event loop that a DDS reader has something: see data_event.c. */
#ifndef RTMW_NET_DATA_EVENT_H
#define RTMW_NET_DATA_EVENT_H

#include <pthread.h>

#include "dds.h"

enum { DATA_EVENT_KEEPS = 256 };
struct data_event {
    dds_entity_t reader;
    int descriptor; /* becomes readable when the reader has something */
    pthread_mutex_t lock;
    uint64_t count,
        came_ns
            [DATA_EVENT_KEEPS]; /* samples since the last data_event_take; when the last of them came, CLOCK_MONOTONIC */
};
struct data_event *data_event_open(dds_entity_t reader); /* NULL: that is no reader */
/* Before how many nanoseconds each sample came, the last DATA_EVENT_KEEPS, oldest first; how many. */
uint32_t data_event_take(struct data_event *, uint64_t *ages_ns);
void data_event_close(struct data_event *);

#endif
