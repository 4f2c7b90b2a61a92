/* What a relay does with each frame: dividing what came, packing, sums. frame.py says how frames of both formats lie.
 *
 * A splitter keeps the bytes of a frame that has not come whole, and no others. All that it reads lies within these
 * bytes, and where `longest` is over without an end, they are no frame; so none keeps more than a frame and one feed.
 */
#include "../shm/_core.h"

enum { ADDRESS = 4, STAMP = 22, SUM = 3, HEAD = 36, ANSWERED = STAMP + SUM, SUM_AT = 2 * ADDRESS + STAMP };
enum { END = '\n', CR = '\r', FORMS = 2, NAMES = 8 };
enum { OWN = 16, LENGTH = 4, HEAD_ROW = HEAD - 1, BARE = OWN - LENGTH + HEAD_ROW, NO_PRIORITY = 255 };

static const char *const FORM[FORMS] = {"A", "B"}, AUTO[] = "auto";

typedef struct {
    PyObject *names[NAMES]; /* those of FIELDS */
    PyTypeObject *frame, *packet;
    PyObject *kinds, *error; /* a tuple of Kind, and FrameError */
} FramesState;

/* The attributes of a Frame, and where the bytes of the first six stand in its head; below 0: counted from its end. */
static const struct {
    const char *name;
    Py_ssize_t from, size;
} FIELDS[NAMES] = {{"source", 0, ADDRESS},
                   {"destination", ADDRESS, ADDRESS},
                   {"stamp", 2 * ADDRESS, STAMP},
                   {"checksum", SUM_AT, SUM},
                   {"type", -2, 1},
                   {"command", -1, 1},
                   {"head", 0, 0},
                   {"data", 0, 0}};

/* ---- sums ---- */

static uint64_t sum_of(const char *bytes, Py_ssize_t size)
{
    uint64_t total = 0;
    for (Py_ssize_t i = 0; i < size; i++) total += (unsigned char)bytes[i];
    return total;
}

/* The checksum in one of its forms. `total`: the sum of all other bytes. */
static void put_sum(char *into, uint64_t total, const char *form)
{
    for (int i = SUM - 1; i >= 0; i--, total = *form == 'A' ? total >> 8 : total / 10)
        into[i] = (char)(*form == 'A' ? total : '0' + total % 10);
}

/* A form by its name; NULL: there is none of that name. */
static const char *form_of(PyObject *name)
{
    for (int i = 0; i < FORMS; i++)
        if (PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, FORM[i])) return FORM[i];
    return NULL;
}

/* total_of(head, data) */
static PyObject *frames_total_of(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]) || PyBytes_GET_SIZE(args[0]) < SUM_AT + SUM)
        return PyErr_Format(PyExc_TypeError, "total_of(head, data)");
    const char *head = PyBytes_AS_STRING(args[0]);
    uint64_t total = sum_of(head, PyBytes_GET_SIZE(args[0])) - sum_of(head + SUM_AT, SUM) + END;
    return PyLong_FromUnsignedLongLong(total + sum_of(PyBytes_AS_STRING(args[1]), PyBytes_GET_SIZE(args[1])));
}

/* ---- frames ---- */

/* Takes the references to `head` and `data`, each of which may be NULL: then, and where memory is short, NULL. */
static PyObject *frame_of(const FramesState *state, PyObject *head, PyObject *data)
{
    PyObject *nothing = PyTuple_New(0), *frame = NULL;
    if (!state->frame)
        PyErr_SetString(PyExc_RuntimeError, "begin has not said what a frame is");
    else if (head && data && nothing)
        frame = state->frame->tp_new(state->frame, nothing, NULL);
    for (int i = 0; frame && i < NAMES; i++) {
        Py_ssize_t at = FIELDS[i].from < 0 ? HEAD_ROW + FIELDS[i].from : FIELDS[i].from;
        PyObject *value = i == NAMES - 2   ? Py_NewRef(head)
                          : i == NAMES - 1 ? Py_NewRef(data)
                                           : PyBytes_FromStringAndSize(PyBytes_AS_STRING(head) + at, FIELDS[i].size);
        if (!value || PyObject_GenericSetAttr(frame, state->names[i], value)) Py_CLEAR(frame);
        Py_XDECREF(value);
    }
    Py_XDECREF(nothing);
    Py_XDECREF(head);
    Py_XDECREF(data);
    return frame;
}

/* frame_of(head, data) */
static PyObject *frames_frame_of(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "frame_of(head, data)");
    if (PyBytes_GET_SIZE(args[0]) != HEAD_ROW)
        return PyErr_Format(PyExc_ValueError, "a head of %zd bytes; it has %d", PyBytes_GET_SIZE(args[0]), HEAD_ROW);
    return frame_of(PyModule_GetState(module), Py_NewRef(args[0]), Py_NewRef(args[1]));
}

/* pack(head, data, checksum, header, answer, longest): None: it fits no frame. The head may have a checksum of any
 * length, which is of no account. */
static PyObject *frames_pack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 6 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]) || !PyBytes_Check(args[4]))
        return PyErr_Format(PyExc_TypeError, "pack(head, data, checksum, header, answer, longest)");
    const char *head = PyBytes_AS_STRING(args[0]), *data = PyBytes_AS_STRING(args[1]);
    const char *last = head + PyBytes_GET_SIZE(args[0]) - 2;
    Py_ssize_t size = PyBytes_GET_SIZE(args[1]), longest = PyNumber_AsSsize_t(args[5], NULL);
    long header = PyLong_AsLong(args[3]);
    if (PyErr_Occurred()) return NULL;
    if (last < head + SUM_AT || header < 0 || header > UCHAR_MAX)
        return PyErr_Format(PyExc_ValueError, "a head of %zd bytes, or a header %ld", last + 2 - head, header);
    Py_ssize_t read = PyBytes_GET_SIZE(args[4]) == 1 && *last == *PyBytes_AS_STRING(args[4]) ? ANSWERED : 0;
    const char *form = form_of(args[2]);
    if (!form || size < read || size > longest - HEAD - 1 || memchr(data + read, END, (size_t)(size - read)))
        Py_RETURN_NONE;
    PyObject *raw = PyBytes_FromStringAndSize(NULL, HEAD + size + 1);
    if (!raw) return NULL;
    char *into = PyBytes_AS_STRING(raw);
    into[0] = (char)header;
    memcpy(into + 1, head, SUM_AT);
    memset(into + 1 + SUM_AT, 0, SUM);
    memcpy(into + HEAD - 2, last, 2);
    memcpy(into + HEAD, data, (size_t)size);
    into[HEAD + size] = END;
    put_sum(into + 1 + SUM_AT, sum_of(into, HEAD + size + 1), form);
    return raw;
}

/* ---- what has come ---- */

typedef struct Splitter Splitter;

/* A frame that begins at `at` goes to `found`, or nothing does; where to go on. `at`: more has to come. -1: an exception. */
typedef Py_ssize_t step(Splitter *, const char *bytes, Py_ssize_t at, Py_ssize_t size, PyObject *found);

struct Splitter {
    PyObject_HEAD
    const FramesState *state;
    step *next; /* of its format */
    PyObject *
        told; /* what counts the places with no frame of the paper; of the second format: None, or what computes CRCs */
    char *rest; /* of a frame that has not come whole; NULL: nothing has */
    Py_ssize_t size, longest;
    bool is_fed; /* `feed` is on its way, which calls Python */
    /* of the frame of the paper */
    const char *form; /* of checksums; AUTO: the first frame says which */
    int header;
    unsigned char answer;
    bool is_lost;      /* what comes up to the next line feed belongs to nothing */
    Py_ssize_t looked; /* no line feed is before this place, behind what is read by position */
};

/* Keeps what lies behind `at`. false: there is no memory. */
static bool keep(Splitter *self, const char *bytes, Py_ssize_t at, Py_ssize_t size)
{
    char *before = self->rest;
    if (bytes == before && at == 0) return true;
    self->size = size - at;
    self->rest = self->size ? PyMem_Malloc((size_t)self->size) : NULL;
    if (self->rest) memcpy(self->rest, bytes + at, (size_t)self->size);
    PyMem_Free(before);
    if (self->size && !self->rest) return self->size = 0, PyErr_NoMemory(), false;
    return true;
}

/* All that has come and belongs to no whole frame: with these bytes behind it, if something waits. NULL: no memory. */
static const char *joined(Splitter *self, const Py_buffer *data)
{
    if (!self->rest) return data->len ? data->buf : "";
    char *rest = PyMem_Realloc(self->rest, (size_t)(self->size + data->len + 1));
    if (!rest) return (const char *)PyErr_NoMemory();
    if (data->len) memcpy(rest + self->size, data->buf, (size_t)data->len);
    self->rest = rest;
    self->size += data->len;
    return rest;
}

/* An exception leaves all bytes where they are. */
static PyObject *Splitter_feed(PyObject *object, PyObject *given)
{
    Splitter *self = (Splitter *)object;
    Py_buffer data;
    if (self->is_fed || !self->next)
        return PyErr_Format(PyExc_RuntimeError, "feed %s", self->next ? "calls itself" : "before __init__ has ended");
    if (PyObject_GetBuffer(given, &data, PyBUF_SIMPLE)) return NULL;
    PyObject *found = PyList_New(0);
    const char *bytes = found ? joined(self, &data) : NULL;
    Py_ssize_t at = 0, after = 0, size = self->rest ? self->size : data.len;
    self->is_fed = true;
    while (bytes && (after = self->next(self, bytes, at, size, found)) > at) at = after;
    self->is_fed = false;
    if (bytes && !keep(self, bytes, after < 0 ? 0 : at, size)) after = -1;
    self->looked = self->looked > at ? self->looked - at : 0;
    PyBuffer_Release(&data);
    if (!bytes || after < 0) Py_CLEAR(found);
    return found;
}

/* ---- the frame of the paper ---- */

/* The next frame may begin behind any line feed. */
static Py_ssize_t skip(Splitter *self, const char *bytes, Py_ssize_t at, Py_ssize_t size)
{
    const char *end = memchr(bytes + at, END, (size_t)(size - at));
    self->is_lost = !end;
    self->looked = 0;
    return end ? end + 1 - bytes : size;
}

/* The frame that begins here is none. */
static Py_ssize_t lose(Splitter *self, const char *cause, const char *bytes, Py_ssize_t at, Py_ssize_t size)
{
    PyObject *counted = PyObject_CallMethod(self->told, "update", "([s])", cause);
    Py_XDECREF(counted);
    return counted ? skip(self, bytes, at, size) : -1;
}

/* Bytes at the end of a frame that are no data; 0: its checksum is wrong. A CR before the line feed goes if the sum is
 * right only without it. */
static int end_of(Splitter *self, const char *raw, Py_ssize_t size)
{
    const char *said = raw + 1 + SUM_AT;
    uint64_t total = sum_of(raw, size) - sum_of(said, SUM);
    for (int end = 1; end <= 2; end++, total -= CR) {
        if (end == 2 && (raw[size - 2] != CR || size < HEAD + 2)) break;
        for (int i = 0; i < FORMS; i++) {
            char sum[SUM];
            put_sum(sum, total, FORM[i]);
            if ((self->form != AUTO && self->form != FORM[i]) || memcmp(sum, said, SUM)) continue;
            self->form = FORM[i];
            return end;
        }
    }
    return 0;
}

/* The places up to which, and from which on, a line feed is looked for, are as those of bytes.find. */
static Py_ssize_t paper_step(Splitter *self, const char *bytes, Py_ssize_t at, Py_ssize_t size, PyObject *found)
{
    if (at == size) return at;
    if (self->is_lost) return skip(self, bytes, at, size);
    if ((unsigned char)bytes[at] != self->header) return lose(self, "another header", bytes, at, size);
    if (size - at < HEAD) return at;
    bool is_answer = (unsigned char)bytes[at + HEAD - 2] == self->answer, is_cut = size - at < self->longest;
    Py_ssize_t data = at + HEAD + (is_answer ? ANSWERED : 0), limit = is_cut ? size : at + self->longest;
    Py_ssize_t from = data > self->looked ? data : self->looked;
    const char *end = from < limit ? memchr(bytes + from, END, (size_t)(limit - from)) : NULL;
    if (!end) {
        self->looked = data > limit ? data : limit;
        return is_cut ? at : lose(self, "too long", bytes, at, size);
    }
    Py_ssize_t whole = end + 1 - (bytes + at);
    int behind = end_of(self, bytes + at, whole);
    if (!behind) return lose(self, "wrong checksum", bytes, at, size);
    PyObject *head = PyBytes_FromStringAndSize(bytes + at + 1, HEAD_ROW);
    PyObject *body = PyBytes_FromStringAndSize(bytes + at + HEAD, whole - HEAD - behind);
    PyObject *frame = frame_of(self->state, head, body);
    bool is_kept = frame && !PyList_Append(found, frame);
    Py_XDECREF(frame);
    self->looked = 0;
    return is_kept ? at + whole : -1;
}

/* ---- the second format ---- */

static uint64_t number_at(const char *bytes, int size)
{
    uint64_t number = 0;
    for (int i = size - 1; i >= 0; i--) number = number << 8 | (unsigned char)bytes[i];
    return number;
}

/* false: an exception is set. */
static bool has_right_crc(const Splitter *self, const char *raw, Py_ssize_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(raw, size),
             *crc = bytes ? PyObject_CallOneArg(self->told, bytes) : NULL;
    unsigned long long is = crc ? PyLong_AsUnsignedLongLong(crc) : 0;
    Py_XDECREF(bytes);
    Py_XDECREF(crc);
    if (PyErr_Occurred()) return false;
    if (is != number_at(raw + size, LENGTH))
        PyErr_SetString(self->state->error, "a frame with a wrong CRC: it was changed on its way");
    return is == number_at(raw + size, LENGTH);
}

/* `size`: of the frame without its CRC. */
static PyObject *packet_of(const Splitter *self, const char *raw, Py_ssize_t size)
{
    int kind = (unsigned char)raw[LENGTH], priority = (unsigned char)raw[LENGTH + 1];
    unsigned zero = (unsigned)number_at(raw + LENGTH + 2, 2);
    if (zero || kind < 1 || kind > PyTuple_GET_SIZE(self->state->kinds))
        return PyErr_Format(self->state->error,
                            "a frame of kind %d with %u behind it; this side knows kinds 1 to %zd, with 0", kind, zero,
                            PyTuple_GET_SIZE(self->state->kinds));
    PyObject *head = PyBytes_FromStringAndSize(raw + OWN, HEAD_ROW);
    PyObject *data = PyBytes_FromStringAndSize(raw + OWN + HEAD_ROW, size - OWN - HEAD_ROW);
    PyObject *frame = frame_of(self->state, head, data);
    PyObject *said = priority == NO_PRIORITY ? Py_NewRef(Py_None) : PyLong_FromLong(priority);
    PyObject *fields = frame && said ? Py_BuildValue("((OOOd))", PyTuple_GET_ITEM(self->state->kinds, kind - 1), frame,
                                                     said, (double)number_at(raw + LENGTH + 4, 8) / 1e6)
                                     : NULL;
    PyObject *packet = fields ? PyTuple_Type.tp_new(self->state->packet, fields, NULL) : NULL;
    Py_XDECREF(frame);
    Py_XDECREF(said);
    Py_XDECREF(fields);
    return packet;
}

static Py_ssize_t own_step(Splitter *self, const char *bytes, Py_ssize_t at, Py_ssize_t size, PyObject *found)
{
    if (size - at < LENGTH) return at;
    Py_ssize_t behind = self->told == Py_None ? 0 : LENGTH, length = (Py_ssize_t)number_at(bytes + at, LENGTH);
    if (length < BARE + behind || length - BARE - behind > self->longest)
        return PyErr_Format(self->state->error, "a frame of length %zd; this side takes data of at most %zd bytes",
                            length, self->longest),
               -1;
    if (size - at < LENGTH + length) return at;
    const char *raw = bytes + at;
    Py_ssize_t whole = LENGTH + length - behind;
    PyObject *packet = !behind || has_right_crc(self, raw, whole) ? packet_of(self, raw, whole) : NULL;
    bool is_kept = packet && !PyList_Append(found, packet);
    Py_XDECREF(packet);
    return is_kept ? at + LENGTH + length : -1;
}

/* ---- the type ---- */

static struct PyModuleDef frames_module;

/* Splitter(longest, bad, checksum, header, answer): of the frame of the paper; Splitter(longest, crc): of the second format.
 */
static int Splitter_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Splitter *self = (Splitter *)object;
    (void)kwargs;
    PyObject *told, *checksum = NULL;
    self->state = PyModule_GetState(PyType_GetModuleByDef(Py_TYPE(object), &frames_module));
    if (self->next || !self->state->frame)
        return PyErr_SetString(PyExc_RuntimeError, "a splitter is made once, and after begin"), -1;
    if (!PyArg_ParseTuple(args, "nO|Oic", &self->longest, &told, &checksum, &self->header, &self->answer)) return -1;
    self->form = checksum && form_of(checksum) ? form_of(checksum) : AUTO;
    Py_XSETREF(self->told, Py_NewRef(told));
    self->next = checksum ? paper_step : own_step;
    return 0;
}

static int Splitter_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Splitter *)object)->told);
    return 0;
}

static int Splitter_clear(PyObject *object)
{
    Py_CLEAR(((Splitter *)object)->told);
    return 0;
}

static void Splitter_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Splitter_clear(object);
    PyMem_Free(((Splitter *)object)->rest);
    type->tp_free(object);
    Py_DECREF(type);
}

GUARD(Splitter_feed);

static PyMemberDef Splitter_members[] = {{"waiting", T_PYSSIZET, offsetof(Splitter, size), READONLY, NULL},
                                         {"checksum", T_STRING, offsetof(Splitter, form), READONLY, NULL},
                                         {NULL, 0, 0, 0, NULL}};
static PyMethodDef Splitter_methods[] = {{"feed", GUARDED(Splitter_feed), METH_O, NULL},
                                         {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
                                         {NULL, NULL, 0, NULL}};
static PyType_Slot Splitter_slots[] = {{Py_tp_init, Splitter_init},
                                       {Py_tp_traverse, Splitter_traverse},
                                       {Py_tp_clear, Splitter_clear},
                                       {Py_tp_dealloc, Splitter_dealloc},
                                       {Py_tp_methods, Splitter_methods},
                                       {Py_tp_members, Splitter_members},
                                       {0, NULL}};
static PyType_Spec SPEC = {"rtmw.relay._frames.Splitter", sizeof(Splitter), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, Splitter_slots};

/* ---- the module ---- */

static int frames_exec(PyObject *module)
{
    FramesState *state = PyModule_GetState(module);
    for (int i = 0; i < NAMES; i++)
        if (!(state->names[i] = PyUnicode_InternFromString(FIELDS[i].name))) return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &SPEC, NULL);
    int failed = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return failed;
}

/* begin(Frame, Packet, kinds, FrameError): what is made, once. */
static PyObject *frames_begin(PyObject *module, PyObject *args)
{
    PyObject *frame, *packet, *kinds, *error;
    FramesState *state = PyModule_GetState(module);
    if (!PyArg_ParseTuple(args, "O!O!O!O", &PyType_Type, &frame, &PyType_Type, &packet, &PyTuple_Type, &kinds, &error))
        return NULL;
    Py_XSETREF(state->frame, (PyTypeObject *)Py_NewRef(frame));
    Py_XSETREF(state->packet, (PyTypeObject *)Py_NewRef(packet));
    Py_XSETREF(state->kinds, Py_NewRef(kinds));
    Py_XSETREF(state->error, Py_NewRef(error));
    Py_RETURN_NONE;
}

static void frames_free(void *module)
{
    FramesState *state = PyModule_GetState(module);
    if (!state) return;
    for (int i = 0; i < NAMES; i++) Py_CLEAR(state->names[i]);
    Py_CLEAR(state->frame);
    Py_CLEAR(state->packet);
    Py_CLEAR(state->kinds);
    Py_CLEAR(state->error);
}

static PyMethodDef frames_methods[] = {{"begin", frames_begin, METH_VARARGS, NULL},
                                       {"total_of", FAST(frames_total_of), METH_FASTCALL, NULL},
                                       {"frame_of", FAST(frames_frame_of), METH_FASTCALL, NULL},
                                       {"pack", FAST(frames_pack), METH_FASTCALL, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot frames_slots[] = {{Py_mod_exec, frames_exec}, GUARD_SLOT{0, NULL}};
static struct PyModuleDef frames_module = {PyModuleDef_HEAD_INIT,
                                           "rtmw.relay._frames",
                                           NULL,
                                           sizeof(FramesState),
                                           frames_methods,
                                           frames_slots,
                                           NULL,
                                           NULL,
                                           frames_free};

PyMODINIT_FUNC PyInit__frames(void);
PyMODINIT_FUNC PyInit__frames(void) { return PyModuleDef_Init(&frames_module); }
