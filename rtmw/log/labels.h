/* Labels: key and id of a record, between its head and its data. labels.py packs and unpacks them. */
#ifndef RTMW_LOG_LABELS_H
#define RTMW_LOG_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LABEL_HEAD = 8, LABEL_ALIGN = 8 };

struct label_head {
    uint8_t key_kind, id_kind; /* 0: there is none */
    uint16_t key_size, id_size, zero;
};
_Static_assert(sizeof(struct label_head) == LABEL_HEAD, "as in docs/formats/log-format.md");

/* LABEL_AUTOMATIC: an id only, which a program has not given and does not see: producer, and sequence (u64). */
enum label_kind { LABEL_NONE, LABEL_BYTES, LABEL_TEXT, LABEL_NUMBER, LABEL_AUTOMATIC };
enum { LABEL_LONGEST = 4096, LABEL_PRODUCER = 16 }; /* as labels.py has them */

static inline size_t labels_size_of(const struct label_head *head)
{
    return (LABEL_HEAD + (size_t)head->key_size + head->id_size + LABEL_ALIGN - 1) & ~(size_t)(LABEL_ALIGN - 1);
}

/* false: there are no labels, or they are longer than what is there. */
static inline bool label_head_of(const void *labels, size_t available, struct label_head *head)
{
    if (available < LABEL_HEAD) return false;
    memcpy(head, labels, sizeof *head);
    return labels_size_of(head) <= available;
}

#endif
