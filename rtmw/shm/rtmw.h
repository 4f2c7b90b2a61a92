/* rtmw in C: publish and subscribe in the shared memory of one host, from C and C++ programs.
 *
 *   rtmw_region *region;
 *   rtmw_create(0, 64 << 20, RTMW_RESERVE);                               make domain 0, unless it is there
 *   if (rtmw_attach(0, &region)) …                                        attach to it
 *   rtmw_publisher_open(region, "pump/speed", NULL, NULL, &publisher);    raw bytes, default QoS
 *   rtmw_publish(publisher, data, size, NULL);
 *
 * Functions return RTMW_OK (0) or another rtmw_code. After fork() the child's calls return RTMW_FORKED. Times are
 * nanoseconds; 0 means none, unless said. A lifetime, deadline or lease of more than 2^62 (146 years, so also UINT64_MAX) is
 * none either.
 *
 * Blocking. Only functions with `wait` in their name wait. All others return at once; they share a short lock with the
 * threads of the same process, and with no other process.
 *
 * Threads. Any thread may call any function on any handle at any time, but for the call that ends the handle (close,
 * detach): no other call on it may be under way then, or come later. A loan and a message are one thread's at a time.
 *
 * Signals. A handler may call rtmw_subscriber_wake, rtmw_subscriber_shut, rtmw_publisher_wake and rtmw_describe, and no other
 * function: the thread that it interrupted may have the lock, and would wait for itself for ever. Signals interrupt
 * functions that wait; what else a signal does to a function is nothing.
 *
 * Cancellation. pthread_cancel with the default, deferred type may hit any function: nothing stays locked, and what it was
 * about is done or not done. A thread with PTHREAD_CANCEL_ASYNCHRONOUS may call none of them: it may end with the lock.
 *
 * A region has one file descriptor, which says that the process lives: a program that closes it, as with closefrom(), is
 * swept, and then gets RTMW_SWEPT.
 *
 * One process may use librtmw.so and the Python module: they are two participants, and handles of one are nothing to the
 * other.
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

enum { RTMW_PRIORITIES = 8 }; /* 0 to 7 */

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
    RTMW_INTERRUPTED, /* wait: a signal came, or another thread called …_wake */
    RTMW_LAPSED,      /* this RELIABLE subscriber's lease ran out; the next take goes on behind what it missed */
    RTMW_CLOSED,      /* the handle was closed or shut */
    RTMW_TOO_LARGE,   /* larger than the pool */
    RTMW_BAD_NAME,    /* not a topic name: empty, longer than 191 bytes, or with control characters, `*`, `?` or `[` */
    RTMW_NO_PARTICIPANT_SLOT,
    RTMW_NO_TOPIC_SLOT, /* every topic slot is taken by one that has an endpoint, or is traced */
    RTMW_NO_ENDPOINT_SLOT,
    RTMW_NO_TYPE_SLOT, /* every type slot is taken by one that has an endpoint or a message, or is kept for this host */
    RTMW_BAD_QOS,      /* a priority above 7, an unknown reliability, or a depth of 0 */
    RTMW_NOT_FOUND,    /* no such domain */
    RTMW_VERSION,      /* the region was made by another version */
    RTMW_DAMAGED,      /* the region is half made, truncated, or contradicts itself */
    RTMW_DENIED,       /* the region belongs to another user */
    RTMW_FORKED,       /* the handle is the parent's */
    RTMW_SYSTEM,       /* a system call failed: see errno */
    RTMW_BAD_LOAN,     /* not lent to this process: published or dropped before; or larger than what was taken */
    RTMW_BAD_RELEASE,  /* this process has no such message: it was released before, or never taken */
    RTMW_EXISTS,       /* create: there is such a domain */
    RTMW_NO_SPACE,     /* create: /dev/shm has no room for it */
    RTMW_BAD_SIZE,     /* create: a pool below 64 KiB or above 512 GiB, or a reserve above a half */
    RTMW_NO_TYPE,      /* no type has this number */
    RTMW_SWEPT,        /* the process closed the region's file descriptor, and was taken for dead: attach anew */
    RTMW_NO_LOCKS,     /* attach: fcntl(F_OFD_SETLK), by which processes see each other live, is refused: see errno */
    RTMW_OBSERVER,     /* the region is attached to look on only (not by rtmw_attach) */
    RTMW_AGAIN,        /* take: messages that this subscriber does not get were passed over; there may be more behind */
    RTMW_BAD_TIMES,    /* subscriber: a min_interval longer than the deadline, or a lease without RELIABLE */
    RTMW_OTHER_TIME    /* attach, create: this process is in another time namespace than the region, or cannot tell */
} rtmw_code;

/* A reliability, and for subscribers RTMW_EXACT in addition: matched with publishers that offer just that, and no more.
 * For who carries the reliabilities of a topic apart. */
enum { RTMW_TIMELY = 0, RTMW_ADAPTIVE = 1, RTMW_RELIABLE = 2, RTMW_EXACT = 16 };
typedef int rtmw_reliability; /* no enumeration: C++ would not take RTMW_RELIABLE | RTMW_EXACT for one */

/* A message type. NULL where one is asked for: raw bytes. */
typedef struct {
    const char *name;         /* at most 127 bytes */
    uint64_t identity;        /* hash of the description: same identity, same type */
    const void *description;  /* programs without the type decode with it */
    size_t description_bytes; /* at most 8000 */
} rtmw_type;

#define RTMW_ANY ((const rtmw_type *)-1) /* subscribers: every type of the topic */

enum { RTMW_RAW = 0xFFFF }; /* `type` of messages that are raw bytes */

/* A type that somebody in the domain has named, copied. */
typedef struct {
    char name[128];
    uint64_t identity;
    size_t description_bytes;
    uint8_t description[8000];
} rtmw_type_copy;

typedef struct {
    rtmw_reliability reliability;
    uint8_t priority;     /* 0 to 7, 7 first */
    uint32_t depth;       /* small messages kept for late subscribers while memory and topic slots are plenty */
    uint32_t history;     /* messages kept for late subscribers in any case */
    uint64_t lifetime_ns; /* of messages that say nothing else, CLOCK_MONOTONIC; 0: no limit */
} rtmw_publisher_qos;

typedef struct {
    rtmw_reliability reliability;
    uint32_t depth;   /* unread messages kept for it */
    uint32_t history; /* messages from before it came that it wants */
    uint64_t min_interval_ns, deadline_ns, lease_ns;
} rtmw_subscriber_qos;

/* Set in the identity of a publisher that is not of this host: the node brought its message. */
#define RTMW_REMOTE (UINT64_C(1) << 63)

typedef struct {
    int priority;         /* -1: the publisher's */
    uint64_t lifetime_ns; /* 0: the publisher's */
    uint64_t expires_ns;  /* CLOCK_REALTIME, converted when it is published; 0: no limit. The earlier of both holds */
    /* For who passes on what another has published: */
    uint64_t source_time_ns; /* CLOCK_REALTIME; 0: now */
    uint64_t publisher;      /* identity; 0: this publisher */
} rtmw_message_qos;

/* The defaults, for initialization. */
#define RTMW_PUBLISHER_QOS  {RTMW_ADAPTIVE, 0, 64, 0, 0}
#define RTMW_SUBSCRIBER_QOS {RTMW_ADAPTIVE, 64, 0, 0, 0, 0}
#define RTMW_MESSAGE_QOS    {-1, 0, 0, 0, 0}

/* A block that is being written. Publish it or drop it. `size` may be lowered before it is published. */
typedef struct {
    void *data;
    uint64_t size;
    uint32_t descriptor; /* which block, and which loan of it: not to be changed */
    uint64_t life;
} rtmw_loan;

/* A message that is being read: valid until rtmw_release. */
typedef struct {
    const void *data;
    uint64_t size;
    uint64_t sequence;       /* dense within topic and priority */
    uint64_t source_time_ns; /* CLOCK_REALTIME */
    uint64_t expires_ns;     /* CLOCK_REALTIME, as that was set when it was taken; 0: never */
    uint64_t ends_ns;        /* the same on CLOCK_MONOTONIC, which nobody sets */
    uint64_t publisher;      /* identity in this region: see rtmw_identity. Upper 32 bits: the process, unless REMOTE */
    uint32_t descriptor;
    uint16_t type; /* RTMW_RAW, or a number that means this type for as long as the message is held: rtmw_type_find */
    uint8_t priority;
    bool is_old;     /* published before the subscriber came */
    uint32_t number; /* messages within topic and priority, up to it, that are offered to the subscriber, modulo 2^32 */
} rtmw_message;

#define RTMW_RESERVE 128u /* an eighth: what Python programs ask for */

/* Counters of the messages of a topic for a subscriber, since it was opened. */
typedef struct {
    uint64_t received, missed, expired, thinned, lapses;
} rtmw_subscriber_counters;

/* Messages that a subscriber did not get, by cause. */
typedef struct {
    uint64_t missed, expired, thinned;
} rtmw_lost;

RTMW_API const char *rtmw_describe(int code); /* one plain sentence */
/* The same in `text`, of `size` bytes; to RTMW_SYSTEM and RTMW_NO_LOCKS it adds what this errno means, and what to do. */
RTMW_API const char *rtmw_explain(int code, int error, char *text, size_t size);

/* ---- domains ---- */

/* Make a domain, with a pool of so many bytes (rounded up to pages) for messages: 64 << 20 is what Python programs ask for. Its
 * control words come on top. All of its memory is reserved at once. It stays until `rtmw clean`, or until the host starts
 * anew. `reserve`: how many 1024ths of it only priorities above 3 may use, at most 512; see RTMW_RESERVE. RTMW_EXISTS:
 * somebody else was quicker, which is as good. */
RTMW_API int rtmw_create(uint32_t domain, uint64_t pool_bytes, uint32_t reserve);
/* The same for all users of a group, by its number: each of them may attach, and so may read and corrupt all of it.
 * RTMW_DENIED: this process is not in the group. */
RTMW_API int rtmw_create_for_group(uint32_t domain, uint64_t pool_bytes, uint32_t reserve, uint32_t group);
/* Attach to a domain that exists. Sweeps after participants that died. Each call makes a participant of its own. */
RTMW_API int rtmw_attach(uint32_t domain, rtmw_region **region);
/* Give everything back. Handles, loans and messages of the region are invalid afterwards. */
RTMW_API void rtmw_detach(rtmw_region *region);
/* Map every page of the region now, and keep it in memory, until detached: no page fault later. RTMW_SYSTEM with errno
 * ENOMEM or EPERM: RLIMIT_MEMLOCK is too low; then nothing is locked. Idempotent. */
RTMW_API int rtmw_lock_memory(rtmw_region *region);

/* The type of a message that is held, by `type` of the message: once nobody uses a type, its number is given to another one.
 * RTMW_NO_TYPE: it is raw bytes, or no type has this number. */
RTMW_API int rtmw_type_find(rtmw_region *, uint16_t type, rtmw_type_copy *);
/* A number by which to remember the type of a message that is held: no other type ever has it. 0: no type has this one. */
RTMW_API uint64_t rtmw_type_life(rtmw_region *, uint16_t type);
/* Endpoints of this handle, and types that are new with them, are those of other hosts from now on: they get none of the
 * slots that are kept for programs of this host, an eighth of the endpoints and half of the types. A node says so. */
RTMW_API void rtmw_serve_peers(rtmw_region *);

/* ---- publishers ---- */

RTMW_API int rtmw_publisher_open(rtmw_region *, const char *topic, const rtmw_type *, const rtmw_publisher_qos *,
                                 rtmw_publisher **);
/* Its loans have to be published or dropped before. */
RTMW_API void rtmw_publisher_close(rtmw_publisher *);
/* The same, and late subscribers get nothing of what the topic keeps, unless another publisher is there, which may have
 * promised to keep it. Subscribers that are there take what they have not read. */
RTMW_API void rtmw_publisher_forget(rtmw_publisher *);
/* Late subscribers get nothing of what is published on the topic by now, whoever promised to keep it. Subscribers that are
 * there take what they have not read. `messages`: how many were kept for late ones; 0 also where no topic has this name. */
RTMW_API int rtmw_topic_clear(rtmw_region *, const char *topic, uint64_t *messages);
/* The living subscribers that get its messages. A system call for each program that has one: not for each message. */
RTMW_API uint32_t rtmw_publisher_matched(rtmw_publisher *);
/* RTMW_FULL and RTMW_NO_MEMORY are answers; nothing was published then. `qos` NULL: the defaults. */
RTMW_API int rtmw_publish(rtmw_publisher *, const void *data, uint64_t size, const rtmw_message_qos *);
/* The same, but it wakes nobody who sleeps. rtmw_publisher_flush does, once for several of these: soon after the last. */
RTMW_API int rtmw_publish_quietly(rtmw_publisher *, const void *data, uint64_t size, const rtmw_message_qos *);
RTMW_API void rtmw_publisher_flush(rtmw_publisher *);
/* Within what the publisher's priority may use of the pool, whatever priority the message is published with. */
RTMW_API int rtmw_loan_take(rtmw_publisher *, uint64_t size, rtmw_loan *);
/* Refused, a loan stays lent: publish it again, or drop it. A loan published or dropped is RTMW_BAD_LOAN ever after. A
 * loan lies where its publisher's priority may use the pool. Where a lower one may not, its message is copied when it is
 * published with that, and refused with RTMW_NO_MEMORY while there is no room. */
RTMW_API int rtmw_loan_publish(rtmw_publisher *, rtmw_loan *, const rtmw_message_qos *);
RTMW_API int rtmw_loan_drop(rtmw_publisher *, rtmw_loan *);
/* For who passes on what another has published: these never came, the first of them after `since_ns` (CLOCK_MONOTONIC).
 * Subscribers that were open by then and would have got them count them. Returns how many subscribers those are; 0: the
 * messages were meant for nobody who is here. */
RTMW_API uint32_t rtmw_publisher_lost(rtmw_publisher *, rtmw_lost, uint64_t since_ns);
/* After RTMW_FULL or RTMW_NO_MEMORY: wait until it is worth trying again. RTMW_OK, RTMW_TIMEOUT, RTMW_INTERRUPTED.
 * UINT64_MAX: no limit. Another publisher may be quicker, so that the next try is refused again. */
RTMW_API int rtmw_publisher_wait(rtmw_publisher *, uint64_t timeout_ns);
/* One rtmw_publisher_wait ends with RTMW_INTERRUPTED: one under way, else the next. Idempotent until then. */
RTMW_API int rtmw_publisher_wake(rtmw_publisher *);

/* ---- subscribers ---- */

RTMW_API int rtmw_subscriber_open(rtmw_region *, const char *topic, const rtmw_type *, const rtmw_subscriber_qos *,
                                  rtmw_subscriber **);
/* Messages that it took stay valid until they are released. */
RTMW_API void rtmw_subscriber_close(rtmw_subscriber *);
/* For a RELIABLE subscriber whose program is about to be started again: the handle is closed, and its place in the queues
 * stays, for `for_ns` at most. Publishers wait for it as for one that stands still, and nothing it has not taken is evicted.
 * false: it was closed and nothing stays, for it is not RELIABLE, had lapsed, or `for_ns` is 0. */
RTMW_API bool rtmw_subscriber_park(rtmw_subscriber *, uint16_t key, uint64_t for_ns);
/* Go on where a subscriber of the same topic, type and reliability was parked with the same key. To be called before the first
 * take. false: there is none, or no longer. */
RTMW_API bool rtmw_subscriber_resume(rtmw_subscriber *, uint16_t key);
/* All waits and takes, under way and to come, end with RTMW_CLOSED. Idempotent. For who closes it when its threads are out. */
RTMW_API int rtmw_subscriber_shut(rtmw_subscriber *);
/* From the next message on, other limits. */
RTMW_API void rtmw_subscriber_adjust(rtmw_subscriber *, uint32_t depth, uint64_t min_interval_ns);
/* I cannot take just now, and have not stopped: the lease begins anew. */
RTMW_API void rtmw_subscriber_alive(rtmw_subscriber *);
/* The number (rtmw_message) of the last message of a priority that it has come to, whether it took that or not. */
RTMW_API uint32_t rtmw_subscriber_number(rtmw_subscriber *, uint8_t priority);
/* Sequence of the last message of a priority before those that it takes or counts, as it was opened; 0: there was none. */
RTMW_API uint64_t rtmw_subscriber_start(rtmw_subscriber *, uint8_t priority);
/* Of one that was opened with `history` and has taken nothing: it begins behind this sequence, for another subscriber has had
 * what lies up to it. Gives the sequence behind which it begins, which is a later one if what comes between is gone. */
RTMW_API uint64_t rtmw_subscriber_skip(rtmw_subscriber *, uint8_t priority, uint64_t sequence);
/* How many messages of the topic it neither takes nor counts, for it came after them: those up to `start`, and those behind it
 * whose memory was gone before it came. As of its last take. The thread that takes may call it. */
RTMW_API uint64_t rtmw_subscriber_early(rtmw_subscriber *);
/* As of its last take: what has gone from the queues since then is counted by the next one. */
RTMW_API void rtmw_subscriber_count(rtmw_subscriber *, rtmw_subscriber_counters *);
/* RTMW_OK with a message, RTMW_EMPTY, RTMW_LAPSED (once for each time the lease ran out), or RTMW_AGAIN: the call has passed
 * over some dozens of messages that this subscriber does not get, as many as one call does, and the next one goes on. */
RTMW_API int rtmw_take(rtmw_subscriber *, rtmw_message *);
/* The same of several: RTMW_OK with `most` of them, 1 or more, or with fewer that have `bytes` together or more, and there may be
 * another one; else why not, after `count` of them. Publishers that wait for room are woken once. */
RTMW_API int rtmw_take_many(rtmw_subscriber *, rtmw_message *, uint32_t most, uint64_t bytes, uint32_t *count);
/* Once for each message taken. RTMW_BAD_RELEASE: once too often. A process that has the same message from another subscriber
 * of it too does not hear of that: then it is that hold which ends. */
/* How a publisher is called on each host, by its identity in this region: 63 bits, not 0 but for 0. Of a publisher whose
 * messages a node brought it is the number that the publisher has at home. */
RTMW_API uint64_t rtmw_identity(const rtmw_region *, uint64_t publisher);
RTMW_API int rtmw_release(rtmw_region *, uint32_t descriptor);
/* Wait for something to take: spin for `spin_ns`, then sleep. UINT64_MAX: no limit; spin_ns UINT64_MAX: adaptive.
 * RTMW_OK, RTMW_TIMEOUT, RTMW_DEADLINE, RTMW_INTERRUPTED, RTMW_CLOSED. */
RTMW_API int rtmw_wait(rtmw_subscriber *, uint64_t timeout_ns, uint64_t spin_ns);
/* Wait for any of several: sets ready[i]. */
RTMW_API int rtmw_wait_any(rtmw_subscriber **, bool *ready, size_t count, uint64_t timeout_ns);
/* One wait for it ends with RTMW_INTERRUPTED: one under way, else the next. Idempotent until then. */
RTMW_API int rtmw_subscriber_wake(rtmw_subscriber *);

#ifdef __cplusplus
}
#endif
#endif
