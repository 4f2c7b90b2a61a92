/* packs: what was packed is read again; what contradicts itself is refused; and nothing is read outside of the sample,
 * whatever its lengths say. The sample lies between two pages that nobody may touch. */
#include <string.h>
#include <sys/mman.h>

#include "../../rtmw/net/route/trailer.h"
#include "native.h"

enum { SPACE = 4 * PAGE, MESSAGES = 255 };

/* Memory that ends, or begins, where a page begins that nobody may touch. */
static uint8_t *fenced(size_t size, bool at_end)
{
    static uint8_t *space;
    if (!space) {
        space = mmap(NULL, SPACE + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(space != MAP_FAILED);
        CHECK(mprotect(space + PAGE, SPACE, PROT_READ | PROT_WRITE) == 0);
    }
    CHECK(size <= SPACE);
    return at_end ? space + PAGE + SPACE - size : space + PAGE;
}

/* Reads all of it; how many payload bytes there were. */
static uint64_t read_all(struct pack *pack, uint32_t messages)
{
    struct packed entry;
    const uint8_t *payload;
    uint64_t bytes = 0;
    volatile uint8_t seen = 0;
    uint32_t count = 0;
    for (; pack_next(pack, &payload, &entry); count++, bytes += entry.size)
        for (uint32_t at = 0; at < entry.size; at++) seen ^= payload[at];
    CHECK(count == messages, "%u of %u", count, messages);
    return bytes;
}

/* A sample of so many messages of random sizes; its size. */
static size_t write_pack(uint8_t *bytes, size_t before, uint32_t messages, uint64_t *seed)
{
    size_t size = before;
    struct packed table[MESSAGES];
    for (uint32_t n = 0; n < messages; n++) {
        table[n] = (struct packed){.publisher = n, .size = random_below(seed, 20)};
        memset(bytes + size, (int)n, table[n].size);
        size += table[n].size;
    }
    memcpy(bytes + size, table, messages * sizeof *table);
    return size + messages * sizeof *table;
}

static void check_written(uint64_t *seed)
{
    static uint8_t bytes[SPACE];
    uint32_t messages = 2 + random_below(seed, MESSAGES - 1);
    size_t before = random_below(seed, 2) * 8, size = write_pack(bytes, before, messages, seed);
    uint8_t *sample = memcpy(fenced(size, random_below(seed, 2)), bytes, size);
    struct pack pack;
    struct packed entry;
    const uint8_t *payload;
    CHECK(pack_open(&pack, sample, size, before, messages));
    for (uint32_t n = 0; n < messages; n++) {
        CHECK(pack_next(&pack, &payload, &entry));
        CHECK(entry.publisher == n && (!entry.size || payload[entry.size - 1] == (uint8_t)n));
    }
    CHECK(!pack_next(&pack, &payload, &entry));
    CHECK(!pack_open(&pack, sample, size - 1, before, messages), "a byte is missing");
    CHECK(!pack_open(&pack, sample, size, before + 1, messages), "a byte is left over");
}

/* One number of a good sample is another one now. */
static void check_spoiled(uint64_t *seed, uint32_t *refused)
{
    static const uint32_t extremes[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    static uint8_t bytes[SPACE];
    uint32_t messages = 2 + random_below(seed, MESSAGES - 1), said = messages;
    size_t before = random_below(seed, 2) * 8, size = write_pack(bytes, before, messages, seed);
    uint32_t value = random_below(seed, 2) ? extremes[random_below(seed, 5)] : (uint32_t)random_next(seed);
    size_t entry = size - (messages - random_below(seed, messages)) * sizeof(struct packed);
    switch (random_below(seed, 3)) {
    case 0:
        memcpy(bytes + entry + offsetof(struct packed, size), &value, sizeof value);
        break;
    case 1:
        said = value % 256;
        break;
    case 2:
        size = random_below(seed, (uint32_t)size + 1);
        break;
    }
    uint8_t *sample = memcpy(fenced(size, random_below(seed, 2)), bytes, size);
    struct pack pack;
    if (pack_open(&pack, sample, size, before, said))
        CHECK(read_all(&pack, said) == size - before - said * sizeof(struct packed));
    else
        *refused += 1;
}

static void check_noise(uint64_t *seed)
{
    size_t size = random_below(seed, 600);
    uint8_t *sample = fenced(size, random_below(seed, 2));
    for (size_t at = 0; at < size; at++) sample[at] = random_below(seed, 4) ? 0 : (uint8_t)random_next(seed);
    struct pack pack;
    uint32_t said = random_below(seed, 20);
    if (pack_open(&pack, sample, size, random_below(seed, 2) * 8, said)) read_all(&pack, said);
}

int main(void)
{
    uint64_t seed = 1;
    uint32_t refused = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        check_written(&seed);
        check_spoiled(&seed, &refused);
        check_noise(&seed);
    }
    CHECK(refused > 10000, "only %u", refused);
    printf("nothing was read outside; %u of 20000 spoiled packs were refused\n", refused);
    return 0;
}
