/* Memory: what was built, lent to whoever asks for it; and rows that Python lends. */
#include "_columns.h"

#include <stdlib.h>

typedef struct {
    PyObject_HEAD
    uint8_t *bytes;
    Py_ssize_t size;
} Memory;

static void Memory_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Memory *)self)->bytes);
    type->tp_free(self);
    Py_DECREF(type);
}

static int Memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    Memory *memory = (Memory *)self;
    return PyBuffer_FillInfo(view, self, memory->bytes, memory->size, true, flags);
}

static PyType_Slot Memory_slots[] = {{Py_tp_dealloc, Memory_dealloc}, {Py_bf_getbuffer, Memory_getbuffer}, {0, NULL}};
PyType_Spec Memory_spec = {"rtmw.columns._columns.Memory", sizeof(Memory), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Memory_slots};

PyObject *memory_of(struct module_state *state, void *place, uint64_t size)
{
    uint8_t **bytes = place;
    if (!*bytes) return Py_NewRef(Py_None);
    Memory *memory = (Memory *)state->memory_type->tp_alloc(state->memory_type, 0);
    if (!memory) return NULL;
    memory->bytes = *bytes;
    memory->size = (Py_ssize_t)size;
    *bytes = NULL;
    return (PyObject *)memory;
}

void give_back(struct lent *lent)
{
    PyBuffer_Release(&lent->data);
    PyBuffer_Release(&lent->position);
    PyBuffer_Release(&lent->size);
}

static bool lie_within(const struct column_rows *rows)
{
    for (uint64_t i = 0; i < rows->count; i++) {
        uint64_t at = (uint64_t)rows->position[i], size = (uint64_t)rows->size[i];
        if (at > rows->end || size > rows->end - at) return false;
    }
    return true;
}

static bool read_rows(struct lent *lent)
{
    const Py_buffer *position = &lent->position, *size = &lent->size;
    lent->rows = (struct column_rows){lent->data.buf, (size_t)lent->data.len, position->buf, size->buf,
                                      (uint64_t)position->len / sizeof(int64_t)};
    if (position->len == size->len && size->len % (Py_ssize_t)sizeof(int64_t) == 0 && lie_within(&lent->rows))
        return true;
    return wrong(PyExc_ValueError, "positions and sizes are 64-bit numbers, as many of each, of what lies in the data");
}

bool borrow(PyObject *const *given, struct lent *lent)
{
    *lent = (struct lent){0};
    if (!PyObject_GetBuffer(given[0], &lent->data, PyBUF_SIMPLE) &&
        !PyObject_GetBuffer(given[1], &lent->position, PyBUF_SIMPLE) &&
        !PyObject_GetBuffer(given[2], &lent->size, PyBUF_SIMPLE) && read_rows(lent))
        return true;
    give_back(lent);
    return false;
}
