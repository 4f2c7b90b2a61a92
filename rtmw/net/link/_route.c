/* Route: one topic in one direction over one line, from its opening to its close. */
#include "_line.h"

#include "../../shm/_type_argument.h"
#include "../../shm/identity.h"

typedef struct {
    PyObject_HEAD
    PyObject *line; /* until closed, as one of the next two */
    struct out *out;
    struct in *in;
    PyObject *about; /* of an inbound one: topic and type of its publisher, and here the rest */
    rtmw_publisher_qos qos;
} Route;

/* One that carries nothing yet, and holds the line from here on. */
static Route *new_route(State *state, PyObject *line)
{
    Route *route = (Route *)state->route_type->tp_alloc(state->route_type, 0);
    if (!route) return NULL;
    route->line = Py_NewRef(line);
    ((Line *)line)->holders++;
    return route;
}

static void forget(Route *route)
{
    PyObject *line = route->line;
    if (route->out) shared_rate_let_go(((Line *)line)->core->lines, route->out->topic_rate);
    free(route->out);
    free(route->in);
    route->out = NULL;
    route->in = NULL;
    route->line = NULL;
    Py_CLEAR(route->about);
    line_let_go(line);
    Py_DECREF(line);
}

/* Nothing is kept of it; with the exception that is set. */
static PyObject *failed(Route *route, PyObject *nothing)
{
    forget(route);
    Py_DECREF(route);
    return nothing;
}

static PyObject *taken(unsigned int number)
{
    return PyErr_Format(PyExc_ValueError,
                        "route %u: one of this number or a higher one was opened before in this direction", number);
}

/* By which the table knows the lane, whichever way it takes; origin: as of carried_key. */
static uint64_t lane_key(const struct line *l, const char *topic, const rtmw_type *type, int reliability,
                         uint64_t origin)
{
    uint64_t number = topic_number(topic, type ? type->identity : 0);
    return carried_key(number, l->wire_domain, (uint32_t)reliability, origin);
}

PyObject *Line_outbound(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"number",          "topic",    "type",    "reliability", "depth", "history",
                            "min_interval_ns", "lease_ns", "carried", "is_followed", NULL};
    State *state = state_of(Py_TYPE(self));
    const char *topic;
    PyObject *given;
    rtmw_type space;
    const rtmw_type *type;
    unsigned int number, depth, history;
    int reliability, is_followed = 0;
    unsigned long long min_interval_ns, lease_ns, carried = 0;
    struct line *core = open_line(self);
    if (!core ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "IsOiIIKK|Kp", names, &number, &topic, &given, &reliability,
                                     &depth, &history, &min_interval_ns, &lease_ns, &carried, &is_followed))
        return NULL;
    if (!number) return PyErr_Format(PyExc_ValueError, "numbers of routes begin at 1");
    Route *route = read_type(given, &space, &type) ? new_route(state, self) : NULL;
    if (!route) return NULL;
    struct out *out = route->out = calloc(1, sizeof *out);
    if (!out) return failed(route, PyErr_NoMemory());
    rtmw_subscriber_qos qos = outbound_qos(reliability, depth, history, min_interval_ns, lease_ns);
    int code = rtmw_subscriber_open(core->region, topic, type, &qos, &out->subscriber);
    if (code != RTMW_OK) return failed(route, fail(state->error, topic, code));
    out->line = core;
    out->topic_rate = shared_rate_hold(core->lines, topic);
    out->number = number;
    out->depth = out->depth_now = depth;
    out->min_interval_ns = min_interval_ns;
    out->reliable = reliability == RTMW_RELIABLE;
    out->resends = reliability != RTMW_TIMELY;
    out->ceilings.max_priority = BANDS - 1;
    if (out->reliable) rtmw_subscriber_resume(out->subscriber, core->key);
    out->resumes = is_followed || !history;
    told_open_out(out, carried, lane_key(core, topic, type, reliability, CARRIED_LANE), history > 0);
    bool is_new;
    Py_BEGIN_ALLOW_THREADS
    is_new = out_open(out);
    if (!is_new) rtmw_subscriber_close(out->subscriber);
    Py_END_ALLOW_THREADS
    return is_new ? (PyObject *)route : failed(route, taken(number));
}

/* Of more publishers than there is room for, the first ones. */
static void take_on_bus(struct in *in, PyObject *given)
{
    PyObject *publisher, *newest;
    Py_ssize_t at = 0;
    for (uint32_t n = 0; given && n < ON_BUS && PyDict_Next(given, &at, &publisher, &newest); n++) {
        in->on_bus[n].publisher = PyLong_AsUnsignedLongLongMask(publisher);
        in->on_bus[n].newest_ns = PyLong_AsUnsignedLongLongMask(newest);
    }
}

/* NULL: an exception is set. */
static rtmw_publisher *open_publisher(const Route *route)
{
    const char *topic;
    PyObject *given;
    rtmw_type space;
    const rtmw_type *type;
    rtmw_publisher *publisher = NULL;
    if (!PyArg_ParseTuple(route->about, "sO", &topic, &given) || !read_type(given, &space, &type)) return NULL;
    int code = rtmw_publisher_open(((Line *)route->line)->core->region, topic, type, &route->qos, &publisher);
    if (code != RTMW_OK) fail(state_of(Py_TYPE(route))->error, topic, code);
    return publisher;
}

PyObject *Line_inbound(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"number", "topic",     "type",   "reliability",  "priority", "depth",    "history",
                            "origin", "wants_old", "window", "max_priority", "max_size", "max_rate", "on_bus",
                            "begins", "later",     NULL};
    State *state = state_of(Py_TYPE(self));
    const char *topic, *origin;
    PyObject *given, *on_bus = NULL;
    unsigned int number, depth, history, max_priority = BANDS - 1;
    rtmw_type space;
    const rtmw_type *type;
    int reliability, priority, wants_old, later = 0;
    unsigned long long window, max_size = 0, max_rate = 0, begins = 0;
    struct line *core = open_line(self);
    if (!core ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "IsOiiIIspK|IKKO!Kp", names, &number, &topic, &given, &reliability,
                                     &priority, &depth, &history, &origin, &wants_old, &window, &max_priority,
                                     &max_size, &max_rate, &PyDict_Type, &on_bus, &begins, &later))
        return NULL;
    if (!number) return PyErr_Format(PyExc_ValueError, "numbers of routes begin at 1");
    if (!window) return PyErr_Format(PyExc_ValueError, "a window of 0 bytes: nothing could come");
    Route *route = read_type(given, &space, &type) ? new_route(state, self) : NULL;
    if (!route) return NULL;
    struct in *in = route->in = calloc(1, sizeof *in);
    if (!in) return failed(route, PyErr_NoMemory());
    route->about = Py_BuildValue("sO", topic, given);
    route->qos = inbound_qos(reliability, priority, depth, history);
    if (!route->about || (!later && !(in->publisher = open_publisher(route)))) return failed(route, NULL);
    in->line = core;
    in->number = number;
    in->reliable = reliability == RTMW_RELIABLE;
    in->origin = identity_of_origin(origin);
    in->window = window;
    in->wants_old = (uint32_t)wants_old;
    in->ceilings = (struct ceilings){max_priority, max_size, max_rate};
    rate_limit_set(&in->rate, max_rate);
    take_on_bus(in, on_bus);
    told_open_in(in, lane_key(core, topic, type, reliability, in->origin), begins);
    if (in_open(in)) return (PyObject *)route;
    if (in->publisher) rtmw_publisher_close(in->publisher);
    return failed(route, taken(number));
}

static PyObject *Route_begin(PyObject *object, PyObject *unused)
{
    Route *self = (Route *)object;
    (void)unused;
    if (!self->in || self->in->publisher) Py_RETURN_NONE; /* only this thread opens it */
    rtmw_publisher *publisher = open_publisher(self);
    if (!publisher) return NULL;
    Py_BEGIN_ALLOW_THREADS
    in_begin_publishing(self->in, publisher);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_close(PyObject *object, PyObject *unused)
{
    Route *self = (Route *)object;
    (void)unused;
    if (!self->line) Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    if (self->out) out_close(self->out);
    if (self->in) in_close(self->in);
    Py_END_ALLOW_THREADS
    forget(self);
    Py_RETURN_NONE;
}

/* A message that the bus dropped before the route took it counts like one that the route dropped itself. */
static PyObject *out_counters(struct out *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "sent", load_relaxed(&o->sent), "bytes", load_relaxed(&o->bytes),
                         "expired", load_relaxed(&o->expired) + bus.expired, "thinned", bus.thinned, "missed",
                         bus.missed, "lapses", bus.lapses, "blocked", load_relaxed(&o->blocked), "resent",
                         load_relaxed(&o->resent), "priority", load_relaxed(&o->withheld[REFUSED_PRIORITY]), "size",
                         load_relaxed(&o->withheld[REFUSED_SIZE]));
}

static PyObject *in_counters(const struct in *i)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsK}", "received", load_relaxed(&i->arrived), "bytes",
                         load_relaxed(&i->bytes), "lost", load_relaxed(&i->lost), "expired", load_relaxed(&i->expired),
                         "no_memory", load_relaxed(&i->no_memory), "delayed", load_relaxed(&i->delayed), "uncopied",
                         load_relaxed(&i->uncopied), "old", load_relaxed(&i->old), "priority",
                         load_relaxed(&i->refused[REFUSED_PRIORITY]), "size", load_relaxed(&i->refused[REFUSED_SIZE]),
                         "rate", load_relaxed(&i->refused[REFUSED_RATE]));
}

static PyObject *Route_counters(PyObject *object, PyObject *unused)
{
    const Route *self = (Route *)object;
    (void)unused;
    return self->out ? out_counters(self->out) : self->in ? in_counters(self->in) : PyDict_New();
}

static PyObject *Route_total(PyObject *object, PyObject *unused)
{
    PyObject *counters = Route_counters(object, unused), *name, *value;
    unsigned long long total = 0;
    Py_ssize_t at = 0;
    while (counters && PyDict_Next(counters, &at, &name, &value)) total += PyLong_AsUnsignedLongLong(value);
    Py_XDECREF(counters);
    return counters ? PyLong_FromUnsignedLongLong(total) : NULL;
}

static PyObject *Route_limit(PyObject *object, PyObject *args)
{
    const Route *self = (Route *)object;
    unsigned int max_priority = BANDS - 1;
    unsigned long long max_rate, max_size = 0, topic_rate = 0;
    if (!PyArg_ParseTuple(args, "K|IKK", &max_rate, &max_priority, &max_size, &topic_rate)) return NULL;
    struct ceilings ceilings = {max_priority, max_size, max_rate};
    Py_BEGIN_ALLOW_THREADS
    if (self->out) out_limit(self->out, ceilings, topic_rate);
    if (self->in) in_limit(self->in, ceilings);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_passed(PyObject *object, PyObject *unused)
{
    const struct out *o = ((Route *)object)->out;
    rtmw_subscriber_counters bus = {0};
    (void)unused;
    if (o) rtmw_subscriber_count(o->subscriber, &bus);
    uint64_t expired = o ? load_relaxed(&o->unsent) : 0;
    return Py_BuildValue("KK", (unsigned long long)(expired + bus.expired), (unsigned long long)bus.thinned);
}

static PyObject *Route_unsent(PyObject *object, PyObject *args)
{
    struct in *i = ((Route *)object)->in;
    rtmw_lost unsent;
    if (!read_unsent(args, &unsent)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (i) in_unsent(i, unsent);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_finish(PyObject *object, PyObject *unused)
{
    struct out *o = ((Route *)object)->out;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) out_finish(o);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_abandon(PyObject *object, PyObject *unused)
{
    struct in *i = ((Route *)object)->in;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (i) in_abandon(i);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_held(PyObject *object, PyObject *unused)
{
    struct out *o = ((Route *)object)->out;
    struct in *i = ((Route *)object)->in;
    uint32_t held = 0;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) held = out_held(o);
    if (i) held = in_held(i);
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLong(held);
}

static PyObject *Route_begins(PyObject *object, PyObject *unused)
{
    const struct out *o = ((Route *)object)->out;
    (void)unused;
    return PyLong_FromUnsignedLongLong(o ? o->begins & INT64_MAX : 0);
}

static PyObject *Route_adjust(PyObject *object, PyObject *args)
{
    struct out *o = ((Route *)object)->out;
    unsigned int depth;
    unsigned long long min_interval_ns;
    if (!PyArg_ParseTuple(args, "IK", &depth, &min_interval_ns)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (o) out_adjust(o, depth, min_interval_ns);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *Route_want_old(PyObject *object, PyObject *given)
{
    struct in *i = ((Route *)object)->in;
    return set_wants_old(i ? &i->wants_old : NULL, given);
}

static PyObject *Route_delivered(PyObject *object, PyObject *unused)
{
    const Route *self = (Route *)object;
    bool delivered = true;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (self->out) delivered = out_is_delivered(self->out);
    if (self->in) delivered = in_is_delivered(self->in);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(delivered);
}

static PyObject *Route_park(PyObject *object, PyObject *given)
{
    struct out *o = ((Route *)object)->out;
    unsigned long long for_ns = PyLong_AsUnsignedLongLong(given);
    if (PyErr_Occurred()) return NULL;
    if (o) o->park_ns = o->reliable ? for_ns : 0;
    Py_RETURN_NONE;
}

static PyObject *Route_stop(PyObject *object, PyObject *unused)
{
    struct out *o = ((Route *)object)->out;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (o) out_stop(o);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void Route_dealloc(PyObject *object) { dealloc_closed(object, Route_close); }

static PyMethodDef route_methods[] = {{"begin", Route_begin, METH_NOARGS, NULL},
                                      {"counters", Route_counters, METH_NOARGS, NULL},
                                      {"total", Route_total, METH_NOARGS, NULL},
                                      {"limit", Route_limit, METH_VARARGS, NULL},
                                      {"finish", Route_finish, METH_NOARGS, NULL},
                                      {"passed", Route_passed, METH_NOARGS, NULL},
                                      {"unsent", Route_unsent, METH_VARARGS, NULL},
                                      {"abandon", Route_abandon, METH_NOARGS, NULL},
                                      {"held", Route_held, METH_NOARGS, NULL},
                                      {"begins", Route_begins, METH_NOARGS, NULL},
                                      {"adjust", Route_adjust, METH_VARARGS, NULL},
                                      {"want_old", Route_want_old, METH_O, NULL},
                                      {"delivered", Route_delivered, METH_NOARGS, NULL},
                                      {"park", Route_park, METH_O, NULL},
                                      {"stop", Route_stop, METH_NOARGS, NULL},
                                      {"close", Route_close, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot route_slots[] = {{Py_tp_dealloc, Route_dealloc}, {Py_tp_methods, route_methods}, {0, NULL}};
PyType_Spec Route_spec = {"rtmw.net.link._line.Route", sizeof(Route), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, route_slots};
