/* Many topics of one type.
 *
 * The DDS library keeps its types in a table that has room for 32 of the same hash, and is made twice as large, again and
 * again, for one more. cyclonedds makes a type of its own for each Topic, by which routes are told apart (watch.c), and
 * its hash is that of the type's name alone: the 33rd topic of bytes would take all memory of the machine. So before
 * there is any Topic, its table of functions gets a hash that tells them apart. And each type is equal to itself alone:
 * what is removed from that table is found there by a look at equal types next to each other, and it must be the right
 * one, though topics of one type have one class (idl_class.py).
 *
 * That table is read-only once cyclonedds is loaded. Its page stays writable, for what else is there may have been so.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

static uint32_t hash(const struct ddsi_sertype *type) { return (uint32_t)((uintptr_t)type >> 4) * 2654435761u; }

static bool equal(const struct ddsi_sertype *one, const struct ddsi_sertype *other) { return one == other; }

bool type_hash_install(struct ddsi_sertype_ops *table)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)&table->equal / page * page;
    size_t size = (uintptr_t)(&table->hash + 1) - start;
    if (table->version != ddsi_sertype_v0) return false;
    if (mprotect((void *)start, size, PROT_READ | PROT_WRITE)) return false;
    table->hash = hash;
    table->equal = equal;
    return true;
}
