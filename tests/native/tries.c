/* tries: a publisher that never waits, only tries again, is not blocked by the dead, nor by who stands still for its lease. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native.h"

enum { DEPTH = 4, DEAD = 5, LIVING = 20, FEW = 4, LEASE = 100000 /* units of `stall` */ };

static uint32_t domain;
static struct rtmw_region *mine;

static const rtmw_subscriber_qos full_soon = {RTMW_RELIABLE, DEPTH, 0, 0, 0, 0};
static const rtmw_subscriber_qos full_never = {RTMW_RELIABLE, 1u << 30, 0, 0, 0, 0};

/* A process that subscribes, and does nothing else until it is killed. */
static pid_t start(const char *topic, rtmw_subscriber_qos qos)
{
    int ends[2];
    char ready;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        subscribe_to(attach(domain), topic, qos);
        CHECK(write(ends[1], "r", 1) == 1);
        for (;;) pause();
    }
    CHECK(read(ends[0], &ready, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void kill_all(const pid_t *pid, int count)
{
    for (int i = 0; i < count; i++) CHECK(kill(pid[i], SIGKILL) == 0 && waitpid(pid[i], NULL, 0) == pid[i]);
}

static int publish_one(rtmw_publisher *publisher, uint8_t priority)
{
    rtmw_message_qos qos = RTMW_MESSAGE_QOS;
    qos.priority = priority;
    return rtmw_publish(publisher, "x", 1, &qos);
}

static int publish_loan(rtmw_publisher *publisher, uint8_t priority)
{
    rtmw_message_qos qos = RTMW_MESSAGE_QOS;
    rtmw_loan loan;
    qos.priority = priority;
    int code = rtmw_loan_take(publisher, 1, &loan);
    if (code != RTMW_OK) return code;
    code = rtmw_loan_publish(publisher, &loan, &qos);
    if (code != RTMW_OK) CHECK(rtmw_loan_drop(publisher, &loan) == RTMW_OK);
    return code;
}

static void each_dead_one_costs_one_try(int (*publish)(rtmw_publisher *, uint8_t), uint8_t priority)
{
    pid_t pid[DEAD];
    rtmw_publisher *publisher = publish_on(mine, "dead", RTMW_RELIABLE, 0);
    for (int i = 0; i < DEAD; i++) pid[i] = start("dead", full_soon);
    while (publish(publisher, priority) == RTMW_OK) {}
    kill_all(pid, DEAD);
    int tries = 1;
    while (publish(publisher, priority) == RTMW_FULL) tries++;
    CHECK(tries <= DEAD, "%d tries", tries);
    CHECK(rtmw_publisher_matched(publisher) == 0);
    rtmw_publisher_close(publisher);
    books_must_balance(mine);
}

/* The living are full, too, and keep their messages. */
static void the_dead_are_found_among_the_living(void)
{
    pid_t pid[DEAD];
    struct rtmw_region *other[LIVING];
    rtmw_publisher *publisher = publish_on(mine, "among", RTMW_RELIABLE, 0);
    for (int i = 0; i < LIVING; i++) subscribe_to(other[i] = attach(domain), "among", full_soon);
    for (int i = 0; i < DEAD; i++) pid[i] = start("among", full_soon);
    while (publish_one(publisher, 0) == RTMW_OK) {}
    kill_all(pid, DEAD);
    for (int i = 0; i < DEAD + FEW; i++) CHECK(publish_one(publisher, 0) == RTMW_FULL);
    CHECK(rtmw_publisher_matched(publisher) == LIVING, "%u", rtmw_publisher_matched(publisher));
    for (int i = 0; i < LIVING; i++) rtmw_detach(other[i]);
    CHECK(publish_one(publisher, 0) == RTMW_OK);
    rtmw_publisher_close(publisher);
    books_must_balance(mine);
}

static void memory_that_only_the_dead_needed_is_had_after_a_few_tries(void)
{
    static uint8_t data[4000];
    pid_t pid[DEAD];
    rtmw_publisher *full = publish_on(mine, "full", RTMW_RELIABLE, 0), *other = publish_on(mine, "other", RTMW_ADAPTIVE, 0);
    for (int i = 0; i < DEAD; i++) pid[i] = start("full", full_never);
    while (rtmw_publish(full, data, sizeof data, NULL) == RTMW_OK) {}
    kill_all(pid, DEAD);
    mine->swept_ns = monotonic_ns() + (UINT64_C(1) << 40); /* the sweep in due time does not help here */
    int tries = 1;
    while (rtmw_publish(other, data, sizeof data, NULL) == RTMW_NO_MEMORY && tries < 1000) tries++;
    CHECK(tries <= DEAD + FEW, "%d tries", tries);
    mine->swept_ns = 0;
    rtmw_publisher_close(full);
    rtmw_publisher_close(other);
    books_must_balance(mine);
}

static uint32_t units_now(void) { return (uint32_t)(monotonic_ns() >> 20); }

/* A try that is refused, so many units after the one before it; what the lease has run to then. */
static uint32_t try_after(rtmw_publisher *publisher, rtmw_subscriber *s, uint32_t pause)
{
    uint64_t stall = load_seq(&s->block->stall);
    store_seq(&s->block->stall, stall_make(stall_position(stall), stall_waited(stall), units_now() - pause));
    CHECK(publish_one(publisher, 0) == RTMW_FULL);
    return stall_waited(load_seq(&s->block->stall));
}

static void a_lease_runs_for_tries(void)
{
    rtmw_message m;
    rtmw_subscriber_qos leased = full_soon;
    leased.lease_ns = (uint64_t)LEASE << 20;
    rtmw_publisher *publisher = publish_on(mine, "leased", RTMW_RELIABLE, 0);
    rtmw_subscriber *s = subscribe_to(mine, "leased", leased);
    while (publish_one(publisher, 0) == RTMW_OK) {}
    uint32_t before = stall_waited(load_seq(&s->block->stall)), after = try_after(publisher, s, LEASE / 2);
    CHECK(before < LEASE / 10 && after >= before + LEASE / 2 && after < LEASE, "the time from try to try counts");
    store_seq(&s->block->stall, 0);
    CHECK(publish_one(publisher, 0) == RTMW_FULL);
    before = stall_waited(load_seq(&s->block->stall));
    after = try_after(publisher, s, LEASE + LEASE / 10);
    CHECK(after == before, "a longer pause does not count");
    CHECK(rtmw_take(s, &m) == RTMW_OK && rtmw_release(mine, m.descriptor) == RTMW_OK);
    CHECK(publish_one(publisher, 0) == RTMW_OK);
    CHECK(publish_one(publisher, 0) == RTMW_FULL);
    CHECK(stall_waited(load_seq(&s->block->stall)) < LEASE / 10, "it has moved on: the lease begins anew");
    uint64_t stall = load_seq(&s->block->stall);
    store_seq(&s->block->stall, stall_make(stall_position(stall), LEASE - 1, units_now() - LEASE / 2));
    CHECK(publish_one(publisher, 0) == RTMW_OK, "the lease has run out");
    CHECK(rtmw_publisher_matched(publisher) == 0 && rtmw_take(s, &m) == RTMW_LAPSED);
    rtmw_subscriber_close(s);
    rtmw_publisher_close(publisher);
    books_must_balance(mine);
}

int main(void)
{
    domain = domain_make(UINT64_C(4) << 20, 60);
    mine = attach(domain);
    each_dead_one_costs_one_try(publish_one, 0);
    each_dead_one_costs_one_try(publish_one, 7);
    each_dead_one_costs_one_try(publish_loan, 0);
    the_dead_are_found_among_the_living();
    memory_that_only_the_dead_needed_is_had_after_a_few_tries();
    a_lease_runs_for_tries();
    rtmw_detach(mine);
    printf("nobody who tried was blocked by the dead or the stalled, and the books balance\n");
    return 0;
}
