/* ABI check: does the DDS library lay out what rtmw touches as dds.h declares it? The library brings no headers, so an
 * experiment answers.
 *
 * A sample that the library made is only read through dds.h's struct, so a layout that differs is found, and nothing is
 * overwritten. Samples of rtmw (zero_copy.c) bring a table of functions: the check makes one with a table whose
 * functions say only that they were called, and looks whether the library calls the expected one. Types of the library
 * get another table (library.c). library.c finds out what a library of another layout can still do.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

static int called; /* the place in the table of what was called last */

/* Its return value has to arrive where a sample is returned. */
#define FUNCTION(n)                     \
    static uintptr_t function_##n(void) \
    {                                   \
        called = n;                     \
        return (uintptr_t)&called;      \
    }
#define ENTRY(n) (void (*)(void)) function_##n,
#define EACH(do) \
    do (0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15) do(16)

EACH(FUNCTION)
static void (*const functions[])(void) = {EACH(ENTRY)};

_Static_assert(sizeof functions == sizeof(struct ddsi_serdata_ops), "one for each");

static bool was_called(size_t offset)
{
    bool right = called == (int)(offset / sizeof functions[0]);
    called = -1;
    return right;
}

#define WAS_CALLED(member) was_called(offsetof(struct ddsi_serdata_ops, member))

static bool table_fits(const struct ddsi_sertype *type)
{
    struct ddsi_serdata data;
    struct iovec part;
    char text[16];
    const void *answer = &called;
    ddsi_serdata_init(&data, type, DDS_DATA);
    bool fits = data.references == 1 && data.operations;
    data.operations = (const struct ddsi_serdata_ops *)(const void *)functions;
    struct ddsi_sertype asked = {.samples = data.operations};
    called = -1;
    fits = fits && ddsi_serdata_from_ser(&asked, DDS_DATA, (const void *)text, 0) == answer && WAS_CALLED(from_ser);
    fits = fits && ddsi_serdata_from_keyhash(&asked, text) == answer && WAS_CALLED(from_keyhash);
    fits = fits && (ddsi_serdata_eqkey(&data, &data), WAS_CALLED(eqkey));
    fits = fits && (ddsi_serdata_size(&data), WAS_CALLED(get_size));
    fits = fits && (ddsi_serdata_to_ser(&data, 0, 0, text), WAS_CALLED(to_ser));
    fits = fits && ddsi_serdata_to_ser_ref(&data, 0, 0, &part) == answer && WAS_CALLED(to_ser_ref);
    fits = fits && (ddsi_serdata_to_ser_unref(&data, &part), WAS_CALLED(to_ser_unref));
    fits = fits && (ddsi_serdata_print(&data, text, sizeof text), WAS_CALLED(print));
    fits = fits && (ddsi_serdata_get_keyhash(&data, text, false), WAS_CALLED(get_keyhash));
    return fits && (ddsi_serdata_unref(&data), WAS_CALLED(free));
}

bool abi_check(dds_entity_t writer, const void *sample, size_t size)
{
    const struct ddsi_sertype *type;
    struct iovec part = {(void *)(uintptr_t)sample, size};
    if (dds_get_entity_sertype(writer, &type) != DDS_OK) return false;
    struct ddsi_serdata *data = ddsi_serdata_from_ser_iov(type, DDS_DATA, 1, &part, size);
    if (!data) return false;
    bool fits = data->type == type && data->kind == DDS_DATA && data->references == 1;
    fits = fits && type->samples == data->operations;
    ddsi_serdata_ref(data); /* a written sample is the library's */
    fits = fits && data->references == 2;
    dds_time_t before = (dds_time_t)now_realtime_ns();
    dds_return_t code = dds_writecdr(writer, data); /* gives it the time */
    dds_time_t after = (dds_time_t)now_realtime_ns();
    fits = fits && code == DDS_OK && data->timestamp >= before && data->timestamp <= after;
    ddsi_serdata_unref(data);
    return fits && table_fits(type);
}

/* ---- the hash of types ---- */

/* Many topics of one type.
 *
 * The DDS library keeps its types in a table that has room for 32 of the same hash, and is made twice as large, again and
 * again, for one more. cyclonedds makes a type of its own for each Topic, by which routes are told apart (library.c), and
 * its hash is that of the type's name alone: the 33rd topic of bytes would take all memory of the machine. So before
 * there is any Topic, its table of functions gets a hash that tells them apart. And each type is equal to itself alone:
 * what is removed from that table is found there by a look at equal types next to each other, and it must be the right
 * one, though topics of one type have one class (idl_class.py).
 *
 * That table is read-only once cyclonedds is loaded. Its page stays writable, for what else is there may have been so.
 */

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
