/* Which messages the min_interval of a RELIABLE subscriber will leave out: those are not needed (requirement P4).
 *
 *   band 7   ── cursor ── 1060 ───────────────────────┐     The subscriber takes the highest band first. It accepts a
 *   band 0   ── cursor ── 1000 ── 1050 ── 1170 ── …   │     message that lies at least the interval behind the one that
 *                          ▲ next                     │     it accepted last; the others are thinned. So a traversal
 *   what is accepted in band 0 follows from band 7 ◄──┘     follows the bands from the highest to its own.
 *
 * The traversal reads the cursors of the subscriber, and then `accepted_ns` (reader_foresees). So the subscriber has
 * decided on each message before these cursors. It may move on meanwhile: what it comes to is thinned, when it is
 * foretold again, by what it has accepted. Three things are not known. Each possible case is a guess, and is
 * followed:
 *   - A cursor comes to a message before `accepted_ns` says that it was accepted (accept in take.c). So the
 *     subscriber may be about to accept a message at a cursor.
 *   - A take looks at the bands one after the other. It may have found a higher one empty that is not empty any more.
 *     So the subscriber may take the next message of some band first. That is one message, since the take after it
 *     begins at the highest band again. When that message is emptied, the subscriber steps over it, and begins at the
 *     highest band.
 *   - Of a message that the subscriber holds no more another time may be read: that is one more guess.
 * A message that is thinned in all guesses may go. If there are more guesses than can be noted, or the next message
 * is not found, only a message may go that is thinned by what was accepted already (frozen): accepted_ns only grows.
 *
 * A message that is published in a higher band later is younger than all that was traversed, and is taken before the
 * rest of that. If it is accepted, it thins all of the rest; if not, what thins it does. So a message that was
 * foretold to be thinned is thinned; and one that was foretold to be accepted is a lower bound, by which further
 * messages are thinned (freeze_readers). One case is left: a publisher that is stopped between clock and link publishes
 * a message that is older than it seems. Then another message of the interval is delivered than would have been.
 *
 * A message with a lifetime may expire before it is accepted. From there on only the lower bound is known.
 */
#include "retention.h"
#include "topics.h"

enum { MOST_BEFORE_NEXT = 8 }; /* messages that are looked at to find the next one, where the cursor rests */

static bool is_thinned_by(const struct reader *reader, uint64_t accepted, uint64_t published)
{
    return accepted && published < accepted + reader->interval;
}

/* It may accept a message of this time before anything else; unless what it has accepted thins that. */
static void guess(struct reader *reader, uint64_t published)
{
    if (is_thinned_by(reader, reader->began[0], published)) return;
    for (uint32_t i = 0; i < reader->guesses; i++)
        if (reader->began[i] == published) return;
    if (reader->guesses < GUESSES)
        reader->began[reader->guesses++] = published;
    else
        reader->frozen = true;
}

static void guess_at_cursor(struct reader *reader, struct rtmw_region *r, uint64_t cursor)
{
    struct descriptor *d = descriptor_at(r, link_index(cursor));
    uint64_t published = d ? load_acquire(&d->published_ns) : 0;
    if (published) guess(reader, published);
}

/* The first message of a band behind its cursor, as far as that is found. */
static void guess_next(struct reader *reader, struct rtmw_region *r, const struct traversal *traversal, uint32_t band,
                       uint64_t cursor)
{
    struct band *at = &r->topics[traversal->topic].band[band];
    struct glimpse g;
    bool found = glimpse_cursor(r, at, cursor, traversal->began_ns, &g);
    for (uint32_t looked = 0; found && g.sequence <= reader->cursor[band] && looked < MOST_BEFORE_NEXT; looked++)
        found = glimpse_next(r, at, traversal->began_ns, &g);
    if (found && g.sequence > reader->cursor[band])
        guess(reader, g.published_ns);
    else
        reader->frozen = true;
}

void reader_foresees(struct reader *reader, struct rtmw_region *r, const struct traversal *traversal,
                     struct subscriber_block *block)
{
    uint64_t cursor[BANDS];
    bool above = false;
    for (uint32_t band = 0; band < BANDS; band++) cursor[band] = load_seq(&block->cursor[band]);
    reader->began[0] = load_acquire(&block->accepted_ns); /* pairs with accept in take.c */
    reader->guesses = 1;
    for (uint32_t band = BANDS; band-- > 0;) {
        reader->cursor[band] = sequence_near(link_tag(cursor[band]), traversal->last[band]);
        if (band == traversal->band) reader->above = above;
        guess_at_cursor(reader, r, cursor[band]);
        bool unread = reader->cursor[band] < traversal->last[band];
        if (unread && above) guess_next(reader, r, traversal, band, cursor[band]);
        above |= unread;
    }
    if (reader->frozen) reader->guesses = 1;
    for (uint32_t i = 0; i < reader->guesses; i++) reader->accepted[i] = reader->began[i];
}

static bool is_for(const struct reader *reader, const struct glimpse *g)
{
    return !g->expired && types_match(g->type, reader->type) &&
           reliabilities_match(g->reliability, reader->reliability, reader->exact);
}

static bool is_thinned(const struct reader *reader, const struct glimpse *g)
{
    bool thinned = true;
    for (uint32_t i = 0; i < reader->guesses; i++)
        thinned &= is_thinned_by(reader, reader->accepted[i], g->published_ns);
    return thinned;
}

/* It is not thinned by each guess, so it may be accepted, and thins what comes soon after it. */
static void foretell(struct reader *reader, const struct glimpse *g)
{
    if (state_kind(g->state) == EMPTIED && state_is_at_rest(g->state)) return; /* nobody accepts it any more */
    reader->frozen |= g->expires || state_kind(g->state) == EMPTIED;
    for (uint32_t i = 0; i < reader->guesses && !reader->frozen; i++)
        if (!is_thinned_by(reader, reader->accepted[i], g->published_ns)) reader->accepted[i] = g->published_ns;
}

void reader_foretells(struct reader *reader, uint32_t band, const struct glimpse *g)
{
    if (!reader->interval || g->sequence <= reader->cursor[band] || !is_for(reader, g)) return;
    if (!is_thinned(reader, g)) foretell(reader, g);
}

bool reader_needs(struct reader *reader, const struct glimpse *g)
{
    if (g->sequence <= reader->behind || !is_for(reader, g)) return false;
    if (!reader->interval) return true;
    bool thinned = is_thinned(reader, g);
    if (!thinned) foretell(reader, g);
    return !thinned;
}
