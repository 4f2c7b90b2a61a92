/* The calls in which victims die, and what each must find when it was only stopped. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "wait.h"

enum { SMALL = 64, IN_GRANULES = 700, IN_PAGES = 20000, A_FILL = 60000, NAMES = 220, LIVES = 100, LARGEST = 900000 };
enum { MS = 1000000 };

static uint8_t payload[1 << 16];

/* ---- publishing ---- */

static void open_publisher(struct victim *v, const char *topic, rtmw_reliability reliability, uint32_t depth)
{
    rtmw_publisher_qos qos = {reliability, 0, depth, 0, 0};
    CHECK(rtmw_publisher_open(v->region, topic, NULL, &qos, &v->publisher) == RTMW_OK);
}

static struct origin next_origin(struct victim *v)
{
    return (struct origin){VICTIM, 0, 0, (uint64_t)v->life << 8 | ++v->board->attempted};
}

static void publish(struct victim *v, uint64_t size)
{
    payload_write(payload, size, next_origin(v));
    CHECK(rtmw_publish(v->publisher, payload, size, NULL) == RTMW_OK);
    v->board->told = v->board->attempted;
}

static void prepare_publisher(struct victim *v)
{
    open_publisher(v, TOPIC, RTMW_RELIABLE, 64);
    publish(v, SMALL);
}

static void publish_in_place(struct victim *v) { publish(v, SMALL); }
static void publish_granules(struct victim *v) { publish(v, IN_GRANULES); }
static void publish_pages(struct victim *v) { publish(v, IN_PAGES); }

static void publish_many(struct victim *v)
{
    enum { MANY = 5 };
    static uint8_t payloads[MANY][IN_GRANULES];
    struct part parts[MANY];
    uint32_t published;
    for (uint32_t i = 0; i < MANY; i++) {
        parts[i] = (struct part){payloads[i], i == 3 ? IN_GRANULES : SMALL};
        payload_write(payloads[i], parts[i].size, next_origin(v));
    }
    CHECK(publish_quietly(v->publisher, parts, MANY, NULL, &published) == RTMW_OK && published == MANY);
    rtmw_publisher_flush(v->publisher);
    v->board->told = v->board->attempted;
}

static void name_new_topic(struct victim *v, char *name, size_t size)
{
    snprintf(name, size, "torture/new/%u", v->life % NAMES);
}

static void prepare_new_topic(struct victim *v)
{
    char name[64];
    name_new_topic(v, name, sizeof name);
    open_publisher(v, name, RTMW_ADAPTIVE, 64);
}

/* Every slot has a name, and nobody uses one of those made here. */
static void fill_topics(struct victim *v)
{
    for (uint32_t i = 0; i < v->region->header->topics; i++) {
        char name[64];
        rtmw_publisher *p;
        snprintf(name, sizeof name, "torture/passing/%u", i);
        CHECK(rtmw_publisher_open(v->region, name, NULL, NULL, &p) == RTMW_OK);
        rtmw_publisher_close(p);
    }
}

static void open_in_the_place_of_another(struct victim *v)
{
    char name[64];
    snprintf(name, sizeof name, "torture/one more/%u", v->life);
    open_publisher(v, name, RTMW_ADAPTIVE, 64);
}

static void publish_unseen(struct victim *v) { CHECK(rtmw_publish(v->publisher, payload, SMALL, NULL) == RTMW_OK); }

/* The pool is full of what the victim published before; the witness has messages unread that must not go. */
static void prepare_full_pool(struct victim *v)
{
    open_publisher(v, TOPIC, RTMW_TIMELY, 64);
    for (uint32_t i = 0; i < 2 * POOL / A_FILL; i++)
        CHECK(rtmw_publish(v->publisher, payload, A_FILL, NULL) == RTMW_OK);
}

static void read_and_leave_three_unread(struct witness *w)
{
    witness_take(w);
    for (int i = 0; i < 3; i++) witness_publish(w, SMALL);
}

static void prepare_timely_publisher(struct victim *v) { open_publisher(v, TOPIC, RTMW_TIMELY, 64); }

/* The pool is full of messages that have expired, behind one of the witness that it has not read. */
static void leave_one_unread_and_fill_the_pool(struct witness *w)
{
    rtmw_message_qos over_at_once = {-1, 1, 0, 0, 0};
    witness_take(w);
    witness_publish(w, SMALL);
    for (uint32_t i = 0; i < 2 * POOL / A_FILL; i++) rtmw_publish(w->publisher, payload, A_FILL, &over_at_once);
    for (int i = 0; i < 2; i++) witness_publish(w, SMALL);
}

static void publish_evicting(struct victim *v) { CHECK(rtmw_publish(v->publisher, payload, A_FILL, NULL) == RTMW_OK); }

static void leave(struct victim *v)
{
    if (v->publisher) rtmw_publisher_close(v->publisher);
    if (v->subscriber) rtmw_subscriber_close(v->subscriber);
    rtmw_detach(v->region);
}

/* ---- loans ---- */

static void drop_loans(struct victim *v)
{
    static const uint64_t size[LOANS] = {SMALL, IN_GRANULES, IN_PAGES};
    for (int i = 0; i < LOANS; i++) CHECK(rtmw_loan_take(v->publisher, size[i], &v->loan[i]) == RTMW_OK);
    for (int i = 0; i < LOANS; i++) rtmw_loan_drop(v->publisher, &v->loan[i]);
}

static void loan_and_publish(struct victim *v)
{
    rtmw_loan *loan = v->loan;
    CHECK(rtmw_loan_take(v->publisher, IN_GRANULES, loan) == RTMW_OK);
    payload_write(loan->data, loan->size, next_origin(v));
    CHECK(rtmw_loan_publish(v->publisher, loan, NULL) == RTMW_OK);
    v->board->told = v->board->attempted;
}

/* The block of a large message, read by all and the last of its topic, is what has to give way. */
static void publish_large(struct witness *w)
{
    static uint8_t large[LARGEST];
    rtmw_publisher *p = w->large;
    witness_take(w);
    CHECK(rtmw_publish(p, large, LARGEST, NULL) == RTMW_OK);
}

static void empty_the_last(struct victim *v)
{
    CHECK(rtmw_loan_take(v->publisher, LARGEST, v->loan) == RTMW_OK);
    rtmw_loan_drop(v->publisher, v->loan);
}

/* ---- waking ---- */

static void somebody_sleeps(struct witness *w) { arm_word(&w->publisher->topic->wait); }
static void somebody_polls(struct witness *w)
{
    if (w->reliable->pollable < 0) CHECK(subscriber_pollable(w->reliable) >= 0);
    subscriber_rearm(w->reliable);
}

/* ---- taking ---- */

static void open_subscriber(struct victim *v, rtmw_subscriber_qos qos)
{
    CHECK(rtmw_subscriber_open(v->region, TOPIC, NULL, &qos, &v->subscriber) == RTMW_OK);
}

static void prepare_reliable(struct victim *v)
{
    open_subscriber(v, (rtmw_subscriber_qos){RTMW_RELIABLE, 64, 0, 0, 0, 0});
}
static void prepare_timely(struct victim *v) { open_subscriber(v, (rtmw_subscriber_qos){RTMW_TIMELY, 1, 0, 0, 0, 0}); }
static void prepare_leased(struct victim *v)
{
    open_subscriber(v, (rtmw_subscriber_qos){RTMW_RELIABLE, 4, 0, 0, 0, 2 * MS});
}

static void publish_five(struct witness *w)
{
    for (int i = 0; i < 5; i++) witness_publish(w, i == 1 ? IN_GRANULES : SMALL);
}
static void publish_five_and_wait_for_room(struct witness *w)
{
    publish_five(w);
    arm_word(&w->publisher->topic->room);
}

/* One message, or RTMW_EMPTY or RTMW_LAPSED. */
static int take(struct victim *v)
{
    rtmw_message *m = &v->kept[v->keeps];
    int code = rtmw_take(v->subscriber, m);
    if (code == RTMW_OK) v->keeps++;
    return code;
}

static void take_one(struct victim *v) { CHECK(take(v) == RTMW_OK); }
static void take_three(struct victim *v)
{
    for (int i = 0; i < 3; i++) CHECK(take(v) == RTMW_OK);
}
static void take_after_lapse(struct victim *v)
{
    int code = take(v);
    CHECK(code == RTMW_LAPSED, "%s", rtmw_describe(code));
}

/* Messages that it kept while it was stopped are whole, and those of the witness come in order. */
static void let_go_of_kept(struct victim *v, bool complete)
{
    for (uint32_t i = 0; i < v->keeps; i++) {
        const rtmw_message *m = &v->kept[i];
        struct origin o;
        CHECK(payload_origin(m->data, m->size, &o) && payload_is(m->data, m->size, o), "a kept message has changed");
        CHECK(!v->next || (complete ? o.number == v->next : o.number >= v->next), "%llu came instead of %llu",
              (unsigned long long)o.number, (unsigned long long)v->next);
        if (!v->first) v->first = o.number;
        v->next = o.number + 1;
        rtmw_release(v->region, m->descriptor);
    }
    v->keeps = 0;
}

static uint32_t take_the_rest(struct victim *v, bool complete)
{
    uint32_t lapsed = 0;
    int code;
    let_go_of_kept(v, complete);
    while ((code = take(v)) != RTMW_EMPTY) {
        CHECK(code == RTMW_OK || code == RTMW_LAPSED, "%s", rtmw_describe(code));
        lapsed += code == RTMW_LAPSED;
        let_go_of_kept(v, complete && code == RTMW_OK);
    }
    return lapsed;
}

static void finish_complete(struct victim *v)
{
    CHECK(take_the_rest(v, true) == 0 && v->subscriber->block->missed == 0 && v->next - v->first >= 5);
    leave(v);
}

/* It has each message, or was told how many are gone. */
static void finish_counted(struct victim *v)
{
    take_the_rest(v, false);
    const struct subscriber_block *b = v->subscriber->block;
    CHECK(b->received + b->missed >= 5 && v->next > b->received, "received %llu, missed %llu",
          (unsigned long long)b->received, (unsigned long long)b->missed);
    CHECK(b->received + b->missed == v->subscriber->sequence[0] - v->subscriber->began[0], "received %llu, missed %llu",
          (unsigned long long)b->received, (unsigned long long)b->missed);
    leave(v);
}

static void prepare_kept(struct victim *v)
{
    open_subscriber(v, (rtmw_subscriber_qos){RTMW_ADAPTIVE, 64, 4, 0, 0, 0});
    take_three(v);
}

static void release(struct victim *v)
{
    for (; v->keeps > 0; v->keeps--) rtmw_release(v->region, v->kept[v->keeps - 1].descriptor);
}

/* ---- coming and going ---- */

static void subscribe(struct victim *v) { open_subscriber(v, (rtmw_subscriber_qos){RTMW_RELIABLE, 64, 2, 0, 0, 0}); }
static void finish_subscribed(struct victim *v)
{
    CHECK(take_the_rest(v, false) == 0 && v->subscriber->block->missed == 0 && v->next - v->first >= 2);
    leave(v);
}
static void unsubscribe(struct victim *v)
{
    rtmw_subscriber_close(v->subscriber);
    v->subscriber = NULL;
}
static void close_publisher(struct victim *v)
{
    rtmw_publisher_close(v->publisher);
    v->publisher = NULL;
}
static void attach_victim(struct victim *v) { v->region = attach(v->domain); }
static void attach_and_hold(struct victim *v)
{
    prepare_publisher(v);
    prepare_kept(v);
    CHECK(rtmw_loan_take(v->publisher, IN_GRANULES, v->loan) == RTMW_OK);
}
static void detach(struct victim *v) { rtmw_detach(v->region); }
static void finish_detached(struct victim *v) { (void)v; }
static void stay(struct victim *v) { (void)v; }

/* ---- waiting ---- */

static void wait_a_little(struct victim *v)
{
    int code = rtmw_wait(v->subscriber, MS, 0);
    CHECK(code == RTMW_OK || code == RTMW_TIMEOUT || code == RTMW_INTERRUPTED, "%s", rtmw_describe(code));
}
static void finish_waiting(struct victim *v)
{
    int code;
    while ((code = rtmw_wait(v->subscriber, UINT64_MAX, 0)) == RTMW_INTERRUPTED) {}
    CHECK(code == RTMW_OK && take_the_rest(v, true) == 0 && v->next - v->first >= 2, "%s", rtmw_describe(code));
    leave(v);
}
static void wait_for_room(struct victim *v)
{
    int code = rtmw_publisher_wait(v->publisher, MS);
    CHECK(code == RTMW_OK || code == RTMW_INTERRUPTED, "%s", rtmw_describe(code));
}

/* ---- sweeping ---- */

/* One more, with a loan and samples, which ends while the victim is there. */
static void somebody_dies(struct witness *w)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct victim v = {.board = w->board, .domain = w->domain, .life = w->life};
        attach_victim(&v);
        attach_and_hold(&v);
        kill(getpid(), SIGKILL);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    witness_take(w);
}
static void sweep(struct victim *v)
{
    uint32_t swept, freed;
    books_repair(v->region, &swept, &freed);
}

const struct call calls[] = {
    {"publish in place", prepare_publisher, NULL, publish_in_place, leave, 0},
    {"publish in granules", prepare_publisher, NULL, publish_granules, leave, 0},
    {"publish in pages", prepare_publisher, NULL, publish_pages, leave, 0},
    {"publish under eviction", prepare_full_pool, read_and_leave_three_unread, publish_evicting, leave, 0},
    {"publish where one is emptied", prepare_timely_publisher, leave_one_unread_and_fill_the_pool, publish_evicting,
     leave, 0},
    {"publish the first of a topic", prepare_new_topic, NULL, publish_unseen, leave, LIVES},
    {"publish many", prepare_publisher, NULL, publish_many, leave, 0},
    {"publish and wake", prepare_publisher, somebody_sleeps, publish_in_place, leave, 0},
    {"publish and send a datagram", prepare_publisher, somebody_polls, publish_in_place, leave, 0},
    {"loan and publish", prepare_publisher, NULL, loan_and_publish, leave, 0},
    {"loan and drop", prepare_publisher, NULL, drop_loans, leave, 0},
    {"loan and empty the last", prepare_publisher, publish_large, empty_the_last, leave, 0},
    {"take", prepare_reliable, publish_five, take_one, finish_complete, 0},
    {"take many", prepare_reliable, publish_five, take_three, finish_complete, 0},
    {"take and wake", prepare_reliable, publish_five_and_wait_for_room, take_one, finish_complete, 0},
    {"take the newest", prepare_timely, publish_five, take_one, finish_counted, 0},
    {"take after a lapse", prepare_leased, publish_five, take_after_lapse, finish_counted, 0},
    {"release", prepare_kept, NULL, release, leave, 0},
    {"subscribe", stay, NULL, subscribe, finish_subscribed, 0},
    {"unsubscribe", prepare_kept, NULL, unsubscribe, leave, 0},
    {"open a publisher of a new topic", stay, NULL, prepare_new_topic, leave, LIVES},
    {"open a publisher of one topic more", fill_topics, NULL, open_in_the_place_of_another, leave, 0},
    {"close a publisher", prepare_publisher, NULL, close_publisher, leave, 0},
    {"attach", NULL, NULL, attach_victim, leave, 0},
    {"detach", attach_and_hold, NULL, detach, finish_detached, 0},
    {"wait", prepare_reliable, NULL, wait_a_little, finish_waiting, 0},
    {"wait for room", prepare_publisher, NULL, wait_for_room, leave, 0},
    {"sweep", stay, somebody_dies, sweep, leave, 0},
    {0},
};
