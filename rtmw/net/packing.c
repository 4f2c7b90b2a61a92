/* May messages be packed now? Only if every reader of the topic knows packs (pack.h), and no other can come unnoticed.
 *
 * Python looks ten times a second who reads which topic, and says of each route whether those know packs. A reader that
 * has come since must not find a pack: DDS tells of a reader, in the thread that received the news, before it connects
 * it to any writer. From there on nothing is packed until Python has looked again. (A reader on whose side the two are
 * connected earlier may see what is multicast to others: DDS owes it nothing before both sides are.)
 */
#include "engine.h"

static void on_reader(dds_entity_t readers, void *argument)
{
    struct engine *e = argument;
    (void)readers;
    pthread_mutex_lock(&e->pack_lock);
    e->heard++;
    pthread_mutex_unlock(&e->pack_lock);
}

int packing_open(struct engine *e, dds_entity_t readers)
{
    int code = listen_to(readers, on_reader, e);
    if (code == DDS_OK) e->readers = readers;
    return code;
}

void packing_close(struct engine *e)
{
    if (e->readers) listen_to(e->readers, NULL, NULL);
    e->readers = 0;
}

uint32_t packing_heard(struct engine *e)
{
    pthread_mutex_lock(&e->pack_lock);
    uint32_t heard = e->heard;
    pthread_mutex_unlock(&e->pack_lock);
    return heard;
}

void packing_looked(struct engine *e, uint32_t heard)
{
    pthread_mutex_lock(&e->pack_lock);
    e->looked = heard;
    pthread_mutex_unlock(&e->pack_lock);
}

bool packing_begin(struct outbound *o)
{
    struct engine *e = o->engine;
    if (!load_acquire(&o->may_pack)) return false;
    pthread_mutex_lock(&e->pack_lock);
    if (e->heard == e->looked) return true;
    pthread_mutex_unlock(&e->pack_lock);
    return false;
}

void packing_end(struct outbound *o) { pthread_mutex_unlock(&o->engine->pack_lock); }
