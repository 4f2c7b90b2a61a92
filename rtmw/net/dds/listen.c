#include "listen.h"

int listen_to(dds_entity_t reader, void (*callback)(dds_entity_t, void *), void *argument)
{
    dds_listener_t *listener = dds_create_listener(argument);
    dds_lset_data_available(listener, callback);
    int code = dds_set_listener(reader, listener);
    dds_delete_listener(listener);
    return code;
}
