/* The sender: sleeps until the bus has something for a route of the line, and pumps. */
#include "../../shm/clock.h"
#include "link.h"

enum { WAITED_MOST = 1024, GIVE_WAY_NS = 50000 };

void line_wake_sender(struct line *l)
{
    l->must_look = true;
    if (!l->is_asleep) return;
    if (l->waits_on) rtmw_subscriber_wake(l->waits_on);
    pthread_cond_signal(&l->woken);
}

static size_t list_routes(struct line *l, rtmw_subscriber **subscribers)
{
    size_t count = 0;
    for (struct out *o = l->outs; o; o = o->next) {
        o->is_waited_for = count < WAITED_MOST && out_may_take(o);
        if (o->is_waited_for) subscribers[count++] = o->subscriber;
    }
    l->waits_on = count ? subscribers[0] : NULL;
    return count;
}

static void sleep_locked(struct line *l, uint64_t until)
{
    struct timespec t = timespec_of(until);
    if (until == UINT64_MAX)
        pthread_cond_wait(&l->woken, &l->lock);
    else
        pthread_cond_timedwait(&l->woken, &l->lock, &t);
}

/* The lock is held, but not while it sleeps. */
static void sleep_until(struct line *l, rtmw_subscriber **subscribers, uint64_t until)
{
    bool ready[WAITED_MOST];
    size_t count = list_routes(l, subscribers);
    uint64_t now = now_monotonic_ns();
    l->is_asleep = true;
    if (!count) {
        sleep_locked(l, until);
    } else if (until > now) {
        unlock(&l->lock, LOCK_ENGINE);
        rtmw_wait_any(subscribers, ready, count, until == UINT64_MAX ? UINT64_MAX : until - now);
        lock(&l->lock, LOCK_ENGINE);
    }
    l->is_asleep = false;
    l->looks++;
    pthread_cond_broadcast(&l->looked);
}

static void give_way(struct line *l)
{
    struct timespec pause = {.tv_nsec = GIVE_WAY_NS};
    unlock(&l->lock, LOCK_ENGINE);
    if (load_relaxed(&l->openers)) nanosleep(&pause, NULL); /* mutexes are not fair */
    lock(&l->lock, LOCK_ENGINE);
}

void *line_send(void *argument)
{
    struct line *l = argument;
    rtmw_subscriber *subscribers[WAITED_MOST];
    lock(&l->lock, LOCK_ENGINE);
    while (!load_acquire(&l->stop)) {
        uint64_t now = now_monotonic_ns();
        l->must_look = false;
        bool is_more = line_pump(l, now);
        if (is_more || l->must_look)
            give_way(l);
        else
            sleep_until(l, subscribers, line_next_try(l, now));
    }
    unlock(&l->lock, LOCK_ENGINE);
    return NULL;
}
