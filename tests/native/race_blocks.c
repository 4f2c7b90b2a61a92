/* Races of blocks: no granule is owned twice, and what is given up is free again. */
#include <stdio.h>

#include "races.h"

static char text[64];

static uint32_t claim_as(uint32_t who, uint64_t size)
{
    struct rtmw_region *r = &world.region[who];
    lock_take(&r->lock);
    uint32_t index = descriptor_claim(r, size, 0);
    lock_give(&r->lock);
    return index;
}

static void claim(uint64_t size) { note(claim_as(me(), size)); }

static void claim_and_drop(uint64_t size)
{
    uint32_t index = claim_as(me(), size);
    if (index != NIL) descriptor_free(&world.region[me()], index);
}

static void claim_granule(void) { claim(GRANULE); }
static void claim_granules(void) { claim(3 * GRANULE); }
static void claim_most_of_a_page(void) { claim(9 * GRANULE); }
static void claim_page(void) { claim(PAGE); }
static void claim_two_pages(void) { claim(2 * PAGE); }

static void claim_and_drop_page(void) { claim_and_drop(PAGE); }
static void claim_and_drop_granule(void) { claim_and_drop(GRANULE); }

static void nothing(void) {}
static void split_page(void) { claim_and_drop(GRANULE); }              /* and wholly free again */
static void nearly_full_page(void) { claim_as(2, 12 * GRANULE); }     /* by one who does nothing further */

static bool apart(uint32_t a, uint32_t b)
{
    struct descriptor *x = &world.shared.descriptors[a], *y = &world.shared.descriptors[b];
    return !x->block_granules || !y->block_granules || x->block_granule + x->block_granules <= y->block_granule ||
           y->block_granule + y->block_granules <= x->block_granule;
}

/* Letters of the actors that got their block. */
static const char *who_got(void)
{
    uint32_t length = 0;
    for (uint32_t a = 0; a < ACTORS; a++)
        for (uint32_t b = a + 1; b < ACTORS; b++)
            if (world.noted[a] && world.noted[b] && world.note[a][0] != NIL && world.note[b][0] != NIL &&
                !apart((uint32_t)world.note[a][0], (uint32_t)world.note[b][0]))
                broken("a granule is owned twice");
    text[0] = 0;
    for (uint32_t a = 0; a < ACTORS; a++)
        if (world.noted[a] && world.note[a][0] != NIL) length += (uint32_t)snprintf(text + length, sizeof text - length, "%c", 'A' + (char)a);
    if (!books_are_right()) return "";
    return all_comes_back() ? text : "";
}

static const struct outcome both[] = {
    {"AB", ACCEPTABLE, "there is room for both"},
    {"A", FORBIDDEN, "there was room for B"},
    {"B", FORBIDDEN, "there was room for A"},
    {"", FORBIDDEN, "there was room"},
    {0},
};

static const struct outcome one_of_two[] = {
    {"A", ACCEPTABLE, "A was first"},
    {"B", ACCEPTABLE, "B was first"},
    {"AB", FORBIDDEN, "there is room for one"},
    {"", ACCEPTABLE, "each saw the other, and both stepped back"},
    {0},
};

static const struct outcome a_or_nobody[] = {
    {"A", ACCEPTABLE, "it has its block"},
    {"", ACCEPTABLE, "B was in the way while it had its own"},
    {0},
};

static const struct outcome b_or_nobody[] = {
    {"B", ACCEPTABLE, "it has its block"},
    {"", ACCEPTABLE, "A was in the way while it had its own"},
    {0},
};

const struct race block_races[] = {
    {"allocate granules ‖ allocate granules", {4, 1}, 2, 3, nothing, {claim_granules, claim_granules}, who_got, both},
    {"allocate granules ‖ the last granules", {4, 1}, 2, 3, nearly_full_page, {claim_granules, claim_granules}, who_got, one_of_two},
    {"allocate page ‖ allocate page", {4, 1}, 2, 3, nothing, {claim_page, claim_page}, who_got, one_of_two},
    {"allocate two pages ‖ allocate two pages", {4, 3}, 2, 3, nothing, {claim_two_pages, claim_two_pages}, who_got, one_of_two},
    {"split ‖ coalesce", {4, 1}, 2, 3, split_page, {claim_granule, claim_page}, who_got, one_of_two},
    {"split ‖ coalesce, drop", {4, 1}, 2, 3, split_page, {claim_granule, claim_and_drop_page}, who_got, a_or_nobody},
    {"split, drop ‖ coalesce", {4, 1}, 2, 3, split_page, {claim_and_drop_granule, claim_page}, who_got, b_or_nobody},
    {"split ‖ split ‖ coalesce", {4, 2}, 3, 2, split_page, {claim_most_of_a_page, claim_granule, claim_page}, who_got,
     (const struct outcome[]){{"ABC", ACCEPTABLE, "two pages hold them all"},
                              {"AB", ACCEPTABLE, "both pages are split"},
                              {"AC", ACCEPTABLE, "B was in the way"},
                              {"BC", ACCEPTABLE, "A was in the way"},
                              {"A", ACCEPTABLE, "the others stepped back"},
                              {"B", ACCEPTABLE, "the others stepped back"},
                              {"C", ACCEPTABLE, "the others stepped back"},
                              {0}}},
    {0},
};
