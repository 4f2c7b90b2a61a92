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
 * A line that is slow further on, behind a switch, fills no buffer here. There only max_rate helps.
 *
 * Each band has a code point (DSCP, RFC 4594) on its datagrams, for switches that heed them. What DDS sends from threads
 * of its own, such as acknowledgements, has the one that was set last.
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
    SECOND_NS = 1000000000,
};

#define RATE_MOST (UINT64_C(1) << 40) /* bytes a second: more is not told apart */

/* Default forwarding, AF11 to AF41, CS5, VOICE-ADMIT, EF. */
static const int code_points[BANDS] = {0, 10, 18, 26, 34, 40, 44, 46};

bool pacing_open(struct engine *e, int descriptor)
{
    struct pacing *p = &e->pacing;
    int copy = p->count < SOCKETS_MOST ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return false;
    pthread_mutex_lock(&e->lock);
    p->socket[p->count++] = copy;
    p->band = BANDS;
    pthread_mutex_unlock(&e->lock);
    return true;
}

void pacing_close(struct engine *e)
{
    while (e->pacing.count) close(e->pacing.socket[--e->pacing.count]);
}

static uint64_t queued(const struct pacing *p)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < p->count; n++) {
        int bytes = 0;
        if (ioctl(p->socket[n], SIOCOUTQ, &bytes) == 0 && bytes > 0) sum += (uint64_t)bytes;
    }
    return sum;
}

/* Nothing was sent since the last look. What has drained says how fast the line is; if all has, how fast it is at least. A
 * line that has nothing queued may be faster than it was thought to be: a busy machine was late to send. */
static void learn(struct pacing *p, uint64_t left, uint64_t now)
{
    uint64_t drained = p->has_waited && left <= p->queued ? p->queued - left : 0;
    uint64_t rate = drained && now > p->looked_ns ? drained * SECOND_NS / (now - p->looked_ns) : 0;
    if (rate && left)
        p->rate = p->rate ? (3 * p->rate + rate) / 4 : rate;
    else if (rate > p->rate)
        p->rate = rate;
    else if (!left && p->rate < RATE_MOST)
        p->rate += p->rate / 8;
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
    uint64_t left = queued(p);
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
