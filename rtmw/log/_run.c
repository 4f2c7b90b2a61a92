/* Reader.run: many records as columns. What a run is, run.h says. */
#include "_log.h"
#include "index.h"
#include "run.h"

enum { LEAST_BYTES = 64 * 1024 }; /* more than the text of the longest label needs */

/* Memory of a column: a bytes object that nobody else has seen yet. NULL: with a Python error. */
static void *column(PyObject **made, size_t bytes)
{
    *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    return *made ? PyBytes_AS_STRING(*made) : NULL;
}

enum {
    POSITION,
    TIME,
    EPOCH,
    PLACE,
    SIZE,
    DATA_BYTES,
    KEY_TEXT,
    KEY_ENDS,
    KEY_THERE,
    ID_TEXT,
    ID_ENDS,
    ID_THERE,
    COLUMNS
};

static bool make_texts(struct run_texts *texts, PyObject **made, size_t rows, size_t bytes)
{
    texts->room = bytes;
    return (texts->text = column(&made[0], bytes)) && (texts->ends = column(&made[1], rows * sizeof *texts->ends)) &&
           (texts->is_there = column(&made[2], rows));
}

static bool make_columns(struct run *run, PyObject **made, unsigned wanted)
{
    bool done = (run->position = column(&made[POSITION], run->room * sizeof *run->position)) &&
                (run->time_ns = column(&made[TIME], run->room * sizeof *run->time_ns)) &&
                (run->epoch = column(&made[EPOCH], run->room * sizeof *run->epoch));
    if (done && wanted & RUN_DATA)
        done = (run->place = column(&made[PLACE], run->room * sizeof *run->place)) &&
               (run->size = column(&made[SIZE], run->room * sizeof *run->size)) &&
               (run->data = column(&made[DATA_BYTES], run->data_room));
    if (done && wanted & RUN_KEYS) done = make_texts(&run->keys, &made[KEY_TEXT], run->room, run->data_room);
    if (done && wanted & RUN_IDS) done = make_texts(&run->ids, &made[ID_TEXT], run->room, run->data_room);
    return done;
}

/* Gives back what is not filled. */
static bool shrink(struct run *run, PyObject **made)
{
    const size_t n = run->count;
    const size_t sizes[COLUMNS] = {
        n * sizeof *run->position,
        n * sizeof *run->time_ns,
        n * sizeof *run->epoch,
        n * sizeof *run->place,
        n * sizeof *run->size,
        run->data_size,
        run->keys.size,
        n * sizeof *run->keys.ends,
        n,
        run->ids.size,
        n * sizeof *run->ids.ends,
        n,
    };
    for (int i = 0; i < COLUMNS; i++)
        if (made[i] && _PyBytes_Resize(&made[i], (Py_ssize_t)sizes[i])) return false;
    return true;
}

static void drop(PyObject **made)
{
    for (int i = 0; i < COLUMNS; i++) Py_CLEAR(made[i]);
}

static PyObject *or_none(PyObject *made) { return made ? made : Py_None; }

static PyObject *texts_of(PyObject **made)
{
    return made[0] ? PyTuple_Pack(3, made[0], made[1], made[2]) : Py_NewRef(Py_None);
}

static PyObject *result_of(struct run *run, PyObject **made)
{
    if (!shrink(run, made)) return NULL;
    return Py_BuildValue("nOOOOOONNKI", (Py_ssize_t)run->count, made[POSITION], made[TIME], made[EPOCH],
                         or_none(made[PLACE]), or_none(made[SIZE]), or_none(made[DATA_BYTES]),
                         texts_of(&made[KEY_TEXT]), texts_of(&made[ID_TEXT]), (unsigned long long)run->other_position,
                         run->other_kind);
}

/* A run, again with more room if the first record has more bytes than there are. */
static int read_run(struct reader *core, uint64_t limit, struct run *run, PyObject **made, unsigned wanted,
                    struct log_fault *fault)
{
    for (;;) {
        if (!make_columns(run, made, wanted)) return -1;
        int code = run_read(core, limit, run, fault);
        if (!run->needs) return code;
        drop(made);
        *run = (struct run){.room = 1,
                            .data_room = run->needs > LEAST_BYTES ? run->needs : LEAST_BYTES,
                            .start_ns = run->start_ns,
                            .end_ns = run->end_ns};
    }
}

PyObject *Reader_run(PyObject *object, PyObject *args)
{
    PyObject *subject, *made[COLUMNS] = {0}, *result = NULL;
    struct reader *core = reader_core(object, &subject);
    unsigned long long limit, start_ns, end_ns;
    unsigned wanted;
    Py_ssize_t rows, bytes;
    struct log_fault fault = {0};
    if (!core || !PyArg_ParseTuple(args, "KIKKnn", &limit, &wanted, &start_ns, &end_ns, &rows, &bytes)) return NULL;
    if (rows < 1 || rows > INT32_MAX || bytes > INT32_MAX)
        return PyErr_SetString(PyExc_ValueError, "a run has from 1 to 2^31 - 1 records, and as many bytes"), NULL;
    struct run run = {.room = (size_t)rows, .start_ns = start_ns, .end_ns = end_ns};
    run.data_room = bytes > LEAST_BYTES ? (size_t)bytes : LEAST_BYTES;
    int code = read_run(core, limit, &run, made, wanted, &fault);
    if (code > 0 && code != LOG_AT_END && !run.count)
        fail(subject, code, &fault);
    else if (code >= 0 && !run.count && !run.other_kind)
        result = Py_NewRef(Py_None);
    else if (code >= 0)
        result = result_of(&run, made);
    drop(made);
    return result;
}

/* Of the index of a segment: where its records end, how many there are, their earliest time, and its stretches. */
PyObject *stretches(PyObject *module, PyObject *args)
{
    struct asked a = {0};
    struct index index;
    (void)module;
    if (!asked_of(args, "Oiy*K", &a)) return NULL;
    if (!index_read(&a.folder, a.number, &index)) Py_RETURN_NONE;
    PyObject *made = Py_BuildValue("KKKy#", (unsigned long long)index.head.end, (unsigned long long)index.head.records,
                                   (unsigned long long)index.head.earliest_ns, (const char *)index.stretches,
                                   (Py_ssize_t)(index.head.count * sizeof *index.stretches));
    index_free(&index);
    return made;
}
