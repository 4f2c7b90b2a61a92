/* Tells an event loop that a DDS reader has something: see bell.c. */
#ifndef RTMW_NET_BELL_H
#define RTMW_NET_BELL_H

#include <pthread.h>

#include "dds.h"

enum { BELL_KEEPS = 256 };
struct bell {
    dds_entity_t reader;
    int descriptor; /* becomes readable when the reader has something */
    pthread_mutex_t lock;
    uint64_t rung, rung_ns[BELL_KEEPS]; /* how often since it was silenced; when, CLOCK_MONOTONIC: the last of them */
};
struct bell *bell_hang(dds_entity_t reader); /* NULL: that is no reader */
/* Before how many nanoseconds each sample came, the last BELL_KEEPS, oldest first; how many. */
uint32_t bell_silence(struct bell *, uint64_t *ages_ns);
void bell_take_down(struct bell *);

#endif
