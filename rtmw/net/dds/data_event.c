/* An eventfd that tells an event loop that a DDS reader has something, and for how long it has had each sample.
 *
 * The DDS library calls listeners in the thread that received, while it holds locks of its own. A listener in Python would
 * wait there for the interpreter, which may be waiting for one of those locks. This one waits for nobody.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"

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
