/* Context: keys of this node. Connection: to a peer, until a line carries on with it. */
#include "_line.h"

#include <fcntl.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD
    struct tls_context core;
} Context;

typedef struct {
    PyObject_HEAD
    PyObject *context;    /* or NULL: without TLS */
    struct channel *core; /* until closed or given to a line */
    bool is_given;
    PyObject *peer, *cipher; /* once the handshake is done */
} Connection;

enum { READS = 4 };

static PyObject *tls_failed(PyTypeObject *type, const struct tls_fault *fault)
{
    PyObject *args = Py_BuildValue("(sls)", fault->reason, fault->verify_code, fault->verify_words);
    if (args) PyErr_SetObject(state_of(type)->tls_error, args);
    Py_XDECREF(args);
    return NULL;
}

static const struct openssl *library_of(State *state, const char *path)
{
    char words[512];
    const struct openssl *library = openssl_find(path, words, sizeof words);
    if (!library) PyErr_SetString(state->error, words);
    return library;
}

PyObject *openssl_version(PyObject *module, PyObject *args)
{
    const char *path = "";
    if (!PyArg_ParseTuple(args, "|s", &path)) return NULL;
    const struct openssl *library = library_of(PyModule_GetState(module), path);
    return library ? PyUnicode_FromString(library->OpenSSL_version(0)) : NULL;
}

/* ---- Context ---- */

static bool trust(Context *self, PyObject *authorities)
{
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(authorities); n++) {
        char *der;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GET_ITEM(authorities, n), &der, &size)) return false;
        if (tls_context_trust(&self->core, (const uint8_t *)der, (size_t)size)) continue;
        return PyErr_Format(PyExc_ValueError, "authority %zd is no certificate in DER", n) != NULL;
    }
    return true;
}

static PyObject *Context_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pem", "authorities", "is_server", "openssl", NULL};
    const char *pem, *openssl = "";
    Py_ssize_t size;
    PyObject *authorities;
    int is_server;
    struct tls_fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y#O!p|s", names, &pem, &size, &PyList_Type, &authorities,
                                     &is_server, &openssl))
        return NULL;
    const struct openssl *library = library_of(state_of(type), openssl);
    Context *self = library ? (Context *)type->tp_alloc(type, 0) : NULL;
    if (!self) return NULL;
    self->core.is_server = is_server;
    if (!tls_context_open(&self->core, library, (struct tls_pem){pem, (size_t)size}, &fault))
        return Py_DECREF(self), tls_failed(type, &fault);
    if (!trust(self, authorities)) return Py_DECREF(self), NULL;
    return (PyObject *)self;
}

static void Context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tls_context_close(&((Context *)self)->core);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot context_slots[] = {{Py_tp_new, Context_new}, {Py_tp_dealloc, Context_dealloc}, {0, NULL}};
PyType_Spec Context_spec = {"rtmw.net.link._line.Context", sizeof(Context), 0, Py_TPFLAGS_DEFAULT, context_slots};

/* ---- Connection ---- */

static PyObject *Connection_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"descriptor", "context", NULL};
    State *state = state_of(type);
    int descriptor;
    PyObject *context = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i|O", names, &descriptor, &context)) return NULL;
    if (context != Py_None && !PyObject_TypeCheck(context, state->context_type))
        return PyErr_Format(PyExc_TypeError, "context is a Context or None");
    Connection *self = (Connection *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    const struct tls_context *tls = context == Py_None ? NULL : &((Context *)context)->core;
    self->core = own >= 0 ? channel_open(own, tls) : NULL;
    if (!self->core) {
        PyErr_SetFromErrno(PyExc_OSError);
        if (own >= 0) close(own);
        return Py_DECREF(self), NULL;
    }
    if (tls) self->context = Py_NewRef(context);
    return (PyObject *)self;
}

struct channel *connection_channel(PyObject *object)
{
    const Connection *self = (Connection *)object;
    if (!self->core)
        PyErr_SetString(state_of(Py_TYPE(object))->error,
                        self->is_given ? "the connection belongs to a line" : "the connection is closed");
    return self->core;
}

void connection_give(PyObject *object)
{
    ((Connection *)object)->core = NULL;
    ((Connection *)object)->is_given = true;
}

/* After a call of the channel that left errno. */
static PyObject *channel_failed(PyObject *object, const struct channel *c, int failed)
{
    if (c->fault.reason[0]) return tls_failed(Py_TYPE(object), &c->fault);
    errno = failed ? failed : ECONNRESET;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *state_name(PyObject *object, const struct channel *c, enum channel_state state, int failed)
{
    static const char *const words[] = {"done", "read", "write"};
    if (state <= CHANNEL_WRITE) return PyUnicode_FromString(words[state]);
    return channel_failed(object, c, failed);
}

static bool keep_peer(Connection *self)
{
    const struct tls *tls = &self->core->tls;
    size_t size = tls_peer(tls, NULL);
    PyObject *peer = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!peer) return false;
    tls_peer(tls, (uint8_t *)PyBytes_AS_STRING(peer));
    Py_XSETREF(self->peer, peer);
    Py_XSETREF(self->cipher, PyUnicode_FromString(tls_cipher(tls)));
    return self->cipher != NULL;
}

static PyObject *Connection_handshake(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    enum channel_state state;
    int failed;
    (void)unused;
    if (!c) return NULL;
    Py_BEGIN_ALLOW_THREADS
    state = channel_handshake(c);
    failed = errno;
    Py_END_ALLOW_THREADS
    if (state == CHANNEL_DONE && c->has_tls && !keep_peer((Connection *)object)) return NULL;
    return state_name(object, c, state, failed);
}

static PyObject *flush(PyObject *object, struct channel *c)
{
    enum channel_state state;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    state = channel_write(c);
    failed = errno;
    Py_END_ALLOW_THREADS
    return state_name(object, c, state, failed);
}

static PyObject *Connection_flush(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    (void)unused;
    return c ? flush(object, c) : NULL;
}

static PyObject *Connection_say(PyObject *object, PyObject *given)
{
    struct channel *c = connection_channel(object);
    char *bytes;
    Py_ssize_t size;
    if (!c || PyBytes_AsStringAndSize(given, &bytes, &size)) return NULL;
    if (size > CONTROL_MOST)
        return PyErr_Format(PyExc_ValueError, "a control of %zd bytes; it has %d at most", size, CONTROL_MOST);
    if (channel_room(c) < (size_t)size + channel_around(c))
        return PyErr_Format(state_of(Py_TYPE(object))->error, "what was said before is not written yet: flush first");
    channel_put(c, (struct frame_header){.kind = FRAME_SAY}, (struct iovec){0}, (struct iovec){bytes, (size_t)size},
                NULL);
    PyObject *state = flush(object, c);
    if (!state) return NULL;
    Py_DECREF(state);
    Py_RETURN_NONE;
}

/* The frames of the inbox up to the first that is none for Python: that is the line's. */
static PyObject *frames_of(PyObject *object, struct channel *c)
{
    State *state = state_of(Py_TYPE(object));
    PyObject *list = PyList_New(0);
    struct frame f;
    enum frame_state got;
    while (list && !channel_has_lines(c) && (got = channel_next(c, &f)) != FRAME_PART) {
        PyObject *item = got == FRAME_WHOLE ? PyBytes_FromStringAndSize((const char *)f.body, (Py_ssize_t)f.size)
                                            : PyErr_Format(state->error, "%s", c->words);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (list && !PyList_GET_SIZE(list) && channel_has_lines(c)) {
        PyErr_SetString(state->error, "what came is a frame of a line, before the peer has said who it is");
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *Connection_heard(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    enum channel_state state;
    int failed;
    (void)unused;
    if (!c) return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    state = channel_read(c, false);
    failed = errno;
    Py_END_ALLOW_THREADS
    if (state == CHANNEL_FAILED) return channel_failed(object, c, failed);
    PyObject *frames = frames_of(object, c);
    if (!frames || PyList_GET_SIZE(frames) || state != CHANNEL_CLOSED) return frames;
    Py_DECREF(frames);
    Py_RETURN_NONE;
}

static PyObject *Connection_omit_crc(PyObject *object, PyObject *unused)
{
    struct channel *c = connection_channel(object);
    (void)unused;
    if (!c) return NULL;
    c->is_checked = false;
    Py_RETURN_NONE;
}

static PyObject *Connection_fileno(PyObject *object, PyObject *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyLong_FromLong(c ? c->descriptor : -1);
}

static PyObject *Connection_close(PyObject *object, PyObject *unused)
{
    Connection *self = (Connection *)object;
    (void)unused;
    channel_close(self->core);
    self->core = NULL;
    Py_RETURN_NONE;
}

/* The channel of a line that uses TLS has a reference of its own to the keys (SSL_new takes one). */
static void Connection_dealloc(PyObject *object)
{
    Connection *self = (Connection *)object;
    PyTypeObject *type = Py_TYPE(object);
    channel_close(self->core);
    Py_XDECREF(self->context);
    Py_XDECREF(self->peer);
    Py_XDECREF(self->cipher);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *Connection_peer(PyObject *object, void *unused)
{
    PyObject *peer = ((Connection *)object)->peer;
    (void)unused;
    return Py_NewRef(peer ? peer : Py_None);
}

static PyObject *Connection_cipher(PyObject *object, void *unused)
{
    PyObject *cipher = ((Connection *)object)->cipher;
    (void)unused;
    return cipher ? Py_NewRef(cipher) : PyUnicode_FromString("");
}

static PyObject *Connection_is_within_host(PyObject *object, void *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyBool_FromLong(c && c->is_within_host);
}

static PyObject *Connection_has_crc(PyObject *object, void *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyBool_FromLong(c && c->is_checked);
}

static PyObject *Connection_is_far(PyObject *object, void *unused)
{
    const struct channel *c = ((Connection *)object)->core;
    (void)unused;
    return PyBool_FromLong(c && c->is_far);
}

static PyGetSetDef connection_properties[] = {{"peer", Connection_peer, NULL, NULL, NULL},
                                              {"cipher", Connection_cipher, NULL, NULL, NULL},
                                              {"has_crc", Connection_has_crc, NULL, NULL, NULL},
                                              {"is_far", Connection_is_far, NULL, NULL, NULL},
                                              {"is_within_host", Connection_is_within_host, NULL, NULL, NULL},
                                              {0}};
static PyMethodDef connection_methods[] = {
    {"handshake", Connection_handshake, METH_NOARGS, NULL}, {"say", Connection_say, METH_O, NULL},
    {"flush", Connection_flush, METH_NOARGS, NULL},         {"heard", Connection_heard, METH_NOARGS, NULL},
    {"omit_crc", Connection_omit_crc, METH_NOARGS, NULL},   {"fileno", Connection_fileno, METH_NOARGS, NULL},
    {"close", Connection_close, METH_NOARGS, NULL},         {NULL, NULL, 0, NULL}};
static PyType_Slot connection_slots[] = {{Py_tp_new, Connection_new},
                                         {Py_tp_dealloc, Connection_dealloc},
                                         {Py_tp_methods, connection_methods},
                                         {Py_tp_getset, connection_properties},
                                         {0, NULL}};
PyType_Spec Connection_spec = {"rtmw.net.link._line.Connection", sizeof(Connection), 0, Py_TPFLAGS_DEFAULT,
                               connection_slots};
