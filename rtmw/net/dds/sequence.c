/* The sequence numbers of a node's samples: what they say is believed as far as it may be true.
 *
 * A sample's number says how many messages were sent before it. That is (1) as many as have come: it is next; (2) more, by
 * JUMP_MOST at most: the difference was lost on the way; (3) less, by REPEATED_MOST at most: another reader of the lane
 * had it; (4) anything else: it is refused, and counted, and the source stays where it is. A sample that follows the one
 * that was refused is taken again (as in RFC 3550, appendix A.1), so that no number mutes a source for good. A node that is
 * started again has other DDS writers, and so other sources; its numbers go on where those of the last node ended (loss_report.c).
 */
#include "engine.h"

#define JUMP_MOST     (UINT64_C(1) << 32) /* messages: minutes at the rate of the fastest link */
#define REPEATED_MOST (UINT64_C(1) << 20) /* messages that a reader may bring that another one had */

bool sequence_is_repeated(uint64_t last, uint64_t sequence)
{
    return sequence <= last && last - sequence <= REPEATED_MOST;
}

enum turn sequence_turn(struct source *s, const struct trailer *t)
{
    uint64_t messages = trailer_messages(t), before = t->sequence - messages;
    if (t->sequence < messages || t->sequence > INT64_MAX) return TURN_REFUSED;
    if (!s->sequence || (s->doubted && before == s->doubted)) return TURN_NEXT;
    if (t->sequence > s->sequence && (before < s->sequence || before - s->sequence <= JUMP_MOST)) return TURN_NEXT;
    if (sequence_is_repeated(s->sequence, t->sequence)) return TURN_PAST;
    s->doubted = t->sequence;
    return TURN_REFUSED;
}

uint64_t sequence_gap(const struct source *s, const struct trailer *t)
{
    uint64_t last = s->sequence, before = t->sequence - trailer_messages(t);
    const struct carried *carried = last ? NULL : carried_at(&s->carried);
    if (carried) last = load_relaxed(&carried->sequence);
    if (last && last < s->passed) last = s->passed;
    uint64_t lost = last && before > last ? before - last : 0;
    return lost > JUMP_MOST ? 0 : lost;
}

void sequence_move(struct source *s, const struct trailer *t)
{
    s->sequence = t->sequence;
    s->passed = s->doubted = 0;
    carried_received(s, s->sequence);
}

void sequence_pass(struct source *s, const struct trailer *t)
{
    s->passed = t->sequence;
    carried_received(s, s->passed);
}
