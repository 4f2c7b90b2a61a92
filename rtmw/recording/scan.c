#include "scan.h"

static bool wrong(struct mcap_fault *fault, size_t position, const char *reason)
{
    fault->position = position;
    fault->reason = reason;
    return false;
}

bool mcap_count(const uint8_t *data, size_t size, size_t *messages, size_t *others, struct mcap_fault *fault)
{
    size_t at = 0;
    *messages = *others = 0;
    while (at < size) {
        if (size - at < MCAP_RECORD_HEADER) return wrong(fault, at, "a record is cut short");
        uint8_t opcode = data[at];
        uint64_t length = get_u64(data + at + 1);
        if (length > size - at - MCAP_RECORD_HEADER) return wrong(fault, at, "a record is longer than what holds it");
        if (opcode == MCAP_MESSAGE) {
            if (length < MCAP_MESSAGE_HEADER) return wrong(fault, at, "a message is shorter than its header");
            const uint8_t *message = data + at + MCAP_RECORD_HEADER;
            if ((message[13] | message[21]) & 0x80) return wrong(fault, at, "a message has a time after the year 2262");
            ++*messages;
        } else if (opcode == MCAP_SCHEMA || opcode == MCAP_CHANNEL) {
            ++*others;
        } else if (opcode <= MCAP_DATA_END) {
            return wrong(fault, at, "a record that must not lie in a chunk");
        }
        at += MCAP_RECORD_HEADER + (size_t)length;
    }
    return true;
}

void mcap_scan(const uint8_t *data, size_t size, const struct mcap_columns *columns, struct mcap_record *others)
{
    size_t row = 0, other = 0;
    for (size_t at = 0; at < size;) {
        uint8_t opcode = data[at];
        size_t length = (size_t)get_u64(data + at + 1), content = at + MCAP_RECORD_HEADER;
        if (opcode == MCAP_MESSAGE) {
            columns->channel[row] = get_u16(data + content);
            columns->sequence[row] = get_u32(data + content + 2);
            columns->log_time[row] = (int64_t)get_u64(data + content + 6);
            columns->publish_time[row] = (int64_t)get_u64(data + content + 14);
            columns->position[row] = (int64_t)(content + MCAP_MESSAGE_HEADER);
            columns->size[row] = (int64_t)(length - MCAP_MESSAGE_HEADER);
            row++;
        } else if (opcode == MCAP_SCHEMA || opcode == MCAP_CHANNEL) {
            others[other++] = (struct mcap_record){opcode, content, length};
        }
        at = content + length;
    }
}
