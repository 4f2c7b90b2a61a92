/* The search of explore.h: schedules in depth-first order, each run from the start with the choices so far. */
#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "explore.h"

enum { STACK = 256 * 1024, DEEPEST = 4096, MOST_STEPS = 200000, WORDS = 1 << 14, MOST_SCHEDULES = 4000000, OUTCOMES = 16 };
enum actor_state { READY, SLEEPING, ENDED, STOPPED };

static struct {
    ucontext_t context;             /* to begin with; later switches are jumps, which ask the kernel nothing */
    jmp_buf resume;
    bool begun, idle;                      /* at the end of body: may run again */
    enum actor_state state;
    const uint32_t *sleeps_on;
    bool woken;
    uint32_t steps;
    void (*act)(void);
    uint8_t stack[STACK];
} actors[ACTORS];

static jmp_buf scheduler;
static int running = -1;            /* no actor: steps are not counted */
static uint32_t actor_count, preemptions_left, stop_at;
static int preferred;               /* whom a preemption chose */
uint64_t slept_out_ns;

static struct {
    uint8_t chosen, options;
} path[DEEPEST];
static uint32_t depth, at;          /* decisions known, decisions made in this schedule */

/* Words that actors touch: who, and whether any schedule changed them. */
static struct {
    const volatile void *address;
    uint8_t touched;
    bool changed;
} words[WORDS];
static uint16_t known[WORDS];       /* places in `words` that are in use */
static uint32_t known_count;
static bool discovered;             /* a new word to preempt at: begin the search again */
static struct world start;

uint32_t me(void) { return running < 0 ? world.claiming : (uint32_t)running; }

void broken(const char *format, ...)
{
    if (world.broken[0]) return; /* the first is the cause */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world.broken, sizeof world.broken, format, arguments);
    va_end(arguments);
}

static bool is_changed(const volatile void *address)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)&world);
    if (offset >= sizeof world) return true; /* not put back, so not known */
    return memcmp((const void *)((uintptr_t)address & ~UINT64_C(7)), (const uint8_t *)&start + (offset & ~UINT64_C(7)), 8) != 0;
}

static bool is_hot(uint32_t i) { return words[i].changed && (words[i].touched & (words[i].touched - 1)); }

/* Should a preemption be considered before this actor touches this word? */
static bool touch(const volatile void *address)
{
    uint32_t i = (uint32_t)((uintptr_t)address >> 2) * 2654435761u >> 18;
    while (words[i].address && words[i].address != address) i = (i + 1) % WORDS;
    bool was_hot = is_hot(i);
    if (!words[i].address) known[known_count++] = (uint16_t)i;
    words[i].address = address;
    words[i].touched |= (uint8_t)(1u << running);
    if (!words[i].changed) words[i].changed = is_changed(address);
    discovered |= is_hot(i) && !was_hot;
    return was_hot;
}

static void look_for_changes(void)
{
    for (uint32_t k = 0, i; k < known_count; k++) {
        i = known[k];
        if (words[i].changed || !is_changed(words[i].address)) continue;
        words[i].changed = true;
        discovered |= is_hot(i);
    }
}

static uint32_t choose(uint32_t options)
{
    if (options < 2) return 0;
    if (at == DEEPEST) {
        fprintf(stderr, "explore: a schedule of more than %d decisions\n", DEEPEST);
        exit(1);
    }
    if (at == depth) {
        path[depth].chosen = 0;
        path[depth++].options = (uint8_t)options;
    }
    return path[at++].chosen;
}

static uint32_t ready_besides(int who)
{
    uint32_t count = 0;
    for (int i = 0; i < (int)actor_count; i++) count += i != who && actors[i].state == READY;
    return count;
}

static int nth_ready(uint32_t n, int besides)
{
    for (int i = 0; i < (int)actor_count; i++)
        if (i != besides && actors[i].state == READY && n-- == 0) return i;
    return -1;
}

static void to_scheduler(void)
{
    int who = running;
    running = -1;
    if (!_setjmp(actors[who].resume)) _longjmp(scheduler, 1);
}

__attribute__((noinline)) static void step(const volatile void *address)
{
    int who = running;
    if (++actors[who].steps == stop_at || actors[who].steps > MOST_STEPS) {
        if (actors[who].steps > MOST_STEPS) broken("an actor runs without end");
        actors[who].state = STOPPED;
        to_scheduler();
    }
    if (stop_at || !touch(address) || !preemptions_left) return;
    uint32_t option = choose(1 + ready_besides(who));
    if (option == 0) return;
    preemptions_left--;
    preferred = nth_ready(option - 1, who);
    to_scheduler();
}

void rtmw_explore_step(const volatile void *address)
{
    if (running >= 0) step(address);
}

static long wake_all(const uint32_t *word)
{
    long woken = 0;
    world.wakes++;
    for (uint32_t i = 0; i < actor_count; i++) {
        if (actors[i].state != SLEEPING || actors[i].sleeps_on != word) continue;
        actors[i].state = READY;
        actors[i].woken = true;
        woken++;
    }
    return woken;
}

/* wait.c is compiled with -Dsyscall=explore_syscall: futexes without a kernel. A time limit passes only when nobody is
 * left to run. */
long explore_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    void *first = va_arg(arguments, void *);
    int operation = va_arg(arguments, int);
    uint32_t value = va_arg(arguments, uint32_t), *word = first;
    const struct timespec *limit = va_arg(arguments, const struct timespec *);
    uint64_t for_ns = limit && operation != FUTEX_WAKE_OP ? (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec : 0;
    va_end(arguments);
    if (number == SYS_futex_waitv) { /* of one word */
        struct futex_waitv *only = first;
        word = (uint32_t *)(uintptr_t)only->uaddr;
        value = (uint32_t)only->val;
        for_ns -= world.clock_ns; /* it is told when, not for how long */
    }
    rtmw_explore_step(word);
    if (number == SYS_futex && operation == FUTEX_WAKE_OP) {
        if (world.no_wake_op) return errno = ENOSYS, -1;
        *word += 1;
        return wake_all(word);
    }
    if (number == SYS_futex && operation == FUTEX_WAKE) return wake_all(word);
    if (*word != value || running < 0) {
        errno = EAGAIN;
        return -1;
    }
    int who = running;
    actors[who].sleeps_on = word;
    actors[who].woken = false;
    actors[who].state = SLEEPING;
    to_scheduler();
    if (actors[who].woken) return 0;
    world.clock_ns += for_ns;
    if (for_ns > slept_out_ns) slept_out_ns = for_ns;
    errno = ETIMEDOUT;
    return -1;
}

static void body(void)
{
    for (;;) {
        int who = running;
        actors[who].act();
        actors[who].state = ENDED;
        actors[who].idle = true;
        to_scheduler();
        actors[who].idle = false;
    }
}

static void make_ready(uint32_t who)
{
    actors[who].steps = 0;
    actors[who].state = READY;
    if (actors[who].idle) return;
    getcontext(&actors[who].context);
    actors[who].context.uc_stack = (stack_t){.ss_sp = actors[who].stack, .ss_size = STACK};
    makecontext(&actors[who].context, body, 0);
    actors[who].begun = false;
}

static void resume(uint32_t who)
{
    if (_setjmp(scheduler)) return;
    running = (int)who;
    if (actors[who].begun) _longjmp(actors[who].resume, 1);
    actors[who].begun = true;
    setcontext(&actors[who].context);
}

static void end_all_sleeps(void)
{
    for (uint32_t i = 0; i < actor_count; i++)
        if (actors[i].state == SLEEPING) actors[i].state = READY;
}

static void run_actors(void)
{
    preferred = -1;
    slept_out_ns = 0;
    for (uint32_t i = 0; i < actor_count; i++) make_ready(i);
    for (;;) {
        if (!ready_besides(-1)) end_all_sleeps();
        if (!ready_besides(-1)) return;
        int next = preferred >= 0 ? preferred : nth_ready(choose(ready_besides(-1)), -1);
        preferred = -1;
        resume((uint32_t)next);
    }
}

bool run_until_step(void (*act)(void), uint32_t step)
{
    actor_count = 1;
    actors[0].act = act;
    stop_at = step;
    run_actors();
    stop_at = 0;
    return actors[0].state == STOPPED;
}

/* The next schedule in depth-first order; false: that was the last. */
static bool next_path(void)
{
    while (depth > 0 && path[depth - 1].chosen + 1 == path[depth - 1].options) depth--;
    if (depth == 0) return false;
    path[depth - 1].chosen++;
    return true;
}

static const struct outcome *verdict_on(const struct race *race, const char *name)
{
    for (const struct outcome *o = race->outcomes; o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

static void print_schedule(void)
{
    fprintf(stderr, "    schedule:");
    for (uint32_t i = 0; i < depth; i++)
        if (path[i].chosen) fprintf(stderr, " %u→%u", i, path[i].chosen);
    fprintf(stderr, " (of %u decisions)\n", depth);
}

static bool run_schedule(const struct race *race, uint32_t *seen)
{
    world = start;
    at = 0;
    preemptions_left = race->bound;
    run_actors();
    look_for_changes();
    const char *name = world.broken[0] ? world.broken : race->judge();
    if (world.broken[0]) name = world.broken;
    const struct outcome *outcome = verdict_on(race, name);
    if (outcome) seen[outcome - race->outcomes]++;
    if (outcome && outcome->verdict == ACCEPTABLE) return true;
    fprintf(stderr, "%s: FORBIDDEN: %s (%s)\n", race->name, name, outcome ? outcome->reason : "not in the table");
    print_schedule();
    return false;
}

bool explore(const struct race *race)
{
    uint32_t seen[OUTCOMES] = {0};
    uint64_t schedules = 0;
    world_make(race->size);
    race->prepare();
    start = world;
    memset(words, 0, sizeof words);
    known_count = 0;
    actor_count = race->actors;
    for (uint32_t i = 0; i < actor_count; i++) actors[i].act = race->act[i];
    depth = 0;
    do {
        discovered = false;
        if (!run_schedule(race, seen)) return false;
        if (discovered) {
            depth = 0;
            schedules = 0;
            memset(seen, 0, sizeof seen);
            path[0].chosen = path[0].options = 0;
            continue;
        }
    } while ((discovered || (++schedules && next_path())) && schedules < MOST_SCHEDULES);
    printf("%-44s %8llu schedules, %u preemptions%s\n", race->name, (unsigned long long)schedules, race->bound,
           schedules == MOST_SCHEDULES ? " (not all)" : "");
    for (const struct outcome *o = race->outcomes; o->name; o++)
        if (o->verdict == ACCEPTABLE) printf("    %8u  %-34s %s\n", seen[o - race->outcomes], o->name, o->reason);
    return true;
}
