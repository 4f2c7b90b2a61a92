/* Has anything come or gone? See fingerprint.c. */
#ifndef RTMW_FINGERPRINT_H
#define RTMW_FINGERPRINT_H

#include "core.h"

uint64_t endpoints_fingerprint(struct rtmw_region *);
uint64_t participants_fingerprint(struct rtmw_region *);

#endif
