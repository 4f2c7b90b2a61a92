/* What gives way within a queue: blocks of messages behind one that is needed (requirement P5).
 *
 *   head                                                              tail
 *    ▼                                                                 ▼
 *    D needed ──► D needed ──► D expired ──► D thinned ──► D flood ──► D last
 *    by a RELIABLE subscriber  └─ these become EMPTIED: they stay in
 *    that stands still            the queue, their blocks are given back
 *
 * Eviction moves head, so it ends at the oldest message that a RELIABLE subscriber needs. When nothing else gives way, the
 * queues are traversed. A message may go if no subscriber needs it: it has expired, or nobody behind it asks for its type and
 * reliability, or it comes sooner than the min_interval of those who do. Descriptors stay, since a link cannot be taken out
 * of the middle of a queue; so messages without a block give nothing.
 *
 * A message is emptied as the last one is (finish_emptying): the evictor says EMPTIED, then looks for holders; a reader
 * holds, then looks at the state. One of the two sees the other. Two cases need more:
 *   - A reader whose cursor is at a message that it gets holds that, and may not have looked at the state yet. So the
 *     evictor leaves alone what is held, and looks at the holders after it looked at the cursors.
 *   - A reader that comes to a message with a lifetime holds it, and then reads the clock. Either the evictor sees it
 *     hold, or the clock that it reads shows no earlier time than the evictor's: it finds the message expired too.
 *
 * What a subscriber with an interval will accept is foretold: the next message that lies at least the interval behind the
 * one that it accepted last, and so on; those between them will be thinned. That is so as long as what it takes are the
 * messages of this band, in their order:
 *   - Its cursor comes to a message before `accepted_ns` says that it was accepted (accept in take.c). So it is not known of
 *     a message at a cursor whether it was. Both cases are followed, and what is thinned in both may go.
 *   - What is unread in other bands is taken before it, or between. Then only that may go which is thinned by what was
 *     accepted already, since that only grows. What is published in another band afterwards is younger than all that was
 *     looked at, and thins more of it, not less; unless its publisher was stopped between the clock and the link. Then
 *     another message of the interval is delivered than would have been.
 *   - A message with a lifetime may expire before it is accepted. From there on the same is known, and no more.
 *
 * A traversal goes on where it ended in the call before, with what it has foretold. It begins anew when a subscriber with an
 * interval has moved otherwise than foretold, and now and then, for what has expired since.
 */
#include "retention.h"
#include "topics.h"

enum { LOOKS_A_MESSAGE = 2, LOOKS_A_TRAVERSAL = 8, ANEW_NS = 1000000, ANEW_NS_A_MESSAGE = 1000 };
enum { LOOKS_WHEN_LOW = 256, ROOM_WHEN_LOW = 32 /* messages */ };

/* ---- what its readers need ---- */

static bool is_unread_elsewhere(struct rtmw_region *r, const struct outlook *o, const uint64_t *cursor)
{
    struct topic *t = &r->topics[o->topic];
    for (uint32_t bands = load_seq(&t->bands), band = 0; band < BANDS; band++) {
        if (band == o->band || !(bands & (1u << band))) continue;
        uint64_t last = band_last_sequence(r, &t->band[band]);
        if (sequence_near(link_tag(cursor[band]), last) < last) return true;
    }
    return false;
}

/* Messages at its cursors that it may be about to accept: how many, and when the last of them was published. */
static uint32_t undecided(struct rtmw_region *r, const uint64_t *cursor, const struct reader *reader,
                          uint64_t *published)
{
    uint32_t count = 0;
    for (uint32_t band = 0; band < BANDS; band++) {
        struct descriptor *d = descriptor_at(r, link_index(cursor[band]));
        uint64_t at = d ? load_acquire(&d->published_ns) : 0;
        if (!at || (reader->began[0] && at < reader->began[0] + reader->interval)) continue;
        *published = at;
        count++;
    }
    return count;
}

/* What it has accepted, after a look at its cursors: so it has said of each message before these whether that was accepted.
 * Where it moves on meanwhile, it accepts what is foretold, or comes to what is unread in another band. Of a message that it
 * holds no more another time may be read: that is one more guess. */
static void note_accepted(struct rtmw_region *r, const struct outlook *o, struct subscriber_block *block,
                          struct reader *reader)
{
    uint64_t cursor[BANDS], published = 0;
    for (uint32_t band = 0; band < BANDS; band++) cursor[band] = load_seq(&block->cursor[band]);
    reader->began[0] = load_acquire(&block->accepted_ns); /* pairs with accept in take.c */
    uint32_t count = undecided(r, cursor, reader, &published);
    reader->frozen = count > 1 || is_unread_elsewhere(r, o, cursor);
    reader->began[1] = count && !reader->frozen ? published : reader->began[0];
    for (uint32_t i = 0; i < GUESSES; i++) reader->accepted[i] = reader->began[i];
}

/* A subscriber that may need less than all of its offers behind a sequence. false: it is not noted, and needs all of them. */
bool traversal_notes(struct traversal *traversal, struct rtmw_region *r, const struct outlook *o,
                     struct subscriber_block *block, uint64_t word, uint64_t needs)
{
    uint64_t offers = load_relaxed(&r->topics[o->topic].band[o->band].offers);
    struct reader reader = {.word = word, .behind = needs, .type = load_relaxed(&block->type)};
    reader.reliability = load_relaxed(&block->reliability);
    reader.exact = load_relaxed(&block->exact);
    if (o->offered && reader.reliability == RTMW_RELIABLE) reader.interval = load_relaxed(&block->min_interval_ns);
    bool is_counted_together =
        offer_at(offers, OFFERS - 1) != 0; /* some of its messages may be, so offers do not tell */
    if (traversal->count == READERS || (!reader.interval && !is_counted_together)) return false;
    if (reader.interval) note_accepted(r, o, block, &reader);
    traversal->reader[traversal->count++] = reader;
    return true;
}

/* It is not thinned, so it may be accepted, and thins what comes soon after it. */
static void foretell(struct reader *reader, const struct glimpse *g)
{
    if (state_kind(g->state) == EMPTIED && state_is_settled(g->state)) return; /* nobody accepts it any more */
    reader->frozen |= g->expires || state_kind(g->state) == EMPTIED;
    for (uint32_t i = 0; i < GUESSES && !reader->frozen; i++)
        if (!reader->accepted[i] || g->published_ns >= reader->accepted[i] + reader->interval)
            reader->accepted[i] = g->published_ns;
}

static bool is_needed_by(struct reader *reader, const struct glimpse *g)
{
    if (g->sequence <= reader->behind || g->expired || !types_match(g->type, reader->type)) return false;
    if (!reliabilities_match(g->reliability, reader->reliability, reader->exact)) return false;
    if (!reader->interval) return true;
    bool thinned = true;
    for (uint32_t i = 0; i < GUESSES; i++)
        thinned &= reader->accepted[i] && g->published_ns < reader->accepted[i] + reader->interval;
    if (!thinned) foretell(reader, g);
    return !thinned;
}

/* Each one that is noted is asked: they foretell. */
static bool is_needed(const struct outlook *o, struct traversal *traversal, const struct glimpse *g)
{
    bool needed = !g->expired && g->sequence > o->floor[g->offer];
    for (uint32_t i = 0; i < traversal->count; i++) needed |= is_needed_by(&traversal->reader[i], g);
    return needed;
}

/* ---- the traversal ---- */

/* The traversal of this band, or the one that is given up for it. */
static struct traversal *traversal_of(struct rtmw_region *r, const struct outlook *o)
{
    for (uint32_t i = 0; i < TRAVERSALS; i++) {
        struct traversal *traversal = &r->within.traversal[i];
        if (traversal->topic == o->topic && traversal->band == o->band && traversal->look == o->look) return traversal;
    }
    struct traversal *traversal = &r->within.traversal[r->within.turn++ % TRAVERSALS];
    *traversal = (struct traversal){.topic = o->topic, .band = o->band, .look = o->look};
    return traversal;
}

/* What was foretold of it up to a sequence is true yet, or it has come past that. */
static bool reader_goes_on(struct reader *reader, const struct reader *now, uint64_t sequence)
{
    if (reader->word != now->word || reader->interval != now->interval) return false;
    bool foretold = now->interval && now->behind < sequence;
    if (!foretold) return *reader = *now, true;
    for (uint32_t i = 0; i < GUESSES; i++)
        if (reader->began[i] != now->began[i]) return false;
    reader->behind = now->behind;
    reader->frozen |= now->frozen;
    return true;
}

static bool traversal_goes_on(struct traversal *traversal, const struct traversal *now)
{
    bool same = traversal->sequence && traversal->epoch == now->epoch && traversal->count == now->count;
    for (uint32_t i = 0; same && i < now->count; i++)
        same = reader_goes_on(&traversal->reader[i], &now->reader[i], traversal->sequence);
    return same;
}

/* The next message of the traversal, or the oldest. false: where it was is passed. */
static bool traversal_step(struct rtmw_region *r, struct band *band, const struct traversal *traversal, uint64_t now,
                           struct glimpse *g)
{
    if (!traversal->sequence) return glimpse_first(r, band, now, g);
    g->index = traversal->index;
    g->sequence = traversal->sequence;
    return glimpse_again(r, band, now, g) && glimpse_next(r, band, now, g);
}

/* How many granules it gave back. The look at holders comes after those at cursors: see above. */
static uint64_t empty_one(struct rtmw_region *r, const struct glimpse *g)
{
    struct descriptor *d = &r->descriptors[g->index];
    uint64_t granules = load_relaxed(&d->block_granules);
    if (!granules || state_kind(g->state) != QUEUED || descriptor_is_held(d)) return 0;
    return descriptor_empty(r, d, g->state, NIL) ? granules : 0;
}

static bool traverse(struct search *s, const struct outlook *o, struct traversal *traversal, uint64_t up_to)
{
    struct rtmw_region *r = s->publisher->region;
    struct band *band = &r->topics[o->topic].band[o->band];
    struct glimpse g;
    uint64_t given = 0;
    while (traversal->sequence < up_to && (!s->need || given < s->need) && s->looks_within > 0) {
        s->looks_within -= LOOKS_A_MESSAGE;
        bool there = traversal_step(r, band, traversal, s->now, &g) && g.sequence <= up_to, needed;
        traversal->sequence = there ? g.sequence : 0;
        if (!there) break;
        traversal->index = g.index;
        needed = is_needed(o, traversal, &g);
        traversal->seen++;
        traversal->unneeded += !needed;
        if (!needed && s->need) given += empty_one(r, &g);
    }
    return given > 0;
}

/* The traversal of this band goes on, or begins anew unless it is too early for that. */
static struct traversal *traverse_on(struct search *s, const struct outlook *o, uint64_t up_to, bool *gave)
{
    struct rtmw_region *r = s->publisher->region;
    struct traversal *traversal = traversal_of(r, o),
                     now = {.topic = o->topic, .band = o->band, .look = o->look, .began_ns = s->now};
    if (traversal->sequence >= up_to) {
        if (s->now - traversal->began_ns < ANEW_NS + o->kept * ANEW_NS_A_MESSAGE) return traversal;
        traversal->sequence = 0;
    }
    now.epoch = load_seq(&r->topics[o->topic].epoch); /* before its subscribers are asked */
    now.clogged = traversal->clogged;
    now.end = traversal->end;
    struct outlook asked = outlook_beside(r, o->topic, o->band, o->look, &now);
    s->looks_within -= LOOKS_A_TRAVERSAL + asked.subscribers / LOOKS_A_TRAVERSAL;
    if (!traversal_goes_on(traversal, &now)) *traversal = now;
    *gave = traverse(s, &asked, traversal, up_to);
    if (traversal->sequence >= up_to) {
        traversal->clogged = traversal->unneeded > traversal->seen / 2;
        traversal->end = up_to;
    }
    return traversal;
}

static uint64_t last_to_go(const struct outlook *o)
{
    uint64_t keep = o->history ? o->history : 1;
    return o->newest.sequence > keep ? o->newest.sequence - keep : 0;
}

bool empty_within(struct search *s, const struct outlook *o)
{
    bool gave = false;
    traverse_on(s, o, last_to_go(o), &gave);
    return gave;
}

/* ---- descriptors that are kept for nothing ---- */

static bool is_oldest_needed(struct rtmw_region *r, const struct outlook *o, uint64_t now)
{
    struct glimpse oldest;
    if (!glimpse_first(r, &r->topics[o->topic].band[o->band], now, &oldest)) return false;
    return !oldest.expired && oldest.sequence > o->floor[oldest.offer];
}

uint32_t room_when_low(struct rtmw_publisher *p, uint32_t band)
{
    bool gave;
    struct search s = {.publisher = p, .now = monotonic_ns(), .looks_within = LOOKS_WHEN_LOW};
    struct outlook o = outlook_of(p->region, p->topic_index, band, LOOK_UNREAD);
    if (!is_oldest_needed(p->region, &o, s.now)) return ROOM_WHEN_LOW;
    const struct traversal *traversal = traverse_on(&s, &o, last_to_go(&o), &gave);
    if (traversal->clogged && traversal->end > o.passed.sequence) return 0;
    return traversal->sequence >= last_to_go(&o) ? ROOM_WHEN_LOW : 1;
}
