/* SipHash-2-4 with a result of 128 bits: a keyed hash of short texts, which nobody without the key can make collide.
 *
 * J.-P. Aumasson and D. J. Bernstein, SipHash: a fast short-input PRF, INDOCRYPT 2012. The key is the log's uuid.
 */
#ifndef RTMW_LOG_SIPHASH_H
#define RTMW_LOG_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* Two words, which are the 16 bytes of the result in their order. Any thread; it does not block. */
struct siphash {
    uint64_t low, high;
};

struct siphash siphash(const uint8_t key[16], const void *bytes, size_t size);

#endif
