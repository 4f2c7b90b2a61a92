/* Rows of what DDS shows of others: plain bytes and numbers, which discovery.py reads. Nothing is decoded here, for
 * anybody may announce anything: text that is none must not cost the news of others that comes with it. */
#include "_engine.h"

enum {
    SHOWN_MOST = 256,      /* samples in one call */
    TEXT_MOST = 4096,      /* bytes of a name; what is longer is not told */
    BYTES_MOST = 64 << 10, /* of user data, the same */
    PARTITIONS_MOST = 128, /* partitions of an endpoint; of more, none is told */
    REPRESENTATIONS_MOST = 16,
    MATCHED_FIRST = 16,
};

static PyObject *none(void) { return Py_NewRef(Py_None); }

static PyObject *bytes_of(const void *bytes, size_t count, size_t most)
{
    return bytes && count <= most ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count) : none();
}

static PyObject *text_of(const char *text) { return bytes_of(text, text ? strlen(text) : 0, TEXT_MOST); }

static PyObject *user_data(const dds_qos_t *qos)
{
    void *bytes = NULL;
    size_t count = 0;
    PyObject *row =
        qos && dds_qget_userdata(qos, &bytes, &count) && count ? bytes_of(bytes, count, BYTES_MOST) : none();
    dds_free(bytes);
    return row;
}

static PyObject *property(const dds_qos_t *qos, const char *name)
{
    char *value = NULL;
    PyObject *row = qos && dds_qget_prop(qos, name, &value) ? text_of(value) : none();
    dds_free(value);
    return row;
}

/* A tuple of names; NULL: an exception is set. */
static PyObject *partitions(const dds_qos_t *qos)
{
    uint32_t count = 0;
    char **names = NULL;
    bool told = qos && dds_qget_partition(qos, &count, &names);
    PyObject *row = count > PARTITIONS_MOST ? none() : PyTuple_New(told ? count : 0);
    for (uint32_t n = 0; told && n < count; n++) {
        PyObject *name = row && row != Py_None ? text_of(names[n]) : NULL;
        if (name)
            PyTuple_SET_ITEM(row, n, name);
        else if (row != Py_None)
            Py_CLEAR(row);
        dds_free(names[n]);
    }
    dds_free(names);
    return row;
}

static PyObject *type_id(dds_endpoint_t *endpoint)
{
    const struct ddsi_typeinfo *info = NULL;
    uint8_t *bytes = NULL;
    uint32_t count = 0;
    if (dds_builtintopic_get_endpoint_type_info(endpoint, &info) != DDS_OK || !info) return none();
    ddsi_typeid_ser(ddsi_typeinfo_complete_typeid(info), &bytes, &count);
    PyObject *row = bytes_of(bytes, count, TEXT_MOST);
    dds_free(bytes);
    return row;
}

static PyObject *representations(const dds_qos_t *qos)
{
    uint32_t count = 0;
    int16_t *kinds = NULL;
    bool told = qos && dds_qget_data_representation(qos, &count, &kinds) && count <= REPRESENTATIONS_MOST;
    PyObject *row = PyTuple_New(told ? count : 0);
    for (uint32_t n = 0; row && told && n < count; n++) {
        PyObject *kind = PyLong_FromLong(kinds[n]);
        if (kind)
            PyTuple_SET_ITEM(row, n, kind);
        else
            Py_CLEAR(row);
    }
    dds_free(kinds);
    return row;
}

/* By which endpoints meet or not: Policies of policies.py, in the order of its fields. */
static PyObject *policies(const dds_qos_t *qos)
{
    int reliability = 0, durability = 0, ownership = 0, liveliness = 0, order = 0, scope = 0;
    int64_t ignored_ns, deadline_ns = INT64_MAX, latency_ns = 0, lease_ns = INT64_MAX;
    bool is_coherent = false, is_ordered = false;
    if (qos) {
        dds_qget_reliability(qos, &reliability, &ignored_ns);
        dds_qget_durability(qos, &durability);
        dds_qget_deadline(qos, &deadline_ns);
        dds_qget_latency_budget(qos, &latency_ns);
        dds_qget_ownership(qos, &ownership);
        dds_qget_liveliness(qos, &liveliness, &lease_ns);
        dds_qget_destination_order(qos, &order);
        dds_qget_presentation(qos, &scope, &is_coherent, &is_ordered);
    }
    return Py_BuildValue("(NiiLLiiLiiNN)", partitions(qos), reliability, durability, (long long)deadline_ns,
                         (long long)latency_ns, ownership, liveliness, (long long)lease_ns, order, scope,
                         PyBool_FromLong(is_coherent), PyBool_FromLong(is_ordered));
}

/* See Endpoint of discovery.py. NULL: an exception is set. */
static PyObject *endpoint_row(dds_endpoint_t *e)
{
    int history = 0;
    int64_t ignored_ns, interval_ns = 0, lifespan_ns = 0;
    int32_t priority = 0, depth = 0, ignored;
    if (e->qos) {
        dds_qget_time_based_filter(e->qos, &interval_ns);
        dds_qget_lifespan(e->qos, &lifespan_ns);
        dds_qget_transport_priority(e->qos, &priority);
        if (!dds_qget_durability_service(e->qos, &ignored_ns, &history, &depth, &ignored, &ignored, &ignored) ||
            history != DDS_KEEP_LAST)
            depth = 1;
    }
    return Py_BuildValue("(y#y#NNNNNNiiLL)", e->key.v, (Py_ssize_t)16, e->participant_key.v, (Py_ssize_t)16,
                         text_of(e->topic_name), text_of(e->type_name), user_data(e->qos), type_id(e), policies(e->qos),
                         representations(e->qos), (int)depth, (int)priority, (long long)interval_ns,
                         (long long)lifespan_ns);
}

/* See Program of discovery.py. */
static PyObject *participant_row(dds_participant_t *p)
{
    return Py_BuildValue("(y#NNNNN)", p->key.v, (Py_ssize_t)16, user_data(p->qos), property(p->qos, "__Hostname"),
                         property(p->qos, "__Pid"), property(p->qos, "__ProcessName"),
                         property(p->qos, "__NetworkAddresses"));
}

static PyObject *gone_row(const dds_guid_t *key) { return PyBytes_FromStringAndSize((const char *)key->v, 16); }

/* Both kinds of sample begin with their key, which is all that is valid of one that has gone. */
static PyObject *rows(void **samples, const dds_sample_info_t *infos, int count, bool are_participants)
{
    PyObject *list = PyList_New(count);
    for (int n = 0; list && n < count; n++) {
        bool is_here = infos[n].valid_data && infos[n].instance_state == DDS_ALIVE;
        PyObject *row = !is_here           ? gone_row(samples[n])
                        : are_participants ? participant_row(samples[n])
                                           : endpoint_row(samples[n]);
        if (row)
            PyList_SET_ITEM(list, n, row);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *error_of(PyObject *module) { return ((State *)PyModule_GetState(module))->error; }

static PyObject *shown(PyObject *module, PyObject *args)
{
    int reader, are_participants;
    void *samples[SHOWN_MOST] = {NULL};
    dds_sample_info_t infos[SHOWN_MOST];
    dds_return_t count;
    if (!PyArg_ParseTuple(args, "ip", &reader, &are_participants)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    count = dds_take(reader, samples, infos, SHOWN_MOST, SHOWN_MOST);
    Py_END_ALLOW_THREADS
    if (count < 0) return PyErr_Format(error_of(module), "entity %d shows nothing: DDS answers %d", reader, count);
    PyObject *list = rows(samples, infos, count, are_participants);
    if (count > 0) dds_return_loan(reader, samples, count);
    return list;
}

/* Some may come between two calls: asked again with more room until all fit. NULL: no memory, or `count` < 0. */
static dds_instance_handle_t *all_matched(int entity, bool writes, dds_return_t *count)
{
    dds_instance_handle_t *handles = NULL;
    for (size_t space = MATCHED_FIRST;; space = (size_t)*count * 2) {
        dds_instance_handle_t *more = realloc(handles, space * sizeof *handles);
        if (!more) break;
        handles = more;
        *count = writes ? dds_get_matched_subscriptions(entity, handles, space)
                        : dds_get_matched_publications(entity, handles, space);
        if (*count < 0) break;
        if ((size_t)*count <= space) return handles;
    }
    free(handles);
    return NULL;
}

static PyObject *matched(PyObject *module, PyObject *args)
{
    int entity, writes;
    dds_return_t count = 0;
    dds_instance_handle_t *handles;
    if (!PyArg_ParseTuple(args, "ip", &entity, &writes)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    handles = all_matched(entity, writes, &count);
    Py_END_ALLOW_THREADS
    if (!handles && count >= 0) return PyErr_NoMemory();
    if (!handles) return PyErr_Format(error_of(module), "entity %d has no matches: DDS answers %d", entity, count);
    PyObject *all = PyTuple_New(count);
    for (dds_return_t n = 0; all && n < count; n++) {
        PyObject *handle = PyLong_FromUnsignedLongLong(handles[n]);
        if (handle)
            PyTuple_SET_ITEM(all, n, handle);
        else
            Py_CLEAR(all);
    }
    free(handles);
    return all;
}

static PyObject *matched_endpoint(PyObject *module, PyObject *args)
{
    int entity, writes;
    unsigned long long handle;
    dds_endpoint_t *endpoint;
    (void)module;
    if (!PyArg_ParseTuple(args, "ipK", &entity, &writes, &handle)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    endpoint =
        writes ? dds_get_matched_subscription_data(entity, handle) : dds_get_matched_publication_data(entity, handle);
    Py_END_ALLOW_THREADS
    if (!endpoint) return none();
    PyObject *row = endpoint_row(endpoint);
    dds_builtintopic_free_endpoint(endpoint);
    return row;
}

PyMethodDef shown_methods[] = {{"shown", shown, METH_VARARGS, NULL},
                               {"matched", matched, METH_VARARGS, NULL},
                               {"matched_endpoint", matched_endpoint, METH_VARARGS, NULL},
                               {NULL, NULL, 0, NULL}};

/* ---- DataEvent ---- */

/* DataEvent: a descriptor that becomes readable when a DDS reader has something (events.c). */

typedef struct {
    PyObject_HEAD
    struct data_event *core; /* until closed */
} DataEvent;

static PyObject *DataEvent_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"reader", NULL};
    int reader;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i", names, &reader)) return NULL;
    DataEvent *self = (DataEvent *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Py_BEGIN_ALLOW_THREADS
    self->core = data_event_open(reader);
    Py_END_ALLOW_THREADS
    if (self->core) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Format(state_of(type)->error, "entity %d is no DDS reader", reader);
}

static PyObject *DataEvent_fileno(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    (void)unused;
    return PyLong_FromLong(core ? core->descriptor : -1);
}

static PyObject *DataEvent_take(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    uint64_t ages_ns[DATA_EVENT_KEEPS];
    uint32_t count = core ? data_event_take(core, ages_ns) : 0;
    PyObject *list = PyList_New(count);
    (void)unused;
    for (uint32_t n = 0; list && n < count; n++) {
        PyObject *age = PyLong_FromUnsignedLongLong(ages_ns[n]);
        if (!age) Py_CLEAR(list);
        if (age) PyList_SET_ITEM(list, n, age);
    }
    return list;
}

static PyObject *DataEvent_close(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    (void)unused;
    ((DataEvent *)object)->core = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (core) data_event_close(core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void DataEvent_dealloc(PyObject *object) { dealloc_closed(object, DataEvent_close); }

static PyMethodDef data_event_methods[] = {{"fileno", DataEvent_fileno, METH_NOARGS, NULL},
                                           {"take", DataEvent_take, METH_NOARGS, NULL},
                                           {"close", DataEvent_close, METH_NOARGS, NULL},
                                           {NULL, NULL, 0, NULL}};

static PyType_Slot data_event_slots[] = {{Py_tp_new, DataEvent_new},
                                         {Py_tp_dealloc, DataEvent_dealloc},
                                         {Py_tp_methods, data_event_methods},
                                         {0, NULL}};
PyType_Spec DataEvent_spec = {"rtmw.net.dds._engine.DataEvent", sizeof(DataEvent), 0, Py_TPFLAGS_DEFAULT,
                              data_event_slots};
