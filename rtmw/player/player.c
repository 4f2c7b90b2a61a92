/* The player's thread, and the commands that change things under its hands. See player.h. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "player.h"

/* ---- being over ---- */

static bool is_over(const struct player *p) { return p->stop || p->failure != RTMW_OK || (p->ended && !p->first); }

/* Lock held. */
static void announce(struct player *p)
{
    pthread_cond_broadcast(&p->changed);
    if (!is_over(p)) return;
    store_release(&p->ends, p->ends + 1);
    syscall(SYS_futex, &p->ends, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- the thread ---- */

static void retire_first(struct player *p)
{
    struct batch *b = p->first;
    p->first = b->next;
    if (!p->first) p->last = NULL;
    b->next = p->over;
    p->over = b;
    p->queued--;
}

static void begin(struct player *p, struct batch *b)
{
    b->begins = false;
    p->timeline.log_ns = b->begin_ns;
    p->timeline.mono_ns = (int64_t)now_ns();
}

static void end_turn(struct player *p, struct batch *b, uint64_t began, int code)
{
    if (code != RTMW_OK && code != RTMW_INTERRUPTED) {
        p->error = errno;
        p->failure = code;
    }
    if (b->at > began) {
        p->played_ns = b->cues[b->at - 1].log_ns;
        if (p->paused) { /* it was a step */
            p->steps--;
            p->timeline.log_ns = p->played_ns;
        }
    }
    if (b->at == b->count) retire_first(p);
}

/* Lock held; it is given back meanwhile. */
static void work(struct player *p)
{
    struct batch *b = p->first;
    if (b->begins) begin(p, b);
    struct timeline timeline = p->timeline;
    if (p->paused) timeline.rate = 0;
    uint64_t began = b->at, most = p->paused ? 1 : UINT64_MAX;
    uint32_t word = p->word;
    p->playing = true;
    pthread_mutex_unlock(&p->lock);
    int code = play_some(p, b, &timeline, word, most);
    pthread_mutex_lock(&p->lock);
    p->playing = false;
    end_turn(p, b, began, code);
    announce(p);
}

static bool has_work(const struct player *p)
{
    return p->first && !p->commanders && p->failure == RTMW_OK && (!p->paused || p->steps);
}

static void *run(void *argument)
{
    struct player *p = argument;
    prctl(PR_SET_NAME, "rtmw replay");
    pacing_begin(&p->pacing);
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (has_work(p))
            work(p);
        else
            pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- commands ---- */

/* Lock held: the thread lets go of what it is doing, and has, when this returns. */
static void interrupt(struct player *p)
{
    store_release(&p->word, p->word + 1);
    syscall(SYS_futex, &p->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    p->commanders++;
    while (p->playing) pthread_cond_wait(&p->changed, &p->lock);
    p->commanders--;
}

static void tell(struct player *p)
{
    announce(p);
    pthread_mutex_unlock(&p->lock);
}

/* Lock held. Between two cues it is at a moment between theirs, and never beyond the next one. */
static int64_t position(const struct player *p)
{
    const struct batch *b = p->first;
    if (p->paused) return p->timeline.log_ns;
    if (!b || b->begins) return p->played_ns;
    uint64_t at = load_relaxed(&b->at);
    if (p->timeline.rate == 0 || at == b->count) return at ? b->cues[at - 1].log_ns : p->played_ns;
    double gone = (double)((int64_t)now_ns() - p->timeline.mono_ns) * p->timeline.rate;
    int64_t here = p->timeline.log_ns + (int64_t)gone, next = b->cues[at].log_ns;
    return here < next ? here : next;
}

static void anchor_here(struct player *p)
{
    p->timeline.log_ns = position(p);
    p->timeline.mono_ns = (int64_t)now_ns();
}

void player_pause(struct player *p, bool paused)
{
    pthread_mutex_lock(&p->lock);
    if (paused != p->paused) {
        interrupt(p);
        anchor_here(p);
        p->paused = paused;
        p->steps = 0;
    }
    tell(p);
}

void player_step(struct player *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->paused) p->steps++;
    tell(p);
}

void player_rate(struct player *p, double rate)
{
    pthread_mutex_lock(&p->lock);
    interrupt(p);
    anchor_here(p);
    p->timeline.rate = rate;
    tell(p);
}

int64_t player_position(struct player *p)
{
    pthread_mutex_lock(&p->lock);
    int64_t here = position(p);
    pthread_mutex_unlock(&p->lock);
    return here;
}

uint32_t player_clear(struct player *p, int64_t log_ns)
{
    pthread_mutex_lock(&p->lock);
    uint32_t take = ++p->take;
    interrupt(p);
    while (p->first) retire_first(p);
    p->timeline.log_ns = p->played_ns = log_ns;
    p->ended = false;
    p->steps = 0;
    tell(p);
    return take;
}

bool player_feed(struct player *p, struct batch *b, uint32_t take)
{
    pthread_mutex_lock(&p->lock);
    while (p->take == take && !p->stop && p->queued == QUEUED_MOST) pthread_cond_wait(&p->changed, &p->lock);
    bool wanted = p->take == take && !p->stop;
    if (wanted) {
        *(p->last ? &p->last->next : &p->first) = b;
        p->last = b;
        p->queued++;
    }
    tell(p);
    return wanted;
}

void player_end(struct player *p, uint32_t take)
{
    pthread_mutex_lock(&p->lock);
    if (p->take == take) p->ended = true;
    tell(p);
}

bool player_wait(struct player *p, uint64_t timeout_ns, int *failure)
{
    uint64_t end = now_ns() + timeout_ns;
    struct timespec until = timespec_of(end);
    for (;;) {
        pthread_mutex_lock(&p->lock);
        bool over = is_over(p);
        uint32_t ends = p->ends;
        *failure = p->failure;
        pthread_mutex_unlock(&p->lock);
        if (over || now_ns() >= end) return over;
        if (syscall(SYS_futex, &p->ends, FUTEX_WAIT_BITSET_PRIVATE, ends, &until, NULL, FUTEX_BITSET_MATCH_ANY) &&
            errno == EINTR)
            return false;
    }
}

struct batch *player_over(struct player *p)
{
    pthread_mutex_lock(&p->lock);
    struct batch *over = p->over;
    p->over = NULL;
    pthread_mutex_unlock(&p->lock);
    return over;
}

int player_start(struct player *p)
{
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->paused = true;
    return pthread_create(&p->thread, NULL, run, p);
}

void player_stop(struct player *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    p->take++;
    interrupt(p);
    while (p->first) retire_first(p);
    tell(p);
    pthread_join(p->thread, NULL);
}
