/* What the engine has of the DDS library by other ways than its public calls: callbacks, its log, samples that it refuses, and
 * samples with a time of their own. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "../route/locks.h"
#include "engine.h"

/* ---- callbacks ---- */

int listen_to(dds_entity_t reader, void (*callback)(dds_entity_t, void *), void *argument)
{
    dds_listener_t *listener = dds_create_listener(argument);
    dds_lset_data_available(listener, callback);
    int code = dds_set_listener(reader, listener);
    dds_delete_listener(listener);
    return code;
}

/* ---- its log ---- */

/* Lines of the DDS library, which would write each to standard error: strangers can make it write 30,000 a second.
 *
 * The wheel of cyclonedds hides the functions that give the library a sink for its log. It writes to the FILE that `stderr`
 * was when it began to log. glibc's `stderr` is a variable that a program may set, so for that moment it is a stream of
 * ours, whose writes keep LIBRARY_LOG_LINES lines and count the others. Nothing is written there and nobody waits: the
 * library calls it with locks of its own, on its threads. With another libc the library logs to standard error.
 */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct library_log kept; /* under `mutex` */

#ifdef __GLIBC__
static size_t length; /* under `mutex`: bytes of the line that is not complete */

static void add(char letter)
{
    bool has_room = kept.count < LIBRARY_LOG_LINES;
    if (letter != '\n') {
        if (has_room && length < LIBRARY_LOG_LONGEST - 1) kept.lines[kept.count][length++] = letter;
        return;
    }
    if (has_room)
        kept.lines[kept.count++][length] = 0;
    else
        kept.more++;
    length = 0;
}

static ssize_t write_lines(void *unused, const char *data, size_t size)
{
    (void)unused;
    lock(&mutex, LOCK_LEAF);
    for (size_t at = 0; at < size; at++) add(data[at]);
    unlock(&mutex, LOCK_LEAF);
    return (ssize_t)size;
}

bool library_log_capture(bool is_on)
{
    static FILE *own, *before;
    if (!own) own = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_lines});
    if (!own) return false;
    if (is_on) before = stderr;
    stderr = is_on ? own : before;
    return true;
}
#else
bool library_log_capture(bool is_on) { return (void)is_on, false; }
#endif

void library_log_take(struct library_log *taken)
{
    lock(&mutex, LOCK_LEAF);
    *taken = kept;
    kept.count = 0;
    kept.more = 0;
    unlock(&mutex, LOCK_LEAF);
}

/* ---- samples that it refuses ---- */

/* Samples that are not of their type never come as far as a route: the DDS library refuses them where it makes samples
 * of what it received, and says so in its log alone. So it is watched there: the types of inbound routes get a table of
 * functions (dds.h) that is the library's own but for two functions, which count what those return nothing for. Large
 * messages of nodes the first does not get: they are received into loans (zero_copy.c). The second is for what
 * has a hash of its key and no data: an instance that a writer disposes or unregisters without saying its key, as Fast
 * DDS does. cyclonedds' types make no sample of that.
 *
 * cyclonedds makes a type of its own for each Topic, so a type tells the route.
 */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct inbound *watched;
static const struct ddsi_serdata_ops *usual; /* set before the first type is watched */
static struct ddsi_serdata_ops counting;

static void count(const struct ddsi_sertype *type, size_t counter)
{
    lock(&list_lock, LOCK_LEAF);
    for (struct inbound *i = watched; i; i = i->next_watched)
        if (i->type == type) fetch_add((uint64_t *)(void *)((char *)i + counter), UINT64_C(1));
    unlock(&list_lock, LOCK_LEAF);
}

static struct ddsi_serdata *from_ser(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *data,
                                     size_t bytes)
{
    struct ddsi_serdata *sample = receive_in_loan(type, kind, data, bytes);
    if (!sample) sample = usual->from_ser(type, kind, data, bytes);
    if (!sample) count(type, offsetof(struct inbound, unreadable));
    return sample;
}

static struct ddsi_serdata *from_keyhash(const struct ddsi_sertype *type, const void *hash)
{
    struct ddsi_serdata *sample = usual->from_keyhash(type, hash);
    if (!sample) count(type, offsetof(struct inbound, hashed));
    return sample;
}

/* A table that is neither the usual one nor ours belongs to types that no route has. */
static bool is_countable(const struct ddsi_sertype *type)
{
    if (!usual) {
        usual = type->samples;
        counting = *usual;
        counting.from_ser = from_ser;
        counting.from_keyhash = from_keyhash;
    }
    return type->samples == usual || type->samples == &counting;
}

void watch(struct inbound *i)
{
    if (dds_get_entity_sertype(i->reader, &i->type) != DDS_OK) return;
    if (i->engine->public_calls_only) return; /* its types are not ours to change */
    lock(&list_lock, LOCK_LEAF);
    if (is_countable(i->type)) ((struct ddsi_sertype *)(uintptr_t)i->type)->samples = &counting;
    i->next_watched = watched;
    watched = i;
    unlock(&list_lock, LOCK_LEAF);
}

void unwatch(struct inbound *i)
{
    lock(&list_lock, LOCK_LEAF);
    for (struct inbound **link = &watched; *link; link = &(*link)->next_watched)
        if (*link == i) {
            *link = i->next_watched;
            break;
        }
    unlock(&list_lock, LOCK_LEAF);
}

/* ---- samples that are written ---- */

/* Hands CDR to DDS, with the time at which its message was published.
 *
 * A sample that the library made of CDR has that time in a field, which no public call sets. Where the library lays
 * samples out otherwise (abi_check.c), the time goes with a public call, dds_write_ts. That takes a value of the writer's
 * type. Of the types of cyclonedds that is a place and a size of CDR, and is copied once more.
 */

struct value { /* of each type that cyclonedds makes (ddspy_sample_container) */
    void *bytes;
#ifdef RTMW_MISFIT_VALUE /* as if they were something else; only tests build this */
    uint64_t misfit;
#endif
    size_t size;
};

/* The sample is the caller's. */
static dds_return_t write_by_public_calls(dds_entity_t writer, const struct ddsi_serdata *sample, uint64_t time_ns)
{
    struct iovec bytes;
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample, 0, ddsi_serdata_size(sample), &bytes);
    struct value value = {.bytes = bytes.iov_base, .size = bytes.iov_len};
    dds_return_t code = dds_write_ts(writer, &value, (dds_time_t)time_ns);
    ddsi_serdata_to_ser_unref(held, &bytes);
    return code;
}

dds_return_t write_cdr(const struct engine *e, dds_entity_t writer, const struct ddsi_sertype *type,
                       const struct cdr *cdr)
{
    struct ddsi_serdata *sample = ddsi_serdata_from_ser_iov(type, DDS_DATA, cdr->count, cdr->parts, cdr->size);
    if (!sample) return -1;
    if (!e->public_calls_only) {
        sample->timestamp = (dds_time_t)cdr->time_ns;
        return dds_forwardcdr(writer, sample);
    }
    dds_return_t code = write_by_public_calls(writer, sample, cdr->time_ns);
    ddsi_serdata_unref(sample);
    return code;
}

bool public_calls_carry(const struct ddsi_sertype *type, struct iovec cdr)
{
    struct value value[2] = {
        {.bytes = cdr.iov_base, .size = cdr.iov_len}}; /* zeros behind it, which a later release may read */
    struct iovec bytes;
    struct ddsi_serdata *sample = ddsi_serdata_from_sample(type, DDS_DATA, value);
    if (!sample) return false;
    bool carry = ddsi_serdata_size(sample) == cdr.iov_len;
    struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(sample, 0, ddsi_serdata_size(sample), &bytes);
    carry = carry && !memcmp(bytes.iov_base, cdr.iov_base, cdr.iov_len);
    ddsi_serdata_to_ser_unref(held, &bytes);
    ddsi_serdata_unref(sample);
    return carry;
}
