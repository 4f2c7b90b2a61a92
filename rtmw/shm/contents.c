/* Contents of the queues of a topic: how many messages, of which types, and how much of the pool they have.
 *
 * A queue is read without holding its messages, so that no publisher finds one held by an observer. A field that was
 * read belongs to the message if and only if head has not passed the sequence of the message after the read.
 */
#include "contents.h"

#include <string.h>

#include "topics.h"

enum { LOOKS = 4 };

static void add_type(struct contents *contents, uint64_t type)
{
    for (uint32_t i = 0; i < contents->types; i++)
        if (contents->type[i] == type) return;
    if (contents->types < CONTENTS_TYPES) contents->type[contents->types++] = type;
}

/* Adds the messages of a band. false: head passed the walk; what was added was there, and more may be. */
static bool add_band(struct rtmw_region *r, struct band *band, struct contents *contents)
{
    uint64_t head = load_seq(&band->head), began = load_relaxed(&band->began);
    uint64_t sequence = sequence_near(link_tag(head), began);
    uint32_t index = link_index(head);
    for (uint32_t i = 0; index < r->header->descriptors && i < r->header->descriptors; i++) {
        struct descriptor *d = &r->descriptors[index];
        bool is_message = descriptor_is_message(d);
        uint64_t type = type_life(r, load_acquire(&d->type)); /* acquire: before head is read again */
        uint32_t granules = load_acquire(&d->block_granules);
        uint64_t next = load_acquire(&d->next), its_sequence = load_acquire(&d->sequence);
        if (sequence_near(link_tag(load_seq(&band->head)), sequence) > sequence) return false;
        if ((its_sequence ^ sequence) & TAG_MASK) break; /* somebody wrote over the links, which may lead in a circle */
        if (is_message && sequence > began) {
            contents->messages++;
            add_type(contents, type);
        }
        contents->bytes += (uint64_t)granules * GRANULE;
        index = link_index(next);
        sequence++;
    }
    return true;
}

/* Where head keeps passing the walk, as in a short queue of a fast publisher, the last look counts too few. */
void contents_count(struct rtmw_region *r, struct topic *topic, struct contents *contents)
{
    memset(contents, 0, sizeof *contents);
    for (uint32_t band = 0; band < BANDS; band++) {
        struct contents before = *contents;
        for (int look = 0; look < LOOKS; look++) {
            contents->messages = before.messages;
            contents->bytes = before.bytes;
            if (add_band(r, &topic->band[band], contents)) break;
        }
    }
}
