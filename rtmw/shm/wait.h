/* Waiting for messages and for room: by futex, by file descriptor, and awake. */
#ifndef RTMW_WAIT_H
#define RTMW_WAIT_H

#include "core.h"

void wake_subscribers(struct rtmw_region *, struct topic *, uint32_t topic_index);
void wake_publishers(struct topic *);
void futex_wake_and_add(uint32_t *word);
uint32_t arm_word(uint32_t *word);
bool has_next(struct rtmw_subscriber *);
/* The result before sleeping: RTMW_OK (look), RTMW_DEADLINE, RTMW_TIMEOUT, RTMW_CLOSED, RTMW_INTERRUPTED, or RTMW_EMPTY:
 * sleep. `now`, `end`: CLOCK_MONOTONIC. */
int wait_state(struct rtmw_subscriber *, uint64_t now, uint64_t end);

/* Wait until `end` (CLOCK_MONOTONIC; UINT64_MAX: no limit), as the functions of rtmw.h do; but RTMW_EMPTY when it is time
 * to look whether anything else has happened in this program: twice a second, and each few milliseconds for room. */
int subscriber_wait(struct rtmw_subscriber *, uint64_t end, uint64_t spin_ns);
int publisher_wait(rtmw_publisher *, uint64_t end);
bool publisher_has_room(rtmw_publisher *, uint32_t band); /* in the queues; memory is another thing */
/* publish.c, room: a publisher waits for memory, or was refused it: the dead are swept after, the stalled lapse. Lock held */
void expel_for_memory(rtmw_publisher *);
/* A RELIABLE subscriber because of which a publisher was refused last: one of its topic that is full in the band of that
 * message; or, if memory was what it lacked and it has not published since, one of any topic that has something unread. */
struct blocker {
    uint32_t owner; /* participant slot; NOBODY: its program has left it to the next one */
    uint32_t topic, depth;
    uint64_t unread;
    bool is_full; /* else what it has unread keeps memory */
};
/* How many; at most so many. Of other topics' subscribers it looks at so many only, and the next call at others. */
uint32_t blockers_of(rtmw_publisher *, struct blocker *, uint32_t most, uint32_t looks);
uint64_t end_of(uint64_t now, uint64_t timeout_ns); /* UINT64_MAX: no limit */

/* ---- waiting for several ---- */
int wait_any(rtmw_subscriber **, bool *ready, size_t count, uint64_t end);
/* The same by one word of the process, which is how wait_any sleeps on more topics than the kernel takes words. */
int wait_crowd(rtmw_subscriber **, bool *ready, size_t count, uint64_t end);
void wake_crowd(struct rtmw_region *, uint32_t participant); /* the thread that sleeps so, if there is one */

/* ---- spinning: true when there is something to take ---- */
enum { GLANCE_NS = 3000 };
bool subscriber_glance(struct rtmw_subscriber *); /* for so short a time that the GIL need not be given away */
bool subscriber_spin(struct rtmw_subscriber *, uint64_t now, uint64_t end); /* as long as it is worth at present */
bool subscriber_spin_for(struct rtmw_subscriber *, uint64_t until);
void subscriber_slept(struct rtmw_subscriber *, uint64_t waited_ns); /* after a spin that found nothing */

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A sleeper looks by itself after so long: a publisher may have been stopped between linking and waking. */
enum { LOOK_UP_NS = 500000000 };
static inline uint64_t look_up_ns(const struct rtmw_subscriber *s)
{
    uint64_t quarter = s->qos.deadline_ns / 4;
    return quarter && quarter < LOOK_UP_NS ? quarter : LOOK_UP_NS;
}

/* ---- datagrams ---- */
void send_datagrams(struct rtmw_region *, struct topic *, uint32_t topic_index); /* to who is armed */
int region_socket(struct rtmw_region *); /* the process' one file descriptor; -1 and errno */
void drain(int socket);
int subscriber_pollable(struct rtmw_subscriber *); /* a descriptor of its own; -1 and errno */
void pollable_close(struct rtmw_subscriber *);
bool subscriber_arm(struct rtmw_subscriber *);   /* ask for a datagram. true: there is something to take already */
bool subscriber_rearm(struct rtmw_subscriber *); /* it has a descriptor: not readable any more, and arm */

#endif
