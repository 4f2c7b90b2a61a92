/* Large messages without a copy between pool and DDS: keyless.c, zero_copy_send.c, zero_copy_receive.c. */
#ifndef RTMW_NET_ZERO_COPY_H
#define RTMW_NET_ZERO_COPY_H

#include "../../shm/rtmw.h"
#include "../route/trailer.h"
#include "dds.h"

struct inbound;
struct outbound;

/* keyless.c */
/* A sample with a table of functions of rtmw, `bytes` long with its head; zeros behind it. NULL: no memory. */
void *keyless_new(size_t bytes, const struct ddsi_serdata_ops *, const struct ddsi_sertype *, int kind);
bool keyless_are_equal(const struct ddsi_serdata *, const struct ddsi_serdata *);
size_t keyless_print(const struct ddsi_sertype *, const struct ddsi_serdata *, char *text, size_t bytes);
void keyless_hash(const struct ddsi_serdata *, void *hash, bool force_md5);

/* zero_copy_send.c */
/* Is this message to be sent without a copy? The sender's. */
bool zero_copy_may(const struct outbound *, const rtmw_message *);
/* A sample of parts[0], the message, and parts[2] and on, the last of which is the trailer, if there is one; a CRC before it
 * is filled in while the sample is sent. The sample takes over the hold on the message. `trailer` NULL: the sample has
 * none. Returns NULL without memory; the hold is the caller's then. */
struct ddsi_serdata *zero_copy_sample(struct outbound *, uint32_t descriptor, const struct iovec *parts, size_t count,
                                      const struct trailer *);
/* DDS has refused the sample: the hold on the message is the caller's again. */
void zero_copy_undo(struct ddsi_serdata *);

/* zero_copy_receive.c */
struct loan_receiver *loan_receiver_open(struct inbound *); /* NULL: no memory */
/* From here on samples of the route's type may be received into loans. */
void loan_receiver_begin(struct loan_receiver *);
void loan_receiver_close(struct loan_receiver *);
/* A sample that owns a loan with the message; NULL: the library makes the sample. In any thread of the library. */
struct ddsi_serdata *receive_in_loan(const struct ddsi_sertype *, int kind, const struct ddsi_rdata *, size_t bytes);
/* The loan of a sample of the route; NULL: it was not received into one. */
rtmw_loan *received_loan(const struct inbound *, const struct ddsi_serdata *);
/* The padding and trailer of such a sample; empty: it was not received into a loan. */
struct iovec received_tail(const struct inbound *, const struct ddsi_serdata *);

#endif
