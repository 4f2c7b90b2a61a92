/* Does the DDS library lay out what we touch as dds.h declares it? It brings no headers, so it is asked by an experiment.
 *
 * Only reads go through our struct, so that one which does not fit is found, and nothing is overwritten.
 */
#include "engine.h"

bool library_fits(dds_entity_t writer, const void *sample, size_t size)
{
    const struct ddsi_sertype *type;
    struct iovec part = {(void *)(uintptr_t)sample, size};
    if (dds_get_entity_sertype(writer, &type) != DDS_OK) return false;
    struct ddsi_serdata *data = ddsi_serdata_from_ser_iov(type, DDS_DATA, 1, &part, size);
    if (!data) return false;
    bool fits = data->type == type && data->kind == DDS_DATA && data->references == 1;
    ddsi_serdata_ref(data); /* what is written is the library's */
    fits = fits && data->references == 2;
    dds_time_t before = (dds_time_t)now_realtime_ns();
    dds_return_t code = dds_writecdr(writer, data); /* gives it the time */
    dds_time_t after = (dds_time_t)now_realtime_ns();
    fits = fits && code == DDS_OK && data->timestamp >= before && data->timestamp <= after;
    ddsi_serdata_unref(data);
    return fits;
}
