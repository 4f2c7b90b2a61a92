/* Which DDS endpoints of this node have met somebody, or no longer meet somebody, since it was asked last.
 *
 * The DDS library tells the listener of the participant, in the thread that received the news; writers and readers that
 * are made later take it over. So it need not be asked of each endpoint, again and again, who reads or writes there.
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

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
