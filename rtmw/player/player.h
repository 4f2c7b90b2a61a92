/* The part of a replay that touches messages: a thread that publishes each at its time. No Python runs for a message.
 *
 *   Python ─ feed ─► batch ─► batch ─► the player's thread: sleep, spin, publish ─► tracks ─► bus
 *              ◄─ over: what has been played, or dropped, is given back at the next call
 *
 * A cue is one message to be played. Its time is that of the recording; the timeline says when that is on this host's clock.
 * Whoever changes something adds 1 to `word`, on which the thread sleeps, and at which it looks before each cue: so a
 * command is heeded at once, in the middle of a wait of hours, and also where a RELIABLE subscriber has no room.
 */
#ifndef RTMW_REPLAY_PLAYER_H
#define RTMW_REPLAY_PLAYER_H

#include <pthread.h>

#include "../shm/clock.h"
#include "../shm/histogram.h"
#include "../shm/rtmw.h"

static inline uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

enum {
    QUEUED_MOST = 2, /* batches: one that plays, and the next */
};

struct cue {
    int64_t log_ns;      /* when it is due, on the recording's clock */
    int64_t source_ns;   /* its source time; 0: now */
    int64_t lifetime_ns; /* 0: the publisher's; below 0: it was over already */
    uint64_t position, size;
    uint32_t buffer; /* in which buffer of its batch the payload lies */
    uint16_t track;
    int8_t priority; /* -1: the publisher's */
};

/* Cues in the order of their times. Its memory is Python's, until the batch is over. */
struct batch {
    struct batch *next;
    uint64_t count, at; /* at: the next to be played; only the thread moves it on */
    const struct cue *cues;
    const uint8_t *const *data; /* where each buffer begins */
    bool begins;                /* the clock begins anew with it, at begin_ns */
    int64_t begin_ns;
};

/* A topic that is played. The counters are written by the thread alone, and only grow. */
struct track {
    rtmw_publisher *publisher;
    bool reliable;
    uint64_t published, bytes;
    uint64_t expired, timed_out, exhausted, too_large; /* not published, by cause */
    uint64_t unheard;   /* published while no subscriber was matched, as of the last look */
    uint64_t looked_ns; /* CLOCK_MONOTONIC; the thread's own */
    bool is_heard;      /* at that look */
};

/* What the recording's clock is on this host's. Written under the lock, copied by the thread before it plays. */
struct timeline {
    double rate;             /* 0: everything is due at once */
    int64_t log_ns, mono_ns; /* one moment on both */
};

/* How the thread is on time (pacing.c). The counters only grow, and others read them; all else is the thread's own. */
struct pacing {
    int64_t spin_ns;            /* so much before each cue it wakes up, to spin the rest; below 0: learned */
    uint64_t early_ns;          /* what it has learned */
    uint64_t credit_ns;         /* of what it has learned: what it may spin by now */
    uint64_t earned_ns;         /* until when the credit is reckoned */
    uint64_t spun_ns;           /* in all */
    struct histogram overslept; /* waking up after the time that was asked for */
};

struct player {
    rtmw_region *region;
    struct track **tracks;
    uint32_t track_count;
    uint64_t max_blocking_ns; /* how long a full RELIABLE subscriber is waited for; UINT64_MAX: no limit */
    struct pacing pacing;
    struct histogram lateness; /* publishing after the time that was due; written by the thread alone */

    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    uint32_t word; /* only grows, under the lock; the thread sleeps on it without */
    uint32_t ends; /* likewise; a thread that waits for the end sleeps on it */
    struct batch *first, *last, *over;
    uint32_t queued, take; /* take: which of the feeds counts; grows when all that is queued is dropped */
    bool ended;            /* nothing will follow what is queued */
    bool paused, stop;
    uint32_t commanders; /* commands that wait until the thread is not at work; it does not begin meanwhile */
    bool playing;        /* the thread is at work on `first`, outside of the lock */
    uint32_t steps;      /* cues to be played though it is paused */
    struct timeline timeline;
    int64_t played_ns;  /* time of the last cue that was played */
    int failure, error; /* why the thread gave up, and errno at that time; RTMW_OK: it did not */
};

/* No command has come since the word was that. */
static inline bool is_current(struct player *p, uint32_t word) { return load_acquire(&p->word) == word; }

/* pacing.c */
void pacing_begin(struct pacing *); /* by the thread itself: what the kernel is told of it */
bool pacing_wait(struct player *, uint64_t due_ns, uint32_t word); /* false: a command came */

/* player.c */
/* Plays from one batch, at most so many cues. RTMW_INTERRUPTED: a command came; else not RTMW_OK: why it gave up. */
int play_some(struct player *, struct batch *, const struct timeline *, uint32_t word, uint64_t most);

/* Before the thread has anything to play, and when it has ended. */
int track_open(struct player *, const char *topic, const rtmw_type *, const rtmw_publisher_qos *);
void tracks_close(struct player *);

int player_start(struct player *); /* 0, or the errno of what failed */
void player_stop(struct player *); /* the thread ends, everything queued is over */
/* false: a take that is no longer. Waits for its turn. The batch is the player's if true. */
bool player_feed(struct player *, struct batch *, uint32_t take);
void player_end(struct player *, uint32_t take);
/* Drops what is queued, and stands at `log_ns`. Gives the number of the new take, whose feeds count from now on. */
uint32_t player_clear(struct player *, int64_t log_ns);
void player_pause(struct player *, bool); /* nothing is published any more when it returns */
void player_step(struct player *);
void player_rate(struct player *, double rate);
int64_t player_position(struct player *); /* now, on the recording's clock */
/* Everything of the take that ended has been played, or dropped; or the thread gave up, and why. false: too long, or a
 * signal came. */
bool player_wait(struct player *, uint64_t timeout_ns, int *failure);
struct batch *player_over(struct player *); /* a list, for its owner to free */

#endif
