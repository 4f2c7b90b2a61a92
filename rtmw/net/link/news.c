/* News for Python: a list, and an eventfd that says that it has something. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "link.h"

void news_tell(struct line *l, enum news_kind kind, uint64_t number, const void *bytes, size_t size)
{
    struct news *n = malloc(sizeof *n + size);
    if (!n) abort(); /* a control that is lost would leave the two sides with different routes for ever */
    *n = (struct news){.kind = kind, .number = number, .size = size};
    if (size) memcpy(n->bytes, bytes, size);
    lock(&l->news, LOCK_LEAF);
    if (l->last_news)
        l->last_news->next = n;
    else
        l->first_news = n;
    l->last_news = n;
    unlock(&l->news, LOCK_LEAF);
    eventfd_write(l->event, 1);
}

struct news *news_take(struct line *l)
{
    eventfd_t count;
    eventfd_read(l->event, &count);
    lock(&l->news, LOCK_LEAF);
    struct news *first = l->first_news;
    l->first_news = l->last_news = NULL;
    uint64_t before = l->controls_taken;
    for (const struct news *n = first; n; n = n->next) l->controls_taken += n->kind == NEWS_CONTROL;
    bool has_taken = l->controls_taken != before;
    unlock(&l->news, LOCK_LEAF);
    if (has_taken) { /* the peer may send more */
        store_relaxed(&l->must_ack_controls, 1u);
        store_relaxed(&l->acks_at_ns, 1);
        line_wake_receiver(l);
    }
    return first;
}
