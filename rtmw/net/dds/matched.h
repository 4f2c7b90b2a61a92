/* Whom the DDS endpoints of this node have met: see matched.c. */
#ifndef RTMW_NET_MATCHED_H
#define RTMW_NET_MATCHED_H

#include <pthread.h>
#include <stdbool.h>

#include "dds.h"

struct engine;

/* Endpoints of ours whose matches have changed. */
struct news {
    pthread_mutex_t lock;
    dds_entity_t *endpoint; /* of who has taken it: to be freed */
    uint32_t count, space;
    bool all; /* there was no room: it may be any endpoint */
};

int matched_open(struct engine *, dds_entity_t participant); /* before it has endpoints */
void matched_close(struct engine *);
struct news matched_take(struct engine *); /* its lock is not to be used */

#endif
