/* The log of the DDS library, as lines for the log of the node: see library_log.c. */
#ifndef RTMW_NET_LIBRARY_LOG_H
#define RTMW_NET_LIBRARY_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum { LIBRARY_LOG_LINES = 64, LIBRARY_LOG_LONGEST = 512 };
struct library_log {
    uint32_t count;                                     /* of `lines` */
    uint64_t more;                                      /* lines that came when these were full */
    char lines[LIBRARY_LOG_LINES][LIBRARY_LOG_LONGEST]; /* each ends with a 0; a longer one is cut */
};
/* While this is on, a DDS library that begins to log takes the node's stream for standard error, and keeps it for as long
 * as the process runs. For one thread. False: there is no memory, or libc has no such stream. */
bool library_log_capture(bool is_on);
/* The lines that have come since the last call. For any thread. */
void library_log_take(struct library_log *);

#endif
