/* CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected, as in iSCSI (RFC 3720, appendix B.4). That of recordings is
 * another one: CRC-32, which their format asks for. */
#ifndef RTMW_NET_CRC32C_H
#define RTMW_NET_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `before`'s bytes followed by these; 0: of these alone. Any thread; never blocks. */
uint32_t crc32c(uint32_t before, const void *bytes, size_t size);
/* The same without what lies from `hole` on and before `behind`: of short records with a CRC of their own inside. */
uint32_t crc32c_around(uint32_t before, const void *bytes, size_t size, size_t hole, size_t behind);
/* The same without products of 512 bits, and without the processor's instruction: what crc32c does where there are none. */
uint32_t crc32c_by_instruction(uint32_t before, const void *bytes, size_t size);
uint32_t crc32c_by_table(uint32_t before, const void *bytes, size_t size);

#endif
