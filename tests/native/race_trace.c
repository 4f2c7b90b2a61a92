/* Races of the trace: an event is read whole or not at all, and nobody waits for who writes one. */
#include "races.h"

static const struct trace_event *event_of(uint64_t value)
{
    static struct trace_event event[ACTORS];
    event[me()] = (struct trace_event){TRACE_TAKEN, 1, 2, (uint32_t)value, value, value, value, value, value, value};
    return &event[me()];
}

static bool is_one_event(const struct trace_event *e)
{
    return e->kind == TRACE_TAKEN && e->topic == 1 && e->band == 2 && e->count == e->at_ns && e->at_ns == e->who &&
           e->who == e->publisher && e->publisher == e->sequence && e->sequence == e->size && e->size == e->published_ns;
}

static void nothing(void) {}

static void write_1(void) { trace_write(&world.region[me()], event_of(100 + me())); }

static void write_2(void)
{
    write_1();
    write_1();
}

static void write_3(void)
{
    write_2();
    write_1();
}

static void read_from(uint64_t first)
{
    struct trace_event event;
    for (uint64_t ticket = first; ticket < first + EVENTS; ticket++)
        if (trace_read(&world.region[me()], ticket, &event) == TRACE_READ && !is_one_event(&event)) broken("torn");
}

static void read_all(void) { read_from(1); }

/* What is there when all are done: whole, and one entry a ticket. */
static const char *whole(void)
{
    uint32_t found = 0;
    struct trace_event event;
    uint64_t next = trace_next(&world.region[AUDITOR]);
    for (uint64_t ticket = next - EVENTS; ticket < next; ticket++) {
        if (trace_read(&world.region[AUDITOR], ticket, &event) != TRACE_READ) continue;
        if (!is_one_event(&event)) return "torn";
        found++;
    }
    if (!all_comes_back()) return "";
    return found == EVENTS ? "all" : found ? "one given up" : "none";
}

static const struct outcome whole_only[] = {
    {"all", ACCEPTABLE, "the last events are there"},
    {"one given up", ACCEPTABLE, "its entry was still being written a round later"},
    {"none", FORBIDDEN, "a writer gives up only for one that writes"},
    {"torn", FORBIDDEN, "an event is read whole or not at all"},
    {0},
};

const struct race trace_races[] = {
    {"trace ‖ trace, a round later", {4, 1}, 2, 4, nothing, {write_1, write_3}, whole, whole_only},
    {"trace ‖ read", {4, 1}, 2, 4, write_2, {write_3, read_all}, whole, whole_only},
    {"trace ‖ trace ‖ read", {4, 1}, 3, 2, nothing, {write_2, write_2, read_all}, whole, whole_only},
    {0},
};
