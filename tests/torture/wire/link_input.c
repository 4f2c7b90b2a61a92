/* Inputs of link_fuzz.c from files, as they are and changed: where there is no libFuzzer, what real lines carry is tried so.
 *
 *   link_input SEED ROUNDS FILE...       prints how many inputs there were
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES_MOST = 16, INPUT_MOST = 1 << 16, CHANGES_MOST = 6, MOVED_MOST = 300 };

static uint8_t files[FILES_MOST][INPUT_MOST];
static size_t sizes[FILES_MOST];
static uint64_t state;

static uint32_t below(uint32_t count)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % count;
}

static void change(uint8_t *input, size_t size)
{
    static const uint8_t likely[] = {0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF};
    size_t at = 1 + below((uint32_t)size - 1), from = 1 + below((uint32_t)size - 1), count = 1 + below(MOVED_MOST);
    size_t left = size - (at > from ? at : from);
    switch (below(4)) {
    case 0:
        input[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        input[at] = likely[below(sizeof likely)];
        break;
    default: /* bytes from elsewhere: frames that come twice, or in another order */
        memmove(input + at, input + from, count < left ? count : left);
    }
}

int main(int count, char **arguments)
{
    uint64_t rounds = count > 3 ? strtoull(arguments[2], NULL, 10) : 0, inputs = 0;
    if (count < 4 || count - 3 > FILES_MOST) return fprintf(stderr, "usage: %s SEED ROUNDS FILE...\n", *arguments), 2;
    state = strtoull(arguments[1], NULL, 10);
    for (int n = 0; n < count - 3; n++) {
        FILE *file = fopen(arguments[3 + n], "rb");
        sizes[n] = file ? fread(files[n], 1, INPUT_MOST, file) : 0;
        if (sizes[n] < 2) return fprintf(stderr, "%s cannot be read\n", arguments[3 + n]), 2;
        fclose(file);
        LLVMFuzzerTestOneInput(files[n], sizes[n]);
        inputs++;
    }
    for (; rounds; rounds--, inputs++) {
        static uint8_t input[INPUT_MOST];
        int n = (int)below((uint32_t)count - 3);
        memcpy(input, files[n], sizes[n]);
        for (uint32_t changes = 1 + below(CHANGES_MOST); changes; changes--) change(input, sizes[n]);
        LLVMFuzzerTestOneInput(input, sizes[n]);
    }
    return printf("%llu inputs\n", (unsigned long long)inputs) < 0;
}
