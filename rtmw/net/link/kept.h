/* A message that was sent, until the peer has acknowledged it and no outbox has parts of it. */
#ifndef RTMW_LINK_KEPT_H
#define RTMW_LINK_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "../../shm/rtmw.h"

struct line;

struct kept {
    struct kept *next;
    struct line *line;
    uint32_t references; /* the list of its route, and outboxes; under the lock of the line */
    bool is_zero_copy;   /* it holds the message of the bus; else `copy` has the bytes */
    bool has_gone;       /* its first chunk was sent, maybe by a connection before this one */
    uint64_t number;
    rtmw_message message;
    const uint8_t *data;
    uint8_t copy[];
};

/* kept.c: under the lock of the line */
/* Takes over the hold on the message of the bus. `is_zero_copy`: keeps it; else copies the bytes and ends the hold. NULL: no
 * memory; then the hold is the caller's. */
struct kept *kept_new(struct line *, const rtmw_message *, bool is_zero_copy);
void kept_hold(struct kept *);
void kept_let_go(struct kept *);

#endif
