/* Bell: tells an event loop that a DDS reader has something, and for how long it has had each sample.
 *
 * The DDS library calls listeners in the thread that received, while it holds locks of its own. A listener in Python would
 * wait there for the interpreter, which may be waiting for one of those locks. This one waits for nobody.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"

static void ring(dds_entity_t reader, void *argument)
{
    struct bell *bell = argument;
    (void)reader;
    pthread_mutex_lock(&bell->lock);
    bell->rung_ns[bell->rung++ % BELL_KEEPS] = now_monotonic_ns();
    pthread_mutex_unlock(&bell->lock);
    eventfd_write(bell->descriptor, 1);
}

static int listen_with(struct bell *bell, void (*callback)(dds_entity_t, void *))
{
    dds_listener_t *listener = dds_create_listener(bell);
    dds_lset_data_available(listener, callback);
    int code = dds_set_listener(bell->reader, listener);
    dds_delete_listener(listener);
    return code;
}

struct bell *bell_hang(dds_entity_t reader)
{
    struct bell *bell = calloc(1, sizeof *bell);
    if (!bell) return NULL;
    bell->reader = reader;
    pthread_mutex_init(&bell->lock, NULL);
    bell->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->descriptor >= 0 && listen_with(bell, ring) == DDS_OK) return bell;
    if (bell->descriptor >= 0) close(bell->descriptor);
    free(bell);
    return NULL;
}

uint32_t bell_silence(struct bell *bell, uint64_t *ages_ns)
{
    eventfd_t times;
    eventfd_read(bell->descriptor, &times);
    pthread_mutex_lock(&bell->lock);
    uint64_t now = now_monotonic_ns();
    uint32_t count = bell->rung < BELL_KEEPS ? (uint32_t)bell->rung : BELL_KEEPS;
    for (uint32_t n = 0; n < count; n++) ages_ns[n] = now - bell->rung_ns[(bell->rung - count + n) % BELL_KEEPS];
    bell->rung = 0;
    pthread_mutex_unlock(&bell->lock);
    return count;
}

void bell_take_down(struct bell *bell)
{
    listen_with(bell, NULL); /* returns when no callback is running */
    close(bell->descriptor);
    free(bell);
}
