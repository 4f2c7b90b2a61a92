/* Messages that a subscriber has yet to take: see unread.c. */
#ifndef RTMW_UNREAD_H
#define RTMW_UNREAD_H

#include "standing.h"

/* Messages behind a subscriber's cursor that it gets by type and reliability. */
struct unread {
    uint64_t waiting; /* still in the queue */
    uint64_t gone;    /* passed over already: it will count them at its next take */
};

struct standing newest_standing(struct rtmw_region *, struct band *);
struct standing passed_standing(struct rtmw_region *, struct band *);
struct standing first_standing(struct rtmw_region *, struct band *); /* lock held */
uint32_t wanted_by(struct band *, struct subscriber_block *);        /* the offers that it gets: a bit each */
struct unread unread_in(struct rtmw_region *, struct band *, struct subscriber_block *, uint32_t taken);
struct unread unread_by(struct rtmw_region *, struct topic *, struct subscriber_block *); /* in all bands */

#endif
