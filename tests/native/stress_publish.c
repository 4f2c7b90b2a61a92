/* The publishers of the stress test: mixed bands, sizes, lifetimes; loans, some of them dropped. */
#include <sched.h>

#include "stress.h"

struct sender {
    struct role *role;
    rtmw_publisher *publisher[TOPICS];
    uint64_t next[TOPICS][BANDS];
    uint8_t *buffer;
};

/* Mostly small, now and then up to 64 KiB; a few too small to say whose they are. */
static uint64_t some_size(uint64_t *random)
{
    switch (random_below(random, 16)) {
    case 0: return random_below(random, 8);
    case 1: return 8 + random_below(random, LARGEST - 7);
    case 2:
    case 3: return 8 + random_below(random, 8192);
    case 4:
    case 5:
    case 6: return 8 + random_below(random, 1024);
    default: return 8 + random_below(random, 121);
    }
}

static void be_patient(struct sender *s, rtmw_publisher *p, uint64_t since)
{
    rtmw_publisher_wait(p, 2000000);
    CHECK(monotonic_ns() - since < UINT64_C(20000000000), "%s: no room for 20 seconds", s->role->name);
}

/* RTMW_OK, or an answer that the reliability allows to end with. A RELIABLE one waits for as long as it takes. */
static int send_loan(struct sender *s, rtmw_publisher *p, uint64_t size, struct origin origin, const rtmw_message_qos *qos)
{
    rtmw_loan loan;
    uint64_t since = monotonic_ns();
    int code;
    while ((code = rtmw_loan_take(p, size, &loan)) != RTMW_OK) {
        CHECK(code == RTMW_NO_MEMORY, "%s", rtmw_describe(code));
        if (s->role->reliability != RTMW_RELIABLE) return code;
        be_patient(s, p, since);
    }
    if (random_below(&s->role->random, 16) == 0) {
        rtmw_loan_drop(p, &loan);
        return RTMW_EMPTY;
    }
    payload_write(loan.data, size, origin);
    while ((code = rtmw_loan_publish(p, &loan, qos)) == RTMW_FULL) be_patient(s, p, since);
    return code;
}

static int send_copy(struct sender *s, rtmw_publisher *p, uint64_t size, struct origin origin, const rtmw_message_qos *qos)
{
    uint64_t since = monotonic_ns();
    int code;
    payload_write(s->buffer, size, origin);
    while ((code = rtmw_publish(p, s->buffer, size, qos)) != RTMW_OK) {
        CHECK(code == RTMW_NO_MEMORY || code == RTMW_FULL, "%s", rtmw_describe(code));
        if (s->role->reliability != RTMW_RELIABLE) return code;
        be_patient(s, p, since);
    }
    return code;
}

static void send_one(struct sender *s)
{
    struct role *role = s->role;
    uint32_t topic = random_below(&role->random, TOPICS), band = random_below(&role->random, 3) * 3;
    bool hurried = role->reliability != RTMW_RELIABLE && random_below(&role->random, 8) == 0;
    rtmw_message_qos qos = {.priority = (int)band, .lifetime_ns = hurried ? 200000 : 0};
    struct origin origin = {role->number, topic, band, s->next[topic][band] + 1};
    uint64_t size = some_size(&role->random);
    bool loan = random_below(&role->random, 2);
    int code = loan ? send_loan(s, s->publisher[topic], size, origin, &qos)
                    : send_copy(s, s->publisher[topic], size, origin, &qos);
    if (code == RTMW_OK)
        store_seq(&role->board->published[role->number][topic][band], ++s->next[topic][band]);
    else
        CHECK(code == RTMW_NO_MEMORY || code == RTMW_EMPTY, "%s", rtmw_describe(code));
}

void play_publisher(struct role *role)
{
    struct sender sender = {.role = role, .buffer = malloc(LARGEST)};
    rtmw_publisher_qos qos = {role->reliability, 0, 64, 0, 0};
    for (uint32_t topic = 0; topic < TOPICS; topic++) {
        CHECK(rtmw_publisher_open(role->region, topic_names[topic], NULL, &qos, &sender.publisher[topic]) == RTMW_OK);
        store_seq(&role->board->identity[role->number][topic], sender.publisher[topic]->block->identity);
    }
    fetch_add(&role->board->ready, 1u);
    while (load_seq(&role->board->ready) < PUBLISHERS + SUBSCRIBERS) sched_yield();
    for (uint32_t i = 0; i < role->messages; i++) send_one(&sender);
    for (uint32_t topic = 0; topic < TOPICS; topic++) rtmw_publisher_close(sender.publisher[topic]);
    free(sender.buffer);
    fetch_sub(&role->board->publishing, 1u);
}
