#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 20 };

static int make_room(struct window *w, size_t size)
{
    size_t room = size > WINDOW_BYTES ? size : WINDOW_BYTES;
    if (w->room >= room) return 0;
    uint8_t *larger = realloc(w->bytes, room);
    if (!larger) return -ENOMEM;
    w->bytes = larger;
    w->room = room;
    return 0;
}

/* Reads from `lsn` on, at least `size` bytes if there are so many below `until`. 0 or -errno. */
static int fill(struct window *w, const struct log_folder *folder, const struct segment *s, uint64_t lsn, uint64_t size,
                uint64_t until)
{
    int error = make_room(w, size);
    if (error) return error;
    uint64_t wanted = until - lsn < w->room ? until - lsn : w->room;
    int64_t count = io_read_all(folder->io, s->file, w->bytes, wanted, segment_offset(s, lsn));
    w->at = lsn;
    w->filled = count < 0 ? 0 : (uint64_t)count;
    return count < 0 ? (int)count : 0;
}

/* Compaction moves records to the front only, and none is of a later segment. */
static bool is_in_order(const struct segment *s, uint64_t place, const uint8_t *record, uint64_t size)
{
    struct record_head head;
    memcpy(&head, record, sizeof head);
    return !s->is_compacted || (head.lsn >= place && head.lsn <= s->end && size <= s->end - head.lsn);
}

int window_record(struct window *w, const struct log_folder *folder, const struct segment *s, uint64_t lsn,
                  uint64_t until, const uint8_t **record, uint64_t *size)
{
    uint64_t last = segment_last_place(s), position = s->is_compacted ? RECORD_ANY : lsn;
    if (until > last || s->is_compacted) until = last;
    if (lsn < s->base || lsn >= until) return 0;
    for (int fills = 0;; fills++) { /* one for the head, one for all of a long record */
        bool is_inside = lsn >= w->at && lsn < w->at + w->filled;
        uint64_t there = is_inside ? w->at + w->filled - lsn : 0, needs;
        *record = is_inside ? w->bytes + (lsn - w->at) : NULL;
        *size = record_check(*record, there, until - lsn, position, folder->seed, &needs);
        if (*size) return is_in_order(s, lsn, *record, *size);
        if (!needs || fills == 2) return 0;
        int error = fill(w, folder, s, lsn, needs, until);
        if (error) return error;
    }
}

int window_feed(struct window *w, uint64_t from, const void *bytes, size_t size)
{
    uint64_t end = w->at + w->filled, left = w->filled && from < end ? end - from : 0;
    int error = make_room(w, left + size);
    if (error) return error;
    memmove(w->bytes, w->bytes + (w->filled - left), left);
    if (size) memcpy(w->bytes + left, bytes, size);
    w->at = from;
    w->filled = left + size;
    return 0;
}

void window_free(struct window *w)
{
    free(w->bytes);
    *w = (struct window){0};
}
