/* The topics that are played. See player.h. */
#include <stdlib.h>

#include "player.h"

int track_open(struct player *p, const char *topic, const rtmw_type *type, const rtmw_publisher_qos *qos)
{
    struct track **grown = realloc(p->tracks, (p->track_count + 1) * sizeof(struct track *));
    struct track *t = grown ? calloc(1, sizeof *t) : NULL;
    if (grown) p->tracks = grown;
    if (!t) return RTMW_SYSTEM;
    int code = rtmw_publisher_open(p->region, topic, type, qos, &t->publisher);
    if (code != RTMW_OK) return free(t), code;
    t->reliable = qos->reliability == RTMW_RELIABLE;
    p->tracks[p->track_count++] = t;
    return RTMW_OK;
}

void tracks_close(struct player *p)
{
    for (uint32_t i = 0; i < p->track_count; i++) {
        rtmw_publisher_close(p->tracks[i]->publisher);
        free(p->tracks[i]);
    }
    free(p->tracks);
    p->tracks = NULL;
    p->track_count = 0;
}
