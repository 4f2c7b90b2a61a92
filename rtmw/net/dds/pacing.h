#ifndef RTMW_PACING_H
#define RTMW_PACING_H

#include <stdbool.h>
#include <stdint.h>

enum { SOCKETS_MOST = 8 }; /* that are looked at, to pace what is sent */

/* How much of what was sent has not left this host: see pacing.c. The sender's, as it holds the lock. */
struct pacing {
    int socket[SOCKETS_MOST]; /* those that DDS sends with */
    uint32_t count, band;     /* band: the one whose code point they have; BANDS: none yet */
    uint64_t rate;            /* bytes a second, as the kernel counts them; 0: not known */
    uint64_t queued, looked_ns;
    bool has_waited;                 /* nothing was sent since that look */
    bool has_sent;                   /* something was */
    uint64_t held[SOCKETS_MOST];     /* of each socket, what it had queued at that look */
    uint64_t stuck[SOCKETS_MOST];    /* bytes of it that wait for something else than the line */
    uint64_t moved_ns[SOCKETS_MOST]; /* when it was last seen to drain, or may have */
};

#endif
