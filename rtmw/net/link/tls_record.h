/* Records of TLS 1.3 (RFC 8446, sections 5 and 7.3), which links seal and open themselves behind OpenSSL's handshake:
 *
 *   | 23 | 3 3 | length |  bytes … | type |  tag  |
 *     header, as it is     encrypted         16
 *
 * OpenSSL's own calls copy each record at either end. These encrypt out of the place where the bytes lie, in as many parts as
 * they are, and decrypt into the place where they are to lie. The ciphers are OpenSSL's.
 */
#ifndef RTMW_LINK_TLS_RECORD_H
#define RTMW_LINK_TLS_RECORD_H

#include <sys/uio.h>

#include "openssl.h"

enum {
    RECORD_MOST = 1 << 14, /* bytes in a record */
    RECORD_HEADER = 5,
    RECORD_TAG = 16,
    RECORD_AROUND = RECORD_HEADER + 1 + RECORD_TAG,
    RECORD_LONGEST = RECORD_MOST + RECORD_AROUND,
    RECORD_SECRET = 48,
};

enum record_type { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23 };

/* Of one direction. One thread at a time. */
struct record_keys {
    const struct openssl *library;
    const struct record_suite *suite;
    EVP_CIPHER_CTX *context; /* NULL: there are none */
    bool seals;              /* else it opens. Set before record_keys_open */
    uint8_t secret[RECORD_SECRET], iv[12];
    uint64_t number; /* of the next record under these keys */
};

/* Bytes in several parts, from `passed` bytes of the first on. */
struct record_parts {
    const struct iovec *part;
    size_t passed;
};

/* `suite`: its two bytes; `secret`: the traffic secret, RECORD_SECRET bytes of which as many are used as its hash has. false: a
 * suite that is none of ours, or no memory. */
bool record_keys_open(struct record_keys *, const struct openssl *, uint16_t suite, const uint8_t *secret);
bool record_keys_update(struct record_keys *); /* to those that follow a KeyUpdate */
void record_keys_close(struct record_keys *);  /* idempotent. Nothing of them stays in memory */

/* Writes a record with the next `size` bytes of the parts, RECORD_MOST at most. Returns its length; 0: the cipher has failed. */
size_t record_seal(struct record_keys *, enum record_type, struct record_parts *, size_t size, uint8_t *to);
/* Of a header: RECORD_HEADER bytes. */
enum record_check { RECORD_GOOD, RECORD_OTHER, RECORD_LONG, RECORD_SHORT }; /* OTHER: a type or version of none here */
enum record_check record_check(const uint8_t *header);
/* The record's length by its header, of which RECORD_HEADER bytes are there. 0: TLS 1.3 has no such record here. */
size_t record_length(const uint8_t *record);
/* Of a record that has come whole, and has a length: writes its bytes to the parts, RECORD_AROUND less than the length, and to
 * `type` the last one: the type, or 0 of padding. A part may be the record's own memory behind the header. false: it is not
 * what the peer has sealed, and what was written is worth nothing. */
bool record_open(struct record_keys *, uint8_t *record, struct record_parts *, uint8_t *type);

#endif
