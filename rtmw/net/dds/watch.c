/* Samples that are not of their type never come as far as a route: the DDS library refuses them where it makes samples
 * of what it received, and says so in its log alone. So it is watched there: the types of inbound routes get a table of
 * functions (dds.h) that is the library's own but for two functions, which count what those return nothing for. Large
 * messages of nodes the first does not get: they are received into loans (zero_copy_receive.c). The second is for what
 * has a hash of its key and no data: an instance that a writer disposes or unregisters without saying its key, as Fast
 * DDS does. cyclonedds' types make no sample of that.
 *
 * cyclonedds makes a type of its own for each Topic, so a type tells the route.
 */
#include "engine.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct inbound *watched;
static const struct ddsi_serdata_ops *usual; /* set before the first type is watched */
static struct ddsi_serdata_ops counting;

static void count(const struct ddsi_sertype *type, size_t counter)
{
    lock(&list_lock, LOCK_LEAF);
    for (struct inbound *i = watched; i; i = i->next_watched)
        if (i->type == type) fetch_add((uint64_t *)(void *)((char *)i + counter), UINT64_C(1));
    unlock(&list_lock, LOCK_LEAF);
}

static struct ddsi_serdata *from_ser(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *data,
                                     size_t bytes)
{
    struct ddsi_serdata *sample = receive_in_loan(type, kind, data, bytes);
    if (!sample) sample = usual->from_ser(type, kind, data, bytes);
    if (!sample) count(type, offsetof(struct inbound, unreadable));
    return sample;
}

static struct ddsi_serdata *from_keyhash(const struct ddsi_sertype *type, const void *hash)
{
    struct ddsi_serdata *sample = usual->from_keyhash(type, hash);
    if (!sample) count(type, offsetof(struct inbound, hashed));
    return sample;
}

/* A table that is neither the usual one nor ours belongs to types that no route has. */
static bool is_countable(const struct ddsi_sertype *type)
{
    if (!usual) {
        usual = type->samples;
        counting = *usual;
        counting.from_ser = from_ser;
        counting.from_keyhash = from_keyhash;
    }
    return type->samples == usual || type->samples == &counting;
}

void watch(struct inbound *i)
{
    if (dds_get_entity_sertype(i->reader, &i->type) != DDS_OK) return;
    if (i->engine->public_calls_only) return; /* its types are not ours to change */
    lock(&list_lock, LOCK_LEAF);
    if (is_countable(i->type)) ((struct ddsi_sertype *)(uintptr_t)i->type)->samples = &counting;
    i->next_watched = watched;
    watched = i;
    unlock(&list_lock, LOCK_LEAF);
}

void unwatch(struct inbound *i)
{
    lock(&list_lock, LOCK_LEAF);
    for (struct inbound **link = &watched; *link; link = &(*link)->next_watched)
        if (*link == i) {
            *link = i->next_watched;
            break;
        }
    unlock(&list_lock, LOCK_LEAF);
}
