/* Samples that are not of their type never come as far as a route: the DDS library refuses them where it makes samples
 * of what it received, and says so in its log alone. So it is watched there: the types of inbound routes get a table of
 * functions (dds.h) that is the library's own but for one function, which counts what that returns nothing for. Large
 * messages of nodes it does not get: they land (landing.c).
 *
 * cyclonedds makes a type of its own for each Topic, so a type tells the route.
 */
#include "engine.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct inbound *watched;
static const struct ddsi_serdata_ops *usual; /* set before the first type is watched */
static struct ddsi_serdata_ops counting;

static void count(const struct ddsi_sertype *type)
{
    pthread_mutex_lock(&lock);
    for (struct inbound *i = watched; i; i = i->next_watched)
        if (i->type == type) fetch_add(&i->unreadable, UINT64_C(1));
    pthread_mutex_unlock(&lock);
}

static struct ddsi_serdata *from_ser(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *data,
                                     size_t bytes)
{
    struct ddsi_serdata *sample = land(type, kind, data, bytes);
    if (!sample) sample = usual->from_ser(type, kind, data, bytes);
    if (!sample) count(type);
    return sample;
}

/* A table that is neither the usual one nor ours belongs to types that no route has. */
static bool is_countable(const struct ddsi_sertype *type)
{
    if (!usual) {
        usual = type->samples;
        counting = *usual;
        counting.from_ser = from_ser;
    }
    return type->samples == usual || type->samples == &counting;
}

void watch(struct inbound *i)
{
    if (dds_get_entity_sertype(i->reader, &i->type) != DDS_OK) return;
    pthread_mutex_lock(&lock);
    if (is_countable(i->type)) ((struct ddsi_sertype *)(uintptr_t)i->type)->samples = &counting;
    i->next_watched = watched;
    watched = i;
    pthread_mutex_unlock(&lock);
}

void unwatch(struct inbound *i)
{
    pthread_mutex_lock(&lock);
    for (struct inbound **link = &watched; *link; link = &(*link)->next_watched)
        if (*link == i) {
            *link = i->next_watched;
            break;
        }
    pthread_mutex_unlock(&lock);
}
