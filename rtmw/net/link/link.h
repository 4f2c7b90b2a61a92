/* A line: topics between this node and one other, over two connections. No Python runs for a message.
 *
 *   bus ─ take ─► out: a queue a band ─► chunks, highest band first ─┬► urgent channel (bands 4 to 7) ─►
 *                    │ kept until acknowledged                       ├► bulk channel (bands 0 to 3) ─►
 *                    │                                               └► twin, if there is one: copies (out.c) ─►
 *   bus ◄─ publish ─ in: a message a band is put together ◄─ frames ◄─ any channel
 *
 * A thread a line, from line_start to line_stop, and one for all lines of a node (struct lines):
 *   receiver   sleeps until a channel can be read or written; reads, publishes, pumps, and ends channels
 *   sender     sleeps until the bus has something for a route of any line, and pumps (line.c)
 * A thread that pumps (out.c) takes messages of the bus and writes frames, under the lock of the line.
 *
 * Routes, what they keep (channel.h), numbers, and controls outlive a cut of the connections. Outboxes, inboxes, and messages
 * that had come in part do not; such messages are sent again from their beginning.
 *
 * Locks (../route/locks.h): `lock` has rank LOCK_ENGINE, `arriving` LOCK_ROUTE, `news` and those of channels LOCK_LEAF. The
 * bus is called under the first two, and never waited for.
 *
 * channel.c, in.c, line.c, out.c and pacing.c are one module, which would have 3,200 lines in one file: they call each other
 * in a circle, since whoever sends may wake who receives, and the other way round. TLS below them knows nothing of it.
 */
#ifndef RTMW_LINK_LINK_H
#define RTMW_LINK_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../shm/atomics.h"
#include "../../shm/rtmw.h"
#include "../route/carried.h"
#include "../route/locks.h"
#include "../route/now.h"
#include "../route/sending.h"
#include "channel.h"

/* ---- routes by number ---- */

/* Routes of a line by their number, for the frames that name them: a search in an array that is in order. Each side chooses the
 * numbers of its own routes, and only higher ones, so what is added comes last, and no choice of numbers makes a search longer
 * than the logarithm of how many are open. The lock of the routes is held. */

struct by_number {
    struct numbered {
        uint32_t number;
        void *route;
    } *entries;
    uint32_t count, room;
};

/* Where the number is, or would be. */
static inline uint32_t by_number_at(const struct by_number *b, uint32_t number)
{
    uint32_t low = 0, high = b->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->entries[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: there is none. */
static inline void *by_number_find(const struct by_number *b, uint32_t number)
{
    uint32_t at = by_number_at(b, number);
    return at < b->count && b->entries[at].number == number ? b->entries[at].route : NULL;
}

/* false: the number is not above all that are there, or there is no memory. */
static inline bool by_number_add(struct by_number *b, uint32_t number, void *route)
{
    if (b->count && b->entries[b->count - 1].number >= number) return false;
    if (b->count == b->room) {
        uint32_t room = b->room ? 2 * b->room : 8;
        struct numbered *entries = realloc(b->entries, room * sizeof *entries);
        if (!entries) return false;
        b->entries = entries;
        b->room = room;
    }
    b->entries[b->count++] = (struct numbered){number, route};
    return true;
}

/* Nothing happens if it is not there. */
static inline void by_number_remove(struct by_number *b, uint32_t number)
{
    uint32_t at = by_number_at(b, number);
    if (at == b->count || b->entries[at].number != number) return;
    b->count--;
    memmove(&b->entries[at], &b->entries[at + 1], (b->count - at) * sizeof *b->entries);
}

/* ---- the line ---- */

_Static_assert((int)FRAME_BANDS == (int)BANDS, "a band a priority");

/* A line has the first two, or none; and a twin only with these. */
enum { BULK, URGENT, PAIR, TWIN = PAIR, CHANNELS };
enum {
    URGENT_FROM = 4, /* the lowest band of the urgent channel */
    ZERO_COPY_LEAST =
        16 << 10,         /* bytes of a message that stays in the pool until acknowledged: a smaller one is copied */
    CONTROL_MOST = 16000, /* bytes of a control */
    CONTROLS_SENT = 256,  /* controls that the peer has not taken */
    CONTROLS_MOST = 4096, /* those and the ones that wait */
    RETRY_NS = 1000000,
    WAIT_NS = 20000000,
    ACK_DELAY_NS = 1000000,
};

/* ---- ceilings ---- */

enum refusal { REFUSED_PRIORITY, REFUSED_SIZE, REFUSED_RATE, REFUSALS };

/* Ceilings of the rules for a topic: priority, bytes of a message and bytes a second; 0 in the last two: no limit. */
struct ceilings {
    uint64_t max_priority, max_size, max_rate;
};

static inline const char *word_of(enum refusal why)
{
    static const char *const words[] = {"priority", "size", "rate"};
    return words[why];
}

static inline bool keeps_priority(const struct ceilings *c, uint64_t priority) { return priority <= c->max_priority; }
static inline bool keeps_size(const struct ceilings *c, uint64_t size) { return !c->max_size || size <= c->max_size; }

/* ---- outbound ---- */

struct out {
    struct line *line;
    struct out *next;
    uint32_t number;
    rtmw_subscriber *subscriber;
    bool reliable, resends; /* resends: RELIABLE and ADAPTIVE; what is lost in a cut is sent again */
    uint32_t closing;       /* 1: nothing is taken and sent any more */
    bool is_finishing;      /* nothing is taken any more */
    bool told[REFUSALS];
    struct ceilings ceilings; /* but for the rate, which is the next's */
    uint64_t park_ns;
    struct rate_limit limit;
    struct shared_rate *topic_rate; /* of its topic, over all lines; NULL: of tests */
    uint64_t room, in_flight;       /* cost; room: 0 until the peer has opened the route */
    bool is_open;                   /* the peer has said an ACK since the connections came */
    bool is_waited_for;             /* the sender sleeps until the bus has something for it */
    uint32_t depth, depth_now;      /* asked for, and told to the bus: for messages that cost `weight` */
    uint64_t min_interval_ns, weight;
    uint64_t missed, lost; /* as the subscriber of the bus has counted; those of them that have got numbers */
    struct carried_place carried, numbers; /* of its lane towards the peer; CARRIED_LANE */
    uint64_t begins, numbered; /* messages of its lane before it, sent or lost; those with a number, of all bands */
    bool resumes;              /* it goes on where the line before ended, or where the bus is */
    struct lookahead lookahead;
    struct {
        uint64_t number, lost; /* of the last message that was begun; lost since then, on the bus */
        uint64_t acknowledged;
        struct kept *first, *last; /* those that were not acknowledged */
        struct kept *again;        /* the first of them that is to be sent on these connections; NULL: none */
    } band[BANDS];
    uint64_t sent, bytes, expired, blocked, resent, withheld[REFUSALS];
    uint64_t unsent; /* of those that expired: without a number, so that no DROP told the peer */
};

/* out.c. Open, stop, close: any thread without a lock. The others: under the lock of the line */
bool out_open(struct out *); /* false: its number is not above all before */
void out_stop(struct out *); /* idempotent */
/* From the next message on that is taken from the bus; topic_rate: of the topic over all lines, 0: no limit. */
void out_limit(struct out *, struct ceilings, uint64_t topic_rate);
uint64_t out_free_ns(const struct out *, uint64_t now); /* when its rates allow a message; 0: at once */
void out_finish(struct out *);                          /* takes nothing more: what was taken goes on to be sent */
void out_close(struct out *);                           /* stops it, too; it is the caller's then */
bool out_may_take(const struct out *);
bool out_is_behind(const struct out *); /* it has messages to send, or leaves those of a RELIABLE topic on the bus */
bool out_gather(struct out *);          /* true: something was taken */
/* The message of this band that is to be begun next, with its number; NULL: none. */
struct kept *out_next(struct out *, uint32_t band, uint64_t now);
void out_begun(struct out *, uint32_t band, struct kept *, uint64_t now);
/* false: the peer acknowledges what was not sent. */
bool out_acknowledge(struct out *, const struct frame_ack *);
void out_cut(struct out *); /* the connections have ended */
bool out_is_delivered(struct out *);
uint32_t out_held(struct out *); /* taken from the bus, and not begun to be sent */

/* out.c. Adjust: any thread without a lock. The others: under the lock of the line. Fit tells the bus how many messages of
 * such a weight may wait there. */
void out_adjust(struct out *, uint32_t depth, uint64_t min_interval_ns);
void out_weigh(struct out *, uint64_t size);
void out_fit(struct out *);

/* ---- loss report ---- */

/* Told: what a lane has lost while a node was dead, or its line was, subscribers there are told. Both ends write in
 * memory that outlives them how far the lane was carried (../route/carried.h):
 *
 *   out   `sequence`: messages that got a number, on this route and those before; number[]: the last of them, as the bus
 *         counts. A route begins behind both: with what the bus had since then, and no route has taken.
 *   in    `sequence`: messages that came to their end here, by the same count. What is missing up to where the next route of
 *         the peer begins has come to nobody.
 *
 * A message that waits for room on the bus has not come to its end: its node may die with it.
 *
 * A node that is killed may have one message told that was not lost: a message changes `sequence` and number[] of the sender,
 * and the bus and `sequence` of the receiver, and no CAS has both. The order of these writes is such that a node which dies in
 * between has told too much. Of a gap it may so tell all messages twice: if it dies when it has opened a route, or numbers a
 * message behind some that the bus could not keep. Fewer are told than were lost only of messages that a publisher passes over
 * just when the route's subscriber joins, if it looked before that who needs them: the bus counts those as expired.
 */

/* out.c. Open: before anybody else has the route; key: of its lane and peer, 0: nothing is told. Under the lock of the line: was
 * this one published since the lane was carried last; it has a number now; nobody is to get it; the bus has no more. */
void told_open_out(struct out *, uint64_t key, uint64_t lane, bool begins_in_the_past);
bool told_is_new(const struct out *, const rtmw_message *);
void told_numbered(struct out *, const rtmw_message *, uint64_t now);
void told_passed(struct out *, const rtmw_message *);
void told_reached(struct out *);

/* ---- inbound ---- */

/* A message that has come whole and finds no room on the bus. */
struct waiting {
    struct waiting *next;
    struct frame_begin begin;
    uint64_t came_ns;
    rtmw_loan loan; /* data NULL: `bytes` has it */
    uint8_t bytes[];
};

enum { ON_BUS = 64 };

struct in {
    struct line *line;
    struct in *next;
    uint32_t number;
    rtmw_publisher *publisher; /* NULL: what comes waits until Python opens it (in_begin_publishing) */
    bool has_asked;            /* Python for it */
    rtmw_lost untold;          /* what was lost without it, and since when */
    uint64_t untold_ns;
    bool reliable;
    uint64_t origin, window;
    uint32_t wants_old;
    struct {
        uint64_t publisher, newest_ns;
    } on_bus[ON_BUS]; /* newest messages of earlier routes on the bus, by publisher; 0: the rest is free */
    struct ceilings ceilings;
    struct rate_limit rate;                       /* of these */
    uint64_t received[BANDS], last_ns, unsent_ns; /* unsent_ns: when the peer said last what it has not sent */
    uint64_t own[BANDS]; /* of these the last that the band's own channel has brought: the twin may be ahead */
    uint64_t waits;      /* cost of what waits for room */
    uint32_t waiting;    /* messages of it */
    struct carried_place carried;
    uint64_t begins, come; /* as the peer says: messages of its lane before this route; sum of `received` */
    uint64_t largest;      /* the highest cost of one of these, since something waits */
    struct waiting *first, *last;
    bool must_ack;      /* room or numbers have changed since the last ACK */
    uint64_t since_ack; /* cost of what has come since */
    bool told[REFUSALS];
    uint64_t arrived, bytes, lost, expired, malformed, no_memory, delayed, uncopied, old, refused[REFUSALS];
};

/* A message that comes in chunks. */
struct incoming {
    struct in *in; /* NULL: the rest is passed over */
    bool is_under_way;
    uint32_t route;
    struct frame_begin begin;
    uint64_t got;
    struct waiting *to; /* where the bytes go; NULL: nowhere */
};

/* in.c. Open: before anybody else has the route; begins: as the peer says. Came: under `arriving`, when a message has come to
 * its end. */
void told_open_in(struct in *, uint64_t key, uint64_t begins);
static inline void in_reach(struct in *i, uint32_t band, uint64_t number)
{
    i->come += number - i->received[band];
    i->received[band] = number;
}
void told_came(struct in *);

/* in.c. Open, close: any thread without a lock. The others: under `arriving` */
bool in_open(struct in *); /* false: its number is not above all before */
void in_limit(struct in *, struct ceilings);
void in_begin_publishing(struct in *, rtmw_publisher *); /* the route had none, and closes it */
/* Messages that wait for room are lost: they are counted, and subscribers are told. */
void in_abandon(struct in *);
uint32_t in_held(struct in *); /* messages that wait for room */
void in_close(struct in *);
bool in_is_delivered(struct in *);
void in_count_lost(struct in *, const struct frame_begin *, uint64_t now); /* messages that its number leaves out */
void in_tell(struct in *, rtmw_lost);                                      /* subscribers that are here now */
/* Those that were here then: is one? Of a route without a publisher it is taken to be so, and told as soon as it has one. */
bool in_tell_since(struct in *, rtmw_lost, uint64_t since_ns);
void in_unsent(struct in *, rtmw_lost); /* any thread without a lock */
void in_expire(struct in *);            /* a message that has come: counts it, and tells subscribers */
bool in_has_room(const struct in *, const struct frame_begin *); /* false: no ACK has allowed it */
bool in_begin(struct in *, const struct frame_begin *); /* checks ceilings, counts. false: it is not published */
/* Publishes, or lets it wait: a message that lies in the inbox, and one that was put together and is the route's then. */
void in_accept(struct in *, const struct frame_begin *, const uint8_t *bytes);
void in_accept_whole(struct in *, struct waiting *);
void in_retry(struct in *);
void in_wake(struct line *);                                       /* the subscribers that sleep */
struct waiting *in_place(struct in *, const struct frame_begin *); /* for a message in chunks. NULL: no memory */
void in_drop(struct in *, struct waiting *);
struct frame_ack in_ack(struct in *);

/* ---- controls and news ---- */

struct control {
    struct control *next;
    uint64_t number;
    size_t size;
    uint8_t bytes[];
};

enum news_kind { NEWS_UP, NEWS_CONTROL, NEWS_DOWN, NEWS_REFUSED, NEWS_WITHHELD, NEWS_FIRST };
struct news {
    struct news *next;
    enum news_kind kind;
    uint64_t number;
    size_t size;
    uint8_t bytes[];
};

/* line.c: any thread, under any lock above LOCK_LEAF or none */
void news_tell(struct line *, enum news_kind, uint64_t number, const void *bytes, size_t size);
struct news *news_take(struct line *); /* all, in their order: the caller's */

/* ---- the line ---- */

/* A message that was begun and not finished on these connections. */
struct under_way {
    struct out *out; /* NULL: the route was closed meanwhile */
    uint32_t route;
    struct kept *kept; /* held; NULL: none is under way */
    uint64_t sent;     /* bytes of it */
};

enum down { DOWN_CLOSED, DOWN_FAILED, DOWN_VIOLATION, DOWN_SILENT, DOWN_DAMAGED, DOWN_TOLD /* in no BYE */ };

/* Copies of urgent messages. `takes`, `limit`, and the first counters: under the lock of the line; the others: under `arriving` */
struct twin {
    bool takes;              /* copies go into its outbox, while that of the urgent channel is filled */
    struct rate_limit limit; /* of copies */
    uint64_t begun;          /* twins that the line has had */
    uint64_t written, read;  /* bytes of those that have ended, since the urgent channel is there */
    uint64_t copies, left_out;
    uint64_t first, passed_over; /* copies that came before the message over the urgent channel; that were not taken */
};

/* How far the peer's steady clock (now.h) is ahead, by PING and PONG on the urgent channel. */
struct peer_clock {
    int64_t ahead_ns;
    uint64_t rtt_ns, best_ns, unsure_ns, age; /* 0: not measured. age: pongs since the best */
};

/* All lines of a node: one sender, and one order in which they write (line.c). */
struct lines {
    pthread_t sender;
    uint32_t stop, openers;
    pthread_mutex_t list;
    struct line *first;  /* whose turn it is */
    struct line *served; /* that wrote last in this round of the sender; NULL: none did */
    bool has_skipped;    /* the sender has passed over a line that another thread had */
    pthread_mutex_t writes;
    uint32_t is_left; /* somebody wanted to write on a bulk connection, and another one did. Atomically */

    pthread_mutex_t wakes; /* of what follows */
    pthread_cond_t woken, looked;
    bool must_look;            /* the sender is to look again */
    uint32_t is_asleep;        /* it sleeps, or is about to, and uses subscribers. Read atomically without the lock */
    uint64_t looks;            /* how often it has woken */
    rtmw_subscriber *waits_on; /* by which it can be woken; NULL: by `woken` */

    pthread_mutex_t rates;
    struct shared_rate *first_rate; /* that are in use */
};

struct line {
    struct lines *lines; /* NULL: who turns the line does all */
    struct line *next_line;
    rtmw_region *region;
    struct carried *carried; /* the table; NULL: there is none */
    uint32_t wire_domain;
    uint64_t began_ns;
    uint64_t site, zero_copy_most;
    uint8_t hops;
    uint16_t key; /* of subscribers that are parked */
    pthread_t receiver;
    int wake; /* eventfd of the receiver */
    int epoll;
    uint32_t stop, openers;
    uint64_t silence_ns;
    uint64_t pinged_ns, measured_ns; /* the last PING of any connection, and PONG of the urgent one. The receiver's */

    pthread_mutex_t lock;
    struct channel *channel[CHANNELS], *next[CHANNELS]; /* next: to be carried by, as soon as the receiver looks */
    struct out *outs;
    struct by_number out_numbers; /* the same by number, as in_numbers */
    uint32_t out_count;
    uint32_t highest_out;    /* number of the outbound route that was opened last */
    struct out *turn[BANDS]; /* whose turn it is; NULL: the first one's */
    struct under_way under_way[BANDS];
    uint32_t filled; /* bit a band in which a route has something */
    bool has_bulk;   /* as it was at the sender's last visit */
    bool has_resumed, peer_has_resumed, is_cut;
    char bye[FRAME_WORDS + 1];       /* words to the peer at a cut */
    char farewell[FRAME_WORDS + 32]; /* words of the peer. The receiver's */
    uint64_t pong[CHANNELS];
    bool has_pong[CHANNELS], must_ping[CHANNELS];
    struct control *controls, *last_control, *next_control; /* not acknowledged; next: to be sent */
    uint64_t control_number, controls_acknowledged, controls_room;
    uint32_t control_count;
    uint64_t zero_copied, retry_ns, resumes;
    struct twin twin;
    uint64_t bytes_per_second;
    uint64_t ahead; /* cost of what the look-aheads of all routes have */

    pthread_mutex_t arriving;
    struct in *ins;
    struct by_number in_numbers;
    struct in *unwoken; /* of whose last messages nobody who sleeps has been told yet; NULL: there are none */
    uint32_t unwoken_count;
    uint32_t highest_in; /* number of the inbound route that was opened last */
    struct incoming incoming[BANDS];
    struct landing landing[CHANNELS];
    uint64_t controls_received;
    uint32_t must_ack_controls; /* atomically */
    uint32_t in_count;
    uint32_t waiting; /* inbound routes with something that waits for room */
    uint64_t held,
        held_most; /* cost of messages that are not on the bus yet; 0: no limit. Most that the peer is given room for */
    uint64_t acks_at_ns; /* when ACKs are to be said; 0: nothing is to be acknowledged. Atomically */

    pthread_mutex_t news;
    struct news *first_news, *last_news;
    uint64_t controls_taken; /* by Python */
    int event;               /* eventfd of Python */

    struct peer_clock clock; /* of the receiver; others read single words of it, atomically */
};

/* line.c: Python's thread, without a lock. Start: 0, or errno. Carry and twin take channels over. */
int line_start(struct line *);
void line_stop(struct line *); /* ends threads and connections; routes that are open carry nothing from then on */
void line_free(struct line *); /* after stop, and after all of its routes were closed */
int line_open(struct line *);  /* of start, all but the threads: for who turns the line himself. 0, or errno */
void line_carry(struct line *, struct channel *urgent, struct channel *bulk);
void line_twin(struct line *, struct channel *); /* in place of the one before; until the next carry, or a cut */
void line_cut(struct line *, const char *words, size_t size);
bool line_say(struct line *, const void *bytes, size_t size); /* false: too many wait, or no memory */
void line_wake_receiver(struct line *);
void line_tell_up(struct line *); /* if both sides have resumed. The lock is held */
void line_lock(struct line *);    /* takes the lock, between two bursts */

/* line.c. Start, stop: Python's thread, without a lock; 0, or errno. Join, leave: of line_start and line_stop. Wake: any
 * thread, with the lock of the line or without. Await: with that lock; when it returns, the sender uses no subscriber that
 * the line does not have any more. */
int lines_start(struct lines *);
void lines_stop(struct lines *); /* all lines have left */
void lines_join(struct lines *, struct line *);
void lines_leave(struct lines *, struct line *);
void line_wake_sender(struct line *);
void line_await_sender(struct line *);
/* May this thread write on bulk connections? Who does not wait for that leaves it to the one who does; who may says when
 * that is over. Before any lock of a line. */
bool lines_may_write(struct lines *);
void lines_have_written(struct lines *);

/* line.c: the thread; what it does again and again; and ends the connections, once no thread does. Turn sleeps until
 * there is something to do, if there was no more at the last one, and returns whether there is more. */
void *line_receive(void *line);
bool line_turn(struct line *, bool is_more);
void line_end(struct line *);

/* out.c: under the lock. Takes from the bus, fills outboxes and writes, for a burst; on the bulk connection if the thread may.
 * true: there is more to do at once. */
bool line_pump(struct line *, uint64_t now, bool may_write_bulk);
bool line_has_bulk(const struct line *); /* is there anything to write on the bulk connection? */
uint64_t line_paced_ns(
    const struct line *); /* when to write again what waits for a rate or the kernel; UINT64_MAX: nothing does */
uint64_t line_next_try(const struct line *, uint64_t now); /* when to pump again; UINT64_MAX: when something changes */

/* pacing.c. Pace sets the limits of its connections, or of one: the lock is held. Steer is the receiver's: reckons them anew
 * where the settings give none. */
void line_pace(struct line *);
void line_pace_one(struct line *, int channel);
void line_steer(struct line *, uint64_t now);
/* When a connection may be written again, of which as much is sent as leaves soon at its rate, or that of the interface; 0: at
 * once. */
uint64_t line_ahead_ns(struct line *, int channel, uint64_t now);
void line_close_channel(struct line *, int channel); /* NULL is allowed */

/* pacing.c: any thread, under any lock above LOCK_LEAF or none. Hold: a topic's name; of: the interface of a connection. Of
 * an interface urgent messages wait for each other alone, of a topic for all. NULL as a rate: no limit. */
struct shared_rate *shared_rate_hold(struct lines *, const char *name);
struct shared_rate *shared_rate_of(struct lines *, int descriptor);
void shared_rate_let_go(struct lines *, struct shared_rate *);
void shared_rate_set(struct lines *, struct shared_rate *, uint64_t bytes_per_second);
uint64_t shared_rate_free_ns(struct lines *, struct shared_rate *, bool is_urgent, uint64_t now);
void shared_rate_charge(struct lines *, struct shared_rate *, bool is_urgent, uint64_t bytes, uint64_t now);
/* Bytes a second that a connection may send after it brought `delivered` and so much was queued on the way; 0: all. */
uint64_t steered(uint64_t rate, uint64_t delivered, uint64_t queue_us);

bool line_gather(struct line *); /* takes from the bus as far as routes may. true: something was taken */

/* out.c: under the lock: fills an outbox that is empty */
void line_fill(struct line *, int channel, uint64_t now);

/* out.c: under the lock. Prepare: before the outbox of the urgent channel is filled. Copy: of a frame of that channel, which
 * has a whole message. */
void twin_prepare(struct line *, uint64_t now);
void twin_copy(struct line *, struct frame_header, const struct frame_begin *, struct kept *, uint64_t now);

/* in.c: the receiver, without a lock */
struct verdict {
    enum down down;
    const char *words; /* NULL: all is well */
};
struct verdict line_hear(struct line *, int channel, const struct frame *, uint64_t now);
/* Frames that are expected of this channel next, with a place for their bodies; NULL: none. Under `arriving` */
struct landing *line_expect(struct line *, int channel);
void line_forget_incoming(struct line *);
void incoming_forget(struct line *, struct incoming *); /* under `arriving` */

static inline int channel_of(uint32_t band) { return band >= URGENT_FROM ? URGENT : BULK; }
static inline uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }
static inline uint64_t larger(uint64_t one, uint64_t other) { return one > other ? one : other; }
static inline uint64_t cost_of(uint64_t size) { return size + FRAME_COST; }

#endif
