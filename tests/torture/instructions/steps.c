/* See steps.h. */
#include "steps.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "native.h"

enum { TRAP = 0xCC, STARTS_MOST = 1 << 16 };

extern uint8_t __start_core_text[], __stop_core_text[]; /* the linker names the ends of a section like this */

static uint32_t starts[STARTS_MOST], starts_count;
static uint8_t *original, *lifted;
static struct walk *walk;

uint32_t steps_bytes(void) { return (uint32_t)(__stop_core_text - __start_core_text); }

uint64_t steps_address(uint32_t where) { return (uint64_t)(uintptr_t)(__start_core_text + where); }

void steps_load(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long long address;
    CHECK(file, "%s cannot be read", path);
    while (fscanf(file, "%llx", &address) == 1) {
        CHECK(address >= steps_address(0) && address < steps_address(steps_bytes()), "%s is of another program", path);
        CHECK(starts_count < STARTS_MOST);
        starts[starts_count++] = (uint32_t)(address - steps_address(0));
    }
    fclose(file);
    CHECK(starts_count > 1000, "%s names %u instructions", path, starts_count);
    original = malloc(steps_bytes());
    memcpy(original, __start_core_text, steps_bytes());
}

static void disarm(void)
{
    memcpy(__start_core_text, original, steps_bytes());
    lifted = NULL;
}

/* Before each instruction: its breakpoint is lifted, and the one of the instruction before is set again. */
static void step(int number, siginfo_t *about, void *context)
{
    greg_t *next = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    uint8_t *here = (uint8_t *)(uintptr_t)(*next - 1);
    uint32_t where = (uint32_t)(here - __start_core_text);
    (void)number, (void)about;
    if (here < __start_core_text || here >= __stop_core_text) _exit(99);
    if (lifted) *lifted = TRAP;
    if (walk->count < STEPS_MOST) walk->at[walk->count] = where;
    *next = (greg_t)(uintptr_t)here;
    *here = original[where];
    lifted = here;
    if (++walk->count != walk->last) return;
    disarm();
    kill(getpid(), walk->number);
}

void steps_begin(struct walk *shared)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)__start_core_text & ~(page - 1);
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    walk = shared;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    CHECK(mprotect((void *)begin, (uintptr_t)__stop_core_text - begin, PROT_READ | PROT_WRITE | PROT_EXEC) == 0,
          "the kernel does not let a program write its own code");
    for (uint32_t i = 0; i < starts_count; i++) __start_core_text[starts[i]] = TRAP;
}

void steps_end(void)
{
    bool was_signalled = walk->last && walk->count >= walk->last;
    disarm();
    if (was_signalled || !walk->last) return;
    walk->returned = true;
    kill(getpid(), walk->number);
}
