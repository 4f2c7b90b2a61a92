/* Chunks between the collector thread and the writer. */
#include <stdlib.h>

#include "../shm/clock.h"
#include "collector.h"

/* Room for every chunk there is in both, so that handing one over never needs memory. */
static bool make_room(struct collector *c)
{
    struct chunk **free_room = realloc(c->free, (c->chunks + 1) * sizeof *free_room);
    if (!free_room) return false;
    c->free = free_room;
    struct chunk **full_room = malloc((c->chunks + 1) * sizeof *full_room);
    if (!full_room) return false;
    for (uint32_t i = 0; i < c->full_count; i++) full_room[i] = c->full[(c->first + i) % c->chunks];
    free(c->full);
    c->full = full_room;
    c->first = 0;
    c->chunks++;
    return true;
}

bool exchange_lend(struct collector *c, struct chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    bool done = make_room(c);
    if (done) c->free[c->free_count++] = chunk;
    pthread_mutex_unlock(&c->lock);
    return done;
}

void exchange_give(struct collector *c, struct chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    c->charged -= chunk->charged;
    chunk->charged = 0;
    c->free[c->free_count++] = chunk;
    pthread_mutex_unlock(&c->lock);
}

bool exchange_charge(struct collector *c, struct chunk *chunk, uint64_t bytes)
{
    pthread_mutex_lock(&c->lock);
    uint64_t others =
        c->charged - chunk->charged; /* it may have been charged for a message that did not fit after all */
    bool done = !others || others + bytes <= c->budget;
    if (done) {
        chunk->charged = bytes;
        c->charged = others + bytes;
    }
    pthread_mutex_unlock(&c->lock);
    return done;
}

struct chunk *exchange_free_chunk(struct collector *c)
{
    pthread_mutex_lock(&c->lock);
    struct chunk *chunk = c->free_count ? c->free[--c->free_count] : NULL;
    pthread_mutex_unlock(&c->lock);
    return chunk;
}

void exchange_full(struct collector *c, struct chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    c->full[(c->first + c->full_count++) % c->chunks] = chunk;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

struct chunk *exchange_next(struct collector *c, uint64_t timeout_ns)
{
    struct timespec deadline = timespec_of(monotonic_now() + timeout_ns);
    struct chunk *chunk = NULL;
    pthread_mutex_lock(&c->lock);
    while (!c->full_count && !c->has_ended)
        if (pthread_cond_timedwait(&c->changed, &c->lock, &deadline)) break;
    if (c->full_count) {
        chunk = c->full[c->first];
        c->first = (c->first + 1) % c->chunks;
        c->full_count--;
    }
    pthread_mutex_unlock(&c->lock);
    return chunk;
}
