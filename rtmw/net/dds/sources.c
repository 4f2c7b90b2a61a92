/* The writers elsewhere that a route hears, and what is known of each. Those that have left are forgotten when room is
 * needed, others never: what comes from them would be taken for new. */
#include <stdlib.h>
#include <string.h>

#include "../../shm/identity.h"
#include "engine.h"

enum { SOURCES_FIRST = 16, LOWER_CASE = 32 };

/* As wire.py has them. */
static const char mark[] = "rtmw";            /* begins the user data of a node's writer */
static const char for_plain[] = "plain rtmw"; /* is the user data of one that repeats for plain programs */
static const char nodes[] = "rtmw nodes";     /* the partition of nodes */
static const char origin[] = ORIGIN;          /* begins its name, which is that of its host's region */

/* From a writer's user data: of a node's, the letter of its lane (routes.py), else 0. */
static uint8_t letter_of(const dds_qos_t *qos, bool *repeats)
{
    void *bytes = NULL;
    size_t count = 0;
    uint8_t letter = 0;
    bool told = dds_qget_userdata(qos, &bytes, &count) && bytes;
    if (told && count > sizeof mark - 1 && memcmp(bytes, mark, sizeof mark - 1) == 0)
        letter = ((const uint8_t *)bytes)[sizeof mark - 1];
    *repeats = told && count == sizeof for_plain - 1 && memcmp(bytes, for_plain, count) == 0;
    dds_free(bytes);
    return letter;
}

/* Does it write in the partition of nodes, and no other? */
static bool is_among_nodes(const dds_qos_t *qos)
{
    uint32_t count = 0;
    char **names = NULL;
    bool told = dds_qget_partition(qos, &count, &names), is = told && count == 1 && strcmp(names[0], nodes) == 0;
    for (uint32_t n = 0; told && n < count; n++) dds_free(names[n]);
    dds_free(names);
    return is;
}

/* Of a node's publishers: the region in which they are, and where that is not told, the node. */
static uint64_t identity_of(const dds_qos_t *qos, uint64_t node)
{
    char *name = NULL;
    bool told = dds_qget_entity_name(qos, &name) && name && strncmp(name, origin, sizeof origin - 1) == 0;
    uint64_t identity = told ? identity_of_origin(name) : node;
    dds_free(name);
    return identity;
}

static uint8_t lane_of(const dds_qos_t *qos, uint8_t letter)
{
    int reliability = 0, durability = 0;
    int64_t max_blocking_ns;
    dds_qget_reliability(qos, &reliability, &max_blocking_ns);
    dds_qget_durability(qos, &durability);
    uint8_t plain = reliability == DDS_RELIABLE ? 'r' : 't', said = letter ? letter | LOWER_CASE : plain;
    uint8_t lane = said == 'r' ? RTMW_RELIABLE : said == 'a' ? RTMW_ADAPTIVE : RTMW_TIMELY;
    if (is_among_nodes(qos)) lane |= LANE_NODES;
    return durability >= DDS_TRANSIENT_LOCAL ? lane | LANE_KEEPS : lane;
}

uint64_t node_named(const uint8_t guid[16]) { return fnv1a(FNV_BASIS, guid, 16); }
uint64_t node_of(const dds_endpoint_t *endpoint) { return node_named(endpoint->participant_key.v); }

/* A remote writer: what its QoS says is asked for once. */
static void look_up(struct inbound *i, struct source *s, dds_instance_handle_t publication)
{
    dds_endpoint_t *endpoint = dds_get_matched_publication_data(i->reader, publication);
    if (!endpoint && i->heir) endpoint = dds_get_matched_publication_data(i->heir, publication);
    int32_t priority = 0;
    *s = (struct source){.publication = publication, .identity = publication, .lane = LANE_UNKNOWN};
    if (!endpoint) return; /* it left at once: its last samples come as a plain writer's */
    bool repeats = false;
    uint8_t letter = endpoint->qos ? letter_of(endpoint->qos, &repeats) : 0;
    s->is_node = letter != 0;
    s->node = node_of(endpoint);
    s->identity = s->is_node ? identity_of(endpoint->qos, s->node) : fnv1a(FNV_BASIS, endpoint->key.v, 16);
    if (endpoint->qos) s->lane = repeats ? LANE_REPEATS : lane_of(endpoint->qos, letter);
    if (endpoint->qos && dds_qget_transport_priority(endpoint->qos, &priority))
        s->priority = (uint8_t)(priority < 0 ? 0 : priority > BANDS - 1 ? BANDS - 1 : priority);
    if (s->is_node || !endpoint->qos || !dds_qget_lifespan(endpoint->qos, &s->lifetime_ns) ||
        s->lifetime_ns == INT64_MAX)
        s->lifetime_ns = 0;
    dds_builtintopic_free_endpoint(endpoint);
    if (s->is_node) s->carried = carried_find(i->engine, i->topic, i->lane, s->identity);
}

uint64_t source_publisher(const struct source *s, uint64_t publisher)
{
    return (s->is_node ? identity_of_publisher(s->identity, publisher) : s->identity) | RTMW_REMOTE;
}

bool is_matched(dds_entity_t reader, dds_instance_handle_t publication)
{
    dds_endpoint_t *endpoint = dds_get_matched_publication_data(reader, publication);
    if (endpoint) dds_builtintopic_free_endpoint(endpoint);
    return endpoint != NULL;
}

/* A writer that has left must still be known to samples that wait. */
static void forget_the_gone(struct inbound *i)
{
    uint32_t kept = 0;
    if (i->backlog.count || i->early.count) return;
    for (uint32_t n = 0; n < i->source_count; n++) {
        dds_instance_handle_t publication = i->sources[n].publication;
        if (is_matched(i->reader, publication) || (i->heir && is_matched(i->heir, publication)))
            i->sources[kept++] = i->sources[n];
    }
    i->source_count = kept;
}

static void grow(struct inbound *i)
{
    uint32_t space = i->source_space ? i->source_space * 2 : SOURCES_FIRST;
    struct source *sources = realloc(i->sources, space * sizeof *sources);
    if (!sources) return;
    i->sources = sources;
    i->source_space = space;
}

bool sources_open(struct inbound *i)
{
    grow(i);
    return i->source_space > 0;
}

/* Where there is no memory for one more, it takes the place of the last one. */
static struct source *add(struct inbound *i)
{
    if (i->source_count == i->source_space) forget_the_gone(i);
    if (i->source_count > i->source_space - i->source_space / 4) grow(i);
    if (i->source_count < i->source_space) i->source_count++;
    return &i->sources[i->source_count - 1];
}

struct source *inbound_source(struct inbound *i, dds_instance_handle_t publication)
{
    for (uint32_t n = 0; n < i->source_count; n++)
        if (i->sources[n].publication == publication) return &i->sources[n];
    struct source *s = add(i);
    look_up(i, s, publication);
    return s;
}

/* Nodes that this one meets over a link (rtmw/net/link): what their regions send over DDS, too, is not published here, so
 * that no message comes twice. */
void linked_set(struct engine *e, const uint64_t *regions, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) store_relaxed(&e->linked[n], regions[n]);
    store_relaxed(&e->linked_count, count);
    lock(&e->lock, LOCK_ENGINE);
    for (struct inbound *i = e->inbounds; i; i = i->next) {
        lock(&i->lock, LOCK_ROUTE); /* a thread that delivered has ended that, and the next one sees it */
        unlock(&i->lock, LOCK_ROUTE);
    }
    unlock(&e->lock, LOCK_ENGINE);
}

static bool is_linked(struct engine *e, const struct source *s)
{
    uint32_t count = s->is_node ? load_relaxed(&e->linked_count) : 0;
    for (uint32_t n = 0; n < count; n++)
        if (load_relaxed(&e->linked[n]) == s->identity) return true;
    return false;
}

bool linked_may_come(const struct inbound *i, const struct source *s)
{
    return (s->lane == i->lane || s->lane == LANE_UNKNOWN) && !is_linked(i->engine, s);
}

/* ---- sequence numbers ---- */

/* The sequence numbers of a node's samples: what they say is believed as far as it may be true.
 *
 * A sample's number says how many messages were sent before it. That is (1) as many as have come: it is next; (2) more, by
 * JUMP_MOST at most: the difference was lost on the way; (3) less, by REPEATED_MOST at most: another reader of the lane
 * had it; (4) anything else: it is refused, and counted, and the source stays where it is. A sample that follows the one
 * that was refused is taken again (as in RFC 3550, appendix A.1), so that no number mutes a source for good. A node that is
 * started again has other DDS writers, and so other sources; its numbers go on where those of the last node ended (engine.h).
 */

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

/* ---- duplicates ---- */

/* Dedup: a kept message that the bus already has is not published again. DDS delivers it again when a route is opened anew,
 * and a node that was killed and started again sends it again, when the receiving node asks for what is kept.
 *
 *   newest_before   the newest of each publisher from earlier routes of the lane; for the first route of a node, those
 *                      that lie on the bus
 *   newest          these, and what this route has published
 *
 * A message is a duplicate if and only if: (1) it is among the first `history` of its source, as only those may be kept;
 * (2) newest_before has a message of its publisher with this source time or a later one, or this route has published
 * one from another node, the predecessor of the source's on its host. A publisher's messages come in the order of their
 * source times, so the newest stands for all. Messages that are published together have the same source time; so messages
 * of the same node are not compared.
 */

static struct newest *find(struct newest *list, uint64_t publisher)
{
    for (uint32_t n = 0; n < NEWEST_MOST; n++)
        if (list[n].publisher == publisher) return &list[n];
    return NULL;
}

static struct newest *find_or_add(struct inbound *i, uint64_t publisher)
{
    struct newest *k = find(i->newest, publisher);
    if (!k) k = find(i->newest, 0); /* nobody's yet */
    if (!k) k = &i->newest[i->newest_next++ % NEWEST_MOST];
    if (k->publisher != publisher) *k = (struct newest){.publisher = publisher};
    return k;
}

bool dedup_is_duplicate(struct inbound *i, struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS) || s->brought >= i->history) return false;
    const struct newest *before = find(i->newest_before, publisher), *now = find(i->newest, publisher);
    bool is = (before && source_time_ns <= before->newest_ns) ||
              (now && now->node != s->node && source_time_ns <= now->newest_ns);
    s->brought += is;
    return is;
}

void dedup_begin(struct inbound *i, uint64_t publisher, uint64_t newest_ns)
{
    struct newest *k = find_or_add(i, publisher);
    if (newest_ns > k->newest_ns) k->newest_ns = newest_ns;
}

void dedup_add(struct inbound *i, struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS)) return;
    struct newest *k = find_or_add(i, publisher);
    if (source_time_ns > k->newest_ns) k->newest_ns = source_time_ns;
    k->node = s->node;
    s->brought++;
}

/* ---- loss report ---- */

bool carried_open(struct engine *e, const char *path)
{
    e->carried = carried_map(path);
    return e->carried != NULL;
}

void carried_close(struct engine *e)
{
    carried_unmap(e->carried);
    e->carried = NULL;
}

struct carried_place carried_find(struct engine *e, uint64_t topic, uint8_t lane, uint64_t origin)
{
    return carried_place_of(e->carried, carried_key(topic, e->wire_domain, lane & LANE_RELIABILITY, origin));
}

/* A counter that others may bring up by as much as they like. */
static void count_lost(uint64_t *counter, uint64_t by)
{
    uint64_t most = (uint64_t)INT64_MAX - load_relaxed(counter);
    count_up(counter, by < most ? by : most);
}

/* Messages that a node sent between its last sample and this one never came: DDS had less room for them, the link lost
 * them, or a node died with them. Subscribers know it before they get this one. Messages meant for nobody here are not
 * lost. They are counted once, whatever becomes of this sample: also when that waits for room, and is dropped then. */
void carried_gap(struct inbound *i, struct source *s, const struct trailer *trailer)
{
    uint64_t lost = s->is_node ? sequence_gap(s, trailer) : 0;
    if (!lost) return;
    const struct carried *carried = carried_at(&s->carried);
    uint64_t since = carried ? load_relaxed(&carried->at_ns) : now_monotonic_ns();
    if (rtmw_publisher_lost(i->publisher, (rtmw_lost){.missed = lost}, since)) count_lost(&i->lost, lost);
    s->passed = trailer->sequence - trailer_messages(trailer);
}

/* A sample that came before, by another writer of the lane, takes nothing back. */
void carried_received(struct source *s, uint64_t sequence)
{
    struct carried *c = carried_at(&s->carried);
    if (!c || sequence_is_repeated(load_relaxed(&c->sequence), sequence)) return;
    store_relaxed(&c->sequence, sequence);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}
