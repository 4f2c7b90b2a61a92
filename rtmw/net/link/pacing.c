/* Pacing: no more is sent than the way carries, so that what is urgent does not wait behind what is large on it.
 *
 * Data in the queue of a switch or router cannot be overtaken. With max_rate what was sent is a
 * debt of all lines of the interface (pacing.c), and the kernel spreads what one connection sends. Without it, the rate follows from what TCP knows, LOOK_NS apart: a round trip takes longer than the shortest one by as much as is queued on
 * the way. While more is queued than QUEUE_US, and this connection has its part in that, it sends less than what arrives
 * at the peer, which is what the way carries then; while less is, a little more each time. TCP's own tcpi_delivery_rate
 * does not say what arrives: it stands still while room of routes, and not TCP, limits what is sent.
 *
 * Ways that are faster than FASTEST queue for no time that matters; there a round trip says more about processors that are
 * busy, as it does on loopback. A peer that sends at the same time through the same queue gives way just so, if it is a line;
 * else the rate stays above a share of what the way has carried.
 */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "link.h"

enum {
    LOOK_NS = 50000000,
    QUEUE_US = 5000,
    PART_LEAST = FRAME_MOST / 2, /* bytes on the way, below which a connection has no part in a queue */
    GROWTH = 32,
    SHARE_LEAST = 8,
    RATE_LEAST = 4096, /* bytes a second: pings alone say nothing of what the way carries */
    FORGET = 256,
};
#define SECOND_NS UINT64_C(1000000000)
#define FASTEST   UINT64_C(125000000) /* bytes a second */

static void set_rate(struct channel *c, uint64_t bytes_per_second)
{
    uint64_t rate = bytes_per_second ? bytes_per_second : UINT64_MAX;
    store_relaxed(&c->rate, bytes_per_second);
    if (!c->is_unix) setsockopt(c->descriptor, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

/* The kernel keeps a rate, but sends in one piece what lies there in one, up to 64 KiB where round trips are short; and it takes
 * more into a piece than TCP_NOTSENT_LOWAT allows. So it is given no more than leaves soon. */
uint64_t line_ahead_ns(struct line *l, int channel, uint64_t now)
{
    int unsent = 0;
    const struct channel *c = l->channel[channel];
    uint64_t at = shared_rate_free_ns(l->lines, c->interface, channel != BULK, now);
    if (at || c->is_unix || !channel_is_slow(c) || ioctl(c->descriptor, SIOCOUTQNSD, &unsent) != 0) return at;
    return (size_t)unsent >= channel_ahead(c) ? now + RETRY_NS : 0;
}

void line_close_channel(struct line *l, int channel)
{
    struct channel *c = l->channel[channel];
    if (!c) return;
    shared_rate_let_go(l->lines, c->interface);
    channel_close(c);
    l->channel[channel] = NULL;
}

void line_pace_one(struct line *l, int channel)
{
    struct channel *c = l->channel[channel];
    uint64_t rate = load_relaxed(&l->bytes_per_second);
    if (!c) return;
    if (!c->interface) c->interface = shared_rate_of(l->lines, c->descriptor);
    shared_rate_set(l->lines, c->interface, rate);
    set_rate(c, rate);
}

void line_pace(struct line *l)
{
    for (int n = 0; n < CHANNELS; n++) line_pace_one(l, n);
}

uint64_t steered(uint64_t rate, uint64_t delivered, uint64_t queue_us)
{
    if (delivered > FASTEST || rate > FASTEST) return 0;
    if (queue_us > 3 * QUEUE_US) return delivered * 3 / 5 + 1;
    if (queue_us > QUEUE_US) return delivered * 17 / 20 + 1;
    return rate ? rate + rate / GROWTH + 1 : 0;
}

/* Bytes a second that have arrived at the peer since the last look: behind one that is lost, too, which none acknowledges
 * before that one has come. */
static uint64_t delivered(struct channel *c, const struct tcp_info *i, uint64_t now)
{
    uint64_t acked = i->tcpi_bytes_acked + (uint64_t)i->tcpi_sacked * i->tcpi_snd_mss;
    if (acked < c->acked) acked = c->acked;
    uint64_t rate = c->looked_ns ? (acked - c->acked) * SECOND_NS / (now - c->looked_ns) : 0;
    c->acked = acked;
    c->looked_ns = now;
    c->carried -= c->carried / FORGET;
    if (c->carried < rate) c->carried = rate;
    return rate;
}

/* Microseconds that what is sent at such a rate stands in a queue. A round trip is longer by two packets, too: the peer
 * acknowledges each second one. */
static uint64_t queued_us(const struct tcp_info *i, uint64_t rate)
{
    uint64_t least = i->tcpi_min_rtt + (rate ? 2 * i->tcpi_snd_mss * UINT64_C(1000000) / rate : 0);
    if ((uint64_t)i->tcpi_unacked * i->tcpi_snd_mss < PART_LEAST) return 0;
    return i->tcpi_rtt > least ? i->tcpi_rtt - least : 0;
}

static void steer(struct channel *c, uint64_t now)
{
    struct tcp_info i;
    socklen_t size = sizeof i;
    if (getsockopt(c->descriptor, IPPROTO_TCP, TCP_INFO, &i, &size) < 0 || size < sizeof i) return;
    if (now - c->looked_ns < i.tcpi_rtt * UINT64_C(1000))
        return; /* bytes sent since the last look are on the way yet */
    uint64_t arrived = delivered(c, &i, now), least = c->carried / SHARE_LEAST;
    if (least < RATE_LEAST) least = RATE_LEAST;
    uint64_t rate = steered(c->rate, arrived, queued_us(&i, arrived));
    if (rate && rate < least) rate = least;
    if (rate != c->rate) set_rate(c, rate);
}

void line_steer(struct line *l, uint64_t now)
{
    if (load_relaxed(&l->bytes_per_second)) return;
    for (int n = 0; n < CHANNELS; n++) {
        struct channel *c = l->channel[n];
        if (!c || c->is_within_host || now < c->steered_ns) continue;
        c->steered_ns = now + LOOK_NS;
        line_lock(l);
        steer(c, now);
        unlock(&l->lock, LOCK_ENGINE);
    }
}

/* ---- rates of all lines ---- */

/* Rates that hold over all lines of a node: of an interface (`max_rate`), and of a topic (`topic_rates`).
 *
 * What was sent is a debt (sending.h) of all lines that share the rate. The urgent connections of an interface have a debt of
 * their own beside it: they wait for that alone, and what they send delays the bulk connections of all lines. Whoever
 * looks late loses nothing of the rate, up to CREDIT_NS.
 */

enum { CREDIT_NS = 2000000 };

struct shared_rate {
    struct shared_rate *next;
    uint32_t users;
    struct rate_limit all, urgent;
    char name[];
};

static struct shared_rate *find(struct lines *s, const char *name)
{
    struct shared_rate *r = s->first_rate;
    while (r && strcmp(r->name, name) != 0) r = r->next;
    if (r || !(r = calloc(1, sizeof *r + strlen(name) + 1))) return r;
    strcpy(r->name, name);
    r->next = s->first_rate;
    return s->first_rate = r;
}

struct shared_rate *shared_rate_hold(struct lines *s, const char *name)
{
    if (!s) return NULL;
    lock(&s->rates, LOCK_LEAF);
    struct shared_rate *r = find(s, name);
    if (r) r->users++;
    unlock(&s->rates, LOCK_LEAF);
    return r;
}

/* Its local address names an interface. */
struct shared_rate *shared_rate_of(struct lines *s, int descriptor)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {0};
    socklen_t size = sizeof at;
    char name[64] = "/"; /* no topic begins so. Unix sockets have this name */
    getsockname(descriptor, (struct sockaddr *)&at, &size);
    const uint8_t *bytes = at.any.ss_family == AF_INET ? (const uint8_t *)&at.four.sin_addr : at.six.sin6_addr.s6_addr;
    int count = at.any.ss_family == AF_INET ? 4 : at.any.ss_family == AF_INET6 ? 16 : 0;
    for (int n = 0; n < count; n++) snprintf(name + 1 + 2 * n, 3, "%02x", bytes[n]);
    return shared_rate_hold(s, name);
}

void shared_rate_let_go(struct lines *s, struct shared_rate *rate)
{
    if (!rate) return;
    lock(&s->rates, LOCK_LEAF);
    if (!--rate->users) {
        struct shared_rate **link = &s->first_rate;
        while (*link != rate) link = &(*link)->next;
        *link = rate->next;
        free(rate);
    }
    unlock(&s->rates, LOCK_LEAF);
}

void shared_rate_set(struct lines *s, struct shared_rate *r, uint64_t bytes_per_second)
{
    if (!r || load_relaxed(&r->all.bytes_per_second) == bytes_per_second) return;
    lock(&s->rates, LOCK_LEAF);
    rate_limit_set(&r->all, bytes_per_second);
    rate_limit_set(&r->urgent, bytes_per_second);
    unlock(&s->rates, LOCK_LEAF);
}

static bool is_limited(const struct shared_rate *r) { return r && load_relaxed(&r->all.bytes_per_second); }

uint64_t shared_rate_free_ns(struct lines *s, struct shared_rate *r, bool is_urgent, uint64_t now)
{
    if (!is_limited(r)) return 0;
    lock(&s->rates, LOCK_LEAF);
    uint64_t at = rate_limit_free_ns(is_urgent ? &r->urgent : &r->all, now);
    unlock(&s->rates, LOCK_LEAF);
    return at;
}

void shared_rate_charge(struct lines *s, struct shared_rate *r, bool is_urgent, uint64_t bytes, uint64_t now)
{
    if (!is_limited(r)) return;
    lock(&s->rates, LOCK_LEAF);
    rate_limit_charge(&r->all, bytes, now - CREDIT_NS);
    if (is_urgent) rate_limit_charge(&r->urgent, bytes, now - CREDIT_NS);
    unlock(&s->rates, LOCK_LEAF);
}
