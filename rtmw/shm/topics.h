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

static inline uint64_t topic_life(struct rtmw_region *r, uint32_t topic) /* 0: there is none now */
{
    uint64_t word = load_seq(&r->topics[topic].word);
    return slot_is_there(word) ? link_make(slot_generation(word), topic) : 0;
}

static inline uint64_t type_life(struct rtmw_region *r, uint32_t type) /* 0: there is none now */
{
    if (type >= r->header->types) return type == TYPE_RAW || type == TYPE_ANY ? type : 0;
    uint64_t word = load_seq(&r->types[type].word);
    return slot_is_there(word) ? link_make(slot_generation(word), type) : 0;
}

/* ---- giving back: topics and types that nobody uses. Lock held ---- */
uint32_t retire_topics(struct rtmw_region *);     /* how many gave their slots back */
bool retire_kept_topic(struct rtmw_region *);     /* one that has only messages that history keeps */
uint32_t retire_types(struct rtmw_region *);      /* how many gave their slots back */
uint32_t reset_free_topics(struct rtmw_region *); /* those of which a message that was held still names a type */
/* Sets the state that a topic begins with. The slot is CLAIMED by the caller, and no endpoint names it. All that is to be
 * another in another life of a topic is reset here */
void topic_reset(struct rtmw_region *, uint32_t topic);

/* reclaim.c: late subscribers do not get what is there now; how much that is. `alone`: unless it has a publisher */
uint64_t topic_forget(struct rtmw_region *, uint64_t life, bool alone); /* lock held */

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
static inline bool types_match(uint32_t publisher, uint32_t subscriber)
{
    return subscriber == TYPE_ANY || publisher == subscriber;
}
static inline bool reliabilities_match(uint32_t offered, uint32_t asked, bool exact)
{
    return exact ? offered == asked : asked != RTMW_RELIABLE || offered == RTMW_RELIABLE;
}

/* participants.c: parked subscriptions whose time is over */
/* Frees the slot if its time is over and it still has this word. Lock held */
bool parked_end(struct rtmw_region *, uint32_t slot, uint64_t word);
uint32_t parked_sweep(struct rtmw_region *); /* all of them; how many were freed. Lock held */

/* ---- slots.c: who is there. Lock held where something changes ---- */

bool slot_free(uint64_t *word, uint64_t value);
struct marks { /* a bit a topic or type */
    uint64_t bit[MOST_TOPICS / 64];
};
static inline bool is_marked(const struct marks *marks, uint32_t at) { return marks->bit[at / 64] >> at % 64 & 1; }
void mark_published(struct rtmw_region *,
                    struct marks *);                  /* topics that publishers' slots name, whatever their state */
void mark_used(struct rtmw_region *, struct marks *); /* topics that endpoints' slots name */
bool is_published(struct rtmw_region *, uint32_t topic);
/* The next ACTIVE subscriber of a topic, from *slot on; NULL at the end. A parked one whose time is over is none. */
struct subscriber_block *next_subscriber(struct rtmw_region *, uint32_t topic, uint32_t *slot);
void topic_subscribed(struct rtmw_region *, uint32_t topic, uint32_t slot); /* before that is ACTIVE */
/* Bytes that a publisher published stay counted when it goes. The block is the caller's alone. */
void topic_keep_bytes(struct topic *, struct publisher_block *);
void publisher_gone(struct rtmw_region *, uint32_t topic); /* its slot is about to be free */

/* Subscriptions without a process, for a bounded time: subscriber.c */
static inline bool slot_is_parked(uint64_t word) /* of a subscriber */
{
    return slot_state_of(word) == SLOT_ACTIVE && slot_owner(word) == NOBODY;
}
bool parked_is_over(struct rtmw_region *, uint32_t slot, uint64_t word); /* of a slot that was read as parked before */

/* After I said in shared memory that I use it: this life goes on for as long as I do. false: it is over */
bool topic_stands(struct rtmw_region *, uint64_t life);
bool type_stands(struct rtmw_region *, uint64_t life);
void slot_rescue(uint64_t *word, uint64_t seen); /* of a topic or type: RETIRING → ACTIVE, unless it changed */

#endif
