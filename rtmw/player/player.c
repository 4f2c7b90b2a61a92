/* The player: its thread, the commands that change things under its hands, and the topics played. See player.h. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "player.h"

/* ---- the topics that are played ---- */

int track_open(struct player *p, const char *topic, const rtmw_type *type, const rtmw_publisher_qos *qos)
{
    struct track **grown = realloc(p->tracks, (p->track_count + 1) * sizeof(struct track *));
    struct track *t = grown ? calloc(1, sizeof *t) : NULL;
    if (grown) p->tracks = grown;
    if (!t) return RTMW_SYSTEM;
    int code = rtmw_publisher_open(p->region, topic, type, qos, &t->publisher);
    if (code != RTMW_OK) return free(t), code;
    t->reliable = qos->reliability == RTMW_RELIABLE;
    p->tracks[p->track_count++] = t;
    return RTMW_OK;
}

void tracks_close(struct player *p)
{
    for (uint32_t i = 0; i < p->track_count; i++) {
        rtmw_publisher_close(p->tracks[i]->publisher);
        free(p->tracks[i]);
    }
    free(p->tracks);
    p->tracks = NULL;
    p->track_count = 0;
}

/* ---- one cue: publishing it, when it is due. The player's thread alone runs this ---- */

enum {
    ROOM_SLICE_NS = 2000000,
    LOOK_AGAIN_NS = 1000000, /* whether anybody is matched is asked so seldom: it looks at each subscriber's process */
};

static const double FAR_NS = 1e18; /* thirty years: nobody waits so long */

/* ---- publishing ---- */

static bool has_to_wait(const struct track *t, int code)
{
    return code == RTMW_FULL || (code == RTMW_NO_MEMORY && t->reliable);
}

/* As rtmw_publish; waits for full RELIABLE subscribers as long as it may. RTMW_INTERRUPTED: a command came. */
static int publish_waiting(struct player *p, const struct batch *b, const struct cue *c, uint32_t word)
{
    struct track *t = p->tracks[c->track];
    const uint8_t *data = b->data[c->buffer] + c->position;
    rtmw_message_qos qos = {.priority = c->priority,
                            .lifetime_ns = (uint64_t)c->lifetime_ns,
                            .source_time_ns = (uint64_t)c->source_ns};
    int code = rtmw_publish(t->publisher, data, c->size, &qos);
    for (uint64_t since = has_to_wait(t, code) ? now_ns() : 0; has_to_wait(t, code);) {
        if (!is_current(p, word)) return RTMW_INTERRUPTED;
        if (now_ns() - since >= p->max_blocking_ns) return RTMW_FULL;
        rtmw_publisher_wait(t->publisher, ROOM_SLICE_NS);
        code = rtmw_publish(t->publisher, data, c->size, &qos);
    }
    return code;
}

static bool is_heard(struct track *t)
{
    uint64_t now = now_ns();
    if (now - t->looked_ns >= LOOK_AGAIN_NS) {
        t->looked_ns = now;
        t->is_heard = rtmw_publisher_matched(t->publisher) > 0;
    }
    return t->is_heard;
}

static void count(struct track *t, int code, uint64_t size)
{
    if (code == RTMW_OK) {
        if (!is_heard(t)) count_up(&t->unheard, 1);
        count_up(&t->published, 1);
        count_up(&t->bytes, size);
    } else {
        count_up(code == RTMW_FULL ? &t->timed_out : code == RTMW_TOO_LARGE ? &t->too_large : &t->exhausted, 1);
    }
}

/* RTMW_OK: the cue is done with, whatever came of it. */
static int play(struct player *p, const struct batch *b, const struct cue *c, uint64_t due, uint32_t word)
{
    struct track *t = p->tracks[c->track];
    if (c->lifetime_ns < 0) {
        count_up(&t->expired, 1);
        return RTMW_OK;
    }
    int code = publish_waiting(p, b, c, word);
    if (code == RTMW_INTERRUPTED) return code;
    if (code != RTMW_OK && code != RTMW_FULL && code != RTMW_NO_MEMORY && code != RTMW_TOO_LARGE) return code;
    count(t, code, c->size);
    if (due) histogram_record(&p->lateness, now_ns() - due);
    return RTMW_OK;
}

/* ---- one after the other ---- */

static uint64_t due_ns(const struct timeline *timeline, int64_t log_ns)
{
    if (timeline->rate == 0) return 0;
    double ahead = (double)(log_ns - timeline->log_ns) / timeline->rate;
    if (!(ahead > 0)) return (uint64_t)timeline->mono_ns;
    return (uint64_t)timeline->mono_ns + (ahead < FAR_NS ? (uint64_t)ahead : (uint64_t)FAR_NS);
}

int play_some(struct player *p, struct batch *b, const struct timeline *timeline, uint32_t word, uint64_t most)
{
    for (int code; most && b->at < b->count; most--) {
        const struct cue *c = &b->cues[b->at];
        uint64_t due = due_ns(timeline, c->log_ns);
        if (!(due ? pacing_wait(p, due, word) : is_current(p, word))) return RTMW_INTERRUPTED;
        if ((code = play(p, b, c, due, word)) != RTMW_OK) return code;
        store_relaxed(&b->at, b->at + 1);
    }
    return RTMW_OK;
}

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
