/* Hands CDR to DDS, with the time at which its message was published.
 *
 * A sample that the library made of CDR has that time in a field, which no public call sets. Where the library lays
 * samples out otherwise (abi_check.c), the time goes with a public call, dds_write_ts. That takes a value of the writer's
 * type. Of the types of cyclonedds that is a place and a size of CDR, and is copied once more.
 */
#include <string.h>

#include "engine.h"

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
