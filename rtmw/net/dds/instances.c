/* Instances of a keyed topic: a plain writer disposes one, or unregisters it, or leaves, which unregisters what it wrote.
 * The bus has no instances, so nothing of that is published; it is counted.
 *
 * DDS tells it with a sample: one of its own that has a key and no data, or, where data of the instance have not been
 * taken yet, in the state that it gives for all of these. Samples of an instance come one behind the other; so what the
 * last of them says counts, once, whether or not they were taken in several calls.
 *
 * Samples of nodes have no instances: their writers let go of all that they have registered when a route closes.
 */
#include "engine.h"

void instances_count(struct inbound *i)
{
    dds_sample_info_t *last = &i->instance;
    if (!last->instance_handle) return;
    if (last->instance_state == DDS_DISPOSED) count_up(&i->disposed, 1);
    if (last->instance_state == DDS_NO_WRITERS) count_up(&i->unregistered, 1);
    *last = (dds_sample_info_t){0};
}

void instances_see(struct inbound *i, const dds_sample_info_t *info)
{
    if (!i->is_keyed) return;
    if (i->instance.instance_handle != info->instance_handle) instances_count(i);
    const struct source *s = inbound_source(i, info->publication_handle);
    if (!s->is_node && (s->lane == i->lane || s->lane == LANE_UNKNOWN)) i->instance = *info;
}
