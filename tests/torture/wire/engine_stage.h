/* The stage of the node's inbound side: its own C, with a DDS library and a bus of which the tests decide what they do. */
#ifndef ENGINE_STAGE_H
#define ENGINE_STAGE_H

#include "../../../rtmw/net/dds/engine.h"
#include "require.h"

enum {
    READER = 1,
    FLOW = 2,
    LEGIT = 11,
    STRANGER = 12
}; /* entities; publications: of a node, and of who says he is one */

struct stage {
    struct engine engine;
    struct inbound *inbound;
    struct ddsi_sertype type, flow_type;
    uint32_t subscribers; /* here, that get all; and what they were told that they missed */
    uint64_t missed;
    uint32_t full_for;   /* the bus refuses so many messages */
    uint32_t full_after; /* it refuses all from the one with this number on; 0: none */
    uint64_t live;       /* samples and loans that are not given back */
    const uint8_t *told; /* what was handed in last, while nothing waits; else NULL */
    size_t told_size;
    void (*on_publish)(const uint8_t *data, size_t size, uint64_t publisher, uint8_t priority);
};

extern struct stage stage;

void stage_open(enum framing, bool reliable);
void stage_close(void);
/* A sample as datagrams bring it, in `parts` of them. */
void stage_receive(dds_instance_handle_t publication, const uint8_t *bytes, size_t size, uint32_t parts);
void stage_hear(const uint8_t *note, size_t size); /* of flow control */
void stage_drain(void);                            /* the bus takes all that waits */
bool stage_is_of_type(const uint8_t *payload, size_t size);
/* Bytes of a sample whose size only is asked for: it waits, and is never read. */
struct ddsi_serdata *stage_claim(uint32_t size);

/* In place of posix_fallocate (engine.mk). Weak: a program may have its own. */
int stage_posix_fallocate(int fd, off_t offset, off_t size);

#endif
