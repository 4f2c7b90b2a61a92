#include "scan.h"

static bool wrong(struct mcap_scan *scan, const char *reason)
{
    scan->wrong = reason;
    return false;
}

static inline bool is_message_of(const uint8_t *record, uint64_t length)
{
    return record[0] == MCAP_MESSAGE && get_u64(record + 1) == length;
}

static inline void note(struct mcap_facts *facts, const uint8_t *message)
{
    uint16_t channel = get_u16(message);
    uint64_t log_time = get_u64(message + 6);
    facts->some |= channel;
    facts->each &= channel;
    facts->late |= message[13] | message[21];
    if (log_time < facts->start_ns) facts->start_ns = log_time;
    if (log_time > facts->end_ns) facts->end_ns = log_time;
    facts->messages++;
}

/* Most messages have the length of the one before: then the processor knows where the next one begins before the length
 * of this one has come from memory. */
static void scan_alike(struct mcap_scan *scan, size_t length)
{
    const size_t whole = MCAP_RECORD_HEADER + length, last = scan->size - whole;
    int64_t *position = scan->position, *size = scan->payload_size;
    struct mcap_facts facts = scan->facts;
    size_t at = scan->at;
    for (; at <= last && facts.messages < scan->room && is_message_of(scan->data + at, length); at += whole) {
        position[facts.messages] = (int64_t)(at + MCAP_RECORD_HEADER + MCAP_MESSAGE_HEADER);
        size[facts.messages] = (int64_t)(length - MCAP_MESSAGE_HEADER);
        note(&facts, scan->data + at + MCAP_RECORD_HEADER);
    }
    scan->at = at;
    scan->facts = facts;
}

static bool scan_message(struct mcap_scan *scan, size_t length)
{
    if (length < MCAP_MESSAGE_HEADER) return wrong(scan, "a message is shorter than its header");
    if (scan->facts.messages == scan->room) return false;
    scan_alike(scan, length);
    return true;
}

static bool scan_other(struct mcap_scan *scan, uint8_t opcode, size_t length)
{
    if (opcode == MCAP_SCHEMA || opcode == MCAP_CHANNEL) {
        if (scan->found == MCAP_AT_ONCE) return false;
        scan->others[scan->found++] = (struct mcap_record){opcode, scan->at + MCAP_RECORD_HEADER, length};
    } else if (opcode <= MCAP_DATA_END) {
        return wrong(scan, "a record that must not lie in a chunk");
    }
    scan->at += MCAP_RECORD_HEADER + length;
    return true;
}

void mcap_scan_begin(struct mcap_scan *scan, const uint8_t *data, size_t size)
{
    *scan = (struct mcap_scan){.data = data, .size = size, .facts = {.start_ns = UINT64_MAX, .each = UINT16_MAX}};
}

bool mcap_scan(struct mcap_scan *scan)
{
    while (scan->at < scan->size) {
        const uint8_t *record = scan->data + scan->at;
        size_t left = scan->size - scan->at;
        if (left < MCAP_RECORD_HEADER) return wrong(scan, "a record is cut short");
        uint64_t length = get_u64(record + 1);
        if (length > left - MCAP_RECORD_HEADER) return wrong(scan, "a record is longer than what holds it");
        bool is_message = record[0] == MCAP_MESSAGE;
        if (!(is_message ? scan_message(scan, (size_t)length) : scan_other(scan, record[0], (size_t)length)))
            return false;
    }
    return true;
}

#define GATHER(type) \
    for (size_t i = 0; i < rows; i++) memcpy(to + i * sizeof(type), data + position[i] - before, sizeof(type));

bool mcap_field(const struct mcap_payloads *payloads, size_t before, unsigned width, uint8_t *restrict to)
{
    const uint8_t *data = payloads->data;
    const int64_t *position = payloads->position;
    size_t rows = payloads->count;
    for (size_t i = 0; i < rows; i++)
        if (position[i] < MCAP_MESSAGE_HEADER || (uint64_t)position[i] > payloads->size) return false;
    if (width == 2)
        GATHER(uint16_t)
    else if (width == 4)
        GATHER(uint32_t)
    else
        GATHER(uint64_t)
    return true;
}
