/* Making and naming regions: what the Python side needs beyond rtmw.h. */
#ifndef RTMW_REGION_H
#define RTMW_REGION_H

#include "core.h"

#define REGION_CONTROL "/rtmw.%u.control"
#define REGION_BLOCKS  "/rtmw.%u.blocks.%016llx"

uint64_t region_control_bytes(uint64_t pool_bytes);
int region_format(int control_fd, uint64_t pool_bytes, uint64_t nonce);
/* `look_on`: with read-only mappings and without a participant slot, for what changes nothing. */
int region_attach(uint32_t domain, bool look_on, struct rtmw_region **region, uint32_t *version_found);

#endif
