/* Making, naming and laying out regions, beyond rtmw.h. */
#ifndef RTMW_REGION_H
#define RTMW_REGION_H

#include "core.h"

#define SHM "/dev/shm" /* where Linux shows shared-memory objects as files */

#define REGION_CONTROL    "/rtmw.%u.control"
#define REGION_BLOCKS     "/rtmw.%u.blocks.%016llx"
#define REGION_UNFINISHED "/rtmw.%u.new.%d.%016llx"

/* The parameters of a region to be made. */
struct pool {
    uint64_t bytes;   /* whole pages */
    uint32_t reserve; /* 1024ths of it that are for urgent messages */
    uint64_t nonce;
};

uint64_t region_control_bytes(uint64_t pool_bytes);
/* As rtmw_create, with a nonce that nobody else uses, and a pool whose size is possible. */
int region_create(uint32_t domain, const struct pool *);
int region_format(int control_fd, const struct pool *);
/* TO_LOOK_ON: with read-only mappings and without a participant slot, for what changes nothing. AS_TOOL: with the last slot
 * where all others are taken by the living; see sweep_from_last_slot. */
enum attaching { TO_TAKE_PART, TO_LOOK_ON, AS_TOOL };
int region_attach(uint32_t domain, enum attaching how, struct rtmw_region **region, uint32_t *version_found);

/* A tool that has the last slot calls this again and again: it sweeps once a second for those who find the table full. */
void sweep_from_last_slot(struct rtmw_region *);

#endif
