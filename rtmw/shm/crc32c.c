/* CRC-32C of what is long by products of 512 bits (AVX-512, VPCLMULQDQ), else by the processor's instruction where it has one
 * (SSE4.2), else by tables, eight bytes at a step.
 *
 * The instruction takes 8 bytes in one cycle, and has its result after three. So of what is long, three blocks that
 * follow each other are done side by side: their results are those of a, b and c alone, and that of abc is
 * a · x^(bits of b and c) + b · x^(bits of c) + c. A product of polynomials is PCLMULQDQ; the instruction brings it back to 32
 * bits, and multiplies by x^32 while it does, and reflected operands by x once more: so the factors are of 33 bits less.
 *
 * Data that another processor has written come slowly. Blocks are so short, and lines are asked for so early, that they
 * come three times as fast as with blocks of 1 KiB, on which the processor does not see what will be read.
 */
#include <stdbool.h>
#include <string.h>

#include "crc32c.h"

#define REFLECTED UINT32_C(0x82F63B78)

static uint32_t table[8][256]; /* table[k][b]: of byte b with k zero bytes behind it */

static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? REFLECTED : 0);
        table[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 255];
}

static uint64_t word_at(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint32_t by_table(uint32_t crc, const uint8_t *p, size_t size)
{
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word = word_at(p) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= table[7 - k][word >> 8 * k & 255];
    }
    for (; size; p++, size--) crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return crc;
}

uint32_t crc32c_by_table(uint32_t before, const void *bytes, size_t size) { return ~by_table(~before, bytes, size); }

static uint32_t around_by_table(uint32_t before, const uint8_t *p, size_t size, size_t hole, size_t behind)
{
    return ~by_table(by_table(~before, p, hole), p + behind, size - behind);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { BLOCK = 256, LINE = 64, AHEAD = 1536, LOST_BITS = 33 };

/* Factors for blocks of one size: x^(bits of one block, and of two, less LOST_BITS). */
struct factors {
    uint32_t over_one, over_two;
};
static struct factors of_blocks, of_lines;
static bool has_instruction;

static uint32_t power_of_x(uint32_t exponent)
{
    uint32_t power = UINT32_C(1) << 31; /* x^0 */
    while (exponent--) power = power >> 1 ^ (power & 1 ? REFLECTED : 0);
    return power;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t times(uint32_t crc, uint32_t power)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc), _mm_cvtsi32_si128((int)power), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* `size`: of a block, one of two constants; those of one line are for what is short, as records of a log are. */
__attribute__((target("sse4.2,pclmul"), always_inline)) static inline uint32_t three_blocks(uint32_t crc,
                                                                                            const uint8_t *p,
                                                                                            size_t size,
                                                                                            const struct factors *of)
{
    uint64_t a = crc, b = 0, c = 0;
    for (const uint8_t *end = p + size; p < end; p += LINE) {
        for (int n = 0; n < 3 && size > LINE; n++) __builtin_prefetch(p + AHEAD + n * size);
        for (const uint8_t *word = p; word < p + LINE; word += 8) {
            a = _mm_crc32_u64(a, word_at(word));
            b = _mm_crc32_u64(b, word_at(word + size));
            c = _mm_crc32_u64(c, word_at(word + 2 * size));
        }
    }
    return times((uint32_t)a, of->over_two) ^ times((uint32_t)b, of->over_one) ^ (uint32_t)c;
}

enum { THREE_BLOCKS = 3 * BLOCK, THREE_LINES = 3 * LINE };

/* Into 64 bits: if each result were of 32, the compiler would make them 64 again, by a move that the next one waits for. */
__attribute__((target("sse4.2"), always_inline)) static inline uint32_t word_by_word(uint32_t before, const uint8_t *p,
                                                                                     size_t size)
{
    uint64_t wide = before;
    for (; size >= 8; p += 8, size -= 8) wide = _mm_crc32_u64(wide, word_at(p));
    uint32_t crc = (uint32_t)wide;
    if (size & 4) {
        uint32_t half;
        memcpy(&half, p, sizeof half);
        crc = _mm_crc32_u32(crc, half);
        p += sizeof half;
    }
    for (size &= 3; size; p++, size--) crc = _mm_crc32_u8(crc, *p);
    return crc;
}

/* Apart from by_instruction, which so needs no register saved for what is short. */
__attribute__((target("sse4.2,pclmul"), noinline)) static uint32_t side_by_side(uint32_t crc, const uint8_t *p,
                                                                                size_t size)
{
    for (; size >= THREE_BLOCKS; p += THREE_BLOCKS, size -= THREE_BLOCKS) crc = three_blocks(crc, p, BLOCK, &of_blocks);
    for (; size >= THREE_LINES; p += THREE_LINES, size -= THREE_LINES) crc = three_blocks(crc, p, LINE, &of_lines);
    return word_by_word(crc, p, size);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t size)
{
    return size < THREE_LINES ? word_by_word(crc, p, size) : side_by_side(crc, p, size);
}

static struct factors factors_for(uint32_t block)
{
    return (struct factors){power_of_x(8 * block - LOST_BITS), power_of_x(8 * 2 * block - LOST_BITS)};
}

/* ---- products of 512 bits ---- */

enum { FOLDED = 4 * LINE, FOLDED_LEAST = 2 * FOLDED };

/* Factors that carry 128 bits over so many bytes: of the first 64 bits, which are 64 further away, and of the others. */
struct carry {
    uint64_t over[2];
};
static struct carry over_folded, over_line;
static bool has_products;

#define FOLDS __attribute__((target("avx512f,vpclmulqdq,sse4.2")))

static struct carry carry_over(uint32_t bytes)
{
    return (struct carry){{power_of_x(8 * bytes + 64 - LOST_BITS), power_of_x(8 * bytes - LOST_BITS)}};
}

FOLDS static inline __m512i factors_of(const struct carry *of)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)of->over));
}

/* `to`, and what is congruent to `line` there. */
FOLDS static inline __m512i folded(__m512i line, __m512i factors, __m512i to)
{
    __m512i first = _mm512_clmulepi64_epi128(line, factors, 0x00),
            second = _mm512_clmulepi64_epi128(line, factors, 0x11);
    return _mm512_ternarylogic_epi64(first, second, to, 0x96); /* the XOR of all three */
}

FOLDS static uint32_t of_line(__m512i line)
{
    uint64_t word[LINE / 8], crc = 0;
    _mm512_storeu_si512(word, line);
    for (int n = 0; n < LINE / 8; n++) crc = _mm_crc32_u64(crc, word[n]);
    return (uint32_t)crc;
}

/* As many bytes as are a multiple of FOLDED, and not 0. */
FOLDS static uint32_t by_products(uint32_t crc, const uint8_t *p, size_t size)
{
    __m512i factors = factors_of(&over_folded), line[4];
    for (int n = 0; n < 4; n++) line[n] = _mm512_loadu_si512(p + n * LINE);
    line[0] = _mm512_xor_si512(line[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (const uint8_t *end = p + size; (p += FOLDED) < end;)
        for (int n = 0; n < 4; n++) line[n] = folded(line[n], factors, _mm512_loadu_si512(p + n * LINE));
    factors = factors_of(&over_line);
    for (int n = 0; n < 3; n++) line[n + 1] = folded(line[n], factors, line[n + 1]);
    return of_line(line[3]);
}

static void look_at_processor(void)
{
    unsigned int a, b, c = 0, d;
    has_instruction = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) && (c & bit_PCLMUL);
    __builtin_cpu_init();
    has_products = has_instruction && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    of_blocks = factors_for(BLOCK);
    of_lines = factors_for(LINE);
    over_folded = carry_over(FOLDED);
    over_line = carry_over(LINE);
}

static uint32_t by_best(uint32_t crc, const uint8_t *p, size_t size)
{
    size_t left = has_products && size >= FOLDED_LEAST ? size % FOLDED : size;
    if (left < size) crc = by_products(crc, p, size - left);
    return by_instruction(crc, p + size - left, left);
}

uint32_t crc32c(uint32_t before, const void *bytes, size_t size)
{
    return ~(has_instruction ? by_best(~before, bytes, size) : by_table(~before, bytes, size));
}

/* One call for all of what is short: calls are what its CRC costs most. */
__attribute__((target("sse4.2"))) static uint32_t around_by_best(uint32_t before, const uint8_t *p, size_t size,
                                                                 size_t hole, size_t behind)
{
    uint32_t crc = word_by_word(~before, p, hole);
    size -= behind;
    return ~(size < THREE_LINES ? word_by_word(crc, p + behind, size) : by_best(crc, p + behind, size));
}

uint32_t crc32c_around(uint32_t before, const void *bytes, size_t size, size_t hole, size_t behind)
{
    return (has_instruction ? around_by_best : around_by_table)(before, bytes, size, hole, behind);
}

uint32_t crc32c_by_instruction(uint32_t before, const void *bytes, size_t size)
{
    return ~(has_instruction ? by_instruction(~before, bytes, size) : by_table(~before, bytes, size));
}
#else
static void look_at_processor(void) {}

uint32_t crc32c(uint32_t before, const void *bytes, size_t size) { return ~by_table(~before, bytes, size); }

uint32_t crc32c_around(uint32_t before, const void *bytes, size_t size, size_t hole, size_t behind)
{
    return around_by_table(before, bytes, size, hole, behind);
}

uint32_t crc32c_by_instruction(uint32_t before, const void *bytes, size_t size) { return crc32c(before, bytes, size); }
#endif

/* Before any thread: nothing is written later. */
__attribute__((constructor)) static void prepare(void)
{
    fill_table();
    look_at_processor();
}
