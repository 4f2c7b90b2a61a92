/* Memory that gives way within a queue: blocks of messages behind one that is needed (requirement P5).
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
 * The messages that the min_interval of a subscriber leaves out are foretold: see thinning.
 *
 * A traversal goes on where it ended in the call before, with what it has foretold. It begins anew when a subscriber with an
 * interval has moved otherwise than foretold, and now and then, for what has expired since.
 */
#include "reclaim.h"

#include "topics.h"

enum { LOOKS_A_TRAVERSAL = 8, ANEW_NS = 1000000, ANEW_NS_A_MESSAGE = 1000 };
enum { LOOKS_WHEN_LOW = 256, ROOM_WHEN_LOW = 32 /* messages */ };

/* ---- what its readers need ---- */

/* A subscriber that may need less than all of its offers behind a sequence. false: it is not added, and needs all of them. */
bool traversal_adds(struct traversal *traversal, struct rtmw_region *r, const struct outlook *o,
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
    if (reader.interval) reader_foresees(&reader, r, traversal, block);
    traversal->reader[traversal->count++] = reader;
    return true;
}

/* Each reader that was added is asked: they foretell. */
static bool is_needed(const struct outlook *o, struct traversal *traversal, const struct glimpse *g)
{
    bool needed = !g->expired && g->sequence > o->floor[g->offer];
    for (uint32_t i = 0; i < traversal->count; i++) needed |= reader_needs(&traversal->reader[i], g);
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

static bool is_same_guess(const struct reader *one, const struct reader *other)
{
    bool same = one->guesses == other->guesses;
    for (uint32_t i = 0; same && i < one->guesses; i++) same = one->began[i] == other->began[i];
    return same;
}

/* The forecast about it is true yet, or it has come past that. */
static bool reader_goes_on(struct reader *reader, const struct reader *now, const struct traversal *traversal)
{
    if (reader->word != now->word || reader->interval != now->interval) return false;
    bool is_past = traversal->stage == traversal->band && now->behind >= traversal->sequence && !now->above;
    if (!now->interval || is_past) return *reader = *now, true;
    if (!is_same_guess(reader, now)) return false;
    reader->behind = now->behind;
    reader->frozen |= now->frozen;
    return true;
}

/* Messages published in a higher band since the traversal left that are taken before the rest of this band: the forecast
 * about the readers that have them unread is a lower bound from here on. */
static void freeze_readers(struct traversal *traversal, const struct traversal *now)
{
    bool more = false;
    for (uint32_t band = traversal->band + 1; band < BANDS; band++)
        if (band > traversal->stage)
            more |= now->last[band] > traversal->last[band];
        else
            traversal->last[band] = now->last[band];
    for (uint32_t i = 0; more && i < traversal->count; i++) traversal->reader[i].frozen |= now->reader[i].above;
}

static bool traversal_goes_on(struct traversal *traversal, const struct traversal *now)
{
    bool same = traversal->begun && traversal->epoch == now->epoch && traversal->count == now->count;
    for (uint32_t i = 0; same && i < now->count; i++)
        same = reader_goes_on(&traversal->reader[i], &now->reader[i], traversal);
    if (same) freeze_readers(traversal, now);
    return same;
}

/* The next message of the stage, or the oldest. false: where it was is passed. */
static bool traversal_step(struct rtmw_region *r, const struct traversal *traversal, uint64_t now, struct glimpse *g)
{
    struct band *band = &r->topics[traversal->topic].band[traversal->stage];
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

/* The stage is the next band in which a reader has something to take that a later one depends on, or the last. */
static void find_stage(struct traversal *traversal)
{
    for (; traversal->stage > traversal->band; traversal->stage--, traversal->sequence = 0) {
        uint64_t last = traversal->last[traversal->stage];
        bool unread = false;
        for (uint32_t i = 0; i < traversal->count; i++)
            unread |= traversal->reader[i].interval && traversal->reader[i].cursor[traversal->stage] < last;
        if (unread && traversal->sequence < last) return;
    }
}

static bool is_at_end(const struct traversal *traversal, uint64_t up_to)
{
    return traversal->begun && traversal->stage == traversal->band && traversal->sequence >= up_to;
}

/* Takes in the message to which the traversal has come; returns how many granules it gave back. */
static uint64_t come_to(struct search *s, const struct outlook *o, struct traversal *traversal, const struct glimpse *g)
{
    if (traversal->stage > traversal->band) {
        for (uint32_t i = 0; i < traversal->count; i++) reader_foretells(&traversal->reader[i], traversal->stage, g);
        return 0;
    }
    bool needed = is_needed(o, traversal, g);
    traversal->seen++;
    traversal->unneeded += !needed;
    return s->need && !needed ? empty_one(s->publisher->region, g) : 0;
}

/* Until enough is given back, or the looks are used up. Where nothing is needed, messages are only counted. */
static bool traverse(struct search *s, const struct outlook *o, struct traversal *traversal, uint64_t up_to)
{
    struct glimpse g;
    uint64_t given = 0;
    for (find_stage(traversal); !is_at_end(traversal, up_to); find_stage(traversal)) {
        if (!traversal->begun || s->looks_within <= 0 || (s->need && given >= s->need)) break;
        uint64_t end = traversal->stage == traversal->band ? up_to : traversal->last[traversal->stage];
        s->looks_within -= LOOKS_A_MESSAGE + traversal->count / LOOKS_A_TRAVERSAL;
        traversal->begun = traversal_step(s->publisher->region, traversal, s->now, &g) && g.sequence <= end;
        if (!traversal->begun) break;
        traversal->sequence = g.sequence;
        traversal->index = g.index;
        given += come_to(s, o, traversal, &g);
    }
    return given > 0;
}

/* Before its subscribers are asked: what came later is younger than what is traversed. */
static void look_at_bands(struct rtmw_region *r, const struct outlook *o, struct traversal *now)
{
    struct topic *t = &r->topics[o->topic];
    now->epoch = load_seq(&t->epoch);
    for (uint32_t bands = load_seq(&t->bands), band = 0; band < BANDS; band++)
        if (bands & (1u << band)) now->last[band] = band_last_sequence(r, &t->band[band]);
}

/* The traversal of this band goes on, or begins anew unless it is too early for that. */
static struct traversal *traverse_on(struct search *s, const struct outlook *o, uint64_t up_to, bool *gave)
{
    struct rtmw_region *r = s->publisher->region;
    struct traversal *traversal = traversal_of(r, o),
                     now = {.topic = o->topic, .band = o->band, .look = o->look, .began_ns = s->now};
    if (is_at_end(traversal, up_to)) {
        if (s->now - traversal->began_ns < ANEW_NS + o->kept * ANEW_NS_A_MESSAGE) return traversal;
        traversal->begun = false;
    }
    look_at_bands(r, o, &now);
    now.begun = true;
    now.stage = BANDS - 1;
    now.clogged = traversal->clogged;
    now.end = traversal->end;
    struct outlook asked = outlook_beside(r, o->topic, o->band, o->look, &now);
    s->looks_within -= LOOKS_A_TRAVERSAL + asked.subscribers / LOOKS_A_TRAVERSAL;
    if (!traversal_goes_on(traversal, &now)) *traversal = now;
    *gave = traverse(s, &asked, traversal, up_to);
    if (is_at_end(traversal, up_to)) {
        traversal->clogged = traversal->unneeded > traversal->seen / 2;
        traversal->end = up_to;
        r->within.came_to_end = true;
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
    return is_at_end(traversal, last_to_go(&o)) ? ROOM_WHEN_LOW : 1;
}

/* ======== thinning ======== */

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
