/* The callback of the DDS library when a reader has data. */
#ifndef RTMW_NET_LISTEN_H
#define RTMW_NET_LISTEN_H

#include "dds.h"

/* Has `callback(reader, argument)` called from now on, in the thread of the library that received, which holds locks of the
 * library. NULL: no longer; returns when no callback is running. Any thread that holds no lock which the callback takes.
 * Returns DDS_OK or a code of the library. */
int listen_to(dds_entity_t reader, void (*callback)(dds_entity_t, void *), void *argument);

#endif
