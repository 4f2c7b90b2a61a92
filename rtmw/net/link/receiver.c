/* The receiver: sleeps until a channel can be read or written, reads, and begins and ends connections. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "link.h"

enum {
    READS_URGENT = 16, /* in a row, before the other channel is looked at */
    READS_BULK = 1,
    READS_BULK_TLS = 4,  /* each is a record, or a landing, behind which the other channel is looked at */
    STREAM_LEAST = 8192, /* bytes that a read has brought, behind which there may be more at once */
    STEER_MS = 100,      /* between looks at a way that is steered, if nothing comes */
    PINGS_A_SILENCE = 4,
    EXPEDITED = 46,        /* code point (DSCP) of EF, as over DDS; 0: best effort */
    NO_CHANNEL = CHANNELS, /* the number in epoll of the eventfd (line.c) */
};

/* ---- connections ---- */

/* Once it is over: what it was about goes on with the next one. The lock is held. */
static void reset(struct line *l)
{
    for (int c = 0; c < CHANNELS; c++) {
        line_close_channel(l, c);
        l->has_pong[c] = l->must_ping[c] = false;
    }
    for (uint32_t band = 0; band < BANDS; band++) {
        if (l->under_way[band].kept) kept_let_go(l->under_way[band].kept);
        l->under_way[band] = (struct under_way){0};
    }
    for (struct out *o = l->outs; o; o = o->next) out_cut(o);
    l->twin.written = l->twin.read = 0;
    l->has_resumed = l->peer_has_resumed = false;
    l->next_control = l->controls;
    l->controls_room = CONTROLS_SENT;
    line_forget_incoming(l);
}

static void say_bye(struct line *l, const char *words, uint16_t code)
{
    struct channel *c = l->channel[URGENT];
    c->is_followed = false;
    if (!channel_is_empty(c) && channel_write(c) != CHANNEL_DONE) return; /* in the middle of a frame */
    channel_put(c, (struct frame_header){.kind = FRAME_BYE}, (struct iovec){&code, sizeof code},
                (struct iovec){(void *)(uintptr_t)words, strnlen(words, FRAME_WORDS)}, NULL);
    channel_write(c);
}

static void end(struct line *l, struct verdict why)
{
    if (!l->channel[URGENT]) return;
    bool tells = why.down == DOWN_VIOLATION || why.down == DOWN_DAMAGED || why.down == DOWN_SILENT || l->is_cut;
    if (tells && *why.words) say_bye(l, why.words, (uint16_t)why.down);
    news_tell(l, NEWS_DOWN, (uint64_t)why.down, why.words, strlen(why.words)); /* they may lie in a channel */
    reset(l);
}

static void watch(struct line *l, int channel)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.u32 = (uint32_t)channel};
    struct channel *c = l->channel[channel];
    c->may_read = c->may_write = true;
    channel_mark(c, channel == BULK ? 0 : EXPEDITED);
    c->heard_ns = now_monotonic_ns();
    epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->descriptor, &event);
}

static void begin(struct line *l)
{
    if (l->channel[URGENT]) reset(l);
    for (int c = 0; c < PAIR; c++) {
        l->channel[c] = l->next[c];
        l->next[c] = NULL;
        l->must_ping[c] = true;
        watch(l, c);
    }
    line_pace(l);
    l->resumes++;
    store_relaxed(&l->acks_at_ns, 1);
}

/* The lock is held. The other channels stay as they are. */
static void end_twin(struct line *l)
{
    struct channel *c = l->channel[TWIN];
    if (!c) return;
    l->twin.written += c->written;
    l->twin.read += c->read;
    line_close_channel(l, TWIN);
}

static void begin_twin(struct line *l)
{
    end_twin(l);
    l->channel[TWIN] = l->next[TWIN];
    l->next[TWIN] = NULL;
    if (!l->channel[URGENT]) return end_twin(l);
    watch(l, TWIN);
    line_pace_one(l, TWIN);
    count_up(&l->twin.begun, 1);
}

static void change_connections(struct line *l)
{
    line_lock(l);
    if (l->is_cut) end(l, (struct verdict){DOWN_CLOSED, l->bye});
    l->is_cut = false;
    if (l->next[URGENT]) begin(l);
    if (l->next[TWIN]) begin_twin(l);
    unlock(&l->lock, LOCK_ENGINE);
}

static void end_unlocked(struct line *l, struct verdict why)
{
    line_lock(l);
    end(l, why);
    unlock(&l->lock, LOCK_ENGINE);
}

/* ---- reading ---- */

static struct verdict verdict_of(struct channel *c, enum channel_state state)
{
    if (state == CHANNEL_CLOSED) return (struct verdict){DOWN_CLOSED, "the peer has closed the connection"};
    bool is_cut_off = strcmp(c->fault.reason, "UNEXPECTED_EOF_WHILE_READING") == 0; /* TCP ended, as without TLS */
    if (is_cut_off) return (struct verdict){DOWN_CLOSED, "the peer has closed the connection"};
    return (struct verdict){c->has_tls && c->fault.reason[0] ? DOWN_DAMAGED : DOWN_FAILED, c->words};
}

static struct verdict hear_all(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    struct frame f;
    enum frame_state state;
    while ((state = channel_next(c, &f)) == FRAME_WHOLE) {
        struct verdict verdict = line_hear(l, channel, &f, now);
        if (verdict.words) return verdict;
    }
    if (state == FRAME_PART) return (struct verdict){0};
    return (struct verdict){state == FRAME_DAMAGED ? DOWN_DAMAGED : DOWN_VIOLATION, c->words};
}

static enum channel_state read_once(struct line *l, int channel)
{
    struct channel *c = l->channel[channel];
    lock(&l->arriving, LOCK_ROUTE);
    struct landing *x = line_expect(l, channel);
    bool lands = x && channel_is_drained(c);
    enum channel_state state = lands ? channel_land(c, x) : CHANNEL_DONE;
    unlock(&l->arriving, LOCK_ROUTE);
    return lands ? state : channel_read(c, x != NULL);
}

static void wake(struct line *l)
{
    lock(&l->arriving, LOCK_ROUTE);
    in_wake(l);
    unlock(&l->arriving, LOCK_ROUTE);
}

static struct verdict read_channel(struct line *l, int channel)
{
    struct channel *c = l->channel[channel];
    int reads = channel != BULK ? READS_URGENT : c->has_tls ? READS_BULK_TLS : READS_BULK;
    uint64_t most = channel != BULK ? UINT64_MAX : c->read + READS_BULK_TLS * FRAME_MOST;
    for (int n = 0; n < reads && c->may_read && c->read < most; n++) {
        uint64_t before = c->read;
        enum channel_state state = read_once(l, channel);
        uint64_t now = now_monotonic_ns();
        if (state == CHANNEL_CLOSED || state == CHANNEL_FAILED) return verdict_of(c, state);
        c->may_read = state == CHANNEL_DONE;
        if (state == CHANNEL_DONE) c->heard_ns = now;
        struct verdict verdict = hear_all(l, channel, now); /* also what the hello has left */
        if (channel != BULK || c->read - before < STREAM_LEAST) wake(l);
        if (verdict.words) return verdict;
    }
    return (struct verdict){0};
}

/* Whatever is wrong with it, the line goes on; the side that dialled connects again. */
static void end_twin_unlocked(struct line *l)
{
    line_lock(l);
    end_twin(l);
    unlock(&l->lock, LOCK_ENGINE);
}

static bool read_all(struct line *l)
{
    static const int order[CHANNELS] = {URGENT, TWIN, BULK};
    bool is_more = false;
    for (int n = 0; n < CHANNELS; n++) {
        int c = order[n];
        struct verdict verdict = l->channel[c] ? read_channel(l, c) : (struct verdict){0};
        wake(l);
        if (verdict.words && c != TWIN) return end_unlocked(l, verdict), true;
        if (verdict.words) end_twin_unlocked(l);
        is_more = is_more || (l->channel[c] && l->channel[c]->may_read);
    }
    return is_more;
}

/* ---- in between ---- */

static void retry(struct line *l)
{
    if (!load_relaxed(&l->waiting)) return;
    lock(&l->arriving, LOCK_ROUTE);
    for (struct in *i = l->ins; i; i = i->next) in_retry(i);
    in_wake(l);
    if (!load_relaxed(&l->acks_at_ns)) store_relaxed(&l->acks_at_ns, now_monotonic_ns() + ACK_DELAY_NS);
    unlock(&l->arriving, LOCK_ROUTE);
}

/* That on which nothing came, nor was asked for, for the longest time; CHANNELS: each one was heard lately. A PING of the peer
 * is heard, too, so one end asks for both. */
static int next_to_ping(const struct line *l, uint64_t now, uint64_t most)
{
    int longest = CHANNELS;
    uint64_t since = now - most / 2;
    for (int n = 0; n < PAIR; n++) {
        uint64_t at = larger(l->channel[n]->heard_ns, l->channel[n]->pinged_ns);
        if (at < since) longest = n, since = at;
    }
    return now - l->measured_ns > most && now - l->channel[URGENT]->pinged_ns > most ? URGENT : longest;
}

/* Ends connections on which nothing comes, and pings, one connection of the line at a time. */
static void look_at_silence(struct line *l, uint64_t now)
{
    uint64_t most = load_relaxed(&l->silence_ns);
    for (int n = 0; n < PAIR; n++) {
        if (!l->channel[n]) return;
        if (now - l->channel[n]->heard_ns > most)
            return end_unlocked(l, (struct verdict){DOWN_SILENT, "nothing came of the peer for too long"});
    }
    int n = now - l->pinged_ns < most / PINGS_A_SILENCE ? CHANNELS : next_to_ping(l, now, most);
    if (n == CHANNELS) return;
    line_lock(l);
    l->pinged_ns = l->channel[n]->pinged_ns = now;
    l->must_ping[n] = true;
    unlock(&l->lock, LOCK_ENGINE);
}

/* The sender looks again where it does not wait for a route that may take again, or not until a rate allows more. */
static void wake_sender(struct line *l, uint64_t paced_ns)
{
    if (!l->lines || !load_relaxed(&l->lines->is_asleep)) return;
    if (line_paced_ns(l) < paced_ns) return line_wake_sender(l);
    for (const struct out *o = l->outs; o; o = o->next)
        if (!o->is_waited_for && out_may_take(o)) return line_wake_sender(l);
}

static bool is_wanted(const struct line *l)
{
    return load_relaxed(&l->openers) || (l->lines && load_relaxed(&l->lines->is_left));
}

/* true: it has stopped for another thread, which wants the lock or to write on another line, and there is more to do. */
static bool pump(struct line *l)
{
    bool is_more, may_write_bulk = lines_may_write(l->lines);
    line_lock(l);
    uint64_t paced_ns = line_paced_ns(l);
    do is_more = line_pump(l, now_monotonic_ns(), may_write_bulk);
    while (is_more && !is_wanted(l));
    wake_sender(l, paced_ns);
    unlock(&l->lock, LOCK_ENGINE);
    if (may_write_bulk) lines_have_written(l->lines);
    return is_more;
}

static int wait_ms(const struct line *l, bool is_more)
{
    const struct channel *bulk = l->channel[BULK];
    if (is_more) return 0;
    if (load_relaxed(&l->acks_at_ns) || load_relaxed(&l->waiting)) return 1;
    if (bulk && load_relaxed(&bulk->rate)) return STEER_MS;
    return (int)(load_relaxed(&l->silence_ns) / PINGS_A_SILENCE / 2 / 1000000) + 1;
}

static void handle_event(struct line *l, const struct epoll_event *event)
{
    eventfd_t count;
    if (event->data.u32 == NO_CHANNEL) {
        eventfd_read(l->wake, &count);
        return;
    }
    struct channel *c = l->channel[event->data.u32];
    if (!c) return;
    if (event->events & ~(uint32_t)EPOLLOUT) c->may_read = true;
    line_lock(l);
    c->may_write = true; /* TLS may have had to read before it could write */
    unlock(&l->lock, LOCK_ENGINE);
}

bool line_turn(struct line *l, bool is_more)
{
    struct epoll_event events[CHANNELS + 1];
    int count = epoll_wait(l->epoll, events, CHANNELS + 1, wait_ms(l, is_more));
    for (int n = 0; n < count; n++) handle_event(l, &events[n]);
    change_connections(l);
    is_more = read_all(l);
    retry(l);
    look_at_silence(l, now_monotonic_ns());
    line_steer(l, now_monotonic_ns());
    return pump(l) || is_more;
}

void *line_receive(void *argument)
{
    struct line *l = argument;
    for (bool is_more = false; !load_acquire(&l->stop);) is_more = line_turn(l, is_more);
    return NULL;
}

void line_end(struct line *l)
{
    line_lock(l);
    const char *words = l->is_cut ? l->bye : "the node closes the line"; /* a cut that the receiver has not come to */
    l->is_cut = true;
    end(l, (struct verdict){DOWN_CLOSED, words});
    for (int c = 0; c < CHANNELS; c++) channel_close(l->next[c]);
    unlock(&l->lock, LOCK_ENGINE);
}
