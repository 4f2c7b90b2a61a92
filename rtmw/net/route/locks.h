/* The order of the engine's locks: a thread takes them in the order of their ranks, and of each rank one at a time.
 *
 *   LOCK_LINES    lines.list      of links: which lines there are; their sender holds it while it sends
 *   LOCK_WRITES   lines.writes    of links: who writes on bulk connections holds it, and nobody waits for it
 *   LOCK_ENGINE   engine.lock     the lists of routes; the sender holds it while it sends, so others wait for a burst
 *   LOCK_ROUTE    inbound.lock    a route's sources and backlog; the DDS thread that received holds it while it publishes
 *   LOCK_LEAF     all others      held for a few lines, in which nothing of the DDS library and of the bus is called
 *
 * The DDS library calls us while it holds locks of its own: listeners take LOCK_ROUTE and below, never LOCK_ENGINE. We call
 * the library with LOCK_ENGINE (to write) and LOCK_ROUTE (to take samples, and to write a sample of flow control): the locks
 * of a writer and those of a reader are others in the library, and no listener of a writer of ours takes LOCK_ROUTE.
 *
 * Built with RTMW_CHECK_LOCKS a thread that breaks the order ends the process (tests/net/test_lock_order.py).
 */
#ifndef RTMW_NET_LOCKS_H
#define RTMW_NET_LOCKS_H

#include <pthread.h>
#include <stdbool.h>

enum lock_rank { LOCK_LINES, LOCK_WRITES, LOCK_ENGINE, LOCK_ROUTE, LOCK_LEAF };

#ifdef RTMW_CHECK_LOCKS
#include <stdio.h>
#include <stdlib.h>

void lock_check(enum lock_rank); /* it is about to be taken */
void lock_checked(enum lock_rank, bool is_held);
#else
#define lock_check(rank)            ((void)0)
#define lock_checked(rank, is_held) ((void)0)
#endif

static inline void lock(pthread_mutex_t *mutex, enum lock_rank rank)
{
    lock_check(rank);
    pthread_mutex_lock(mutex);
    lock_checked(rank, true);
    (void)rank;
}

static inline bool lock_if_free(pthread_mutex_t *mutex, enum lock_rank rank)
{
    bool is_mine = pthread_mutex_trylock(mutex) == 0;
    if (is_mine) lock_checked(rank, true);
    (void)rank;
    return is_mine;
}

static inline void unlock(pthread_mutex_t *mutex, enum lock_rank rank)
{
    lock_checked(rank, false);
    (void)rank;
    pthread_mutex_unlock(mutex);
}

#endif
