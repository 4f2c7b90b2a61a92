/* Sleeping on a word, and waking the threads that sleep there: of one process, or of several that share the memory. */
#ifndef RTMW_FUTEX_H
#define RTMW_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

/* Sleeps while the word is `expected`. 0: woken, for whatever reason; EAGAIN: it was not; ETIMEDOUT; EINTR: a signal. */
static inline int futex_sleep(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = timespec_of(timeout_ns);
    return syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0) == 0 ? 0 : errno;
}

/* How many were woken; below 0: refused. */
static inline long futex_wake(uint32_t *word) { return syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

#endif
