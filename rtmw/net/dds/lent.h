/* Large messages, which are sent and received where they lie in the pool: keyless.c, lent.c, landing.c. */
#ifndef RTMW_NET_LENT_H
#define RTMW_NET_LENT_H

#include "../../shm/rtmw.h"
#include "dds.h"
#include "trailer.h"

struct inbound;
struct outbound;

/* keyless.c */
/* A sample of our own, `bytes` long with its head; zeros behind it. NULL: no memory. */
void *keyless_new(size_t bytes, const struct ddsi_serdata_ops *, const struct ddsi_sertype *, int kind);
bool keyless_are_equal(const struct ddsi_serdata *, const struct ddsi_serdata *);
size_t keyless_print(const struct ddsi_sertype *, const struct ddsi_serdata *, char *text, size_t bytes);
void keyless_hash(const struct ddsi_serdata *, void *hash, bool force_md5);

/* lent.c */
bool lend_may(const struct outbound *, const rtmw_message *);
/* A sample of a message and what comes before it (parts[0]) and after it (parts[2] and on, the last of which is the trailer,
 * if there is one; a CRC before it is filled in while the sample is sent). The hold on the message is the sample's from
 * here on. `trailer` NULL: the sample has none. NULL: no memory. */
struct ddsi_serdata *lend(struct outbound *, uint32_t descriptor, const struct iovec *parts, size_t count,
                          const struct trailer *);
void lend_undo(struct ddsi_serdata *); /* the hold is the caller's again: DDS did not take the sample */

/* landing.c */
struct landing *landing_open(struct inbound *); /* NULL: no memory */
void landing_begin(struct landing *);           /* from here on messages may land */
void landing_close(struct landing *);
/* A sample of a message that landed; NULL: it did not. */
struct ddsi_serdata *land(const struct ddsi_sertype *, int kind, const struct ddsi_rdata *, size_t bytes);
/* Of a sample of the route: its loan; NULL: it has not landed. */
rtmw_loan *landed_loan(const struct inbound *, const struct ddsi_serdata *);
struct iovec landed_tail(const struct inbound *, const struct ddsi_serdata *); /* padding and trailer */

#endif
