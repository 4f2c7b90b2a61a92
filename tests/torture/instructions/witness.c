/* Everybody but the victim: publishes and takes on the same topic, and sees that nothing is lost, doubled or leaked. */
#include "rig.h"

enum { TURNS = 4, SMALL = 64, MOST_A_LIFE = 1 << 8 };

static rtmw_publisher *publisher_of(struct witness *w, const char *topic)
{
    rtmw_publisher *p;
    rtmw_publisher_qos qos = {RTMW_RELIABLE, 0, 64, 0, 0};
    CHECK(rtmw_publisher_open(w->region, topic, NULL, &qos, &p) == RTMW_OK);
    return p;
}

static rtmw_subscriber *subscriber_of(struct witness *w, rtmw_reliability reliability, uint32_t depth)
{
    rtmw_subscriber *s;
    rtmw_subscriber_qos qos = {reliability, depth, 0, 0, 0, 0};
    CHECK(rtmw_subscriber_open(w->region, TOPIC, NULL, &qos, &s) == RTMW_OK);
    return s;
}

void witness_open(struct witness *w)
{
    w->region = attach(w->domain);
    w->publisher = publisher_of(w, TOPIC);
    w->large = publisher_of(w, LARGE);
    w->reliable = subscriber_of(w, RTMW_RELIABLE, 512);
    w->adaptive = subscriber_of(w, RTMW_ADAPTIVE, 16);
    w->began = band_tail_sequence(w->region, &w->adaptive->topic->band[0]);
    for (int i = 0; i < 6; i++) witness_publish(w, i ? SMALL : 700);
    witness_take(w);
}

void witness_meets(struct witness *w, uint32_t life)
{
    w->life = life;
    w->victims = 0;
    w->board->attempted = w->board->told = 0;
}

/* Until it is published: a dead or lapsed subscriber may be in the way for a while. */
void witness_publish(struct witness *w, uint64_t size)
{
    static uint8_t payload[1 << 16];
    uint64_t since = monotonic_ns();
    int code;
    payload_write(payload, size, (struct origin){WITNESS, 0, 0, ++w->published});
    while ((code = rtmw_publish(w->publisher, payload, size, NULL)) != RTMW_OK) {
        CHECK(code == RTMW_FULL || code == RTMW_NO_MEMORY, "%s", rtmw_describe(code));
        CHECK(monotonic_ns() - since < PATIENCE_S * UINT64_C(1000000000), "a publisher has to wait for a victim");
        rtmw_publisher_wait(w->publisher, 5000000);
    }
}

/* In order, each once, without a gap: the witness' own, and those of this victim; of an earlier one nothing any more. */
static void judge(struct witness *w, const rtmw_message *m)
{
    struct origin o;
    CHECK(payload_origin(m->data, m->size, &o) && payload_is(m->data, m->size, o), "sequence %llu is damaged",
          (unsigned long long)m->sequence);
    if (o.publisher == WITNESS) {
        CHECK(o.number == ++w->came, "message %llu of the witness came as number %llu", (unsigned long long)o.number,
              (unsigned long long)w->came);
        return;
    }
    CHECK(o.publisher == VICTIM && o.number / MOST_A_LIFE == w->life, "a message of victim %llu came in the life of %u",
          (unsigned long long)o.number / MOST_A_LIFE, w->life);
    CHECK(o.number % MOST_A_LIFE == ++w->victims, "message %llu of the victim came as number %u",
          (unsigned long long)o.number % MOST_A_LIFE, w->victims);
}

static void take_all(struct witness *w, rtmw_subscriber *s, bool judged)
{
    rtmw_message m;
    int code;
    while ((code = rtmw_take(s, &m)) == RTMW_OK || code == RTMW_AGAIN) {
        if (code == RTMW_AGAIN) continue;
        if (judged) judge(w, &m);
        rtmw_release(w->region, m.descriptor);
    }
    CHECK(code == RTMW_EMPTY, "%s", rtmw_describe(code));
}

/* Whoever is not RELIABLE has each message, or has counted it by its cause. */
static void check_sum(struct witness *w)
{
    const struct subscriber_block *b = w->adaptive->block;
    uint64_t sum = b->received + b->missed + b->expired + b->thinned + b->unmatched + b->other_types;
    uint64_t tail = band_tail_sequence(w->region, &w->adaptive->topic->band[0]) - w->began;
    CHECK(sum == tail, "%llu messages are accounted for, of %llu", (unsigned long long)sum, (unsigned long long)tail);
}

void witness_take(struct witness *w)
{
    take_all(w, w->reliable, true);
    take_all(w, w->adaptive, false);
    CHECK(w->came == w->published, "of %llu messages %llu came", (unsigned long long)w->published,
          (unsigned long long)w->came);
    CHECK(w->reliable->block->missed == 0 && w->victims >= w->board->told && w->victims <= w->board->attempted,
          "the victim began %u messages and was told of %u; %u came", w->board->attempted, w->board->told, w->victims);
}

/* Before anybody has swept after the victim, or while it is stopped. */
void others_go_on(struct witness *w)
{
    witness_take(w);
    for (int turn = 0; turn < TURNS; turn++) {
        witness_publish(w, turn ? SMALL : 700); /* the small ones stay, for those who ask for history */
        witness_take(w);
    }
    check_sum(w);
    CHECK(!(load_seq(&w->publisher->topic->wait) & 1) && !(load_seq(&w->publisher->topic->poll) & 1),
          "a sleeper was not woken");
}

static uint32_t slots_in_use(const uint64_t *words, uint32_t count)
{
    uint32_t used = 0;
    for (uint32_t slot = 0; slot < count; slot++) used += slot_state_of(load_seq(&words[slot])) != SLOT_FREE;
    return used;
}

void books_must_close(struct witness *w)
{
    struct rtmw_region *r = w->region;
    uint32_t there = 0;
    witness_take(w);
    books_must_balance(r);
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++) {
        there += participant_state_of(load_seq(&r->participants[slot].word)) != ABSENT;
        CHECK(!r->participants[slot].sweepers[0] && !r->participants[slot].sweepers[1], "slot %u is still swept", slot);
    }
    CHECK(there == 1, "%u participants are left", there);
    CHECK(slots_in_use(r->publisher_words, r->header->publishers) == 2, "a publisher is left");
    CHECK(slots_in_use(r->subscriber_words, r->header->subscribers) == 2, "a subscriber is left");
    for (uint32_t topic = 0; topic < r->header->topics; topic++) {
        enum slot_state state = slot_state_of(load_seq(&r->topics[topic].word));
        CHECK(state == SLOT_FREE || state == SLOT_ACTIVE, "topic %u is half made or half given back", topic);
    }
}

void witness_close(struct witness *w)
{
    rtmw_publisher_qos qos = {.reliability = RTMW_TIMELY,
                              .priority = BANDS - 1,
                              .depth = 1}; /* the reserve is open to it */
    rtmw_publisher *p;
    rtmw_loan loan;
    CHECK(rtmw_publisher_open(w->region, "torture/whole", NULL, &qos, &p) == RTMW_OK);
    CHECK(rtmw_loan_take(p, POOL, &loan) == RTMW_OK, "the whole pool cannot be had");
    rtmw_loan_drop(p, &loan);
    rtmw_publisher_close(p);
    rtmw_detach(w->region);
}
