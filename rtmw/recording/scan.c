#include "scan.h"

/* ---- a chunk, whose records are passed once ---- */

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

/* ---- the data section of a file, walked window by window: only what the index needs is looked at ----
 *
 * Most records say their length twice: the record's own, and that of what is in it. Where the two disagree the file is
 * damaged, which would else look like a file that was cut, or like a record that is not there.
 */

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
    case MCAP_METADATA:
    case MCAP_ATTACHMENT:
        return MCAP_NAMES;
    default:
        return 0;
    }
}

/* A record, as much of it as is in the window. */
struct view {
    const uint8_t *content;
    uint64_t available; /* of the content: what content_needed says, or until the file ends */
    uint64_t length;    /* of the content, as the record says */
    uint64_t extension; /* so many bytes more than are known it may have */
    bool is_ours;
    uint8_t opcode;
};

static const char *compare(const struct view *v, uint64_t inner)
{
    if (inner > v->length) return "a record is shorter than what it holds";
    if (v->length - inner > v->extension) return "a record is longer than what it holds";
    return NULL;
}

/* Of a record with a name, `name_at`, and the length of the bytes at its end, so far behind the name. */
static const char *compare_named(const struct view *v, uint64_t fixed, unsigned name_at, unsigned behind)
{
    if (v->length < fixed) return "a record is shorter than its header";
    if (v->available < fixed) return NULL;
    uint64_t name = get_u32(v->content + name_at);
    if (name > MCAP_NAME) return "a compression with so long a name";
    if (v->available < fixed + name) return NULL;
    uint64_t size = get_u64(v->content + name_at + 4 + name + behind);
    if (size > MCAP_LARGEST) return "a record that claims to be impossibly large";
    return compare(v, fixed + name + size);
}

/* Where a text or map at this offset ends; 0: that is not in the window. */
static uint64_t behind_text(const struct view *v, uint64_t at)
{
    return at && at + 4 <= v->available ? at + 4 + get_u32(v->content + at) : 0;
}

static const char *check_metadata(const struct view *v)
{
    uint64_t end = v->available < 4 ? 0 : behind_text(v, 4 + (uint64_t)get_u32(v->content));
    return end ? compare(v, end) : NULL;
}

static const char *check_attachment(const struct view *v)
{
    uint64_t end = behind_text(v, behind_text(v, 16)); /* behind times, name and media type */
    if (!end || end + 8 > v->available) return NULL;
    uint64_t size = get_u64(v->content + end);
    return size > MCAP_LARGEST ? "a record that claims to be impossibly large" : compare(v, end + 8 + size + 4);
}

/* What is wrong with a record; NULL if nothing is, as far as can be seen. */
static const char *check(const struct view *v)
{
    switch (v->opcode) {
    case MCAP_MESSAGE:
        return v->length < MCAP_MESSAGE_HEADER ? "a message is shorter than its header" : NULL;
    case MCAP_MESSAGE_INDEX:
        if (v->length < MCAP_INDEX_HEADER) return "a message index is shorter than its header";
        if (v->available < MCAP_INDEX_HEADER) return NULL;
        if (get_u32(v->content + 2) % MCAP_INDEX_ENTRY) return "a message index with a part of an entry";
        return compare(v, MCAP_INDEX_HEADER + (uint64_t)get_u32(v->content + 2));
    case MCAP_CHUNK:
        return compare_named(v, MCAP_CHUNK_HEADER, 28, 0);
    case MCAP_SIDE:
        return v->is_ours ? compare_named(v, MCAP_SIDE_HEADER, 12, 12) : NULL;
    case MCAP_DATA_END:
        return v->length != 4 ? "the end of the data is not four bytes long" : NULL;
    case MCAP_FOOTER:
        return v->length != 20 ? "the footer is not twenty bytes long" : NULL;
    case MCAP_METADATA:
        return check_metadata(v);
    case MCAP_ATTACHMENT:
        return check_attachment(v);
    case MCAP_SCHEMA:
    case MCAP_CHANNEL:
        return NULL; /* their content is read at once, and must fill them */
    default:
        return v->is_ours ? "a record that rtmw does not write" : NULL;
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

/* A record that ends behind the file was cut with it, unless it is none that anybody would write. */
static enum mcap_walk_end cut(struct mcap_walk *walk, uint8_t opcode, uint64_t length)
{
    bool is_known = (opcode > MCAP_FOOTER && opcode <= MCAP_DATA_END) || opcode == MCAP_SIDE;
    if (is_known && length <= MCAP_LARGEST) return MCAP_CUT;
    walk->wrong = "a record that would end behind the file, and is of no known kind or impossibly large";
    return MCAP_WRONG;
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
    const bool is_cut = length > left - MCAP_RECORD_HEADER;
    walk->wrong = check(&(struct view){.opcode = record[0],
                                       .is_ours = walk->is_ours,
                                       .content = record + MCAP_RECORD_HEADER,
                                       .available = walk->needed - MCAP_RECORD_HEADER,
                                       .length = length,
                                       .extension = walk->is_ours || is_cut ? 0 : MCAP_EXTENSION});
    if (walk->wrong) return MCAP_WRONG;
    if (is_cut) return cut(walk, record[0], length);
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
