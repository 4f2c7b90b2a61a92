/* What the kernel is asked to do for a connection. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "channel.h"

/* Of Linux 6.15; the headers of a C library may be older. */
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif
#ifndef TCP_DELACK_MAX_US
#define TCP_DELACK_MAX_US 46
#endif

enum {
    UNSENT_MOST = 16 << 10, /* bytes that the kernel has and has not sent, before it takes no more */
    IDLE_S = 5,             /* of a connection, before the kernel probes whether the peer is there */
    UNACKNOWLEDGED_MS = 20000,
    RESENT_US = 20000,      /* beyond a round trip, after which what was not acknowledged is sent again */
    ACKNOWLEDGED_US = 8000, /* after which what has come is acknowledged */
    FAR_US = 5000,          /* of a round trip, from which on a way is far */
};

static void set(int descriptor, int level, int option, int value)
{
    setsockopt(descriptor, level, option, &value, sizeof value); /* one that a kernel does not have costs speed alone */
}

static bool is_within_host(int descriptor)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    if (getpeername(descriptor, (void *)&at, &size) < 0) return true;
    if (at.ss_family == AF_INET) return ntohl(((struct sockaddr_in *)&at)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return at.ss_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&at)->sin6_addr);
}

static void set_congestion(int descriptor, const char *name)
{
    setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

static bool is_far(int descriptor)
{
    struct tcp_info i;
    socklen_t size = sizeof i;
    return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &i, &size) == 0 && i.tcpi_rtt >= FAR_US;
}

/* On loopback nothing queues, and an algorithm that paces (bbr) has a timer for each packet. Reno has none; each kernel has
 * it, and each process may take it. On a far way algorithms that slow down at each packet that is lost leave most of the way
 * empty where some are always lost. Bbr does not. Where kernel or administrator do not let one be taken, that of the route or
 * the host stays. */
static void choose_congestion(const struct channel *c)
{
    if (c->is_within_host)
        set_congestion(c->descriptor, "reno");
    else if (c->is_far)
        set_congestion(c->descriptor, "bbr");
}

void channel_mark(struct channel *c, int code_point)
{
    if (c->is_unix) return;
    set(c->descriptor, IPPROTO_IP, IP_TOS, code_point << 2); /* also of IPv4 at a socket of IPv6 */
    set(c->descriptor, IPPROTO_IPV6, IPV6_TCLASS, code_point << 2);
}

/* All but the first of the options are those of TCP. */
bool channel_set_options(struct channel *c)
{
    int domain, descriptor = c->descriptor, flags = fcntl(descriptor, F_GETFL);
    socklen_t size = sizeof domain;
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return false;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) return false;
    c->is_unix = domain == AF_UNIX;
    c->is_within_host = is_within_host(descriptor);
    if (domain != AF_INET && domain != AF_INET6) return true;
    c->is_far = !c->is_within_host && is_far(descriptor);
    set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    set(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_MOST);
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, IDLE_S);
    set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS);
    set(descriptor, IPPROTO_TCP, TCP_RTO_MIN_US, RESENT_US);
    set(descriptor, IPPROTO_TCP, TCP_DELACK_MAX_US, ACKNOWLEDGED_US);
    choose_congestion(c);
    return true;
}
