/* Landing: a large message of another node goes from the datagrams that brought it straight into the pool.
 *
 * The DDS library makes a sample of datagrams by a function that is named in a table of the sample's type. Before it is
 * called, `land` is (watch.c), which takes a loan for the message and makes a sample that has it; publishing is then no copy.
 * What is small, what no node has sent, what finds no room and what would have to wait is made by the library.
 *
 * It is called for all types, in threads that receive, and looks up whose type it is. A sample may outlive its route. So
 * what it needs, the publisher, is closed with the last of them.
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum {
    TAIL_MOST = 3 + sizeof(struct trailer), /* what a node puts behind the octets */
    TAIL_LEAST = sizeof(struct trailer),
};

struct landing {
    struct landing *next;
    const struct ddsi_sertype *type;
    struct inbound *inbound; /* to be asked only while this is in the list */
    struct engine *engine;
    rtmw_publisher *publisher;
    uint32_t references; /* the route's, and each sample's */
};

struct landed {
    struct ddsi_serdata head;
    struct landing *landing;
    rtmw_loan loan; /* data NULL: it is no longer ours */
    size_t tail_size;
    uint8_t tail[TAIL_MOST];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list, and the references */
static struct landing *landings;

static const struct ddsi_serdata_ops operations;

static struct landed *landed_of(const struct ddsi_serdata *d) { return (struct landed *)(uintptr_t)d; }

/* ---- a sample ---- */

static void let_go(struct landing *l)
{
    pthread_mutex_lock(&lock);
    bool is_last = --l->references == 0;
    pthread_mutex_unlock(&lock);
    if (!is_last) return;
    struct engine *e = l->engine;
    rtmw_publisher_close(l->publisher);
    free(l);
    fetch_sub(&e->landings, 1u);
}

static void give_back(struct ddsi_serdata *d)
{
    struct landed *s = landed_of(d);
    if (s->loan.data) rtmw_loan_drop(s->landing->publisher, &s->loan);
    if (s->landing) let_go(s->landing);
    free(s);
}

static uint32_t get_size(const struct ddsi_serdata *d)
{
    return (uint32_t)(OCTETS_HEADER + landed_of(d)->loan.size + landed_of(d)->tail_size);
}

/* The instance that all of them belong to. */
static struct ddsi_serdata *to_untyped(const struct ddsi_serdata *d)
{
    struct landed *s = keyless_new(sizeof *s, &operations, d->type, DDS_KEY);
    if (!s) abort(); /* the library has no way to hear of it, and does the same */
    return &s->head;
}

static const struct ddsi_serdata_ops operations = {
    .eqkey = keyless_are_equal,
    .get_size = get_size,
    .to_untyped = to_untyped,
    .free = give_back,
    .print = keyless_print,
    .get_keyhash = keyless_hash,
};

/* ---- out of datagrams ---- */

/* Copies bytes `from` to `end` of a sample. Fragments come in order, and may overlap. false: some are missing. */
static bool gather(const struct ddsi_rdata *part, size_t from, size_t end, void *to)
{
    for (size_t at = from; at < end; part = part->next) {
        if (!part || part->begin > at) return false;
        if (part->end <= at) continue;
        const uint8_t *bytes = (const uint8_t *)(part->message + 1) + part->payload;
        size_t count = (part->end < end ? part->end : end) - at;
        memcpy((uint8_t *)to + (at - from), bytes + (at - part->begin), count);
        at += count;
    }
    return true;
}

/* How many octets there are, if the sample is a node's single message; 0: it is something else. */
static size_t octets_in(const struct ddsi_rdata *parts, size_t size)
{
    struct {
        uint8_t header[4];
        uint32_t length;
    } octets;
    struct trailer trailer;
    _Static_assert(sizeof octets == OCTETS_HEADER, "as outbound.c writes it");
    if (!gather(parts, 0, sizeof octets, &octets) || octets.header[0] != 0 || octets.header[1] != 1) return 0;
    if (size < OCTETS_HEADER + TAIL_LEAST || octets.length > size - OCTETS_HEADER - TAIL_LEAST) return 0;
    if (size - OCTETS_HEADER - octets.length > TAIL_MOST) return 0;
    if (!gather(parts, size - sizeof trailer, size, &trailer)) return 0;
    return trailer.magic == TRAILER_MAGIC && trailer.version == TRAILER_VERSION ? octets.length : 0;
}

/* Referenced, if it takes messages just now; else NULL. */
static struct landing *find(const struct ddsi_sertype *type)
{
    pthread_mutex_lock(&lock);
    struct landing *l = landings;
    while (l && l->type != type) l = l->next;
    if (l && (load_relaxed(&l->inbound->backlog.count) || load_relaxed(&l->inbound->heir))) l = NULL;
    if (l) l->references++;
    pthread_mutex_unlock(&lock);
    return l;
}

/* Gives the reference of `l` to the sample, or back. */
static struct ddsi_serdata *make(struct landing *l, const struct ddsi_rdata *parts, size_t size, size_t octets)
{
    struct landed *s = keyless_new(sizeof *s, &operations, l->type, DDS_DATA);
    if (!s) return let_go(l), NULL;
    s->landing = l;
    s->tail_size = size - OCTETS_HEADER - octets;
    if (rtmw_loan_take(l->publisher, octets, &s->loan) != RTMW_OK) s->loan.data = NULL;
    if (s->loan.data && gather(parts, OCTETS_HEADER, OCTETS_HEADER + octets, s->loan.data) &&
        gather(parts, size - s->tail_size, size, s->tail))
        return &s->head;
    give_back(&s->head);
    return NULL;
}

struct ddsi_serdata *land(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *parts, size_t size)
{
    size_t octets = kind == DDS_DATA && size >= LENT_LEAST ? octets_in(parts, size) : 0;
    struct landing *l = octets ? find(type) : NULL;
    return l ? make(l, parts, size, octets) : NULL;
}

/* ---- a route ---- */

struct landing *landing_open(struct inbound *i)
{
    struct landing *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    *l = (struct landing){.inbound = i, .engine = i->engine, .publisher = i->publisher, .references = 1};
    fetch_add(&i->engine->landings, 1u);
    return l;
}

void landing_begin(struct landing *l)
{
    l->type = l->inbound->type;
    if (l->inbound->framing != FRAMING_OCTETS || !l->type) return;
    pthread_mutex_lock(&lock);
    l->next = landings;
    landings = l;
    pthread_mutex_unlock(&lock);
}

void landing_close(struct landing *l)
{
    pthread_mutex_lock(&lock);
    for (struct landing **link = &landings; *link; link = &(*link)->next)
        if (*link == l) {
            *link = l->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    let_go(l);
}

/* ---- to the bus ---- */

rtmw_loan *landed_loan(const struct ddsi_serdata *d)
{
    return d->operations == &operations ? &landed_of(d)->loan : NULL;
}

struct iovec landed_tail(const struct ddsi_serdata *d)
{
    if (!landed_loan(d)) return (struct iovec){0};
    return (struct iovec){landed_of(d)->tail, landed_of(d)->tail_size};
}
