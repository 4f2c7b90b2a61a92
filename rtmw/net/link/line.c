/* A line, from its start to its stop: what Python asks of it, the thread that receives, and the thread that sends for all
 * lines of a node. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../shm/clock.h"
#include "link.h"

#define SILENCE_NS UINT64_C(5000000000)

void line_lock(struct line *l)
{
    fetch_add(&l->openers, 1u);
    lock(&l->lock, LOCK_ENGINE);
    fetch_add(&l->openers, UINT32_MAX);
}

void line_wake_receiver(struct line *l) { eventfd_write(l->wake, 1); }

void line_tell_up(struct line *l)
{
    if (l->has_resumed && l->peer_has_resumed) news_tell(l, NEWS_UP, 0, NULL, 0);
}

/* ---- from start to stop ---- */

static void make_locks(struct line *l)
{
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->arriving, NULL);
    pthread_mutex_init(&l->news, NULL);
}

static void close_if_open(int descriptor)
{
    if (descriptor >= 0) close(descriptor);
}

void line_free(struct line *l)
{
    close_if_open(l->wake);
    close_if_open(l->event);
    close_if_open(l->epoll);
    for (struct control *c; (c = l->controls); free(c)) l->controls = c->next;
    for (struct news *n; (n = l->first_news); free(n)) l->first_news = n->next;
    free(l->out_numbers.entries);
    free(l->in_numbers.entries);
    pthread_mutex_destroy(&l->news);
    pthread_mutex_destroy(&l->arriving);
    pthread_mutex_destroy(&l->lock);
}

static bool watch_wake(struct line *l)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CHANNELS};
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &event) == 0;
}

int line_open(struct line *l)
{
    make_locks(l);
    store_relaxed(&l->silence_ns, SILENCE_NS);
    l->controls_room = CONTROLS_SENT;
    l->must_ack_controls = 1;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool is_open = l->wake >= 0 && l->event >= 0 && l->epoll >= 0 && watch_wake(l);
    int failed = is_open ? 0 : errno;
    if (failed) line_free(l);
    return failed;
}

int line_start(struct line *l)
{
    int failed = line_open(l);
    if (failed) return failed;
    lines_join(l->lines, l);
    failed = pthread_create(&l->receiver, NULL, line_receive, l);
    if (!failed) return 0;
    lines_leave(l->lines, l);
    line_free(l);
    return failed;
}

void line_stop(struct line *l)
{
    lines_leave(l->lines, l);
    store_release(&l->stop, 1u);
    line_wake_receiver(l);
    pthread_join(l->receiver, NULL);
    line_end(l);
}

/* ---- connections and controls ---- */

void line_carry(struct line *l, struct channel *urgent, struct channel *bulk)
{
    line_lock(l);
    for (int c = 0; c < CHANNELS; c++) channel_close(l->next[c]);
    l->next[URGENT] = urgent;
    l->next[BULK] = bulk;
    l->next[TWIN] = NULL;
    unlock(&l->lock, LOCK_ENGINE);
    line_wake_receiver(l);
}

void line_twin(struct line *l, struct channel *twin)
{
    line_lock(l);
    channel_close(l->next[TWIN]);
    l->next[TWIN] = twin;
    unlock(&l->lock, LOCK_ENGINE);
    line_wake_receiver(l);
}

void line_cut(struct line *l, const char *words, size_t size)
{
    line_lock(l);
    for (int c = 0; c < CHANNELS; c++) {
        channel_close(l->next[c]);
        l->next[c] = NULL;
    }
    snprintf(l->bye, sizeof l->bye, "%.*s", (int)size, words);
    l->is_cut = l->channel[URGENT] != NULL;
    unlock(&l->lock, LOCK_ENGINE);
    line_wake_receiver(l);
}

bool line_say(struct line *l, const void *bytes, size_t size)
{
    struct control *c = malloc(sizeof *c + size);
    if (!c) return false;
    line_lock(l);
    bool is_taken = l->control_count < CONTROLS_MOST;
    if (is_taken) {
        *c = (struct control){.number = ++l->control_number, .size = size};
        memcpy(c->bytes, bytes, size);
        if (l->last_control)
            l->last_control->next = c;
        else
            l->controls = c;
        l->last_control = c;
        if (!l->next_control) l->next_control = c;
        l->control_count++;
    }
    unlock(&l->lock, LOCK_ENGINE);
    if (is_taken)
        line_wake_receiver(l);
    else
        free(c);
    return is_taken;
}

/* ---- news ---- */

/* News for Python: a list, and an eventfd that says that it has something. */

void news_tell(struct line *l, enum news_kind kind, uint64_t number, const void *bytes, size_t size)
{
    struct news *n = malloc(sizeof *n + size);
    if (!n) abort(); /* a control that is lost would leave the two sides with different routes for ever */
    *n = (struct news){.kind = kind, .number = number, .size = size};
    if (size) memcpy(n->bytes, bytes, size);
    lock(&l->news, LOCK_LEAF);
    if (l->last_news)
        l->last_news->next = n;
    else
        l->first_news = n;
    l->last_news = n;
    unlock(&l->news, LOCK_LEAF);
    eventfd_write(l->event, 1);
}

struct news *news_take(struct line *l)
{
    eventfd_t count;
    eventfd_read(l->event, &count);
    lock(&l->news, LOCK_LEAF);
    struct news *first = l->first_news;
    l->first_news = l->last_news = NULL;
    uint64_t before = l->controls_taken;
    for (const struct news *n = first; n; n = n->next) l->controls_taken += n->kind == NEWS_CONTROL;
    bool has_taken = l->controls_taken != before;
    unlock(&l->news, LOCK_LEAF);
    if (has_taken) { /* the peer may send more */
        store_relaxed(&l->must_ack_controls, 1u);
        store_relaxed(&l->acks_at_ns, 1);
        line_wake_receiver(l);
    }
    return first;
}

/* ---- the receiver ---- */

/* The receiver: sleeps until a channel can be read or written, reads, and begins and ends connections. */

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

/* ---- the sender ---- */

/* The sender of all lines of a node: sleeps until the bus has something for a route of one of them, and pumps.
 *
 *   bus ─► sender ─┬─ urgent connections of all lines
 *                  └─ bulk connections, line after line; between two of them the urgent ones of all lines again
 *   receiver of a line ─ both connections of its own line, which can be written again
 *
 * What is urgent leaves before what is not, whichever line it is for: one thread at a time writes on bulk connections (`writes`),
 * so no more than one burst of these competes for the processor and the interface with an alarm. Whoever finds that
 * another thread does leaves its line to the sender, which the other one wakes.
 *
 * The sender waits for no lock of a line: whoever holds it may have been stopped by the kernel in the middle of a burst.
 */

enum {
    WAITED_MOST = 4096,
    GIVE_WAY_NS = 50000,
    LOOK_NS = 200000, /* of bulk, before it is looked what is urgent */
};

/* ---- who writes ---- */

bool lines_may_write(struct lines *s)
{
    if (!s || lock_if_free(&s->writes, LOCK_WRITES)) return true;
    store_seq(&s->is_left, 1u); /* who has it looks at this when it has it no more: so it has, or it sees this */
    return lock_if_free(&s->writes, LOCK_WRITES);
}

/* `wakes` is held. */
static void wake_locked(struct lines *s)
{
    s->must_look = true;
    if (s->waits_on) rtmw_subscriber_wake(s->waits_on);
    pthread_cond_signal(&s->woken);
}

static void wake_lines(struct lines *s)
{
    lock(&s->wakes, LOCK_LEAF);
    wake_locked(s);
    unlock(&s->wakes, LOCK_LEAF);
}

void lines_have_written(struct lines *s)
{
    if (!s) return;
    unlock(&s->writes, LOCK_WRITES);
    if (exchange(&s->is_left, 0u)) wake_lines(s);
}

/* ---- wake and sleep ---- */

void line_wake_sender(struct line *l)
{
    if (l->lines) wake_lines(l->lines);
}

void line_await_sender(struct line *l)
{
    struct lines *s = l->lines;
    if (!s) return;
    lock(&s->wakes, LOCK_LEAF);
    uint64_t looks = s->looks;
    wake_locked(s);
    while (load_relaxed(&s->is_asleep) && s->looks == looks) pthread_cond_wait(&s->looked, &s->wakes);
    unlock(&s->wakes, LOCK_LEAF);
}

/* The lock of a line, unless somebody has it or waits for it. */
static bool lock_line(struct line *l) { return !load_relaxed(&l->openers) && lock_if_free(&l->lock, LOCK_ENGINE); }

/* true: so many routes may take that not all of them can be waited for. */
static bool list_routes(struct line *l, rtmw_subscriber **subscribers, size_t *count)
{
    bool is_beyond = false;
    for (struct out *o = l->outs; o; o = o->next) {
        bool may_take = out_may_take(o);
        o->is_waited_for = *count < WAITED_MOST && may_take;
        if (o->is_waited_for) subscribers[(*count)++] = o->subscriber;
        is_beyond = is_beyond || (may_take && !o->is_waited_for);
    }
    return is_beyond;
}

/* For what to sleep, and until when. false: it has to look again, for a line could not be asked. */
static bool list_all(struct lines *s, rtmw_subscriber **subscribers, size_t *count, uint64_t *until)
{
    uint64_t now = now_monotonic_ns();
    *count = 0;
    *until = UINT64_MAX;
    for (struct line *l = s->first; l; l = l->next_line) {
        if (!lock_line(l)) return false;
        bool is_beyond = list_routes(l, subscribers, count);
        *until = least(*until, is_beyond ? now + RETRY_NS : line_next_try(l, now));
        unlock(&l->lock, LOCK_ENGINE);
    }
    return true;
}

static void sleep_on_none(struct lines *s, uint64_t until)
{
    struct timespec t = timespec_of(until);
    lock(&s->wakes, LOCK_LEAF);
    if (!s->must_look && until == UINT64_MAX) pthread_cond_wait(&s->woken, &s->wakes);
    if (!s->must_look && until != UINT64_MAX) pthread_cond_timedwait(&s->woken, &s->wakes, &t);
    unlock(&s->wakes, LOCK_LEAF);
}

/* From here on until `end_sleep` subscribers are in use, and a line that gives one up waits. */
static void begin_sleep(struct lines *s)
{
    lock(&s->wakes, LOCK_LEAF);
    store_relaxed(&s->is_asleep, 1u);
    unlock(&s->wakes, LOCK_LEAF);
}

static void end_sleep(struct lines *s)
{
    lock(&s->wakes, LOCK_LEAF);
    store_relaxed(&s->is_asleep, 0u);
    s->waits_on = NULL;
    s->looks++;
    pthread_cond_broadcast(&s->looked);
    unlock(&s->wakes, LOCK_LEAF);
}

static bool can_be_woken_by(struct lines *s, rtmw_subscriber *subscriber)
{
    lock(&s->wakes, LOCK_LEAF);
    bool can = !s->must_look;
    if (can) s->waits_on = subscriber;
    unlock(&s->wakes, LOCK_LEAF);
    return can;
}

/* The list is locked, but not while it sleeps. */
static void sleep_for_work(struct lines *s, rtmw_subscriber **subscribers)
{
    bool ready[WAITED_MOST];
    size_t count;
    uint64_t until;
    begin_sleep(s);
    bool is_all = list_all(s, subscribers, &count, &until);
    unlock(&s->list, LOCK_LINES);
    uint64_t now = now_monotonic_ns();
    if (!is_all)
        nanosleep(&(struct timespec){.tv_nsec = GIVE_WAY_NS}, NULL);
    else if (!count)
        sleep_on_none(s, until);
    else if (until > now && can_be_woken_by(s, subscribers[0]))
        rtmw_wait_any(subscribers, ready, count, until == UINT64_MAX ? UINT64_MAX : until - now);
    end_sleep(s);
    lock(&s->list, LOCK_LINES);
}

/* ---- send ---- */

static uint64_t written(const struct line *l)
{
    uint64_t sum = 0;
    for (int n = 0; n < CHANNELS; n++)
        if (l->channel[n]) sum += l->channel[n]->written;
    return sum;
}

/* true: there is more to do at once, or another thread has the line, and may have done its part of it already. */
static bool visit(struct line *l, bool may_write_bulk)
{
    if (!lock_line(l)) return l->lines->has_skipped = true;
    uint64_t before = written(l);
    bool is_more = line_pump(l, now_monotonic_ns(), may_write_bulk);
    if (written(l) != before) l->lines->served = l;
    l->has_bulk = line_has_bulk(l);
    unlock(&l->lock, LOCK_ENGINE);
    return is_more;
}

static bool send_urgent(struct lines *s)
{
    bool is_more = false;
    for (struct line *l = s->first; l; l = l->next_line) is_more = visit(l, false) || is_more;
    return is_more;
}

static bool send_bulk(struct lines *s)
{
    bool is_more = false;
    uint64_t looked_ns = now_monotonic_ns();
    for (struct line *l = s->first; l; l = l->next_line) {
        if (!l->has_bulk) continue;
        is_more = visit(l, true) || is_more;
        if (now_monotonic_ns() < looked_ns + LOOK_NS) continue;
        send_urgent(s);
        looked_ns = now_monotonic_ns();
    }
    return is_more;
}

/* The turn is that of the line behind the one that wrote last. In a round in which none could, for all are in debt, it stays:
 * else a debt that comes free in every other round would always find the same line. */
static void pass_the_turn(struct lines *s)
{
    struct line *last = s->served, *next = last ? last->next_line : NULL;
    if (!next) return; /* none wrote, or the turn is that of the first line, as it stands */
    struct line **end = &last->next_line;
    while (*end) end = &(*end)->next_line;
    *end = s->first;
    s->first = next;
    last->next_line = NULL;
}

/* All lines once. true: there is more to do at once. */
static bool send_all(struct lines *s)
{
    s->served = NULL;
    bool is_more = send_urgent(s);
    if (lines_may_write(s)) {
        is_more = send_bulk(s) || is_more;
        lines_have_written(s);
    }
    pass_the_turn(s);
    return is_more;
}

static void give_way(struct lines *s)
{
    unlock(&s->list, LOCK_LINES);
    if (s->has_skipped || load_relaxed(&s->openers))
        nanosleep(&(struct timespec){.tv_nsec = GIVE_WAY_NS}, NULL); /* mutexes are not fair */
    lock(&s->list, LOCK_LINES);
    s->has_skipped = false;
}

static void *send_and_sleep(void *argument)
{
    struct lines *s = argument;
    rtmw_subscriber *subscribers[WAITED_MOST];
    lock(&s->list, LOCK_LINES);
    for (;;) {
        lock(&s->wakes, LOCK_LEAF);
        s->must_look = false;
        unlock(&s->wakes, LOCK_LEAF);
        if (load_acquire(&s->stop)) break; /* asked behind that: who stops it sets this first, and then the other */
        if (send_all(s))
            give_way(s);
        else
            sleep_for_work(s, subscribers);
    }
    unlock(&s->list, LOCK_LINES);
    return NULL;
}

/* ---- from start to stop ---- */

static void lock_list(struct lines *s)
{
    fetch_add(&s->openers, 1u);
    wake_lines(s);
    lock(&s->list, LOCK_LINES);
    fetch_add(&s->openers, UINT32_MAX);
}

void lines_join(struct lines *s, struct line *l)
{
    lock_list(s);
    l->next_line = s->first;
    s->first = l;
    unlock(&s->list, LOCK_LINES);
}

void lines_leave(struct lines *s, struct line *l)
{
    lock_list(s);
    struct line **link = &s->first;
    while (*link != l) link = &(*link)->next_line;
    *link = l->next_line;
    unlock(&s->list, LOCK_LINES);
    line_await_sender(l); /* which may sleep on subscribers of the line yet */
}

int lines_start(struct lines *s)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->list, NULL);
    pthread_mutex_init(&s->writes, NULL);
    pthread_mutex_init(&s->wakes, NULL);
    pthread_mutex_init(&s->rates, NULL);
    pthread_cond_init(&s->woken, &monotonic);
    pthread_cond_init(&s->looked, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return pthread_create(&s->sender, NULL, send_and_sleep, s);
}

void lines_stop(struct lines *s)
{
    store_release(&s->stop, 1u);
    wake_lines(s);
    pthread_join(s->sender, NULL);
    pthread_cond_destroy(&s->woken);
    pthread_cond_destroy(&s->looked);
    pthread_mutex_destroy(&s->rates);
    pthread_mutex_destroy(&s->wakes);
    pthread_mutex_destroy(&s->writes);
    pthread_mutex_destroy(&s->list);
}
