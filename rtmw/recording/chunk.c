#include "chunk.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "recordings are little endian, and so must be the machine"
#endif

enum { OPCODE_MESSAGE = 0x05, OPCODE_MESSAGE_INDEX = 0x07, INDEX_HEAD = 1 + 8 + 2 + 4, INDEX_ENTRY = 16 };
enum { SIDE_ROW = 8 + 8 + 8 + 1 + 1, FIRST_ROWS = 1024, FIRST_CHANNELS = 16 };

static uint8_t *put(uint8_t *to, const void *value, size_t size)
{
    memcpy(to, value, size);
    return to + size;
}

bool chunk_open(struct chunk *c, size_t limit)
{
    *c = (struct chunk){.limit = limit, .room = limit, .rows_room = FIRST_ROWS, .channels_room = FIRST_CHANNELS};
    c->records = malloc(limit);
    c->rows = malloc(FIRST_ROWS * sizeof *c->rows);
    c->channels = malloc(FIRST_CHANNELS * sizeof *c->channels);
    c->of_channel = calloc(CHUNK_CHANNELS, sizeof *c->of_channel);
    if (c->records && c->rows && c->channels && c->of_channel) return true;
    chunk_close(c);
    return false;
}

void chunk_close(struct chunk *c)
{
    free(c->records);
    free(c->rows);
    free(c->channels);
    free(c->of_channel);
    *c = (struct chunk){0};
}

/* The memory of a message that was larger than the chunk goes back. */
void chunk_clear(struct chunk *c)
{
    for (size_t i = 0; i < c->channel_count; i++) c->of_channel[c->channels[i].channel] = 0;
    c->used = c->count = c->channel_count = 0;
    c->start_ns = c->end_ns = 0;
    if (c->room <= 2 * c->limit) return;
    uint8_t *smaller = realloc(c->records, c->limit);
    if (!smaller) return;
    c->records = smaller;
    c->room = c->limit;
}

bool chunk_is_full_for(const struct chunk *c, size_t payload)
{
    return c->count && c->used + MESSAGE_HEAD + payload > c->limit;
}

static bool records_room(struct chunk *c, size_t more)
{
    if (c->used + more <= c->room) return true;
    uint8_t *larger = realloc(c->records, c->used + more);
    if (!larger) return false;
    c->records = larger;
    c->room = c->used + more;
    return true;
}

static bool row_room(struct chunk *c)
{
    if (c->count < c->rows_room) return true;
    struct chunk_row *larger = realloc(c->rows, 2 * c->rows_room * sizeof *larger);
    if (!larger) return false;
    c->rows = larger;
    c->rows_room *= 2;
    return true;
}

/* The channel's entry, made if it has none; NULL: no memory. */
static struct chunk_channel *channel_of(struct chunk *c, uint16_t channel)
{
    if (c->of_channel[channel]) return &c->channels[c->of_channel[channel] - 1];
    if (c->channel_count == c->channels_room) {
        struct chunk_channel *larger = realloc(c->channels, 2 * c->channels_room * sizeof *larger);
        if (!larger) return NULL;
        c->channels = larger;
        c->channels_room *= 2;
    }
    c->channels[c->channel_count++] = (struct chunk_channel){.channel = channel};
    c->of_channel[channel] = (uint32_t)c->channel_count;
    return &c->channels[c->channel_count - 1];
}

static void write_message(uint8_t *to, const struct chunk_row *row, uint64_t publish_time, const void *payload,
                          size_t size)
{
    uint64_t length = MESSAGE_HEAD - 9 + size;
    uint32_t sequence = (uint32_t)row->sequence;
    *to++ = OPCODE_MESSAGE;
    to = put(to, &length, 8);
    to = put(to, &row->channel, 2);
    to = put(to, &sequence, 4);
    to = put(to, &row->log_time, 8);
    to = put(to, &publish_time, 8);
    if (size) memcpy(to, payload, size);
}

bool chunk_append(struct chunk *c, const struct chunk_row *row, uint64_t publish_time, const void *payload, size_t size)
{
    if (!records_room(c, MESSAGE_HEAD + size) || !row_room(c)) return false;
    struct chunk_channel *channel = channel_of(c, row->channel);
    if (!channel) return false;
    channel->count++;
    write_message(c->records + c->used, row, publish_time, payload, size);
    if (!c->count || row->log_time < c->start_ns) c->start_ns = row->log_time;
    if (row->log_time > c->end_ns) c->end_ns = row->log_time;
    c->rows[c->count] = *row;
    c->rows[c->count++].offset = c->used;
    c->used += MESSAGE_HEAD + size;
    return true;
}

bool chunk_prepend(struct chunk *c, const void *records, size_t size)
{
    if (!records_room(c, size)) return false;
    memmove(c->records + size, c->records, c->used);
    memcpy(c->records, records, size);
    c->used += size;
    for (size_t i = 0; i < c->count; i++) c->rows[i].offset += size;
    return true;
}

size_t chunk_indexes_size(const struct chunk *c) { return c->channel_count * INDEX_HEAD + c->count * INDEX_ENTRY; }

static void write_index_head(const struct chunk_channel *channel, uint8_t *to)
{
    uint32_t bytes = channel->count * INDEX_ENTRY;
    uint64_t length = INDEX_HEAD - 9 + bytes;
    *to++ = OPCODE_MESSAGE_INDEX;
    to = put(to, &length, 8);
    to = put(to, &channel->channel, 2);
    put(to, &bytes, 4);
}

void chunk_write_indexes(struct chunk *c, uint8_t *to)
{
    uint64_t at = 0;
    for (size_t i = 0; i < c->channel_count; i++) {
        struct chunk_channel *channel = &c->channels[i];
        write_index_head(channel, to + at);
        channel->index_offset = at + INDEX_HEAD; /* for now: where its next entry goes */
        at += INDEX_HEAD + (uint64_t)channel->count * INDEX_ENTRY;
    }
    for (size_t i = 0; i < c->count; i++) {
        const struct chunk_row *row = &c->rows[i];
        struct chunk_channel *channel = &c->channels[c->of_channel[row->channel] - 1];
        put(put(to + channel->index_offset, &row->log_time, 8), &row->offset, 8);
        channel->index_offset += INDEX_ENTRY;
    }
    for (size_t i = 0; i < c->channel_count; i++)
        c->channels[i].index_offset -= INDEX_HEAD + (uint64_t)c->channels[i].count * INDEX_ENTRY;
}

void chunk_write_places(const struct chunk *c, int64_t *position, int64_t *size)
{
    uint64_t at = 0;
    for (size_t i = 0; i < c->channel_count; at += c->channels[i++].count) c->channels[i].place = at;
    for (size_t i = 0; i < c->count; i++) {
        const struct chunk_row *row = &c->rows[i];
        uint64_t place = c->channels[c->of_channel[row->channel] - 1].place++, length;
        memcpy(&length, c->records + row->offset + 1, 8);
        position[place] = (int64_t)(row->offset + MESSAGE_HEAD);
        size[place] = (int64_t)(length - (MESSAGE_HEAD - 9));
    }
}

size_t chunk_side_size(const struct chunk *c) { return c->count * SIDE_ROW; }

void chunk_write_side(const struct chunk *c, uint8_t *to)
{
    const uint64_t without_low = ~(uint64_t)UINT32_MAX;
    uint8_t *sequence = to, *publisher = sequence + 8 * c->count, *expires = publisher + 8 * c->count;
    uint8_t *priority = expires + 8 * c->count, *flags = priority + c->count;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t high = c->rows[i].sequence & without_low;
        sequence = put(sequence, &high, 8);
        publisher = put(publisher, &c->rows[i].publisher, 8);
        expires = put(expires, &c->rows[i].expires, 8);
        *priority++ = c->rows[i].priority;
        *flags++ = c->rows[i].flags;
    }
}
