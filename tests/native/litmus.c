/* The patterns on which the core rests, on two real threads, with the operations of atomics.h.
 *
 *   litmus ROUNDS [emulated]
 *
 * Each pattern has an outcome that must never be seen; how often each outcome came is shown. The last one is made with
 * orders that are too weak, and nothing is asked of it: where it comes, this program can see what it looks for.
 *
 * `emulated`: qemu-user 7.2 on x86-64 lets LDAR overtake an earlier STLR, which the architecture forbids. So of the one
 * pattern that rests on this nothing is asked there.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "native.h"

enum { CELLS = 2048 };

/* What two threads share in one run of a pattern, a cache line each; what each of them saw. */
struct cell {
    _Alignas(64) uint64_t x;
    _Alignas(64) uint64_t y;
    _Alignas(64) uint64_t payload[4];
    _Alignas(64) uint32_t word;
    uint64_t saw[2];
};

struct pattern {
    const char *name;
    void (*first)(struct cell *), (*second)(struct cell *);
    bool (*forbidden)(const struct cell *);
    const char *because; /* NULL: nothing is asked */
    bool rests_on_stlr_ldar;
};

static struct cell cells[CELLS];
static uint32_t arrived[2], round_number;

/* A payload is written, then linked: who finds the link finds the payload. */
static void link_payload(struct cell *c)
{
    for (int i = 0; i < 4; i++) store_relaxed(&c->payload[i], 1u);
    store_release(&c->x, 1u);
}
static void follow_link(struct cell *c)
{
    c->saw[0] = load_acquire(&c->x);
    c->saw[1] = 1;
    for (int i = 0; i < 4; i++) c->saw[1] &= load_relaxed(&c->payload[i]);
}
static bool is_torn(const struct cell *c) { return c->saw[0] && !c->saw[1]; }

/* A link is made by CAS, and the tail by another; who sees the tail sees the link. */
static void link_and_move_tail(struct cell *c)
{
    cas64(&c->x, 0, 1);
    cas64(&c->y, 0, 1);
}
static void look_at_tail_and_link(struct cell *c)
{
    c->saw[0] = load_seq(&c->y);
    c->saw[1] = load_seq(&c->x);
}

/* Tail moves on, and its descriptor gets the sequence of another life; who saw that sequence sees that tail moved. */
static void move_tail_and_live_anew(struct cell *c)
{
    cas64(&c->y, 0, 1);
    store_release(&c->x, 1u);
}
static void look_at_sequence_and_tail(struct cell *c)
{
    c->saw[0] = load_acquire(&c->x);
    c->saw[1] = load_seq(&c->y);
}

/* Hold: my bit, then head. Free: head, then the bits. */
static void hold_then_look(struct cell *c)
{
    fetch_or(&c->x, UINT64_C(1));
    c->saw[0] = load_seq(&c->y);
}
static void pass_then_look(struct cell *c)
{
    cas64(&c->y, 0, 1);
    c->saw[1] = load_seq(&c->x);
}
static bool neither_saw(const struct cell *c) { return !c->saw[0] && !c->saw[1]; }

/* A cursor is stored, then the wait word read; the word is armed, then the cursor read. */
static void move_cursor_then_look(struct cell *c)
{
    store_seq(&c->x, 1u);
    c->saw[0] = load_seq(&c->word);
}
static void arm_then_look(struct cell *c)
{
    cas32(&c->word, 0, 1);
    c->saw[1] = load_seq(&c->x);
}

static void store_then_look_weakly(struct cell *c)
{
    store_release(&c->x, 1u);
    c->saw[0] = load_acquire(&c->y);
}
static void look_weakly_other_way(struct cell *c)
{
    store_release(&c->y, 1u);
    c->saw[1] = load_acquire(&c->x);
}

static const struct pattern patterns[] = {
    {"payload, then link", link_payload, follow_link, is_torn, "a message is read before it is written", false},
    {"link, then tail", link_and_move_tail, look_at_tail_and_link, is_torn, "tail names what is not linked", false},
    {"tail, then another life", move_tail_and_live_anew, look_at_sequence_and_tail, is_torn,
     "a sequence is taken for the tail's that never was", false},
    {"hold ‖ free", hold_then_look, pass_then_look, neither_saw, "a held message is used anew", false},
    {"take ‖ wait for room", move_cursor_then_look, arm_then_look, neither_saw,
     "a publisher sleeps, though there is room", true},
    {"too weak: store, then look", store_then_look_weakly, look_weakly_other_way, neither_saw, NULL, false},
};

static void meet(int who)
{
    store_seq(&arrived[who], round_number + 1);
    while (load_seq(&arrived[!who]) != round_number + 1) sched_yield();
}

static void *play_second(void *pattern)
{
    meet(1);
    for (int i = 0; i < CELLS; i++) ((const struct pattern *)pattern)->second(&cells[i]);
    return NULL;
}

/* A thread for each round: where they start and who is ahead changes from one to the next. */
static uint64_t play(const struct pattern *p, uint32_t rounds)
{
    uint64_t seen = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        pthread_t thread;
        memset(cells, 0, sizeof cells);
        round_number++;
        CHECK(pthread_create(&thread, NULL, play_second, (void *)(uintptr_t)p) == 0);
        meet(0);
        for (int i = 0; i < CELLS; i++) p->first(&cells[i]);
        pthread_join(thread, NULL);
        for (int i = 0; i < CELLS; i++) seen += p->forbidden(&cells[i]);
    }
    return seen;
}

int main(int count, char **arguments)
{
    CHECK(count == 2 || count == 3, "usage: litmus ROUNDS [emulated]");
    uint32_t rounds = (uint32_t)atoi(arguments[1]);
    bool well = true, emulated = count == 3;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct pattern *p = &patterns[i];
        uint64_t seen = play(p, rounds);
        bool asked = p->because && !(emulated && p->rests_on_stlr_ldar);
        printf("litmus: %s: %llu of %llu%s%s\n", p->name, (unsigned long long)seen, (unsigned long long)rounds * CELLS,
               !asked ? ", nothing is asked"
               : seen ? ", FORBIDDEN: "
                      : "",
               asked && seen ? p->because : "");
        well &= !asked || !seen;
    }
    return well ? 0 : 1;
}
