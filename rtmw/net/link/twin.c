/* Twin: a connection beside the urgent one, over which small urgent messages go a second time.
 *
 * TCP sends what was lost again after a round trip and more, and keeps back all that has come behind it until then. Two
 * connections seldom lose the same message, so the copy comes in time. Nothing depends on the copy: numbers, room and
 * acknowledgements are those of the message, and a line without a twin, or with a bad one, carries the same messages.
 *
 *   out   A frame is copied if and only if: (1) it is of an urgent band and has a whole message; (2) the twin has sent all
 *         that it has, and its outbox has room; (3) the kernel took the last outbox of the urgent connection at once, so the
 *         urgent bands are no flood; (4) copies have not used up their share of the rate, where pacing has found or been
 *         given one. Else the copy is left out.
 *   in    A copy is taken if and only if: (1) its number is the next one of its route and band; (2) this message has not
 *         come in part over the urgent connection; (3) its route has room for it. Else it is passed over (hear.c). Of a
 *         message that was taken so, the one that comes over the urgent connection is passed over.
 */
#include "link.h"

enum { SHARE = 8 }; /* of the rate: such a part at most is for copies */

/* A debt is of bytes: made at a low rate, it is soon paid at a higher one. */
static void change_rate(struct rate_limit *limit, uint64_t rate, uint64_t now)
{
    uint64_t debt_us = (limit->free_ns > now ? limit->free_ns - now : 0) / 1000;
    limit->free_ns = rate ? now + debt_us * limit->bytes_per_second / rate * 1000 : 0;
    limit->bytes_per_second = rate;
}

void twin_prepare(struct line *l, uint64_t now)
{
    const struct channel *c = l->channel[TWIN], *urgent = l->channel[URGENT];
    if (!c) return;
    uint64_t rate = larger(urgent->rate, l->channel[BULK]->rate) / SHARE;
    if (rate != l->twin.limit.bytes_per_second) change_rate(&l->twin.limit, rate, now);
    l->twin.takes = c->may_write && channel_is_empty(c) && !line_ahead_ns(l, TWIN, now) && urgent->is_swift &&
                    !rate_limit_free_ns(&l->twin.limit, now);
}

void twin_copy(struct line *l, struct frame_header header, const struct frame_begin *begin, struct kept *k,
               uint64_t now)
{
    struct channel *c = l->channel[TWIN];
    if (!c) return;
    size_t size = channel_around(c) + sizeof *begin + k->message.size;
    if (!l->twin.takes || channel_room(c) < size) {
        count_up(&l->twin.left_out, 1);
        return;
    }
    channel_put(c, header, (struct iovec){(void *)(uintptr_t)begin, sizeof *begin},
                (struct iovec){(void *)(uintptr_t)k->data, k->message.size}, k);
    rate_limit_charge(&l->twin.limit, size, now);
    count_up(&l->twin.copies, 1);
}
