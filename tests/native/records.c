/* Hostile records: streams of MCAP records, damaged at random, through scan.c. Each piece lies in memory of
 * exactly its size, so that AddressSanitizer sees every look behind it; and a walk in small windows, and
 * a scan with little room, must come to the same end as one at once.
 */
#include "scan.h"

#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 4096, ROOM = 64 };

static uint64_t seed = 0x9E3779B97F4A7C15;

static uint64_t chance(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void demand(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "records: %s\n", what);
    exit(1);
}

static void put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

/* Lengths inside of a record that agree with its own, so that not all are refused at the first look. */
static void fill_lengths(uint8_t opcode, uint8_t *content, uint64_t length)
{
    if (opcode == MCAP_MESSAGE_INDEX) put(content + 2, length - MCAP_INDEX_HEADER, 4);
    if (opcode == MCAP_CHUNK) put(content + 28, 0, 4), put(content + 32, length - MCAP_CHUNK_HEADER, 8);
    if (opcode == MCAP_SIDE) put(content + 12, 0, 4), put(content + 28, length - MCAP_SIDE_HEADER, 8);
    if (opcode == MCAP_METADATA) put(content, 0, 4), put(content + 4, length - 8, 4);
    if (opcode == MCAP_ATTACHMENT) put(content + 16, 0, 8), put(content + 24, length - 36, 8);
}

static size_t make_stream(uint8_t *stream)
{
    static const uint8_t KINDS[] = {MCAP_MESSAGE,       MCAP_MESSAGE, MCAP_CHANNEL,    MCAP_CHUNK,
                                    MCAP_MESSAGE_INDEX, MCAP_SIDE,    MCAP_ATTACHMENT, MCAP_METADATA};
    const size_t kinds = chance(2) ? 3 : sizeof KINDS; /* what may lie in a chunk, or in a file */
    size_t size = 0;
    for (;;) {
        uint8_t opcode = KINDS[chance(kinds)];
        uint64_t length = opcode == MCAP_MESSAGE_INDEX ? MCAP_INDEX_HEADER + 16 * chance(9) : 40 + chance(150);
        if (size + MCAP_RECORD_HEADER + length > LONGEST) return size;
        stream[size] = opcode;
        put(stream + size + 1, length, 8);
        for (uint64_t i = 0; i < length; i++) stream[size + MCAP_RECORD_HEADER + i] = (uint8_t)chance(128);
        fill_lengths(opcode, stream + size + MCAP_RECORD_HEADER, length);
        size += MCAP_RECORD_HEADER + length;
    }
}

static void damage(uint8_t *stream, size_t size)
{
    size_t at = chance(size), bytes = 1 + chance(8);
    if (bytes > size - at) bytes = size - at;
    switch (chance(3)) {
    case 0:
        stream[at] ^= (uint8_t)(1 << chance(8));
        break;
    case 1:
        memset(stream + at, 0xFF, bytes);
        break;
    default:
        memset(stream + at, 0, bytes);
    }
}

static uint8_t *exactly(const uint8_t *stream, size_t size)
{
    uint8_t *copy = malloc(size + !size);
    demand(copy != NULL, "no memory");
    memcpy(copy, stream, size);
    return copy;
}

struct scanned {
    int64_t position[LONGEST / (MCAP_RECORD_HEADER + MCAP_MESSAGE_HEADER)];
    int64_t size[LONGEST / (MCAP_RECORD_HEADER + MCAP_MESSAGE_HEADER)];
    struct mcap_facts facts;
    size_t others, at;
    const char *wrong;
};

static void look_at_others(const struct mcap_scan *scan)
{
    for (size_t i = 0; i < scan->found; i++)
        demand(scan->others[i].position + scan->others[i].length <= scan->size, "a definition outside of its chunk");
}

static void look_at_messages(const uint8_t *data, size_t size, const struct scanned *scanned)
{
    const struct mcap_payloads payloads = {data, size, scanned->position, scanned->facts.messages};
    uint8_t *column = malloc(payloads.count * 8 + 1);
    for (size_t i = 0; i < payloads.count; i++) {
        demand((uint64_t)scanned->position[i] + (uint64_t)scanned->size[i] <= size, "a payload outside of its chunk");
        demand(scanned->position[i] >= MCAP_RECORD_HEADER + MCAP_MESSAGE_HEADER, "a header outside of its chunk");
    }
    demand(mcap_field(&payloads, 16, 8, column), "a field outside of its chunk");
    for (size_t i = 0; i < payloads.count; i++) {
        uint64_t log_time = get_u64(column + 8 * i);
        demand(scanned->facts.start_ns <= log_time && log_time <= scanned->facts.end_ns, "a time outside of the facts");
    }
    const int64_t outside[] = {-1, MCAP_MESSAGE_HEADER - 1, (int64_t)size + 1};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const struct mcap_payloads none = {data, size, &outside[i], 1};
        demand(!mcap_field(&none, 16, 8, column), "a field of a payload outside of its chunk");
    }
    free(column);
}

/* `room` messages at a time. */
static void scan_by(const uint8_t *data, size_t size, size_t room, struct scanned *scanned)
{
    const size_t most = sizeof scanned->position / sizeof *scanned->position;
    struct mcap_scan scan;
    bool is_done = false;
    mcap_scan_begin(&scan, data, size);
    scan.position = scanned->position;
    scan.payload_size = scanned->size;
    for (scanned->others = 0; !is_done && !scan.wrong; scanned->others += scan.found, scan.found = 0) {
        scan.room = scan.facts.messages + room < most ? scan.facts.messages + room : most;
        size_t before = scan.at;
        is_done = mcap_scan(&scan);
        demand(is_done || scan.wrong || scan.at > before, "a scan on the spot");
        demand(scan.facts.messages <= scan.room, "more messages than there is room for");
        look_at_others(&scan);
    }
    scanned->facts = scan.facts;
    scanned->at = scan.at;
    scanned->wrong = scan.wrong;
}

static bool scan(const uint8_t *stream, size_t size)
{
    static struct scanned whole, parts;
    uint8_t *data = exactly(stream, size);
    scan_by(data, size, LONGEST, &whole);
    scan_by(data, size, 1 + chance(9), &parts);
    demand(whole.facts.messages == parts.facts.messages && whole.others == parts.others && whole.at == parts.at &&
               whole.wrong == parts.wrong && whole.facts.some == parts.facts.some,
           "a scan with little room that ends elsewhere");
    if (whole.wrong)
        demand(whole.at < size, "a fault outside of the chunk");
    else
        look_at_messages(data, size, &whole);
    free(data);
    return !whole.wrong;
}

struct course {
    uint64_t messages, records, end_position;
    enum mcap_walk_end end;
};

/* Windows of `window` bytes, or as many as are asked for. */
static struct course walk(const uint8_t *stream, size_t size, uint64_t file_size, size_t window, bool is_ours)
{
    struct course course = {0};
    struct mcap_walk state = {.file_size = file_size, .is_ours = is_ours};
    struct mcap_entry entries[ROOM];
    for (size_t want = window;;) {
        size_t left = size - state.base, found, got = want < left ? want : left;
        uint64_t before = state.base;
        uint8_t *copy = exactly(stream + state.base, got);
        state.window = copy;
        state.size = got;
        course.end = mcap_walk(&state, entries, ROOM, &found);
        free(copy);
        for (size_t i = 0; i < found; i++) {
            demand(entries[i].position + entries[i].length <= file_size, "a record behind the end of the file");
            course.messages += entries[i].opcode == MCAP_MESSAGE ? entries[i].count : 0;
            course.records += entries[i].opcode != MCAP_MESSAGE;
        }
        if (course.end > MCAP_FULL || (course.end == MCAP_NEEDS_MORE && got == left)) break;
        demand(course.end == MCAP_FULL || state.base > before || state.needed > got, "a walk on the spot");
        want = state.needed > window ? state.needed : window;
        if (state.base > size) break; /* the last record ends where only the file does */
    }
    course.end_position = state.base;
    return course;
}

static void compare(const uint8_t *stream, size_t size, bool is_ours)
{
    struct course whole = walk(stream, size, size, size, is_ours);
    struct course parts = walk(stream, size, size, 1 + chance(300), is_ours);
    demand(memcmp(&whole, &parts, sizeof whole) == 0, "a walk in small windows that ends elsewhere");
    walk(stream, size, size + chance(100000), 1 + chance(300), is_ours); /* a file of which this is all we have */
}

int main(int count, char **arguments)
{
    static uint8_t stream[LONGEST];
    long rounds = count > 1 ? atol(arguments[1]) : 1000, good = 0;
    for (long i = 0; i < rounds; i++) {
        size_t size = make_stream(stream);
        for (uint64_t times = chance(4); times && size; times--) damage(stream, size);
        size -= chance(2) * chance(size + 1);
        good += scan(stream, size);
        compare(stream, size, chance(2));
    }
    printf("%ld streams, %ld of them without fault: nothing was read or found outside of them\n", rounds, good);
    return 0;
}
