/* The stage: what a line asks of the bus, as small as it can be, and its two connections. */
#include "link_stage.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEND_BUFFER = 8192 };

struct stage stage;

int stage_epoll_wait(int epoll, struct epoll_event *events, int most, int wait_ms)
{
    (void)wait_ms;
    return epoll_pwait(epoll, events, most, 0, NULL);
}

uint64_t now_monotonic_ns(void) { return stage.now_ns; }
uint64_t now_steady_ns(void) { return stage.now_ns + OFFSET_NS; }

/* ---- the bus: what is published ---- */

int rtmw_publish(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    if (p->full_for && p->full_for--) return RTMW_FULL;
    REQUIRE(qos->priority >= 0 && qos->priority < BANDS && qos->publisher & RTMW_REMOTE, "a message that cannot be");
    p->arrived++;
    stage.on_publish(p, data, size, qos);
    return RTMW_OK;
}

int rtmw_publish_quietly(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    int code = rtmw_publish(p, data, size, qos);
    p->is_untold = p->is_untold || code == RTMW_OK;
    return code;
}

void rtmw_publisher_flush(rtmw_publisher *p) { p->is_untold = false; }

int rtmw_loan_take(rtmw_publisher *p, uint64_t size, rtmw_loan *loan)
{
    if (size > POOL) return RTMW_TOO_LARGE;
    if (p->region->lent + size > POOL) return RTMW_NO_MEMORY;
    *loan = (rtmw_loan){.data = malloc(size ? size : 1), .size = size};
    p->region->lent += size;
    return RTMW_OK;
}

int rtmw_loan_drop(rtmw_publisher *p, rtmw_loan *loan)
{
    p->region->lent -= loan->size;
    free(loan->data);
    loan->data = NULL;
    return RTMW_OK;
}

int rtmw_loan_publish(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    int code = rtmw_publish(p, loan->data, loan->size, qos);
    if (code == RTMW_OK) rtmw_loan_drop(p, loan);
    return code;
}

uint32_t rtmw_publisher_lost(rtmw_publisher *p, rtmw_lost lost, uint64_t since_ns)
{
    uint64_t messages = lost.missed + lost.expired + lost.thinned;
    (void)since_ns;
    REQUIRE(messages && messages <= UINT64_C(1) << 32, "%llu messages are said to be lost",
            (unsigned long long)messages);
    p->lost += messages;
    return 1;
}

void rtmw_publisher_close(rtmw_publisher *p)
{
    REQUIRE(!p->is_untold, "who sleeps is not told of the last messages");
    free(p);
}

/* ---- the bus: what is taken ---- */

struct made {
    struct made *next;
    rtmw_message message;
    uint8_t bytes[];
};

static int take(rtmw_subscriber *s, rtmw_message *m)
{
    struct made *made = s->first;
    uint32_t at = 0;
    while (at < HELD_MOST && s->region->held[at]) at++;
    if (!made || at == HELD_MOST) return RTMW_EMPTY;
    s->first = made->next;
    if (!s->first) s->last = NULL;
    made->message.descriptor = at;
    s->region->held[at] = made;
    *m = made->message;
    return RTMW_OK;
}

int rtmw_take_many(rtmw_subscriber *s, rtmw_message *m, uint32_t most, uint64_t bytes, uint32_t *count)
{
    uint64_t sum = 0;
    REQUIRE(most && bytes, "nothing is asked for");
    for (*count = 0; *count < most && sum < bytes; sum += m[(*count)++].size)
        if (take(s, &m[*count]) != RTMW_OK) return RTMW_EMPTY;
    return RTMW_OK;
}

int rtmw_release(rtmw_region *r, uint32_t descriptor)
{
    REQUIRE(descriptor < HELD_MOST && r->held[descriptor], "a message is released that is not held");
    free(r->held[descriptor]);
    r->held[descriptor] = NULL;
    return RTMW_OK;
}

void rtmw_subscriber_close(rtmw_subscriber *s)
{
    for (struct made *m; (m = s->first); free(m)) s->first = m->next;
    free(s);
}

bool rtmw_subscriber_park(rtmw_subscriber *s, uint16_t key, uint64_t for_ns)
{
    (void)key, (void)for_ns;
    rtmw_subscriber_close(s);
    return true;
}

int rtmw_subscriber_wake(rtmw_subscriber *s) { return (void)s, RTMW_OK; }
void rtmw_subscriber_adjust(rtmw_subscriber *s, uint32_t depth, uint64_t min_interval_ns)
{
    (void)s, (void)min_interval_ns;
    REQUIRE(depth && depth <= 512, "%u messages may wait on the bus", depth);
}
void rtmw_subscriber_alive(rtmw_subscriber *s) { (void)s; }
int rtmw_wait(rtmw_subscriber *s, uint64_t timeout_ns, uint64_t spin_ns)
{
    (void)timeout_ns, (void)spin_ns;
    return s->first ? RTMW_OK : RTMW_TIMEOUT;
}
int rtmw_wait_any(rtmw_subscriber **s, bool *ready, size_t count, uint64_t timeout_ns)
{
    (void)s, (void)ready, (void)count, (void)timeout_ns;
    REQUIRE(!s, "a thread sleeps");
    return RTMW_TIMEOUT;
}
uint32_t rtmw_subscriber_number(rtmw_subscriber *s, uint8_t priority)
{
    (void)s;
    (void)priority;
    return 0;
}

void rtmw_subscriber_count(rtmw_subscriber *s, rtmw_subscriber_counters *counters)
{
    *counters = (rtmw_subscriber_counters){.missed = s->missed};
}

uint8_t byte_of(uint32_t route, uint32_t band, uint64_t id, size_t at)
{
    return (uint8_t)(id * 31 + route * 101 + band * 57 + at * 7 + (at >> 8) * 3);
}

bool is_as_made(const uint8_t *bytes, size_t size, uint32_t route, uint32_t band, uint64_t id)
{
    for (size_t at = 0; at < size; at++)
        if (bytes[at] != byte_of(route, band, id, at)) return false;
    return true;
}

void side_offer(struct side *side, uint32_t place, uint8_t band, uint64_t id, size_t size, uint64_t lifetime_ns)
{
    struct out *o = side->out[place];
    rtmw_subscriber *s = o->subscriber;
    struct made *m = malloc(sizeof *m + size);
    m->next = NULL;
    m->message = (rtmw_message){.data = m->bytes,
                                .size = size,
                                .source_time_ns = id,
                                .ends_ns = lifetime_ns ? stage.now_ns + lifetime_ns : 0,
                                .publisher = 5,
                                .priority = band};
    for (size_t at = 0; at < size; at++) m->bytes[at] = byte_of(o->number, band, id, at);
    if (s->last)
        s->last->next = m;
    else
        s->first = m;
    s->last = m;
}

/* ---- a line ---- */

void side_open(struct side *side)
{
    memset(side, 0, sizeof *side);
    side->is_checked = true;
    side->line.region = &side->region;
    side->line.hops = 1;
    side->line.zero_copy_most = POOL;
    REQUIRE(line_open(&side->line) == 0, "the line does not open");
}

/* A turn may end with a sleep. */
static void all_are_told(const struct side *side)
{
    for (uint32_t place = 0; place < ROUTES_MOST; place++)
        REQUIRE(!side->in[place] || !side->in[place]->publisher->is_untold,
                "who sleeps is not told of the last messages");
}

void side_turn(struct side *side, int times)
{
    while (times--) {
        side->is_more = line_turn(&side->line, side->is_more);
        all_are_told(side);
        stage.now_ns += 20000;
    }
}

bool side_is_up(const struct side *side) { return side->line.channel[URGENT] != NULL; }

/* The line's end of a connection; the other one is the caller's. */
static struct channel *connect_side(const struct side *side, int *peer)
{
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no connection");
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){SEND_BUFFER}, sizeof(int)); /* frames are written in parts */
    struct channel *channel = channel_open(pair[0], NULL);
    channel->is_checked = side->is_checked;
    *peer = pair[1];
    return channel;
}

void side_carry(struct side *side, int peer[PAIR])
{
    struct channel *channel[PAIR];
    for (int c = 0; c < PAIR; c++) channel[c] = connect_side(side, &peer[c]);
    line_carry(&side->line, channel[URGENT], channel[BULK]);
}

int side_twin(struct side *side)
{
    int peer;
    line_twin(&side->line, connect_side(side, &peer));
    return peer;
}

struct in *side_in(struct side *side, uint32_t place, struct in with)
{
    struct in *i = side->in[place] = malloc(sizeof *i);
    *i = with;
    i->line = &side->line;
    i->publisher = calloc(1, sizeof *i->publisher);
    i->publisher->region = &side->region;
    i->publisher->route = with.number;
    REQUIRE(in_open(i), "the route does not open");
    return i;
}

struct out *side_out(struct side *side, uint32_t place, uint32_t number, rtmw_reliability reliability)
{
    struct out *o = side->out[place] = calloc(1, sizeof *o);
    o->line = &side->line;
    o->number = number;
    o->depth = o->depth_now = 64;
    o->ceilings.max_priority = BANDS - 1;
    o->reliable = reliability == RTMW_RELIABLE;
    o->resends = reliability != RTMW_TIMELY;
    o->subscriber = calloc(1, sizeof *o->subscriber);
    o->subscriber->region = &side->region;
    REQUIRE(out_open(o), "the route does not open");
    return o;
}

void side_shut_in(struct side *side, uint32_t place)
{
    if (side->in[place]) in_close(side->in[place]);
    free(side->in[place]);
    side->in[place] = NULL;
}

void side_shut_out(struct side *side, uint32_t place)
{
    if (side->out[place]) out_close(side->out[place]);
    free(side->out[place]);
    side->out[place] = NULL;
}

void side_close(struct side *side)
{
    line_end(&side->line);
    for (uint32_t place = 0; place < ROUTES_MOST; place++) {
        side_shut_in(side, place);
        side_shut_out(side, place);
    }
    REQUIRE(!side->region.lent && !side->line.zero_copied && !side->line.waiting,
            "memory of the bus is not given back");
    for (uint32_t at = 0; at < HELD_MOST; at++) REQUIRE(!side->region.held[at], "a message is not given back");
    line_free(&side->line);
}
