/* The form that a sample may have now. A pack, or one with a CRC, only if every reader of the topic knows such (trailer.h), and no other can come unnoticed.
 *
 * Python looks ten times a second who reads which topic, and says of each route what those know. A reader that has come
 * since must not find what it does not know: DDS tells of a reader, in the thread that received the news, before it
 * connects it to any writer. From there on nothing of the kind is sent until Python has looked again. (A reader on whose
 * side the two are connected earlier may see what is multicast to others: DDS owes it nothing before both sides are.)
 *
 * The sender makes `turn` odd while it writes, and looks at `heard` afterwards; a thread that hears of a reader counts it
 * in `heard`, and then waits for the end of a turn that it finds begun. So nobody waits for more than one sample, nor for
 * longer than WAIT_MOST looks, whatever the sender waits for.
 */
#include <time.h>

#include "engine.h"

enum { LOOK_NS = 20000, WAIT_MOST = 10000 };

static void on_reader(dds_entity_t readers, void *argument)
{
    struct engine *e = argument;
    struct timespec pause = {.tv_nsec = LOOK_NS};
    (void)readers;
    fetch_add(&e->heard, 1u);
    uint64_t turn = load_seq(&e->turn);
    for (int looks = 0; turn & 1 && load_seq(&e->turn) == turn && looks < WAIT_MOST; looks++) nanosleep(&pause, NULL);
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

uint32_t packing_heard(struct engine *e) { return load_seq(&e->heard); }

void packing_looked(struct engine *e, uint32_t heard) { store_seq(&e->looked, heard); }

static struct readers_know readers_know(const struct outbound *o)
{
    return (struct readers_know){load_acquire(&o->may_pack), load_acquire(&o->may_check), load_acquire(&o->may_date)};
}

struct readers_know packing_begin(struct outbound *o)
{
    struct engine *e = o->engine;
    struct readers_know is = readers_know(o);
    if (!is.packs && !is.crcs && !is.dates) return is;
    store_seq(&e->turn, e->turn + 1); /* pairs with the heard, then turn, of on_reader */
    if (load_seq(&e->heard) != load_seq(&e->looked)) return (struct readers_know){false, false, false};
    return readers_know(o); /* as it was decided for all that were heard: what was loaded above may be from before */
}

void packing_end(struct outbound *o)
{
    struct engine *e = o->engine;
    if (e->turn & 1) store_seq(&e->turn, e->turn + 1);
}
