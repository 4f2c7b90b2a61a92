/* The maker: one thread that has the next segment ready before it is needed, so that no append waits for zeros. */
#include <errno.h>

#include "../shm/atomics.h"
#include "../shm/futex.h"
#include "spare.h"
#include "writer.h"

static const uint64_t TRY_AGAIN_NS = 1000000000, RETENTION_NS = 60 * UINT64_C(1000000000);

/* Lock held. Is there something to do? */
static bool is_wanted(const struct writer *w)
{
    if (w->rolls) return false; /* the spare is set aside, and the next one comes behind it */
    return w->spare_state != SPARE_READY || segment_capacity(&w->spare) < w->spare_needs;
}

/* Lock held; the spare that is there is too small for what has to be appended. */
static void take_away(struct writer *w)
{
    struct segment small = w->spare;
    w->spare = (struct segment){.file = -1};
    if (w->spare_state == SPARE_READY) w->spare_state = SPARE_NONE;
    if (small.file < 0) return;
    pthread_mutex_unlock(&w->lock);
    spare_discard(&w->folder, small.file);
    pthread_mutex_lock(&w->lock);
}

/* Lock held. The segment behind this size is the smallest that may come next. On a disk that fills, segments become no
 * smaller: without a spare, the rest of the last one is the reserve for what ends work. Once all before the last one is
 * trimmed, little is left to be ended, and an eighth of it is enough to go on. */
static uint64_t least_behind(const struct writer *w)
{
    return w->earliest < w->last_base ? w->newest_size / 2 : w->newest_size / 16;
}

/* Lock held, and held again at the end. LOG_OK, LOG_FULL, LOG_FAILED or LOG_CLOSED. */
static int make(struct writer *w, struct log_fault *fault)
{
    uint64_t behind = w->newest_size, least = least_behind(w), most = w->most, needs = w->spare_needs;
    struct segment made = {.file = -1, .size = spare_size(behind, most, needs)};
    uint64_t kept = w->kept >= made.size ? w->kept : 0;
    w->kept = 0;
    if (kept) made.size = kept;
    pthread_mutex_unlock(&w->lock);
    int code = kept ? spare_refill(&w->folder, made.size, &made.file, &w->stopping, fault)
                    : spare_make(&w->folder, made.size, &made.file, &w->stopping, fault);
    while (code == LOG_FULL && (behind /= 2) >= least) {
        made.size = spare_size(behind, most, needs);
        code = spare_make(&w->folder, made.size, &made.file, &w->stopping, fault);
    }
    pthread_mutex_lock(&w->lock);
    if (code == LOG_OK) {
        w->spare = made;
        w->spare_state = SPARE_READY;
    } else if (code == LOG_FULL) {
        w->spare_state = SPARE_FULL;
        w->lacks = made.size;
        w->spare_needs = 0; /* there may be room for what is smaller: an appender that was refused asks again */
        w->counters.failed_spares++;
    }
    writer_wake_room(w);
    return code;
}

void *writer_make(void *given)
{
    struct writer *w = given;
    struct log_fault fault = {0};
    int code = LOG_OK;
    pthread_mutex_lock(&w->lock);
    while (!load_acquire(&w->stopping) && !load_acquire(&w->failed)) {
        if (trim_is_due(w)) {
            code = trim_now(w, &fault);
            if (code) break;
            continue;
        }
        if (is_wanted(w) && code != LOG_FULL) {
            take_away(w);
            code = make(w, &fault);
            if (code == LOG_FAILED) break;
            continue;
        }
        if (upkeep_is_due(w)) {
            code = upkeep(w, &fault);
            if (code == LOG_FAILED) break;
            continue;
        }
        uint32_t seen = w->chores;
        pthread_mutex_unlock(&w->lock);
        bool is_full = code == LOG_FULL, limits = retention_limits(&w->retention);
        bool looks = limits || w->retention.per_key, rests = w->rest_ns;
        uint64_t rest = rests ? w->rest_ns : is_full ? TRY_AGAIN_NS : looks ? RETENTION_NS : UINT64_C(1) << 62;
        int how = futex_sleep(&w->chores, seen, rest);
        pthread_mutex_lock(&w->lock);
        if (how == ETIMEDOUT && !rests) {
            w->retention_is_due |= limits;
            w->compaction_is_due |= looks && w->retention.per_key;
        }
        w->rest_ns = 0;
        code = LOG_OK;
    }
    pthread_mutex_unlock(&w->lock);
    if (code && code != LOG_FULL && code != LOG_CLOSED) writer_fail(w, &fault);
    return NULL;
}
