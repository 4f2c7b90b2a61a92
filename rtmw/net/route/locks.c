/* Which ranks this thread holds, where that is checked: see locks.h. */
#ifdef RTMW_CHECK_LOCKS
#include "locks.h"

static _Thread_local unsigned held; /* bit a rank */

void lock_check(enum lock_rank rank)
{
    if (!(held >> rank)) return;
    fprintf(stderr, "rtmw: the order of locks is broken: rank %d is asked for by a thread that holds %#x\n", rank,
            held);
    abort();
}

void lock_checked(enum lock_rank rank, bool is_held) { held = is_held ? held | 1u << rank : held & ~(1u << rank); }
#else
typedef int no_file_is_empty; /* as ISO C has it */
#endif
