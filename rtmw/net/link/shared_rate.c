/* Rates that hold over all lines of a node: of an interface (`max_rate`), and of a topic (`topic_rates`).
 *
 * What was sent is a debt (sending.h) of all lines that share the rate. The urgent connections of an interface have a debt of
 * their own beside it: they wait for that alone, and what they send delays the bulk connections of all lines. Whoever
 * looks late loses nothing of the rate, up to CREDIT_NS.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "link.h"

enum { CREDIT_NS = 2000000 };

struct shared_rate {
    struct shared_rate *next;
    uint32_t users;
    struct rate_limit all, urgent;
    char name[];
};

static struct shared_rate *find(struct lines *s, const char *name)
{
    struct shared_rate *r = s->first_rate;
    while (r && strcmp(r->name, name) != 0) r = r->next;
    if (r || !(r = calloc(1, sizeof *r + strlen(name) + 1))) return r;
    strcpy(r->name, name);
    r->next = s->first_rate;
    return s->first_rate = r;
}

struct shared_rate *shared_rate_hold(struct lines *s, const char *name)
{
    if (!s) return NULL;
    lock(&s->rates, LOCK_LEAF);
    struct shared_rate *r = find(s, name);
    if (r) r->users++;
    unlock(&s->rates, LOCK_LEAF);
    return r;
}

/* Its local address names an interface. */
struct shared_rate *shared_rate_of(struct lines *s, int descriptor)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {0};
    socklen_t size = sizeof at;
    char name[64] = "/"; /* no topic begins so. Unix sockets have this name */
    getsockname(descriptor, (struct sockaddr *)&at, &size);
    const uint8_t *bytes = at.any.ss_family == AF_INET ? (const uint8_t *)&at.four.sin_addr : at.six.sin6_addr.s6_addr;
    int count = at.any.ss_family == AF_INET ? 4 : at.any.ss_family == AF_INET6 ? 16 : 0;
    for (int n = 0; n < count; n++) snprintf(name + 1 + 2 * n, 3, "%02x", bytes[n]);
    return shared_rate_hold(s, name);
}

void shared_rate_let_go(struct lines *s, struct shared_rate *rate)
{
    if (!rate) return;
    lock(&s->rates, LOCK_LEAF);
    if (!--rate->users) {
        struct shared_rate **link = &s->first_rate;
        while (*link != rate) link = &(*link)->next;
        *link = rate->next;
        free(rate);
    }
    unlock(&s->rates, LOCK_LEAF);
}

void shared_rate_set(struct lines *s, struct shared_rate *r, uint64_t bytes_per_second)
{
    if (!r || load_relaxed(&r->all.bytes_per_second) == bytes_per_second) return;
    lock(&s->rates, LOCK_LEAF);
    rate_limit_set(&r->all, bytes_per_second);
    rate_limit_set(&r->urgent, bytes_per_second);
    unlock(&s->rates, LOCK_LEAF);
}

static bool is_limited(const struct shared_rate *r) { return r && load_relaxed(&r->all.bytes_per_second); }

uint64_t shared_rate_free_ns(struct lines *s, struct shared_rate *r, bool is_urgent, uint64_t now)
{
    if (!is_limited(r)) return 0;
    lock(&s->rates, LOCK_LEAF);
    uint64_t at = rate_limit_free_ns(is_urgent ? &r->urgent : &r->all, now);
    unlock(&s->rates, LOCK_LEAF);
    return at;
}

void shared_rate_charge(struct lines *s, struct shared_rate *r, bool is_urgent, uint64_t bytes, uint64_t now)
{
    if (!is_limited(r)) return;
    lock(&s->rates, LOCK_LEAF);
    rate_limit_charge(&r->all, bytes, now - CREDIT_NS);
    if (is_urgent) rate_limit_charge(&r->urgent, bytes, now - CREDIT_NS);
    unlock(&s->rates, LOCK_LEAF);
}
