/* Walks the data section of a file, window by window, and looks only at what the index needs.
 *
 * Most records say their length twice: the record's own, and that of what is in it. Where the two disagree the file is
 * damaged, which would else look like a file that was cut, or like a record that is not there.
 */
#include "scan.h"

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* How much of a record there must be, behind its header, to know its length by its content. */
static uint64_t content_needed(uint8_t opcode)
{
    switch (opcode) {
    case MCAP_MESSAGE_INDEX:
        return MCAP_INDEX_HEADER;
    case MCAP_CHUNK:
        return MCAP_CHUNK_HEADER + MCAP_NAME;
    case MCAP_SIDE:
        return MCAP_SIDE_HEADER + MCAP_NAME;
    default:
        return 0;
    }
}

static const char *compare(const struct mcap_walk *walk, uint64_t inner, uint64_t length)
{
    if (inner > length) return "a record is shorter than what it holds";
    if (length - inner > (walk->is_ours ? 0 : MCAP_EXTENSION)) return "a record is longer than what it holds";
    return NULL;
}

/* `name` lies at this offset, and the length of the bytes at the end `behind` it. */
static const char *compare_named(const struct mcap_walk *walk, const uint8_t *content, uint64_t available,
                                 uint64_t length, const unsigned layout[3])
{
    unsigned fixed = layout[0], name_at = layout[1], behind = layout[2];
    if (length < fixed) return "a record is shorter than its header";
    if (available < fixed) return NULL;
    uint32_t name = get_u32(content + name_at);
    if (name > MCAP_NAME) return "a compression with so long a name";
    if (available < fixed + name) return NULL;
    uint64_t size = get_u64(content + name_at + 4 + name + behind);
    if (size > UINT64_MAX / 2) return "a record that claims to be larger than any file";
    return compare(walk, fixed + name + size, length);
}

/* What is wrong with a record of which so much is available; NULL if nothing is, as far as can be seen. */
static const char *check(const struct mcap_walk *walk, uint8_t opcode, const uint8_t *content, uint64_t available,
                         uint64_t length)
{
    static const unsigned CHUNK[3] = {MCAP_CHUNK_HEADER, 28, 0}, SIDE[3] = {MCAP_SIDE_HEADER, 12, 12};
    switch (opcode) {
    case MCAP_MESSAGE:
        return length < MCAP_MESSAGE_HEADER ? "a message is shorter than its header" : NULL;
    case MCAP_MESSAGE_INDEX:
        if (length < MCAP_INDEX_HEADER) return "a message index is shorter than its header";
        if (available < MCAP_INDEX_HEADER) return NULL;
        if (get_u32(content + 2) % MCAP_INDEX_ENTRY) return "a message index with a part of an entry";
        return compare(walk, MCAP_INDEX_HEADER + (uint64_t)get_u32(content + 2), length);
    case MCAP_CHUNK:
        return compare_named(walk, content, available, length, CHUNK);
    case MCAP_SIDE:
        return walk->is_ours ? compare_named(walk, content, available, length, SIDE) : NULL;
    case MCAP_DATA_END:
        return length != 4 ? "the end of the data is not four bytes long" : NULL;
    case MCAP_FOOTER:
        return length != 20 ? "the footer is not twenty bytes long" : NULL;
    case MCAP_SCHEMA:
    case MCAP_CHANNEL:
    case MCAP_ATTACHMENT:
    case MCAP_METADATA:
        return NULL;
    default:
        return walk->is_ours ? "a record that rtmw does not write" : NULL;
    }
}

static void enter_index(const uint8_t *content, struct mcap_entry *entry)
{
    uint32_t bytes = get_u32(content + 2);
    entry->channel = get_u16(content);
    entry->count = bytes / MCAP_INDEX_ENTRY;
    entry->first = entry->count ? UINT64_MAX : 0;
    for (const uint8_t *at = content + MCAP_INDEX_HEADER, *end = at + bytes; at < end; at += MCAP_INDEX_ENTRY) {
        uint64_t time = get_u64(at);
        if (time < entry->first) entry->first = time;
        if (time > entry->last) entry->last = time;
    }
}

/* Messages outside of chunks that follow each other become one run. */
static bool extends_run(struct mcap_entry *last, const struct mcap_entry *next)
{
    if (last->opcode != MCAP_MESSAGE || next->opcode != MCAP_MESSAGE) return false;
    last->length += next->length;
    last->count++;
    return true;
}

/* The record at walk->base, of which so many bytes are in the window and so many in the file. */
static enum mcap_walk_end look(struct mcap_walk *walk, const uint8_t *record, uint64_t available, uint64_t left,
                               struct mcap_entry *entry)
{
    walk->needed = at_most(left, MCAP_RECORD_HEADER);
    if (left < MCAP_RECORD_HEADER) return MCAP_CUT;
    if (available < MCAP_RECORD_HEADER) return MCAP_NEEDS_MORE;
    uint64_t length = get_u64(record + 1);
    if (record[0] == 0) return length ? (walk->wrong = "a record of kind 0", MCAP_WRONG) : MCAP_ZEROS;
    walk->needed = at_most(left, MCAP_RECORD_HEADER + content_needed(record[0]));
    if (available < walk->needed) return MCAP_NEEDS_MORE;
    walk->wrong = check(walk, record[0], record + MCAP_RECORD_HEADER, available - MCAP_RECORD_HEADER, length);
    if (walk->wrong) return MCAP_WRONG;
    if (length > left - MCAP_RECORD_HEADER) return MCAP_CUT;
    *entry = (struct mcap_entry){.position = walk->base, .length = length + MCAP_RECORD_HEADER, .opcode = record[0]};
    entry->count = record[0] == MCAP_MESSAGE;
    if (record[0] != MCAP_MESSAGE_INDEX) return MCAP_AT_END;
    walk->needed = entry->length;
    if (available < walk->needed) return MCAP_NEEDS_MORE;
    enter_index(record + MCAP_RECORD_HEADER, entry);
    return MCAP_AT_END;
}

enum mcap_walk_end mcap_walk(struct mcap_walk *walk, struct mcap_entry *entries, size_t room, size_t *found)
{
    const uint64_t begin = walk->base;
    *found = 0;
    for (;;) {
        uint64_t offset = walk->base - begin;
        uint64_t available = offset < walk->size ? walk->size - offset : 0;
        struct mcap_entry entry;
        enum mcap_walk_end end =
            look(walk, walk->window + at_most(offset, walk->size), available, walk->file_size - walk->base, &entry);
        if (end != MCAP_AT_END) return end;
        if (!*found || !extends_run(&entries[*found - 1], &entry)) {
            if (*found == room) return MCAP_FULL;
            entries[(*found)++] = entry;
        }
        walk->base += entry.length;
        if (entry.opcode == MCAP_DATA_END || entry.opcode == MCAP_FOOTER) return MCAP_AT_END;
    }
}
