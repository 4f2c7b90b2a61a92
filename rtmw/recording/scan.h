/* Records of MCAP in memory, read without believing them: no length is followed out of the bytes that are there. */
#ifndef RTMW_RECORDING_SCAN_H
#define RTMW_RECORDING_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum mcap_opcode {
    MCAP_FOOTER = 0x02,
    MCAP_SCHEMA = 0x03,
    MCAP_CHANNEL = 0x04,
    MCAP_MESSAGE = 0x05,
    MCAP_CHUNK = 0x06,
    MCAP_MESSAGE_INDEX = 0x07,
    MCAP_ATTACHMENT = 0x09,
    MCAP_METADATA = 0x0C,
    MCAP_DATA_END = 0x0F,
    MCAP_SIDE = 0x90, /* ours */
};

enum {
    MCAP_RECORD_HEADER = 9,   /* opcode, length */
    MCAP_MESSAGE_HEADER = 22, /* channel, sequence, log time, publish time */
    MCAP_INDEX_HEADER = 6,    /* channel, length of the entries */
    MCAP_INDEX_ENTRY = 16,    /* log time, offset */
    MCAP_CHUNK_HEADER = 40,   /* without the name of the compression */
    MCAP_SIDE_HEADER = 36,    /* likewise */
    MCAP_NAME = 64,           /* no compression has a longer name */
    MCAP_NAMES = 1024,        /* what is looked at of a name and a media type */
    MCAP_EXTENSION = 4096,    /* later versions of MCAP may append fields to a record, but not so many */
};

#define MCAP_LARGEST (UINT64_C(1) << 40) /* bytes of a record */

/* Little endian at any address; one load on the machines we know. */
static inline uint16_t get_u16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }

static inline uint32_t get_u32(const uint8_t *at) { return get_u16(at) | (uint32_t)get_u16(at + 2) << 16; }

static inline uint64_t get_u64(const uint8_t *at) { return get_u32(at) | (uint64_t)get_u32(at + 4) << 32; }

/* A record other than a message. */
struct mcap_record {
    uint8_t opcode;
    size_t position; /* of its content */
    size_t length;
};

/* What the headers of messages say together. */
struct mcap_facts {
    size_t messages;
    uint64_t start_ns, end_ns; /* earliest and latest log time; UINT64_MAX and 0 without messages */
    uint16_t some, each;       /* bits that a channel's number has, and that each has: the same if there is one only */
    uint8_t late;              /* bit 7: a log or publish time has its highest bit; no clock shows such a time */
};

enum { MCAP_AT_ONCE = 64 };

/* The records of a chunk, passed once. */
struct mcap_scan {
    const uint8_t *data;
    size_t size;
    size_t at; /* what lies before it is known */
    struct mcap_facts facts;
    int64_t *position, *payload_size;        /* of each payload */
    size_t room;                             /* messages for which they are long enough */
    struct mcap_record others[MCAP_AT_ONCE]; /* schemas and channels */
    size_t found;                            /* of them; the caller that takes them away sets it to 0 */
    const char *wrong;                       /* with the record at `at`; NULL as long as nothing is */
};

void mcap_scan_begin(struct mcap_scan *scan, const uint8_t *data, size_t size);

/* Goes on until the end. false: `wrong`, or there is no room for the record at `at`: then again, with more. */
bool mcap_scan(struct mcap_scan *scan);

/* Payloads of messages. */
struct mcap_payloads {
    const uint8_t *data;
    size_t size;
    const int64_t *position;
    size_t count;
};

/* A field of the header of each message: 2, 4 or 8 bytes that begin so many bytes before its payload, at most
 * MCAP_MESSAGE_HEADER. false: a position outside of the data. */
bool mcap_field(const struct mcap_payloads *payloads, size_t before, unsigned width, uint8_t *to);

/* A record of the data section, or a run of messages outside of chunks, which is one MCAP_MESSAGE. */
struct mcap_entry {
    uint64_t position; /* in the file, of the opcode */
    uint64_t length;   /* with opcode and length */
    uint64_t count;    /* messages: of the run, or of the message index */
    uint64_t first;    /* earliest log time of a message index */
    uint64_t last;
    uint32_t opcode;
    uint32_t channel; /* of the message index */
};

enum mcap_walk_end {
    MCAP_NEEDS_MORE, /* the next record is not in the window */
    MCAP_FULL,       /* no room for more entries */
    MCAP_AT_END,     /* behind DataEnd or the footer, the last entry */
    MCAP_CUT,        /* the next record would end behind the file */
    MCAP_ZEROS,      /* zeros instead of a record */
    MCAP_WRONG,      /* the next record is malformed, and `wrong` says how */
};

struct mcap_walk {
    const uint8_t *window;
    size_t size;
    uint64_t base;      /* position of the window in the file; where to go on, afterwards */
    uint64_t file_size; /* no record ends behind it */
    bool is_ours;       /* written by rtmw: no record is extended */
    uint64_t needed;    /* bytes the window must have at `base` to go on, after MCAP_NEEDS_MORE */
    const char *wrong;
};

/* Enters the records of the data section that begin in the window. */
enum mcap_walk_end mcap_walk(struct mcap_walk *walk, struct mcap_entry *entries, size_t room, size_t *found);

#endif
