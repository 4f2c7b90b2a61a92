/* Topics, types and endpoints: their slots, and how long those are theirs. */
#ifndef RTMW_TOPICS_H
#define RTMW_TOPICS_H

#include "core.h"

/* topics.c. A life of a topic: {generation | index} of its slot */
bool is_topic_name(const char *name);
int topic_open(struct rtmw_region *, const char *name, uint64_t *life); /* found or made; it may be retired at once */
uint64_t topic_find(struct rtmw_region *, const char *name);            /* its life, or 0 */
uint64_t topic_read(struct rtmw_region *, uint32_t topic, char name[NAME_BYTES]); /* its life; 0: there is none now */
/* A life of a type: {generation | index} of its slot; TYPE_RAW and TYPE_ANY have no slot, and are their own lives */
int type_open(struct rtmw_region *, const rtmw_type *, uint64_t *life); /* found or made; it may be retired at once */
uint64_t type_read(struct rtmw_region *, uint32_t type, rtmw_type_copy *); /* its life; 0: there is none now */

/* ---- giving back: topics and types that nobody uses. Lock held ---- */
uint32_t retire_topics(struct rtmw_region *);     /* how many gave their slots back */
bool retire_kept_topic(struct rtmw_region *);     /* one that has only messages that history keeps */
uint32_t retire_types(struct rtmw_region *);      /* how many gave their slots back */
uint32_t reset_free_topics(struct rtmw_region *); /* those of which a message that was held still names a type */
/* Sets the state that a topic begins with. The slot is CLAIMED by the caller, and no endpoint names it. All that is to be
 * another in another life of a topic is reset here */
void topic_reset(struct rtmw_region *, uint32_t topic);

/* ---- slots of endpoints. Lock held ---- */
struct wanted {
    const char *topic;
    const rtmw_type *type;
    bool publishes;
};
struct claimed {
    uint64_t word; /* CLAIMED */
    uint32_t topic, slot, type;
};
int endpoint_claim(struct rtmw_region *, const struct wanted *, struct claimed *); /* its block names the type */
/* A CLAIMED word in the lowest free slot, or 0; tries again after a sweep. Lock held */
uint64_t slot_claim(struct rtmw_region *, uint64_t *words, uint32_t count, uint32_t *top, uint32_t topic,
                    uint32_t *slot);

#endif
