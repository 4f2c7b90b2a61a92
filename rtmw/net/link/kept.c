/* Messages that were sent and are not acknowledged: what TCP had in its buffers is sent again out of these. */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "link.h"

struct kept *kept_new(struct line *line, const rtmw_message *m, bool is_zero_copy)
{
    struct kept *k = malloc(sizeof *k + (is_zero_copy ? 0 : m->size));
    if (!k) return NULL;
    *k = (struct kept){.line = line, .references = 1, .is_zero_copy = is_zero_copy, .message = *m, .data = m->data};
    if (is_zero_copy) {
        line->zero_copied += m->size;
        return k;
    }
    if (m->size) memcpy(k->copy, m->data, m->size);
    k->data = k->copy;
    rtmw_release(line->region, m->descriptor);
    return k;
}

void kept_hold(struct kept *k) { k->references++; }

void kept_let_go(struct kept *k)
{
    if (--k->references) return;
    if (k->is_zero_copy) {
        rtmw_release(k->line->region, k->message.descriptor);
        k->line->zero_copied -= k->message.size;
    }
    free(k);
}
