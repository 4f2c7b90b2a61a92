/* Bell: tells an event loop that a DDS reader has something, and for how long.
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
    cas64(&bell->rung_ns, 0, now_monotonic_ns());
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
    bell->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->descriptor >= 0 && listen_with(bell, ring) == DDS_OK) return bell;
    if (bell->descriptor >= 0) close(bell->descriptor);
    free(bell);
    return NULL;
}

uint64_t bell_silence(struct bell *bell)
{
    eventfd_t count;
    eventfd_read(bell->descriptor, &count);
    uint64_t since = exchange(&bell->rung_ns, UINT64_C(0));
    return since ? now_monotonic_ns() - since : 0;
}

void bell_take_down(struct bell *bell)
{
    listen_with(bell, NULL); /* returns when no callback is running */
    close(bell->descriptor);
    free(bell);
}
