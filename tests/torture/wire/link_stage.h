/* The stage of a line: its own C, turned by hand, with a bus and a clock of which the tests decide what they do. One thread. */
#ifndef LINK_STAGE_H
#define LINK_STAGE_H

#include "../../../rtmw/net/link/link.h"
#include "require.h"

enum { HELD_MOST = 1024, POOL = 1 << 20, ROUTES_MOST = 6, OFFSET_NS = 1000000 };

/* A bus, as far as a line sees it. */
struct rtmw_region {
    struct made *held[HELD_MOST]; /* messages that were taken and not released, by descriptor */
    uint64_t lent;                /* bytes of loans */
};

struct rtmw_publisher {
    rtmw_region *region;
    uint32_t route;
    uint32_t full_for; /* it refuses so many messages */
    bool is_untold;    /* something was published quietly, and not flushed */
    uint64_t newest[BANDS], arrived, lost;
};

struct rtmw_subscriber {
    rtmw_region *region;
    struct made *first, *last;
    uint64_t missed;
};

struct side {
    rtmw_region region;
    struct line line;
    struct in *in[ROUTES_MOST];
    struct out *out[ROUTES_MOST];
    bool is_more;
    bool is_checked; /* frames of its connections have a CRC; true, unless it is said before side_carry */
};

struct stage {
    uint64_t now_ns;
    void (*on_publish)(rtmw_publisher *, const uint8_t *, uint64_t size, const rtmw_message_qos *);
};

extern struct stage stage;

void side_open(struct side *);
void side_close(struct side *); /* the books balance then, or the program ends */
void side_turn(struct side *, int times);
bool side_is_up(const struct side *);
/* Both ends of two connections: the line's go into the line, the others are the caller's. */
void side_carry(struct side *, int peer[PAIR]);
int side_twin(struct side *); /* the same of its twin: the end that is the caller's */

struct in *side_in(struct side *, uint32_t place, struct in with); /* of `with`, what the route is like */
struct out *side_out(struct side *, uint32_t place, uint32_t number, rtmw_reliability);
void side_shut_in(struct side *, uint32_t place);
void side_shut_out(struct side *, uint32_t place);
/* The bus has a message: its source time is its `id`. lifetime_ns 0: none. */
void side_offer(struct side *, uint32_t place, uint8_t band, uint64_t id, size_t size, uint64_t lifetime_ns);
/* What each byte of a message is. */
uint8_t byte_of(uint32_t route, uint32_t band, uint64_t id, size_t at);
bool is_as_made(const uint8_t *bytes, size_t size, uint32_t route, uint32_t band, uint64_t id);

/* In place of epoll_wait (link.mk): never sleeps. */
struct epoll_event;
int stage_epoll_wait(int epoll, struct epoll_event *, int most, int wait_ms);

#endif
