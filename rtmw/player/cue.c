/* One cue: publishing it, when it is due. The player's thread alone runs this. See player.h. */
#include "player.h"

enum {
    ROOM_SLICE_NS = 2000000,
    LOOK_AGAIN_NS = 1000000, /* whether anybody is matched is asked so seldom: it looks at each subscriber's process */
};

static const double FAR_NS = 1e18; /* thirty years: nobody waits so long */

uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

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
