/* Fuzzes what a node makes of samples of other nodes, with structure: samples are made as a node makes them, and then
 * damaged as a link does (the CRC stays as it was), or forged as somebody does who can reckon a CRC.
 *
 * What must hold: (1) each message of the honest node is published once, in order, as it was sent; (2) of what was
 * damaged nothing is published; (3) of what was forged nothing is published that is not of the type, or not just what the
 * frame holds; (4) the books balance in the end; (5) no byte is touched that is not there (AddressSanitizer).
 *
 * LLVMFuzzerTestOneInput, for libFuzzer where clang is, else for engine_main.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../rtmw/shm/crc32c.h"
#include "engine_stage.h"

enum { ROOM = 1 << 16, SENT_MOST = 4096, ID = 8, LARGE_MOST = 40000 };

/* ---- what decides ---- */

static const uint8_t *choices;
static size_t choices_left;

static uint32_t choose(uint32_t below)
{
    uint32_t value = 0;
    for (int n = 0; n < 2 && choices_left; n++, choices_left--) value = value << 8 | *choices++;
    return value % below;
}

/* ---- the honest node ---- */

static enum framing framing;
static uint64_t sequence;          /* it has sent so many */
static uint64_t expected, written; /* messages: published so far; sent */
static uint32_t sizes[SENT_MOST];  /* of their payloads */

static size_t head(void) { return framing == FRAMING_OCTETS ? 0 : 8; }

/* Payload of the number `id`: a header of CDR where the type asks for it, the id, and bytes that follow from it. */
static void fill(uint8_t *to, uint64_t id, size_t size)
{
    uint32_t count = (uint32_t)(size - head());
    if (head()) memcpy(to, "\0\1\0\0", 4), memcpy(to + 4, &count, 4);
    memcpy(to + head(), &id, ID);
    for (size_t n = head() + ID; n < size; n++) to[n] = (uint8_t)(id * 31 + n * 7);
}

static size_t some_size(void) { return head() + ID + (choose(8) ? choose(120) : choose(LARGE_MOST)); }

struct built {
    uint8_t bytes[ROOM];
    size_t size;
    struct trailer trailer;
};

static void put(struct built *b, const void *bytes, size_t size)
{
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

static void put_octets(struct built *b, size_t size)
{
    uint32_t length = (uint32_t)size;
    if (framing == FRAMING_OCTETS) put(b, "\0\1\0\0", 4), put(b, &length, 4);
}

static void finish(struct built *b)
{
    static const uint8_t zeros[4];
    b->trailer.padding = (uint8_t)(-b->size & 3);
    put(b, zeros, b->trailer.padding);
    uint32_t crc = trailer_crc(crc32c(0, b->bytes, b->size), &b->trailer);
    if (trailer_is_checked(&b->trailer)) put(b, &crc, sizeof crc);
    put(b, &b->trailer, sizeof b->trailer);
}

/* Messages from `first` on. */
static void build(struct built *b, uint64_t first, uint32_t count)
{
    struct packed table[8];
    b->size = 0;
    b->trailer = (struct trailer){.magic = TRAILER_CHECKED,
                                  .version = TRAILER_VERSION,
                                  .priority = 3,
                                  .sequence = sequence + count};
    for (uint32_t n = 0; n < count; n++) {
        size_t size = sizes[(first + n) % SENT_MOST] = (uint32_t)(count > 1 ? head() + ID + choose(60) : some_size());
        table[n] = (struct packed){.publisher = 5, .source_time_ns = 9, .size = (uint32_t)size};
        if (n == 0) put_octets(b, size);
        fill(b->bytes + b->size, first + n, size);
        b->size += size;
    }
    if (count > 1) put(b, table, count * sizeof *table);
    if (count > 1) b->trailer.version = TRAILER_PACK, b->trailer.messages = (uint8_t)count;
    finish(b);
}

/* ---- what is published ---- */

static void require_frame(const uint8_t *data, size_t size)
{
    struct trailer t;
    size_t left = stage.told_size;
    REQUIRE(trailer_read(stage.told + stage.told_size, &left, &t), "a sample without a trailer is published");
    if (t.version == TRAILER_PACK || framing != FRAMING_OCTETS) return;
    REQUIRE(size == left - OCTETS_HEADER && memcmp(data, stage.told + OCTETS_HEADER, size) == 0,
            "%zu bytes are published of a frame that holds %zu", size, left - OCTETS_HEADER);
}

static bool is_of_stranger;
static uint64_t lost_of_stranger;

static void on_publish(const uint8_t *data, size_t size, uint64_t publisher, uint8_t priority)
{
    static uint8_t wanted[ROOM];
    uint64_t id = 0;
    REQUIRE(priority < BANDS && publisher & RTMW_REMOTE, "a publisher or priority that cannot be");
    REQUIRE(!head() || stage_is_of_type(data, size), "a message that is not of its type is published");
    if (stage.told) require_frame(data, size);
    if (is_of_stranger) return;
    if (size >= head() + ID) memcpy(&id, data + head(), ID);
    if (id >= UINT64_C(1) << 63) return; /* forged in the honest node's name */
    REQUIRE(id == expected, "message %llu is published, and %llu was to come", (unsigned long long)id,
            (unsigned long long)expected);
    fill(wanted, id, sizes[id % SENT_MOST]);
    REQUIRE(size == sizes[id % SENT_MOST] && memcmp(data, wanted, size) == 0, "a message is not as it was sent");
    expected++;
}

/* ---- what may happen ---- */

static void damage(struct built *b)
{
    for (uint32_t times = 1 + choose(4); times--;) {
        size_t at =
            choose(4) ? choose((uint32_t)b->size) : b->size - 1 - choose((uint32_t)(b->size < 80 ? b->size : 80));
        static const uint8_t values[] = {0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF};
        switch (choose(5)) {
        case 0:
            b->bytes[at] ^= (uint8_t)(1 << choose(8));
            break;
        case 1:
            b->bytes[at] = values[choose(sizeof values)];
            break;
        case 2:
            b->bytes[at] = (uint8_t)(b->bytes[at] + 1);
            break;
        case 3:
            b->size -= choose((uint32_t)(b->size / 2 + 1));
            break;
        default:
            memmove(b->bytes + at, b->bytes + at / 2, (b->size - at) / 2);
        }
        if (!b->size) return;
    }
}

static struct built honest, other;

static void send_honest(void)
{
    uint32_t count = choose(3) ? 1 : 2 + choose(6);
    build(&honest, written, count);
    for (uint32_t times = choose(3); times--;) {
        other = honest;
        damage(&other);
        if (other.size && (other.size != honest.size || memcmp(other.bytes, honest.bytes, honest.size) != 0))
            stage_receive(LEGIT, other.bytes, other.size, 1 + choose(4));
    }
    written += count;
    sequence += count;
    stage_receive(LEGIT, honest.bytes, honest.size, 1 + choose(4));
    if (!choose(8)) stage_receive(LEGIT, honest.bytes, honest.size, 1); /* twice, as another reader may bring it */
}

/* In the name of the honest node, with numbers that cannot be. */
static void send_implausible(void)
{
    static const uint64_t numbers[] = {INT64_MAX, UINT64_MAX, 0, UINT64_C(1) << 40, UINT64_C(1) << 62};
    if (!sequence || stage.inbound->backlog.count) return;
    build(&other, UINT64_C(1) << 63 | choose(100), 1);
    other.size -= trailer_size(&other.trailer) + other.trailer.padding;
    other.trailer.sequence = numbers[choose(sizeof numbers / sizeof *numbers)] - choose(1);
    finish(&other);
    stage_receive(LEGIT, other.bytes, other.size, 1);
}

/* The length that octets say they have. */
static void forge_length(struct built *b)
{
    uint32_t length;
    memcpy(&length, b->bytes + 4, sizeof length);
    length += choose(90) - 45;
    memcpy(b->bytes + 4, &length, sizeof length);
}

/* Of a stranger, who can reckon a CRC, or knows none. */
static void send_forged(void)
{
    uint64_t before = sequence;
    stage_drain(); /* so that all that is published from here on is his */
    is_of_stranger = true;
    build(&other, UINT64_C(1) << 63 | choose(100), choose(2) ? 1 : 2 + choose(6));
    other.size -= trailer_size(&other.trailer) + other.trailer.padding;
    if (framing == FRAMING_OCTETS && !choose(3))
        forge_length(&other);
    else if (other.size && choose(4))
        damage(&other);
    if (!choose(3)) memset((uint8_t *)&other.trailer + 4 + choose(28), (int)choose(256), 1);
    if (!choose(3)) other.trailer.messages = (uint8_t)choose(9);
    if (!choose(4)) other.trailer.magic = TRAILER_MAGIC;
    if (other.size) finish(&other);
    if (other.size) stage_receive(STRANGER, other.bytes, other.size, 1 + choose(4));
    stage_drain();
    sequence = before;
    is_of_stranger = false;
    lost_of_stranger = stage.inbound->lost;
}

static void send_note(void)
{
    uint8_t note[24] = {0, 1, 0, 0, (uint8_t)choose(256)};
    size_t size = choose(4) ? 16 : choose(sizeof note);
    uint64_t before = stage.engine.flow_malformed;
    uint8_t *exact = malloc(size ? size : 1);
    note[12] = (uint8_t)choose(3);
    note[choose(2) ? 15 : 1] ^= (uint8_t)(choose(4) == 0);
    memcpy(exact, note, size);
    bool is_valid = size == 16 && note[1] == 1 && note[12] <= 1 && !note[15];
    stage_hear(exact, size);
    free(exact);
    REQUIRE((stage.engine.flow_malformed == before) == is_valid, "a note of %zu bytes is misjudged", size);
}

static void act(void)
{
    switch (choose(8)) {
    case 0:
        send_implausible();
        break;
    case 1:
    case 2:
        send_forged();
        break;
    case 3:
        send_note();
        break;
    case 4:
        if (stage.inbound->reliable) stage.full_for = choose(6);
        break;
    case 5:
        inbound_retry(stage.inbound);
        break;
    default:
        send_honest();
    }
    if (stage.inbound->backlog.count > 16) stage_drain();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices = data;
    choices_left = size;
    framing = choose(2) ? FRAMING_OCTETS : FRAMING_CDR;
    sequence = written = expected = lost_of_stranger = 0;
    stage_open(framing, choose(2));
    stage.on_publish = on_publish;
    while (choices_left && written < SENT_MOST - 8) act();
    stage_drain();
    REQUIRE(expected == written, "%llu messages of %llu were published", (unsigned long long)expected,
            (unsigned long long)written);
    REQUIRE(stage.inbound->lost == lost_of_stranger, "messages are said to be lost that are not");
    stage_close();
    return 0;
}
