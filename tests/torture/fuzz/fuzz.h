/* What a hostile participant can do to the others: make them answer wrongly, and no more.
 *
 * A round is a fresh region, some hundred random operations of two attached handles, and a hostile hand that overwrites
 * words of the control object meanwhile: between two operations, before any atomic operation of the core (the seam of
 * atomics.h), at each second look of an operation at a word of a descriptor (which word, says the round), or from another
 * thread. It runs in a process of its own, under AddressSanitizer, with guard pages around the mappings and a limit of
 * processor time for each operation.
 */
#ifndef RTMW_FUZZ_H
#define RTMW_FUZZ_H

#include "native.h"

enum {
    CODES = RTMW_OTHER_TIME + 1,
    WORDS = offsetof(struct descriptor, payload) / 8, /* of a descriptor: those that the core looks at */
    NO_WORD,
};

/* Shared by a round and by who started it. */
struct counts {
    uint64_t operations, words; /* words: overwritten */
    uint64_t answers[CODES];
    uint32_t doing; /* the operation that the round was at; see operation_name */
};
extern struct counts *counts;

/* damage.c */
void damage_begin(void *control, uint64_t *random); /* while the region is whole */
void damage_before_steps(uint32_t one_in);          /* before one atomic operation in so many; 0: never */
void damage_at_second_looks(uint32_t word);         /* of one operation, at this word of a descriptor */
void damage_new_operation(void);
void damage_some(uint64_t *random); /* a few words, now */
void damage_start_thread(uint64_t seed);
void damage_stop_thread(void);
void *guarded_mmap(void *, size_t, int, int, int, off_t);
int guarded_munmap(void *, size_t);

/* operations.c */
void operations_begin(uint32_t domain, uint64_t *random);
void operate(void); /* one at random */
void operations_end(void);
const char *operation_name(uint32_t);

#endif
