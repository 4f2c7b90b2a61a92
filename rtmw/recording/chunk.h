/* A chunk of a recording while it is filled: message records of MCAP one behind the other, and a row of facts for each,
 * of which its message indexes and its side record are made. One thread at a time.
 */
#ifndef RTMW_CHUNK_H
#define RTMW_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK_CHANNELS = 1 << 16, MESSAGE_HEAD = 1 + 8 + 2 + 4 + 8 + 8 };

struct chunk_row {
    uint64_t log_time, sequence, publisher;
    int64_t expires;
    uint64_t offset; /* of its message record; chunk_append sets it */
    uint16_t channel;
    uint8_t priority, flags;
};

/* A channel that has messages in the chunk. */
struct chunk_channel {
    uint32_t count;
    uint16_t channel;
    uint64_t index_offset; /* of its message index record, behind the chunk record */
    uint64_t place;        /* while places are written: where its next one goes */
};

struct chunk {
    uint8_t *records;
    size_t used, room, limit; /* limit: how large it is meant to be; a larger message has a chunk of its own */
    struct chunk_row *rows;
    size_t count, rows_room;
    uint64_t start_ns, end_ns; /* earliest and latest log time; 0 without messages */
    struct chunk_channel *channels;
    size_t channel_count, channels_room;
    uint32_t *of_channel; /* channel id → its place in `channels` + 1; 0: not there yet */
    uint64_t charged;     /* bytes that the collector counts against its budget (rtmw/recorder) */
};

/* All that return bool: false when there is no memory, and then nothing has changed. */
bool chunk_open(struct chunk *, size_t limit);
void chunk_close(struct chunk *);
void chunk_clear(struct chunk *);
/* Would a message of so many bytes belong into the next chunk? */
bool chunk_is_full_for(const struct chunk *, size_t payload);
bool chunk_append(struct chunk *, const struct chunk_row *, uint64_t publish_time, const void *payload, size_t size);
/* Records that belong before all others, as schemas and channels. */
bool chunk_prepend(struct chunk *, const void *records, size_t size);

size_t chunk_indexes_size(const struct chunk *);
/* The message index records, in the order in which the channels appear; sets index_offset of each channel. */
void chunk_write_indexes(struct chunk *, uint8_t *to);
/* Where each payload lies in the records, and its size, channel by channel in the order in which they appear. */
void chunk_write_places(const struct chunk *, int64_t *position, int64_t *size);
size_t chunk_side_size(const struct chunk *);
/* The columns of the side record: sequence without its low 32 bits, publisher, expires, priority, flags. */
void chunk_write_side(const struct chunk *, uint8_t *to);

#endif
