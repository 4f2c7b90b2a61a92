#include "siphash.h"

#include <string.h>

enum { WORD = 8, ROUNDS = 2, LAST_ROUNDS = 4 };

struct state {
    uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void turn(struct state *s, int rounds)
{
    for (int n = 0; n < rounds; n++) {
        s->a += s->b;
        s->b = rotate(s->b, 13) ^ s->a;
        s->a = rotate(s->a, 32);
        s->c += s->d;
        s->d = rotate(s->d, 16) ^ s->c;
        s->a += s->d;
        s->d = rotate(s->d, 21) ^ s->a;
        s->c += s->b;
        s->b = rotate(s->b, 17) ^ s->c;
        s->c = rotate(s->c, 32);
    }
}

static void take(struct state *s, uint64_t word)
{
    s->d ^= word;
    turn(s, ROUNDS);
    s->a ^= word;
}

static uint64_t result(const struct state *s) { return s->a ^ s->b ^ s->c ^ s->d; }

struct siphash siphash(const uint8_t key[16], const void *given, size_t size)
{
    const uint8_t *bytes = given;
    uint64_t keys[2], word = 0;
    memcpy(keys, key, sizeof keys);
    struct state s = {
        keys[0] ^ UINT64_C(0x736f6d6570736575),
        keys[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
        keys[0] ^ UINT64_C(0x6c7967656e657261),
        keys[1] ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = size - size % WORD;
    for (size_t at = 0; at < whole; at += WORD) {
        memcpy(&word, bytes + at, WORD);
        take(&s, word);
    }
    word = 0;
    if (size > whole) memcpy(&word, bytes + whole, size - whole);
    take(&s, word | (uint64_t)size << 56);
    struct siphash made;
    s.c ^= 0xee;
    turn(&s, LAST_ROUNDS);
    made.low = result(&s);
    s.b ^= 0xdd;
    turn(&s, LAST_ROUNDS);
    made.high = result(&s);
    return made;
}
