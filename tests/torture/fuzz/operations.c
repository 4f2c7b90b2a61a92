/* What the two attached handles do while words change under their hands. Every answer is right, and no fault is. */
#include <string.h>

#include "fuzz.h"
#include "queue.h"
#include "wait.h"

enum { REGIONS = 2, ENDS = 4, KEPT = 24, LOANS = 3, LARGEST = 70000, WAIT_NS = 200000 };

static uint32_t domain;
static uint64_t *random_state;
static struct rtmw_region *regions[REGIONS];
static rtmw_publisher *publishers[ENDS];
static rtmw_subscriber *subscribers[ENDS];
static struct {
    rtmw_message message;
    struct rtmw_region *region;
} kept[KEPT];
static struct {
    rtmw_loan loan;
    rtmw_publisher *publisher;
} loans[LOANS];
static uint8_t bytes[LARGEST], *marks;
static struct books books;

static uint32_t below(uint32_t limit) { return random_below(random_state, limit); }

static int answered(int code)
{
    CHECK(code >= 0 && code < CODES, "%d is no answer", code);
    counts->answers[code]++;
    return code;
}

/* ---- memory that is lent out ---- */

static bool is_inside(const void *data, uint64_t size, const void *base, uint64_t length)
{
    uint64_t at = (uint64_t)((uintptr_t)data - (uintptr_t)base);
    return at <= length && size <= length - at;
}

static void must_be_lent(struct rtmw_region *r, const void *data, uint64_t size)
{
    bool in_block = is_inside(data, size, r->blocks, r->header->pool_bytes);
    bool in_place =
        size <= IN_PLACE && is_inside(data, size, r->descriptors, r->header->descriptors * sizeof(struct descriptor));
    CHECK(in_block || in_place, "%llu bytes that are neither in a block nor in a descriptor", (unsigned long long)size);
}

static void read_all(const rtmw_message *m)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < m->size; i++) sum += ((const uint8_t *)m->data)[i];
    __asm__ volatile("" : : "r"(sum));
}

/* ---- endpoints ---- */

static const char *const names[] = {"one", "two", "three"};
static const rtmw_type types[] = {{"First", 11, "{\"first\"}", 9}, {"Second", 22, "{\"second\"}", 10}};

static const rtmw_type *some_type(bool any)
{
    uint32_t drawn = below(8);
    return drawn < 2 ? &types[drawn] : any && drawn == 2 ? RTMW_ANY : NULL;
}

static void close_publisher(uint32_t at)
{
    for (uint32_t i = 0; i < LOANS; i++)
        if (publishers[at] && loans[i].publisher == publishers[at]) {
            rtmw_loan_drop(loans[i].publisher, &loans[i].loan);
            loans[i].publisher = NULL;
        }
    if (publishers[at]) rtmw_publisher_close(publishers[at]);
    publishers[at] = NULL;
}

static void open_publisher(void)
{
    uint32_t at = below(ENDS);
    rtmw_publisher_qos qos = {(rtmw_reliability)below(3), (uint8_t)below(BANDS), 1 + below(64), below(4) ? 0 : below(8),
                              0};
    close_publisher(at);
    struct rtmw_region *r = regions[at % REGIONS];
    if (answered(rtmw_publisher_open(r, names[below(3)], some_type(false), &qos, &publishers[at])) != RTMW_OK)
        publishers[at] = NULL;
}

static void close_subscriber(uint32_t at)
{
    if (subscribers[at]) rtmw_subscriber_close(subscribers[at]);
    subscribers[at] = NULL;
}

static void open_subscriber(void)
{
    uint32_t at = below(ENDS);
    rtmw_subscriber_qos qos = {(rtmw_reliability)below(3), 1 + below(16),          below(3) ? 0 : below(9),
                               below(4) ? 0 : 1000,        below(4) ? 0 : 1000000, below(4) ? 0 : 1000};
    close_subscriber(at);
    struct rtmw_region *r = regions[at % REGIONS];
    if (answered(rtmw_subscriber_open(r, names[below(3)], some_type(true), &qos, &subscribers[at])) != RTMW_OK)
        subscribers[at] = NULL;
}

/* ---- messages ---- */

static uint64_t some_size(void)
{
    static const uint32_t sizes[] = {0, 8, 64, 128, 129, 256, 600, 4000, 4096, 9000, 40000, LARGEST};
    return sizes[below(sizeof sizes / sizeof *sizes)];
}

static void publish(void)
{
    rtmw_publisher *p = publishers[below(ENDS)];
    rtmw_message_qos qos = {.priority = (int)below(BANDS + 1) - 1, .lifetime_ns = below(4) ? 0 : 100000};
    if (p) answered(rtmw_publish(p, bytes, some_size(), &qos));
}

static void publish_many(void)
{
    rtmw_publisher *p = publishers[below(ENDS)];
    struct part parts[40];
    uint32_t count = 1 + below(40), published;
    for (uint32_t i = 0; i < count; i++) parts[i] = (struct part){bytes, below(8) ? below(IN_PLACE + 1) : some_size()};
    if (p) answered(publish_quietly(p, parts, count, NULL, &published));
    if (p) rtmw_publisher_flush(p);
}

static void loan(void)
{
    uint32_t at = below(LOANS);
    rtmw_publisher *p = publishers[below(ENDS)];
    if (!p || loans[at].publisher) return;
    if (answered(rtmw_loan_take(p, some_size(), &loans[at].loan)) != RTMW_OK) return;
    loans[at].publisher = p;
    must_be_lent(p->region, loans[at].loan.data, loans[at].loan.size);
    memset(loans[at].loan.data, 7, loans[at].loan.size);
}

static void end_loan(void)
{
    uint32_t at = below(LOANS);
    rtmw_publisher *p = loans[at].publisher;
    if (!p) return;
    memset(loans[at].loan.data, 9, loans[at].loan.size);
    if (below(3) == 0 || answered(rtmw_loan_publish(p, &loans[at].loan, NULL)) != RTMW_OK)
        rtmw_loan_drop(p, &loans[at].loan);
    loans[at].publisher = NULL;
}

static void release(uint32_t at)
{
    if (!kept[at].region) return;
    read_all(&kept[at].message);
    rtmw_release(kept[at].region, kept[at].message.descriptor);
    kept[at].region = NULL;
}

static void take(void)
{
    rtmw_subscriber *s = subscribers[below(ENDS)];
    rtmw_message m;
    if (!s) return;
    for (uint32_t most = 1 + below(8); most > 0 && answered(rtmw_take(s, &m)) == RTMW_OK; most--) {
        must_be_lent(s->region, m.data, m.size);
        read_all(&m);
        uint32_t at = below(KEPT);
        release(at);
        kept[at].message = m;
        kept[at].region = s->region;
    }
}

static void take_many(void)
{
    rtmw_subscriber *s = subscribers[below(ENDS)];
    rtmw_message messages[64];
    uint32_t count;
    if (!s) return;
    answered(rtmw_take_many(s, messages, 1 + below(64), below(2) ? UINT64_MAX : below(4096), &count));
    for (uint32_t i = 0; i < count; i++) {
        must_be_lent(s->region, messages[i].data, messages[i].size);
        read_all(&messages[i]);
        rtmw_release(s->region, messages[i].descriptor);
    }
}

static void release_one(void) { release(below(KEPT)); }

/* A program that reads until there is nothing, and sleeps until there is something: it must come to an end. */
static void receive(void)
{
    rtmw_subscriber *s = subscribers[below(ENDS)];
    rtmw_message m;
    int code = RTMW_OK;
    for (uint32_t tries = 0; s && tries < 100000 && (code == RTMW_OK || code == RTMW_INTERRUPTED); tries++) {
        code = rtmw_take(s, &m);
        if (code == RTMW_OK) return (void)rtmw_release(s->region, m.descriptor);
        if (code == RTMW_EMPTY) code = rtmw_wait(s, WAIT_NS, 0);
    }
    if (s) CHECK(answered(code) != RTMW_OK, "waiters are told for ever that there is something, and takes get nothing");
}

/* ---- waiting ---- */

static void wait_for_room(void)
{
    rtmw_publisher *p = publishers[below(ENDS)];
    if (p) answered(rtmw_publisher_wait(p, WAIT_NS));
}

static void wait_for_any(void)
{
    rtmw_subscriber *several[ENDS];
    bool ready[ENDS];
    size_t count = 0;
    for (uint32_t i = 0; i < ENDS; i++)
        if (subscribers[i]) several[count++] = subscribers[i];
    if (count) answered(rtmw_wait_any(several, ready, count, WAIT_NS));
}

static void arm(void)
{
    rtmw_subscriber *s = subscribers[below(ENDS)];
    if (s) subscriber_arm(s);
}

/* ---- the whole ---- */

static void examine(void)
{
    struct rtmw_region *r = regions[below(REGIONS)];
    uint32_t swept, freed;
    if (below(2)) books_repair(r, &swept, &freed);
    books_examine(r, &books, marks);
}

static void look(void)
{
    struct rtmw_region *r = regions[below(REGIONS)];
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t b = 0; b < BANDS; b++) band_last_sequence(r, &r->topics[t].band[b]);
    for (uint32_t i = 0; i < 8; i++) unread_by(r, &r->topics[below(3)], &r->subscribers[i]);
    uint64_t preview[1024];
    uint32_t room = below(sizeof preview + 1);
    struct peek at = {.band = &r->topics[below(3)].band[below(BANDS)], .index = NIL, .preview = preview, .room = room};
    struct peeked seen;
    for (uint32_t i = 0; i < 64 && peek_next(r, &at, &seen); i++) CHECK(seen.shown <= room);
    for (uint32_t i = 0; i < ENDS; i++)
        if (publishers[i]) rtmw_publisher_matched(publishers[i]);
}

static void trace(void)
{
    static bool tracing[REGIONS];
    uint32_t at = below(REGIONS);
    struct rtmw_region *r = regions[at];
    struct trace_event event;
    if (tracing[at]) trace_end(r, 0);
    tracing[at] = !tracing[at] && answered(trace_begin(r, topic_life(r, 0))) == RTMW_OK;
    for (uint64_t next = trace_next(r), i = 0; i < 64; i++) trace_read(r, next - i, &event);
}

static void sweep(void)
{
    struct rtmw_region *r = regions[below(REGIONS)];
    lock_take(&r->lock);
    sweep_the_dead(r);
    lock_give(&r->lock);
}

static void retire(void)
{
    struct rtmw_region *r = regions[below(REGIONS)];
    lock_take(&r->lock);
    retire_topics(r);
    lock_give(&r->lock);
}

static void attach_and_leave(void)
{
    struct rtmw_region *r;
    if (answered(rtmw_attach(domain, &r)) == RTMW_OK) rtmw_detach(r);
}

static const struct {
    const char *name;
    void (*act)(void);
    uint32_t often; /* of 128 times */
} operations[] = {
    {"publish", publish, 23},
    {"publish many", publish_many, 6},
    {"take", take, 24},
    {"take many", take_many, 6},
    {"loan", loan, 8},
    {"end a loan", end_loan, 8},
    {"release", release_one, 8},
    {"receive", receive, 5},
    {"open a subscriber", open_subscriber, 8},
    {"open a publisher", open_publisher, 6},
    {"wait for room", wait_for_room, 3},
    {"wait for any", wait_for_any, 3},
    {"arm", arm, 3},
    {"look", look, 4},
    {"trace", trace, 3},
    {"sweep", sweep, 3},
    {"retire", retire, 2},
    {"attach and leave", attach_and_leave, 4},
    {"examine", examine, 1},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

const char *operation_name(uint32_t number) { return number < OPERATIONS ? operations[number].name : "begin or end"; }

void operate(void)
{
    uint32_t drawn = below(128), number = 0;
    while (drawn >= operations[number].often) drawn -= operations[number++].often;
    counts->doing = number;
    counts->operations++;
    damage_new_operation();
    operations[number].act();
    counts->doing = OPERATIONS;
}

void operations_begin(uint32_t in_domain, uint64_t *random)
{
    domain = in_domain;
    random_state = random;
    counts->doing = OPERATIONS;
    for (uint32_t i = 0; i < REGIONS; i++) CHECK(rtmw_attach(domain, &regions[i]) == RTMW_OK);
    marks = calloc(1, books_marks(regions[0]));
    for (uint32_t i = 0; i < 3 * ENDS; i++) open_publisher(), open_subscriber();
    for (uint32_t i = 0; i < 40; i++) publish(), take();
}

void operations_end(void)
{
    for (uint32_t i = 0; i < KEPT; i++) release(i);
    for (uint32_t i = 0; i < ENDS; i++) close_publisher(i), close_subscriber(i);
    for (uint32_t i = 0; i < REGIONS; i++) rtmw_detach(regions[i]);
    free(marks);
}
