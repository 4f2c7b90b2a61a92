/* Every atomic operation of the core, with its order in its name.
 *
 * Nothing else in the tree contains `__atomic`. Stand-alone fences are not offered: they blind ThreadSanitizer.
 * RTMW_STEP is the seam of the interleaving explorer (tests/native): it is called before each operation.
 *
 *   load_relaxed / store_relaxed    hints, counters, and fields that are validated afterwards
 *   load_acquire / store_release    hand a payload or a control block from one process to another
 *   *_seq, cas, fetch_*             sequentially consistent: both sides of every "I write mine, then look at yours"
 *
 * docs/design/orders.md says of each word which accesses of it pair with which others.
 */
#ifndef RTMW_ATOMICS_H
#define RTMW_ATOMICS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef RTMW_EXPLORE
void rtmw_explore_step(const volatile void *address);
#define RTMW_STEP(address) rtmw_explore_step(address)
#else
#define RTMW_STEP(address) ((void)0)
#endif

#define load_relaxed(p)     (RTMW_STEP(p), __atomic_load_n((p), __ATOMIC_RELAXED))
#define load_acquire(p)     (RTMW_STEP(p), __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define load_seq(p)         (RTMW_STEP(p), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define store_relaxed(p, v) (RTMW_STEP(p), __atomic_store_n((p), (v), __ATOMIC_RELAXED))
#define store_release(p, v) (RTMW_STEP(p), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define store_seq(p, v)     (RTMW_STEP(p), __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define fetch_or(p, v)      (RTMW_STEP(p), __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define fetch_and(p, v)     (RTMW_STEP(p), __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST))
#define fetch_add(p, v)     (RTMW_STEP(p), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define fetch_sub(p, v)     (RTMW_STEP(p), __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST))
#define exchange(p, v)      (RTMW_STEP(p), __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))

static inline bool cas64(uint64_t *word, uint64_t expected, uint64_t desired)
{
    RTMW_STEP(word);
    return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline bool cas32(uint32_t *word, uint32_t expected, uint32_t desired)
{
    RTMW_STEP(word);
    return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* A word that only grows: at least `least` from now on. */
static inline void raise_to(uint32_t *word, uint32_t least)
{
    for (uint32_t seen = load_seq(word); seen < least && !cas32(word, seen, least); seen = load_seq(word)) {}
}

/* A counter with one writer: its owner. Others read it with load_relaxed. */
static inline void count_up(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

/* Fetch a line that will be read, or written: hints, so that misses overlap. Compilers turn a prefetch to write into one
 * to read where the oldest processors know no better; those take the instruction for a no-operation. */
static inline void prefetch(const void *line) { __builtin_prefetch(line); }

static inline void prefetch_to_write(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A lock of the threads of one process. Never in shared memory: a process that dies or stops takes all its threads along. */
typedef struct {
    uint32_t taken;
} rtmw_lock;

void rtmw_lock_slow(rtmw_lock *lock);

static inline void lock_take(rtmw_lock *lock)
{
    if (__atomic_exchange_n(&lock->taken, 1u, __ATOMIC_ACQUIRE)) rtmw_lock_slow(lock);
}

static inline void lock_give(rtmw_lock *lock) { __atomic_store_n(&lock->taken, 0u, __ATOMIC_RELEASE); }

#endif
