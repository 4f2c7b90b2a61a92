/* A line, from its start to its stop: what Python asks of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "link.h"

#define SILENCE_NS UINT64_C(5000000000)

void line_lock(struct line *l)
{
    fetch_add(&l->openers, 1u);
    lock(&l->lock, LOCK_ENGINE);
    fetch_add(&l->openers, UINT32_MAX);
}

void line_wake_receiver(struct line *l) { eventfd_write(l->wake, 1); }

void line_tell_up(struct line *l)
{
    if (l->has_resumed && l->peer_has_resumed) news_tell(l, NEWS_UP, 0, NULL, 0);
}

/* ---- from start to stop ---- */

static void make_locks(struct line *l)
{
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->arriving, NULL);
    pthread_mutex_init(&l->news, NULL);
}

static void close_if_open(int descriptor)
{
    if (descriptor >= 0) close(descriptor);
}

void line_free(struct line *l)
{
    close_if_open(l->wake);
    close_if_open(l->event);
    close_if_open(l->epoll);
    for (struct control *c; (c = l->controls); free(c)) l->controls = c->next;
    for (struct news *n; (n = l->first_news); free(n)) l->first_news = n->next;
    free(l->out_numbers.entries);
    free(l->in_numbers.entries);
    pthread_mutex_destroy(&l->news);
    pthread_mutex_destroy(&l->arriving);
    pthread_mutex_destroy(&l->lock);
}

static bool watch_wake(struct line *l)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CHANNELS};
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &event) == 0;
}

int line_open(struct line *l)
{
    make_locks(l);
    store_relaxed(&l->silence_ns, SILENCE_NS);
    l->controls_room = CONTROLS_SENT;
    l->must_ack_controls = 1;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool is_open = l->wake >= 0 && l->event >= 0 && l->epoll >= 0 && watch_wake(l);
    int failed = is_open ? 0 : errno;
    if (failed) line_free(l);
    return failed;
}

int line_start(struct line *l)
{
    int failed = line_open(l);
    if (failed) return failed;
    lines_join(l->lines, l);
    failed = pthread_create(&l->receiver, NULL, line_receive, l);
    if (!failed) return 0;
    lines_leave(l->lines, l);
    line_free(l);
    return failed;
}

void line_stop(struct line *l)
{
    lines_leave(l->lines, l);
    store_release(&l->stop, 1u);
    line_wake_receiver(l);
    pthread_join(l->receiver, NULL);
    line_end(l);
}

/* ---- connections and controls ---- */

void line_carry(struct line *l, struct channel *urgent, struct channel *bulk)
{
    line_lock(l);
    for (int c = 0; c < CHANNELS; c++) channel_close(l->next[c]);
    l->next[URGENT] = urgent;
    l->next[BULK] = bulk;
    l->next[TWIN] = NULL;
    unlock(&l->lock, LOCK_ENGINE);
    line_wake_receiver(l);
}

void line_twin(struct line *l, struct channel *twin)
{
    line_lock(l);
    channel_close(l->next[TWIN]);
    l->next[TWIN] = twin;
    unlock(&l->lock, LOCK_ENGINE);
    line_wake_receiver(l);
}

void line_cut(struct line *l, const char *words, size_t size)
{
    line_lock(l);
    for (int c = 0; c < CHANNELS; c++) {
        channel_close(l->next[c]);
        l->next[c] = NULL;
    }
    snprintf(l->bye, sizeof l->bye, "%.*s", (int)size, words);
    l->is_cut = l->channel[URGENT] != NULL;
    unlock(&l->lock, LOCK_ENGINE);
    line_wake_receiver(l);
}

bool line_say(struct line *l, const void *bytes, size_t size)
{
    struct control *c = malloc(sizeof *c + size);
    if (!c) return false;
    line_lock(l);
    bool is_taken = l->control_count < CONTROLS_MOST;
    if (is_taken) {
        *c = (struct control){.number = ++l->control_number, .size = size};
        memcpy(c->bytes, bytes, size);
        if (l->last_control)
            l->last_control->next = c;
        else
            l->controls = c;
        l->last_control = c;
        if (!l->next_control) l->next_control = c;
        l->control_count++;
    }
    unlock(&l->lock, LOCK_ENGINE);
    if (is_taken)
        line_wake_receiver(l);
    else
        free(c);
    return is_taken;
}

/* ---- news ---- */

/* News for Python: a list, and an eventfd that says that it has something. */

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
