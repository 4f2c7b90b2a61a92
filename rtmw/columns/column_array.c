/* Columns that are built, handed over to Arrow: an array for each, within that of what it belongs to. */
#include <stdlib.h>

#include "arrow_array.h"
#include "column.h"

enum { MOST_BUFFERS = 3, NULLS_UNKNOWN = -1 };

/* The memory that an array owns besides its buffers. The arrays of its members may be moved elsewhere; these places stay. */
struct owned {
    const void *buffers[MOST_BUFFERS];
    struct ArrowArray **children;
    struct ArrowArray arrays[];
};

static void release(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->private_data);
    array->release = NULL;
}

static struct owned *own(uint32_t children)
{
    struct owned *owned = calloc(1, sizeof *owned + children * (sizeof *owned->arrays + sizeof *owned->children));
    if (!owned) return NULL;
    owned->children = (struct ArrowArray **)&owned->arrays[children];
    for (uint32_t i = 0; i < children; i++) owned->children[i] = &owned->arrays[i];
    return owned;
}

static uint32_t parts(const struct column_op *op)
{
    if (op->code == COLUMN_SEQUENCE || op->code == COLUMN_ARRAY) return 1;
    return column_has_members(op) ? column_members(op) : 0;
}

/* Moves memory of a column into the array. */
static void give(struct ArrowArray *array, void *place)
{
    void **memory = place;
    array->buffers[array->n_buffers++] = *memory;
    *memory = NULL;
}

static bool hand_over(struct column_build *build, uint32_t index, struct ArrowArray *array);

/* A part whose turn did not come has no `release`. */
static bool hand_over_parts(struct column_build *build, const struct column_op *op, struct ArrowArray *array)
{
    for (uint32_t i = op->first; i < op->first + parts(op); i++)
        if (!build->program->ops[i].skipped && !hand_over(build, i, array->children[array->n_children++])) return false;
    return true;
}

static bool hand_over(struct column_build *build, uint32_t index, struct ArrowArray *array)
{
    const struct column_op *op = &build->program->ops[index];
    struct column *c = &build->columns[index];
    struct owned *owned = own(parts(op));
    if (!owned) return column_fail(build, index, COLUMN_NO_MEMORY);
    *array = (struct ArrowArray){.length = (int64_t)c->rows, .release = release, .private_data = owned};
    array->null_count = c->validity ? NULLS_UNKNOWN : 0;
    array->buffers = owned->buffers;
    array->children = owned->children;
    give(array, &c->validity);
    if (column_has_offsets(op)) give(array, &c->offsets);
    if (!parts(op) && !column_has_members(op)) give(array, &c->values);
    return hand_over_parts(build, op, array);
}

bool column_hand_over(struct column_build *build, struct ArrowArray *array)
{
    *array = (struct ArrowArray){0};
    free(build->columns[0].validity); /* each row of a batch is there */
    build->columns[0].validity = NULL;
    if (hand_over(build, 0, array)) return true;
    if (array->release) array->release(array);
    return false;
}
