/* rtmw in C: publish and subscribe in the shared memory of one host, from C and C++ programs.
 *
 *   rtmw_region *region;
 *   if (rtmw_attach(0, &region)) …                                        attach to domain 0
 *   rtmw_publisher_open(region, "pump/speed", NULL, NULL, &publisher);    raw bytes, default QoS
 *   rtmw_publish(publisher, data, size, NULL);
 *
 * A domain is created from Python (`rtmw.Domain(0)`) or by `rtmw doctor`; C programs attach to it.
 * Functions return RTMW_OK (0) or another rtmw_code. Handles may be used by many threads of the process that made
 * them; after fork() the child's calls return RTMW_FORKED. A region has one file descriptor, which says that the process
 * lives: a program that closes it, as with closefrom(), is swept, and then gets RTMW_SWEPT. Times are nanoseconds; 0 means none, unless said.
 */
#ifndef RTMW_H
#define RTMW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RTMW_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rtmw_region rtmw_region; /* this process, attached to a domain */
typedef struct rtmw_publisher rtmw_publisher;
typedef struct rtmw_subscriber rtmw_subscriber;

typedef enum {
    RTMW_OK = 0,
    RTMW_EMPTY,       /* take: nothing to take */
    RTMW_FULL,        /* publish: a RELIABLE subscriber's queue is full */
    RTMW_NO_MEMORY,   /* no descriptor or block is free, and none may be evicted */
    RTMW_TIMEOUT,     /* wait: the time is up */
    RTMW_DEADLINE,    /* wait: the subscriber's deadline passed without a message */
    RTMW_INTERRUPTED, /* wait: a signal came, or may have: see to it and wait again */
    RTMW_LAPSED,      /* this RELIABLE subscriber's lease ran out; the next take goes on behind what it missed */
    RTMW_CLOSED,      /* the handle was closed */
    RTMW_TOO_LARGE,   /* larger than the pool */
    RTMW_BAD_NAME,    /* not a topic name: empty, longer than 191 bytes, or with control characters, `*`, `?` or `[` */
    RTMW_NO_PARTICIPANT_SLOT,
    RTMW_NO_TOPIC_SLOT,
    RTMW_NO_ENDPOINT_SLOT,
    RTMW_NO_TYPE_SLOT,
    RTMW_BAD_QOS,   /* a priority above 7, an unknown reliability, or a depth of 0 */
    RTMW_NOT_FOUND, /* no such domain */
    RTMW_VERSION,   /* the region was made by another version */
    RTMW_DAMAGED,   /* the region is half made, truncated, or contradicts itself */
    RTMW_DENIED,    /* the region belongs to another user */
    RTMW_FORKED,    /* the handle is the parent's */
    RTMW_SYSTEM,    /* a system call failed: see errno */
    RTMW_SWEPT,     /* the process closed the region's file descriptor, and was taken for dead: attach anew */
    RTMW_NO_LOCKS,  /* attach: fcntl(F_OFD_SETLK), by which processes see each other live, is refused: see errno */
    RTMW_OBSERVER   /* the region is attached to look on only (not by rtmw_attach) */
} rtmw_code;

typedef enum { RTMW_TIMELY = 0, RTMW_ADAPTIVE = 1, RTMW_RELIABLE = 2 } rtmw_reliability;

/* Added to the reliability of a subscriber: it is matched with publishers that offer just that, and no more. For who
 * carries the reliabilities of a topic apart. */
enum { RTMW_EXACT = 16 };

/* A message type. NULL where one is asked for: raw bytes. */
typedef struct {
    const char *name;         /* at most 127 bytes */
    uint64_t identity;        /* hash of the description: same identity, same type */
    const void *description;  /* what programs without the type decode with */
    size_t description_bytes; /* at most 8000 */
} rtmw_type;

#define RTMW_ANY ((const rtmw_type *)-1) /* subscribers: every type of the topic */

typedef struct {
    rtmw_reliability reliability;
    uint8_t priority;     /* 0 to 7, 7 first */
    uint32_t depth;       /* small messages kept for late subscribers while memory is plenty */
    uint32_t history;     /* messages kept for late subscribers in any case */
    uint64_t lifetime_ns; /* of messages that say nothing else; 0: no limit */
} rtmw_publisher_qos;

typedef struct {
    rtmw_reliability reliability;
    uint32_t depth;   /* unread messages kept for it */
    uint32_t history; /* messages from before it came that it wants */
    uint64_t min_interval_ns, deadline_ns, lease_ns;
} rtmw_subscriber_qos;

/* Set in the identity of a publisher that is not of this host: the node brought its message. */
#define RTMW_REMOTE (UINT64_C(1) << 63)

#define RTMW_PUBLISHER_QOS  {RTMW_ADAPTIVE, 0, 64, 0, 0}
#define RTMW_SUBSCRIBER_QOS {RTMW_ADAPTIVE, 64, 0, 0, 0, 0}

typedef struct {
    int priority;         /* -1: the publisher's */
    uint64_t lifetime_ns; /* 0: the publisher's */
    uint64_t expires_ns;  /* CLOCK_REALTIME; 0: no limit. The earlier of both holds */
    /* For who passes on what another has published: */
    uint64_t source_time_ns; /* CLOCK_REALTIME; 0: now */
    uint64_t publisher;      /* identity; 0: this publisher */
} rtmw_message_qos;

/* A block that is being written. Publish it or drop it. */
typedef struct {
    void *data;
    uint64_t size;
    uint32_t descriptor;
} rtmw_loan;

/* A message that is being read: valid until rtmw_release. */
typedef struct {
    const void *data;
    uint64_t size;
    uint64_t sequence;       /* dense within topic and priority */
    uint64_t source_time_ns; /* CLOCK_REALTIME */
    uint64_t expires_ns;     /* CLOCK_REALTIME; 0: never */
    uint64_t publisher;      /* identity; the upper 32 bits are the process id, unless RTMW_REMOTE is set */
    uint32_t descriptor;
    uint16_t type;
    uint8_t priority;
    bool is_old; /* published before the subscriber came */
} rtmw_message;

/* What came of the messages of a topic for a subscriber, since it was opened. */
typedef struct {
    uint64_t received, missed, expired, thinned, lapses;
} rtmw_subscriber_counters;

RTMW_API const char *rtmw_describe(int code); /* one plain sentence */
/* The same in `text`, of `size` bytes; to RTMW_SYSTEM and RTMW_NO_LOCKS it adds what this errno means, and what to do. */
RTMW_API const char *rtmw_explain(int code, int error, char *text, size_t size);

/* Attach to a domain that exists. Sweeps after participants that died. */
RTMW_API int rtmw_attach(uint32_t domain, rtmw_region **region);
/* Give everything back. Handles and messages of the region are invalid afterwards. */
RTMW_API void rtmw_detach(rtmw_region *region);
/* Map every page of the region now, and keep it in memory, until detached: no page fault later. RTMW_SYSTEM with errno
 * ENOMEM or EPERM: RLIMIT_MEMLOCK is too low; then nothing is locked. */
RTMW_API int rtmw_lock_memory(rtmw_region *region);

RTMW_API int rtmw_publisher_open(rtmw_region *, const char *topic, const rtmw_type *, const rtmw_publisher_qos *,
                                 rtmw_publisher **);
RTMW_API void rtmw_publisher_close(rtmw_publisher *);
RTMW_API uint32_t rtmw_publisher_matched(rtmw_publisher *); /* subscribers that get its messages */
/* Never waits. RTMW_FULL and RTMW_NO_MEMORY are answers; nothing was published then. `qos` NULL: the defaults. */
RTMW_API int rtmw_publish(rtmw_publisher *, const void *data, uint64_t size, const rtmw_message_qos *);
RTMW_API int rtmw_loan_take(rtmw_publisher *, uint64_t size, rtmw_loan *);
RTMW_API int rtmw_loan_publish(rtmw_publisher *, rtmw_loan *, const rtmw_message_qos *);
RTMW_API void rtmw_loan_drop(rtmw_publisher *, rtmw_loan *);
/* After RTMW_FULL or RTMW_NO_MEMORY: wait until it is worth trying again. RTMW_OK, RTMW_TIMEOUT, RTMW_INTERRUPTED. */
RTMW_API int rtmw_publisher_wait(rtmw_publisher *, uint64_t timeout_ns);

RTMW_API int rtmw_subscriber_open(rtmw_region *, const char *topic, const rtmw_type *, const rtmw_subscriber_qos *,
                                  rtmw_subscriber **);
RTMW_API void rtmw_subscriber_close(rtmw_subscriber *);
/* From the next message on, other limits. */
RTMW_API void rtmw_subscriber_adjust(rtmw_subscriber *, uint32_t depth, uint64_t min_interval_ns);
/* I cannot take just now, and have not stopped: the lease begins anew. */
RTMW_API void rtmw_subscriber_alive(rtmw_subscriber *);
RTMW_API void rtmw_subscriber_count(rtmw_subscriber *, rtmw_subscriber_counters *);
/* Never waits: RTMW_OK with a message, RTMW_EMPTY, or RTMW_LAPSED (once for each time the lease ran out). */
RTMW_API int rtmw_take(rtmw_subscriber *, rtmw_message *);
RTMW_API void rtmw_release(rtmw_region *, uint32_t descriptor);
/* Wait for something to take: spin for `spin_ns`, then sleep. UINT64_MAX: no limit; spin_ns UINT64_MAX: adaptive.
 * RTMW_OK, RTMW_TIMEOUT, RTMW_DEADLINE, RTMW_INTERRUPTED, RTMW_CLOSED. */
RTMW_API int rtmw_wait(rtmw_subscriber *, uint64_t timeout_ns, uint64_t spin_ns);
/* Wait for any of several: sets ready[i]. */
RTMW_API int rtmw_wait_any(rtmw_subscriber **, bool *ready, size_t count, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
