/* The part of Cyclone DDS' C library that the node calls, in our own words: the wheel brings the library and no headers.
 *
 * The library is loaded, and its names made global, before this extension (library.py). All declared here is public
 * and stable in Cyclone DDS 11, but for three things:
 *   1. `struct ddsi_serdata` and its table of functions. The engine sets the time stamp of samples, makes samples of its
 *      own (zero_copy.c), and puts functions of its own into the tables of types (library.c). With
 *      a library that lays them out otherwise (abi_check.c) it does none of that, and writes by public calls (library.c).
 *   2. Datagrams, `struct ddsi_rdata`. Their layout cannot be checked, so messages are received into loans only with the
 *      releases whose layout it is (library.py).
 *   3. `struct ddsi_sertype_ops`, of which cyclonedds has a table (abi_check.c). Where it is another one, topics share
 *      types, by which routes can no longer be told apart: so the same holds as for 1.
 */
#ifndef RTMW_NET_DDS_H
#define RTMW_NET_DDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

typedef int32_t dds_entity_t;
typedef int32_t dds_return_t;
typedef int64_t dds_time_t; /* nanoseconds of CLOCK_REALTIME */
typedef uint64_t dds_instance_handle_t;
typedef struct dds_qos dds_qos_t;
typedef struct dds_listener dds_listener_t;
typedef struct {
    uint8_t v[16];
} dds_guid_t;

enum { DDS_OK = 0, DDS_TIMEOUT = -10, DDS_ANY_STATE = 0x7F, DDS_KEY = 1, DDS_DATA = 2 };
enum {
    DDS_RELIABLE = 1,
    DDS_TRANSIENT_LOCAL = 1,
    DDS_KEEP_LAST = 0,
    DDS_ALIVE = 16,
    DDS_DISPOSED = 32,
    DDS_NO_WRITERS = 64
};

typedef struct {
    int sample_state, view_state, instance_state;
    bool valid_data;
    dds_time_t source_timestamp;
    dds_instance_handle_t instance_handle, publication_handle;
    uint32_t disposed_generations, no_writers_generations, sample_rank, generation_rank, absolute_generation_rank;
} dds_sample_info_t;

typedef struct {
    dds_guid_t key, participant_key;
    dds_instance_handle_t participant_handle;
    char *topic_name, *type_name;
    dds_qos_t *qos;
} dds_endpoint_t;
typedef struct {
    dds_guid_t key;
    dds_qos_t *qos;
} dds_participant_t;
struct ddsi_typeinfo;
struct ddsi_typeid;

struct ddsi_serdata_ops;
struct ddsi_sertype;
struct ddsi_sertype_ops { /* its head */
#ifdef RTMW_MISFIT        /* as if a later release had put something before it; only tests build this */
    uint64_t misfit;
#endif
    void (*version)(void *);
    void *argument;
    void (*others[4])(void);
    bool (*equal)(const struct ddsi_sertype *, const struct ddsi_sertype *);
    uint32_t (*hash)(const struct ddsi_sertype *);
};
struct ddsi_sertype { /* its head */
    const void *operations;
#ifdef RTMW_MISFIT
    uint64_t misfit;
#endif
    const struct ddsi_serdata_ops *samples;
};
struct ddsi_serdata {
#ifdef RTMW_MISFIT
    uint64_t misfit;
#endif
    const struct ddsi_serdata_ops *operations;
    uint32_t hash, references;
    int kind;
    const struct ddsi_sertype *type;
    dds_time_t timestamp; /* of the source */
    uint32_t status;
    dds_time_t written;
    void *loan;
};

/* A datagram, and the part of a sample that is in it: bytes from `begin` to `end`, `payload` behind the head. */
struct ddsi_rmsg {
    uint32_t references;
    void *last_chunk;
    bool is_traced;
    void *buffer, *next_chunk;
    uint64_t size;
};
struct ddsi_rdata {
    struct ddsi_rmsg *message;
    struct ddsi_rdata *next;
    uint32_t begin, end;
    uint16_t submessage, payload, keyhash;
};

/* Functions of a sample. Those that are left out are of use to samples of other kinds. */
struct ddsi_serdata_ops {
    bool (*eqkey)(const struct ddsi_serdata *, const struct ddsi_serdata *);
    uint32_t (*get_size)(const struct ddsi_serdata *);
    struct ddsi_serdata *(*from_ser)(const struct ddsi_sertype *, int kind, const struct ddsi_rdata *, size_t bytes);
    void (*from_ser_iov)(void);
    struct ddsi_serdata *(*from_keyhash)(const struct ddsi_sertype *, const void *hash);
    void (*from_sample)(void);
    void (*to_ser)(const struct ddsi_serdata *, size_t offset, size_t bytes, void *to);
    struct ddsi_serdata *(*to_ser_ref)(const struct ddsi_serdata *, size_t offset, size_t bytes, struct iovec *);
    void (*to_ser_unref)(struct ddsi_serdata *, const struct iovec *);
    void (*to_sample)(void);
    struct ddsi_serdata *(*to_untyped)(const struct ddsi_serdata *);
    void (*untyped_to_sample)(void);
    void (*free)(struct ddsi_serdata *);
    size_t (*print)(const struct ddsi_sertype *, const struct ddsi_serdata *, char *text, size_t bytes);
    void (*get_keyhash)(const struct ddsi_serdata *, void *hash, bool force_md5);
    void (*of_loans[2])(void);
};

void ddsi_sertype_v0(void *); /* the version of ddsi_sertype_ops */
dds_return_t dds_get_entity_sertype(dds_entity_t, const struct ddsi_sertype **);
dds_return_t dds_forwardcdr(dds_entity_t writer, struct ddsi_serdata *); /* DDS_OK: the serdata is the library's now */
dds_return_t dds_writecdr(dds_entity_t writer, struct ddsi_serdata *);   /* the same, with the time of the call */
dds_return_t dds_write_ts(dds_entity_t writer, const void *value, dds_time_t source_time);
dds_return_t dds_write_flush(dds_entity_t writer);
dds_return_t dds_wait_for_acks(dds_entity_t writer, int64_t timeout_ns);
dds_return_t dds_takecdr(dds_entity_t reader, struct ddsi_serdata **, uint32_t most, dds_sample_info_t *,
                         uint32_t mask);

struct ddsi_serdata *ddsi_serdata_from_ser_iov(const struct ddsi_sertype *, int kind, size_t parts,
                                               const struct iovec *, size_t bytes);
struct ddsi_serdata *ddsi_serdata_from_sample(const struct ddsi_sertype *, int kind, const void *value);
struct ddsi_serdata *ddsi_serdata_from_ser(const struct ddsi_sertype *, int kind, const struct ddsi_rdata *,
                                           size_t bytes);
struct ddsi_serdata *ddsi_serdata_from_keyhash(const struct ddsi_sertype *, const void *hash);
struct ddsi_serdata *ddsi_serdata_to_ser_ref(const struct ddsi_serdata *, size_t offset, size_t bytes, struct iovec *);
void ddsi_serdata_to_ser_unref(struct ddsi_serdata *, const struct iovec *);
struct ddsi_serdata *ddsi_serdata_ref(const struct ddsi_serdata *);
void ddsi_serdata_unref(struct ddsi_serdata *);
void ddsi_serdata_init(struct ddsi_serdata *, const struct ddsi_sertype *, int kind);
bool ddsi_serdata_eqkey(const struct ddsi_serdata *, const struct ddsi_serdata *);
void ddsi_serdata_to_ser(const struct ddsi_serdata *, size_t offset, size_t bytes, void *to);
size_t ddsi_serdata_print(const struct ddsi_serdata *, char *text, size_t bytes);
void ddsi_serdata_get_keyhash(const struct ddsi_serdata *, void *hash, bool force_md5);
uint32_t ddsi_serdata_size(const struct ddsi_serdata *);

dds_return_t dds_take(dds_entity_t reader, void **samples, dds_sample_info_t *, size_t space, uint32_t most);
dds_return_t dds_return_loan(dds_entity_t reader, void **samples, int32_t count);
dds_return_t dds_get_matched_subscriptions(dds_entity_t writer, dds_instance_handle_t *, size_t space); /* all in all */
dds_return_t dds_get_matched_publications(dds_entity_t reader, dds_instance_handle_t *, size_t space);
dds_endpoint_t *dds_get_matched_subscription_data(dds_entity_t writer, dds_instance_handle_t subscription);
dds_endpoint_t *dds_get_matched_publication_data(dds_entity_t reader, dds_instance_handle_t publication);
dds_return_t dds_get_matched_subscriptions(dds_entity_t writer, dds_instance_handle_t *,
                                           size_t most); /* how many there are */
dds_endpoint_t *dds_get_matched_subscription_data(dds_entity_t writer, dds_instance_handle_t subscription);
void dds_builtintopic_free_endpoint(dds_endpoint_t *);
dds_return_t dds_builtintopic_get_endpoint_type_info(dds_endpoint_t *, const struct ddsi_typeinfo **);
const struct ddsi_typeid *ddsi_typeinfo_complete_typeid(const struct ddsi_typeinfo *);
void ddsi_typeid_ser(const struct ddsi_typeid *, uint8_t **bytes, uint32_t *count);
bool dds_qget_prop(const dds_qos_t *, const char *name, char **value);
bool dds_qget_deadline(const dds_qos_t *, int64_t *ns);
bool dds_qget_time_based_filter(const dds_qos_t *, int64_t *ns);
bool dds_qget_durability_service(const dds_qos_t *, int64_t *cleanup_ns, int *history, int32_t *depth, int32_t *samples,
                                 int32_t *instances, int32_t *samples_per_instance);
bool dds_qget_userdata(const dds_qos_t *, void **bytes, size_t *count);
bool dds_qget_entity_name(const dds_qos_t *, char **name);
bool dds_qget_partition(const dds_qos_t *, uint32_t *count, char ***names); /* names: each, and all, dds_free */
bool dds_qget_transport_priority(const dds_qos_t *, int32_t *);
bool dds_qget_reliability(const dds_qos_t *, int *kind, int64_t *max_blocking_ns);
bool dds_qget_durability(const dds_qos_t *, int *kind);
bool dds_qget_ownership(const dds_qos_t *, int *kind);
bool dds_qget_liveliness(const dds_qos_t *, int *kind, int64_t *lease_ns);
bool dds_qget_latency_budget(const dds_qos_t *, int64_t *ns);
bool dds_qget_destination_order(const dds_qos_t *, int *kind);
bool dds_qget_presentation(const dds_qos_t *, int *scope, bool *is_coherent, bool *is_ordered);
bool dds_qget_data_representation(const dds_qos_t *, uint32_t *count, int16_t **kinds); /* kinds: dds_free */
bool dds_qget_lifespan(const dds_qos_t *, int64_t *ns);
void dds_free(void *);

dds_listener_t *dds_create_listener(void *argument);
void dds_delete_listener(dds_listener_t *);
/* dds_publication_matched_status_t and dds_subscription_matched_status_t */
typedef struct {
    uint32_t total_count;
    int32_t total_count_change;
    uint32_t current_count;
    int32_t current_count_change;
    dds_instance_handle_t last;
} dds_matched_status_t;
void dds_lset_publication_matched(dds_listener_t *, void (*)(dds_entity_t writer, dds_matched_status_t, void *));
void dds_lset_subscription_matched(dds_listener_t *, void (*)(dds_entity_t reader, dds_matched_status_t, void *));
dds_entity_t dds_get_topic(dds_entity_t endpoint);
dds_return_t dds_get_name(dds_entity_t topic, char *name, size_t space); /* the length of the name */
void dds_lset_data_available(dds_listener_t *, void (*)(dds_entity_t reader, void *argument));
dds_return_t dds_set_listener(dds_entity_t, const dds_listener_t *);

#endif
