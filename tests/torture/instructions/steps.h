/* One instruction of the core after another, in this very process: a breakpoint lies on each of them (x86-64).
 *
 * A trap flag or ptrace would do the same. But in a virtual machine each single-step trap is an exit to the hypervisor
 * (18 µs where this was written, against 1.3 µs for a breakpoint), and a container may forbid ptrace.
 *
 * Only the core's own instructions count (section core_text). A library or system call happens between the instruction
 * that calls and the next one: so the signal comes before each system call, and after it.
 */
#ifndef RTMW_STEPS_H
#define RTMW_STEPS_H

#include <stdbool.h>
#include <stdint.h>

enum { STEPS_MOST = 1 << 21 };

/* In memory that outlives the process. */
struct walk {
    uint32_t count;          /* instructions begun */
    uint32_t last;           /* the signal comes before this one, counted from 1; or after the call, if it is shorter */
    int number;              /* of the signal */
    bool returned;           /* the call did, before the signal */
    uint32_t at[STEPS_MOST]; /* of each instruction: where, from the begin of core_text */
};

void steps_load(const char *path);      /* addresses of all instructions of core_text, one a line */
void steps_begin(struct walk *);        /* in a process of its own that does nothing else */
void steps_end(void);                   /* the call has returned; the signal comes here if it has not come yet */
uint32_t steps_bytes(void);             /* of core_text */
uint64_t steps_address(uint32_t where); /* for addr2line */

#endif
