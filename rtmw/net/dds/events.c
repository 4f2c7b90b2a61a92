/* What DDS tells in threads of its own, for the event loop of Python, which none of them may wait for. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"

/* ---- a reader has something ---- */

/* An eventfd that tells an event loop that a DDS reader has something, and for how long it has had each sample.
 *
 * The DDS library calls listeners in the thread that received, while it holds locks of its own. A listener in Python would
 * wait there for the interpreter, which may be waiting for one of those locks. This one waits for nobody.
 */

static void on_data(dds_entity_t reader, void *argument)
{
    struct data_event *event = argument;
    (void)reader;
    lock(&event->lock, LOCK_LEAF);
    event->came_ns[event->count++ % DATA_EVENT_KEEPS] = now_monotonic_ns();
    unlock(&event->lock, LOCK_LEAF);
    eventfd_write(event->descriptor, 1);
}

struct data_event *data_event_open(dds_entity_t reader)
{
    struct data_event *event = calloc(1, sizeof *event);
    if (!event) return NULL;
    event->reader = reader;
    pthread_mutex_init(&event->lock, NULL);
    event->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event->descriptor >= 0 && listen_to(reader, on_data, event) == DDS_OK) return event;
    if (event->descriptor >= 0) close(event->descriptor);
    free(event);
    return NULL;
}

uint32_t data_event_take(struct data_event *event, uint64_t *ages_ns)
{
    eventfd_t times;
    eventfd_read(event->descriptor, &times);
    lock(&event->lock, LOCK_LEAF);
    uint64_t now = now_monotonic_ns();
    uint32_t count = event->count < DATA_EVENT_KEEPS ? (uint32_t)event->count : DATA_EVENT_KEEPS;
    for (uint32_t n = 0; n < count; n++)
        ages_ns[n] = now - event->came_ns[(event->count - count + n) % DATA_EVENT_KEEPS];
    event->count = 0;
    unlock(&event->lock, LOCK_LEAF);
    return count;
}

void data_event_close(struct data_event *event)
{
    listen_to(event->reader, NULL, NULL); /* returns when no callback is running */
    close(event->descriptor);
    free(event);
}

/* ---- endpoints have met ---- */

/* Which DDS endpoints of this node have met somebody, or no longer meet somebody, since it was asked last.
 *
 * The DDS library tells the listener of the participant, in the thread that received the news; writers and readers that
 * are made later take it over. So it need not be asked of each endpoint, again and again, who reads or writes there.
 */

enum { SPACE_FIRST = 64, SPACE_MOST = 1 << 16 };

/* The lock of the news is held. More than there is room for: `all` says that each may have. */
static void add(struct news *n, dds_entity_t endpoint)
{
    if (n->count && n->endpoint[n->count - 1] == endpoint) return;
    if (n->count == n->space) {
        uint32_t space = n->space ? n->space * 2 : SPACE_FIRST;
        dds_entity_t *more = space > SPACE_MOST ? NULL : realloc(n->endpoint, space * sizeof *more);
        if (!more) {
            n->all = true;
            return;
        }
        n->endpoint = more;
        n->space = space;
    }
    n->endpoint[n->count++] = endpoint;
}

static void notify(struct engine *e, dds_entity_t endpoint)
{
    lock(&e->news.lock, LOCK_LEAF);
    add(&e->news, endpoint);
    unlock(&e->news.lock, LOCK_LEAF);
}

static void on_writer(dds_entity_t writer, dds_matched_status_t status, void *engine)
{
    (void)status;
    notify(engine, writer);
}

static void on_reader(dds_entity_t reader, dds_matched_status_t status, void *engine)
{
    (void)status;
    notify(engine, reader);
}

int matched_open(struct engine *e, dds_entity_t participant)
{
    dds_listener_t *listener = dds_create_listener(e);
    if (!listener) return -1;
    dds_lset_publication_matched(listener, on_writer);
    dds_lset_subscription_matched(listener, on_reader);
    int code = dds_set_listener(participant, listener);
    dds_delete_listener(listener);
    if (code == DDS_OK) e->participant = participant;
    return code;
}

void matched_close(struct engine *e)
{
    if (e->participant) dds_set_listener(e->participant, NULL);
    e->participant = 0;
}

struct news matched_take(struct engine *e)
{
    lock(&e->news.lock, LOCK_LEAF);
    struct news taken = e->news;
    e->news.endpoint = NULL;
    e->news.count = e->news.space = 0;
    e->news.all = false;
    unlock(&e->news.lock, LOCK_LEAF);
    return taken;
}
