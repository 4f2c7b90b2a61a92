/* wakeups: what keeps a wake-up from a subscriber, on a real kernel.
 *
 *   idle      300 subscribers of a process that reads nothing have a datagram each, and more do not fit into a socket
 *   refused   no descriptor is left for a fresh socket: the next publisher sends what this one could not
 *   stopped   a publisher is stopped between linking a message and waking: a descriptor is readable by itself
 *   sandbox   a seccomp filter refuses FUTEX_WAKE_OP
 *
 * Exit status: 0 woken, 77 this machine does not let it be seen; a wake-up that is lost ends in SIGALRM.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native.h"
#include "wait.h"

enum { UNSEEN = 77, PATIENCE = 60, IDLE = 300, MS = 1000000 };

static uint32_t domain;

static rtmw_subscriber *subscribe(struct rtmw_region *r, const char *topic, uint64_t deadline_ns)
{
    rtmw_subscriber *s;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 64, 0, 0, deadline_ns, 0};
    CHECK(rtmw_subscriber_open(r, topic, NULL, &qos, &s) == RTMW_OK);
    return s;
}

static rtmw_publisher *offer(struct rtmw_region *r, const char *topic)
{
    rtmw_publisher *p;
    CHECK(rtmw_publisher_open(r, topic, NULL, NULL, &p) == RTMW_OK);
    return p;
}

static void publish(rtmw_publisher *p) { CHECK(rtmw_publish(p, "x", 1, NULL) == RTMW_OK); }

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, timeout_ms) == 1;
}

static void take_all(rtmw_subscriber *s)
{
    rtmw_message m;
    while (rtmw_take(s, &m) == RTMW_OK) rtmw_release(s->region, m.descriptor);
    subscriber_rearm(s);
}

static void open_descriptors(rlim_t soft)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max < soft) exit(UNSEEN);
    limit.rlim_cur = soft;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* So many datagrams unread in one process, and in a usual kernel no room for another one in the socket they came from. */
static void subscribe_idle(struct rtmw_region *r, rtmw_subscriber **idle)
{
    open_descriptors(4 * IDLE);
    for (int i = 0; i < IDLE; i++) CHECK(subscriber_pollable(idle[i] = subscribe(r, "idle", 0)) >= 0);
}

/* The socket is asked, and not the descriptor with its timer: a subscriber that looks by itself has not been woken. */
static int has_datagram(rtmw_subscriber *s) { return is_readable(s->socket, 0); }

static int idle_readers(void)
{
    struct rtmw_region *r = attach(domain);
    rtmw_subscriber *idle[IDLE], *reader = subscribe(r, "other", 0);
    rtmw_publisher *p = offer(r, "idle"), *other = offer(r, "other");
    subscribe_idle(r, idle);
    CHECK(subscriber_pollable(reader) >= 0);
    publish(p);
    for (int i = 0; i < IDLE; i++) CHECK(has_datagram(idle[i]), "idle subscriber %d", i);
    for (int turn = 0; turn < 20; turn++) {
        CHECK(!has_datagram(reader));
        publish(other);
        CHECK(has_datagram(reader), "message %d", turn);
        take_all(reader);
    }
    for (int n = 0; n < 3; n++) CHECK(rtmw_publish_quietly(other, "x", 1, NULL) == RTMW_OK);
    CHECK(!has_datagram(reader), "it was woken before the flush");
    rtmw_publisher_flush(other);
    CHECK(has_datagram(reader), "the flush has not woken it");
    return 0;
}

static int refused_descriptors(void)
{
    struct rtmw_region *r = attach(domain);
    rtmw_subscriber *idle[IDLE], *first = subscribe(r, "first", 0);
    rtmw_publisher *p = offer(r, "idle");
    int told = 0;
    subscribe_idle(r, idle);
    subscriber_pollable(first);
    publish(offer(r, "first")); /* it has a socket to send from */
    int lowest = dup(STDIN_FILENO);
    close(lowest);
    open_descriptors((rlim_t)lowest);
    publish(p);
    for (int i = 0; i < IDLE; i++) told += has_datagram(idle[i]);
    if (told == IDLE) return UNSEEN; /* they fit into one socket */
    open_descriptors(4 * IDLE);
    publish(p);
    for (int i = 0; i < IDLE; i++)
        CHECK(has_datagram(idle[i]), "idle subscriber %d, after %d were told at once", i, told);
    return 0;
}

/* ---- a publisher that is stopped before it wakes anybody ---- */

static pid_t publish_and_stop(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct part part = {"x", 1};
        uint32_t published;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive a test that fails */
        CHECK(publish_quietly(offer(attach(domain), "stopped"), &part, 1, NULL, &published) == RTMW_OK);
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    return child;
}

static uint64_t timer_left(rtmw_subscriber *s)
{
    struct itimerspec left;
    CHECK(timerfd_gettime(s->timer, &left) == 0);
    return (uint64_t)left.it_value.tv_sec * 1000000000u + (uint64_t)left.it_value.tv_nsec;
}

static int stopped_publisher(void)
{
    struct rtmw_region *r = attach(domain);
    rtmw_subscriber *s = subscribe(r, "stopped", 0), *control = subscribe(r, "stopped", UINT64_C(2000) * MS);
    CHECK(subscriber_pollable(s) >= 0 && subscriber_pollable(control) >= 0);
    CHECK(timer_left(s) > 0 && timer_left(s) <= UINT64_C(500) * MS);
    CHECK(timer_left(control) > 0 && timer_left(control) <= UINT64_C(2000) * MS / 4);
    pid_t child = publish_and_stop();
    CHECK(!has_datagram(s) && !has_datagram(control));
    CHECK(is_readable(s->pollable, -1) && is_readable(control->pollable, -1));
    take_all(s);
    CHECK(!is_readable(s->pollable, 0), "with nothing to take");
    CHECK(timer_left(s) > 0, "it will not look again");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

/* ---- a sandbox ---- */

static bool refuse_wake_op(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE_OP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Without a time limit: it is woken, or the word has changed before it slept, or it sleeps until SIGALRM. */
static void sleep_for_ever(uint32_t *word, uint32_t armed)
{
    while (syscall(SYS_futex, word, FUTEX_WAIT, armed, NULL, NULL, 0) < 0 && errno == EINTR) {}
    CHECK(load_seq(word) != armed);
}

static int sandboxed_publisher(void)
{
    struct rtmw_region *r = attach(domain);
    rtmw_publisher *p = offer(r, "sandbox");
    uint32_t *word = &p->topic->wait;
    for (int turn = 0; turn < 50; turn++) {
        uint32_t armed = arm_word(word);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            rtmw_publisher *sandboxed = offer(attach(domain), "sandbox");
            if (!refuse_wake_op()) _exit(UNSEEN);
            if (turn % 2) usleep(2000); /* mostly, the other one is asleep by then: either way it must go on */
            publish(sandboxed);
            _exit(0);
        }
        int status;
        sleep_for_ever(word, armed);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WEXITSTATUS(status)) return WEXITSTATUS(status);
    }
    return 0;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"idle", idle_readers},
                 {"refused", refused_descriptors},
                 {"stopped", stopped_publisher},
                 {"sandbox", sandboxed_publisher}};
    domain = domain_make(UINT64_C(8) << 20, 2 * PATIENCE);
    alarm(PATIENCE);
    for (size_t i = 0; count > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(arguments[1], modes[i].name) == 0) return modes[i].run();
    fprintf(stderr, "usage: wakeups idle | refused | stopped | sandbox\n");
    return 2;
}
