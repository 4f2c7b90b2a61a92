/* Pacing: no more is handed to the kernel than leaves it soon, so that what is urgent overtakes what waits here.
 *
 *   send queue ─ at most `burst` bytes ─► DDS ─► send buffers of its sockets ─► line
 *     in order of priority                        in order of arrival: 0.2 s of it at 8 Mbit/s
 *
 * Before each burst the sender asks the kernel how much of what it was given has not left (SIOCOUTQ). While that is more
 * than `allowed`, nothing is sent. `allowed` is what the line takes in AHEAD_NS, QUEUED_LEAST at least. How fast the line
 * is, is seen while the sender waits: by how much less there is at the next look. A line that is faster than the
 * sender (loopback, mostly) never has anything queued; there, the burst is BURST_BYTES, and a look is all that it costs.
 *
 * Datagrams to a host that does not answer (ARP, ND) are charged to the socket for seconds, and the line is free meanwhile.
 * So what has not drained for STUCK_NS is left out of the account, until it is gone. A line that takes longer than that for
 * one datagram (below 240 kbit/s) gets ahead by as much each time.
 *
 * A line that is slow further on, behind a switch, fills no buffer here. There only max_rate helps.
 *
 * Each band has a code point (DSCP, RFC 4594) on its datagrams, for switches that heed them. Datagrams that DDS sends
 * from threads of its own, such as acknowledgements, have the code point that was set last.
 */
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"

enum {
    QUEUED_LEAST = 4096, /* bytes as the kernel counts them: a full datagram of an Ethernet takes 2,304 */
    BURST_LEAST = 1400,  /* bytes of payload: a datagram of an Ethernet */
    AHEAD_NS = 300000,   /* longer than a sleep of the sender takes */
    WAIT_LEAST_NS = 50000,
    WAIT_FIRST_NS = 200000, /* while it is not known how fast the line is */
    WAIT_MOST_NS = 2000000,
    STUCK_NS = 50000000,
    SECOND_NS = 1000000000,
};

/* Bytes a second: more is not told apart. `allowed` is BURST_BYTES then. */
#define RATE_MOST (UINT64_C(1) * BURST_BYTES * SECOND_NS / AHEAD_NS + 1)

/* Default forwarding, AF11 to AF41, CS5, VOICE-ADMIT, EF. */
static const int code_points[BANDS] = {0, 10, 18, 26, 34, 40, 44, 46};

bool pacing_open(struct engine *e, int descriptor)
{
    struct pacing *p = &e->pacing;
    int copy = p->count < SOCKETS_MOST ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return false;
    lock(&e->lock, LOCK_ENGINE);
    p->socket[p->count++] = copy;
    p->band = BANDS;
    unlock(&e->lock, LOCK_ENGINE);
    return true;
}

void pacing_close(struct engine *e)
{
    while (e->pacing.count) close(e->pacing.socket[--e->pacing.count]);
}

/* Of the bytes that a socket has queued, those that wait for the line. A thread that waits sees them drain, for nothing
 * is added. */
static uint64_t moving(struct pacing *p, uint32_t n, uint64_t bytes, uint64_t now, bool *is_stuck)
{
    if (!p->has_waited || bytes < p->held[n] || bytes <= p->stuck[n]) p->moved_ns[n] = now;
    p->held[n] = bytes;
    bool stands = now >= p->moved_ns[n] + STUCK_NS;
    if (stands || bytes < p->stuck[n]) p->stuck[n] = bytes;
    *is_stuck = *is_stuck || stands;
    return bytes - p->stuck[n];
}

static uint64_t queued(struct pacing *p, uint64_t now)
{
    uint64_t sum = 0;
    bool is_stuck = false;
    for (uint32_t n = 0; n < p->count; n++) {
        int bytes = 0;
        if (ioctl(p->socket[n], SIOCOUTQ, &bytes) != 0 || bytes < 0) bytes = 0;
        sum += moving(p, n, (uint64_t)bytes, now, &is_stuck);
    }
    if (is_stuck) p->has_waited = false; /* it has not drained: nothing is to be learned of it */
    return sum;
}

static uint64_t faster(uint64_t rate) { return rate + rate / 8; }

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* The bytes that drained while nothing was sent say how fast the line is; if all have, how fast it is at least. A line
 * that has nothing queued right after something was sent may be faster than it was thought to be. Where nothing was sent,
 * nothing is known. */
static void learn(struct pacing *p, uint64_t left, uint64_t now)
{
    uint64_t drained = p->has_waited && left <= p->queued ? p->queued - left : 0;
    uint64_t rate = drained && now > p->looked_ns ? drained * SECOND_NS / (now - p->looked_ns) : 0;
    if (rate && left)
        rate = p->rate ? (3 * p->rate + rate) / 4 : rate;
    else if (rate <= p->rate)
        rate = !left && (p->has_sent || p->has_waited) ? faster(p->rate) : p->rate;
    p->rate = least(rate, RATE_MOST);
    p->has_sent = false;
}

static uint64_t allowed(const struct pacing *p)
{
    uint64_t ahead = p->rate * AHEAD_NS / SECOND_NS;
    return ahead > QUEUED_LEAST ? ahead : QUEUED_LEAST;
}

uint64_t pacing_burst(const struct engine *e)
{
    uint64_t most = e->pacing.rate ? allowed(&e->pacing) : BURST_BYTES;
    return most <= QUEUED_LEAST ? BURST_LEAST : most < BURST_BYTES ? most : BURST_BYTES;
}

uint64_t pacing_wait(struct engine *e, uint64_t now)
{
    struct pacing *p = &e->pacing;
    uint64_t left = queued(p, now);
    learn(p, left, now);
    p->queued = left;
    p->looked_ns = now;
    p->has_waited = left > allowed(p);
    if (!p->has_waited) return 0;
    uint64_t wait = p->rate ? (left - allowed(p)) * SECOND_NS / p->rate : WAIT_FIRST_NS;
    return now + (wait < WAIT_LEAST_NS ? WAIT_LEAST_NS : wait < WAIT_MOST_NS ? wait : WAIT_MOST_NS);
}

void pacing_mark(struct engine *e, uint32_t band)
{
    struct pacing *p = &e->pacing;
    p->has_sent = true;
    if (p->band == band) return;
    p->band = band;
    for (uint32_t n = 0; n < p->count; n++) {
        int family = 0, octet = code_points[band] << 2;
        socklen_t size = sizeof family;
        getsockopt(p->socket[n], SOL_SOCKET, SO_DOMAIN, &family, &size);
        if (family == AF_INET6)
            setsockopt(p->socket[n], IPPROTO_IPV6, IPV6_TCLASS, &octet, sizeof octet);
        else
            setsockopt(p->socket[n], IPPROTO_IP, IP_TOS, &octet, sizeof octet);
    }
}
