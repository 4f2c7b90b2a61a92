/* How much of a band may go, found in one pass over the subscribers of its topic, and what gives way over all topics
 * and within a queue: reclaim.c. */
#ifndef RTMW_RECLAIM_H
#define RTMW_RECLAIM_H

#include "queue.h"

enum { TRIM_MOST = 64 };
enum { AGAIN_NS = 10000000 }; /* after a look in vain the next one waits so long, unless a publisher is gone */
enum { LOOKS_A_MESSAGE = 2 }; /* within a queue */

/* Whose needs count. */
enum look {
    LOOK_UNNEEDED, /* everybody's, ADAPTIVE backlogs beyond `depth` too */
    LOOK_SPARE,    /* everybody's, as far as `depth` goes */
    LOOK_UNREAD,   /* those of RELIABLE subscribers that a publisher offers RELIABLE */
};

struct outlook {
    uint32_t topic, band;
    enum look look;
    bool offered;                   /* a RELIABLE publisher was here; else a RELIABLE subscriber is matched with none */
    struct standing passed, newest; /* just before the oldest message, and of the newest */
    uint64_t kept, history;         /* messages in the queue, and how many of these stay in any case */
    uint64_t floor[OFFERS + 1];     /* of each offer, the last sequence that nobody needs */
    uint32_t subscribers;           /* that were asked */
};

/* Only how much there is: `floor` is missing. */
struct outlook outlook_begin(struct rtmw_region *, uint32_t topic, uint32_t band, enum look);
struct outlook outlook_of(struct rtmw_region *, uint32_t topic, uint32_t band, enum look);
/* The same, but for those subscribers that the traversal adds: `floor` knows nothing of what they need. */
struct outlook outlook_beside(struct rtmw_region *, uint32_t topic, uint32_t band, enum look, struct traversal *);
/* Passes over the oldest that nobody needs, without the newest `keep`; how many. `which` says how many at most. */
uint32_t outlook_pass(struct rtmw_region *, const struct outlook *, uint64_t keep, struct passing *which);
/* Nobody needs the last message, which is the only one, or it has expired by now: its block is given back. */
bool outlook_empty_last(struct rtmw_region *, const struct outlook *, uint64_t now);

/* Thinning: what a reader with an interval will accept. `traversal` has looked at its bands, and at no reader yet */
void reader_foresees(struct reader *, struct rtmw_region *, const struct traversal *, struct subscriber_block *);
void reader_foretells(struct reader *, uint32_t band, const struct glimpse *); /* of a higher band: it comes to that */
bool reader_needs(struct reader *, const struct glimpse *);                    /* of the band that is traversed */

/* Within */
bool traversal_adds(struct traversal *, struct rtmw_region *, const struct outlook *, struct subscriber_block *,
                    uint64_t word, uint64_t needs);
struct search;
/* Goes on in the traversal of a band; true: blocks were given back. `o`: how much there is, and as which look. */
bool empty_within(struct search *, const struct outlook *);
/* How many messages a queue may take before this is asked again, while descriptors are low. 0: none, since a RELIABLE
 * subscriber needs its oldest message, and more than half of the others are needed by nobody. Looks at a bounded number of
 * messages in a call; until it has come to the end it answers what was so before. */
uint32_t room_when_low(struct rtmw_publisher *, uint32_t band);

/* Eviction */
struct victim {
    struct outlook outlook;
    uint64_t share, next; /* what it holds of that which is short, 0: none; and what the next one holds */
};

struct search { /* of one call, for a message */
    struct rtmw_publisher *publisher;
    uint32_t band;                   /* of the message */
    uint64_t need, own;              /* of what is short; and what the publisher's own topic holds of it in that band */
    uint64_t now;                    /* CLOCK_MONOTONIC */
    int64_t spare_looks, looks;      /* that are left: for what is spare, and for the rest; in units of a glance */
    int64_t looks_within;            /* and for what lies within queues */
    int64_t turn_looks, turn_within; /* that one call of make_room may use */
    bool hinted;                     /* there may be passed messages that somebody has named */
    uint64_t reclaims;               /* parts of the others' stashes that may still be looked through */
    struct victim spare, unread;     /* those that gave way last */
};

struct search search_begin(struct rtmw_publisher *, uint32_t band, uint64_t size);
bool make_room(struct search *);       /* after descriptor_claim found nothing: true, try again */
bool make_spare_room(struct search *); /* only of what is spare */
/* Abandoned: the oldest message that history keeps for nobody's publisher, of those that all have read
 * (LOOK_SPARE), or that no RELIABLE subscriber has unread (LOOK_UNREAD) */
bool abandoned_gives(struct search *, enum look);
/* Memory is low, and no topic that holds more has given way. */
bool is_pressed(struct rtmw_publisher *, uint32_t band);

#endif
