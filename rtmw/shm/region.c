/* The region as a whole: laid out by its creator, attached to by everybody, left in peace or by death.
 *
 * The creator formats both objects while they have no public name, and then names them; so nobody ever attaches to a
 * half-made region. The checks here at attach catch truncated files, other versions, and a header that somebody has
 * written over. It is read once, into private memory, and what was checked there is what counts from then on.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bitmap.h"
#include "core.h"
#include "identity.h"
#include "trusted.h"

/* The attachments of this process. The lock also keeps a fork away from the moment between opening and noting a file. */
static rtmw_lock attached_lock;
static struct rtmw_region *attached;

static void before_fork(void) { lock_take(&attached_lock); }
static void after_fork(void) { lock_give(&attached_lock); }

/* The child has the open files of its parent, and with them the locks that say that the parent lives: it closes them. */
static void forked(void)
{
    rtmw_forks++;
    for (struct rtmw_region *r = attached; r; r = r->next) {
        if (life_file_is_open(r)) close(r->control_fd);
        r->control_fd = -1;
    }
    attached = NULL;
    lock_give(&attached_lock);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, forked); }

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static uint64_t place(uint64_t *at, uint64_t bytes)
{
    uint64_t here = *at;
    *at += (bytes + LINE - 1) / LINE * LINE;
    return here;
}

/* Table lengths follow from the size of the pool; a pool of 64 MiB has 32,768 descriptors and 1,024 topics. */
static struct header plan(uint64_t pool_bytes, uint32_t reserve)
{
    struct header h = {.version = RTMW_LAYOUT_VERSION, .reserve = reserve};
    h.pool_bytes = (pool_bytes + PAGE - 1) / PAGE * PAGE;
    h.pages = (uint32_t)(h.pool_bytes / PAGE);
    h.descriptors = (uint32_t)clamp(h.pool_bytes / 2048, 1024, NIL - 1);
    h.reserved_descriptors = (uint32_t)((uint64_t)h.descriptors * reserve / RESERVE_WHOLE);
    h.reserved_pages = (uint32_t)((uint64_t)h.pages * reserve / RESERVE_WHOLE);
    h.topics = (uint32_t)clamp(h.pool_bytes / 65536, 256, MOST_TOPICS);
    h.publishers = h.subscribers = 2 * h.topics;
    h.types = 256;
    h.histograms = (uint32_t)clamp(h.pages / 32, 128, HISTOGRAMS);
    h.trace_entries = (uint32_t)clamp(h.pages, 1024, TRACE_ENTRIES);
    uint64_t at = sizeof(struct header) + sizeof(struct hints);
    h.at_participants = place(&at, PARTICIPANTS * sizeof(struct participant));
    h.at_types = place(&at, h.types * sizeof(struct type_entry));
    h.at_topics = place(&at, h.topics * sizeof(struct topic));
    h.at_topic_directory = place(&at, h.topics * 2 * sizeof(uint64_t));
    h.at_type_directory = place(&at, h.types * 2 * sizeof(uint64_t));
    h.at_publisher_words = place(&at, h.publishers * sizeof(uint64_t));
    h.at_publishers = place(&at, h.publishers * sizeof(struct publisher_block));
    h.at_subscriber_words = place(&at, h.subscribers * sizeof(uint64_t));
    h.at_subscribers = place(&at, h.subscribers * sizeof(struct subscriber_block));
    h.at_histograms = place(&at, h.histograms * sizeof(struct histogram));
    h.at_trace = place(&at, sizeof(struct trace) + h.trace_entries * sizeof(struct trace_entry));
    h.at_pages = place(&at, h.pages * sizeof(uint64_t));
    h.at_granules = place(&at, (uint64_t)h.pages * GRANULES_A_PAGE * sizeof(uint64_t));
    h.at_free_descriptors = place(&at, BITMAP_WORDS(h.descriptors) * sizeof(uint64_t));
    h.at_passed_descriptors = place(&at, BITMAP_WORDS(h.descriptors) * sizeof(uint64_t));
    h.at_free_pages = place(&at, BITMAP_WORDS(h.pages) * sizeof(uint64_t));
    h.at_roomy_pages = place(&at, BITMAP_WORDS(h.pages) * sizeof(uint64_t));
    h.at_evictable = place(&at, BANDS * BITMAP_WORDS(h.topics) * sizeof(uint64_t));
    h.at_descriptors = place(&at, h.descriptors * sizeof(struct descriptor));
    h.control_bytes = (at + PAGE - 1) / PAGE * PAGE;
    return h;
}

uint64_t region_control_bytes(uint64_t pool_bytes) { return plan(pool_bytes, 0).control_bytes; }

static void set_first(uint64_t *map, uint64_t bits)
{
    for (uint64_t bit = 0; bit < bits; bit++) bitmap_set(map, bit);
}

int region_format(int control_fd, const struct pool *pool)
{
    struct header h = plan(pool->bytes, pool->reserve), *shared;
    int64_t offset_ns;
    if (!clock_offset(&offset_ns)) return RTMW_OTHER_TIME;
    uint8_t *base = mmap(NULL, h.control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, control_fd, 0);
    if (base == MAP_FAILED) return RTMW_SYSTEM;
    shared = (struct header *)(void *)base;
    *shared = h;
    shared->nonce = pool->nonce;
    shared->clock_offset_ns = offset_ns;
    shared->creator = (uint32_t)getpid();
    struct descriptor *descriptors = (struct descriptor *)(void *)(base + h.at_descriptors);
    for (uint32_t i = 0; i < h.descriptors; i++) {
        descriptors[i].next = link_make(0, NIL);
        descriptors[i].block_tag = 1;
    }
    struct topic *topics = (struct topic *)(void *)(base + h.at_topics);
    for (uint32_t i = 0; i < h.topics; i++)
        for (uint32_t b = 0; b < BANDS; b++) topics[i].band[b].head = topics[i].band[b].tail = link_make(0, NIL);
    struct subscriber_block *subscribers = (struct subscriber_block *)(void *)(base + h.at_subscribers);
    for (uint32_t i = 0; i < h.subscribers; i++)
        for (uint32_t b = 0; b < BANDS; b++) subscribers[i].cursor[b] = link_make(0, NIL);
    set_first((uint64_t *)(void *)(base + h.at_free_descriptors), h.descriptors);
    set_first((uint64_t *)(void *)(base + h.at_free_pages), h.pages);
    ((struct trace *)(void *)(base + h.at_trace))->next = 1; /* entries that were never written have ticket 0 */
    store_release(&shared->magic, RTMW_MAGIC);
    munmap(base, h.control_bytes);
    return RTMW_OK;
}

/* Root may look on where it does not rely on what it sees: a tool that shows a domain of another user. */
static int open_path(const char *path, bool look_on)
{
    int flags = look_on ? O_RDONLY : O_RDWR, fd = open_trusted(path, flags);
    if (fd >= 0 || errno != EPERM || !look_on || geteuid() != 0) return fd;
    return open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static int open_object(const char *name, bool look_on, int *fd)
{
    char path[64 + sizeof SHM];
    snprintf(path, sizeof path, SHM "%s", name);
    *fd = open_path(path, look_on);
    if (*fd >= 0) return RTMW_OK;
    switch (errno) {
    case ENOENT:
        return RTMW_NOT_FOUND;
    case EACCES:
    case EPERM:
    case ELOOP:  /* a symbolic link */
    case EISDIR: /* a folder, */
    case ENXIO:  /* or a socket */
        return RTMW_DENIED;
    default:
        return RTMW_SYSTEM;
    }
}

/* Is this header ours, whole, and does it describe the file that it heads? Everything in it follows from the size of the
 * pool, so that nothing else has to be believed. */
static int read_header(int fd, struct header *h, uint32_t *version)
{
    struct stat about;
    if (fstat(fd, &about) != 0) return RTMW_SYSTEM;
    if (pread(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h || h->magic != RTMW_MAGIC) return RTMW_DAMAGED;
    *version = h->version;
    if (h->version != RTMW_LAYOUT_VERSION) return RTMW_VERSION;
    if (h->pool_bytes < SMALLEST_POOL || h->pool_bytes > LARGEST_POOL) return RTMW_DAMAGED;
    if (h->reserve > RESERVE_MOST) return RTMW_DAMAGED;
    struct header expected = plan(h->pool_bytes, h->reserve);
    expected.magic = h->magic;
    expected.nonce = h->nonce;
    expected.creator = h->creator;
    expected.clock_offset_ns = h->clock_offset_ns;
    bool same = memcmp(h, &expected, sizeof expected) == 0;
    return same && (uint64_t)about.st_size >= h->control_bytes ? RTMW_OK : RTMW_DAMAGED;
}

static void find_tables(struct rtmw_region *r)
{
    const struct header *h = r->header;
    uint8_t *base = r->control;
    r->origin = identity_of_region(h->nonce);
    r->hints = (void *)(base + sizeof *h);
    r->participants = (void *)(base + h->at_participants);
    r->types = (void *)(base + h->at_types);
    r->topics = (void *)(base + h->at_topics);
    r->topic_directory = (void *)(base + h->at_topic_directory);
    r->type_directory = (void *)(base + h->at_type_directory);
    r->publisher_words = (void *)(base + h->at_publisher_words);
    r->publishers = (void *)(base + h->at_publishers);
    r->subscriber_words = (void *)(base + h->at_subscriber_words);
    r->subscribers = (void *)(base + h->at_subscribers);
    r->histograms = (void *)(base + h->at_histograms);
    r->trace = (void *)(base + h->at_trace);
    r->pages = (void *)(base + h->at_pages);
    r->granules = (void *)(base + h->at_granules);
    r->free_descriptors = (void *)(base + h->at_free_descriptors);
    r->passed_descriptors = (void *)(base + h->at_passed_descriptors);
    r->free_pages = (void *)(base + h->at_free_pages);
    r->roomy_pages = (void *)(base + h->at_roomy_pages);
    r->evictable = (void *)(base + h->at_evictable);
    r->descriptors = (void *)(base + h->at_descriptors);
}

/* Of `reserved` descriptors or pages, those that a band may not claim: all for bands 0 to 3, none for 7, and a quarter less
 * for each band between. They are the first ones; what lies behind them is for every band. */
static uint32_t first_open(uint32_t reserved, uint32_t band)
{
    uint32_t above = BANDS - 1 - band;
    return (uint32_t)((uint64_t)reserved * (above < 4 ? above : 4) / 4);
}

void region_open_reserve(struct rtmw_region *r)
{
    r->reserve_end = (r->header->reserved_descriptors + SCATTER - 1) / SCATTER * SCATTER;
    for (uint32_t band = 0; band < BANDS; band++) {
        r->open_descriptors[band] = first_open(r->header->reserved_descriptors, band);
        r->open_pages[band] = first_open(r->header->reserved_pages, band);
    }
}

static int map_blocks(struct rtmw_region *r)
{
    char name[64];
    struct stat about;
    int fd;
    snprintf(name, sizeof name, REGION_BLOCKS, r->domain, (unsigned long long)r->header->nonce);
    int code = open_object(name, is_observer(r), &fd);
    if (code != RTMW_OK) return code == RTMW_NOT_FOUND ? RTMW_DAMAGED : code;
    bool whole = fstat(fd, &about) == 0 && (uint64_t)about.st_size >= r->header->pool_bytes;
    void *blocks = whole ? mmap(NULL, r->header->pool_bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    int failed = errno;
    close(fd);
    errno = failed;
    if (!whole) return RTMW_DAMAGED;
    if (blocks == MAP_FAILED) return RTMW_SYSTEM;
    r->blocks = blocks;
    return RTMW_OK;
}

static int open_control(struct rtmw_region *r)
{
    char name[64];
    struct stat about;
    snprintf(name, sizeof name, REGION_CONTROL, r->domain);
    lock_take(&attached_lock);
    int code = open_object(name, is_observer(r), &r->control_fd);
    if (code == RTMW_OK && fstat(r->control_fd, &about) == 0) {
        r->control_device = (uint64_t)about.st_dev;
        r->control_inode = (uint64_t)about.st_ino;
        r->next = attached;
        attached = r;
    }
    lock_give(&attached_lock);
    return code;
}

/* The lock is given up with the file. */
static void close_control(struct rtmw_region *r)
{
    lock_take(&attached_lock);
    for (struct rtmw_region **at = &attached; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    if (life_file_is_open(r)) close(r->control_fd);
    lock_give(&attached_lock);
}

/* Through an open file of its own: a mapping keeps its file open, with the locks of that file, also in a forked child. */
static int map_control(struct rtmw_region *r, uint32_t *version)
{
    char name[64];
    struct stat about;
    int fd;
    snprintf(name, sizeof name, REGION_CONTROL, r->domain);
    int code = open_object(name, is_observer(r), &fd);
    if (code != RTMW_OK) return code;
    code = read_header(fd, r->header, version);
    if (code == RTMW_OK) {
        int may = is_observer(r) ? PROT_READ : PROT_READ | PROT_WRITE;
        void *base = mmap(NULL, r->header->control_bytes, may, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED || fstat(fd, &about) != 0)
            code = RTMW_SYSTEM;
        else if ((uint64_t)about.st_ino != r->control_inode)
            code = RTMW_NOT_FOUND; /* the domain was removed and made again meanwhile */
        if (base != MAP_FAILED) r->control = base;
    }
    int failed = errno;
    close(fd);
    errno = failed;
    return code;
}

static void unmap(struct rtmw_region *r)
{
    if (r->blocks) munmap(r->blocks, r->header->pool_bytes);
    if (r->control) munmap(r->control, r->header->control_bytes);
    close_control(r);
    if (r->socket >= 0) close(r->socket);
    if (r->sender) close((int)r->sender - 1);
    free(r->refs);
    free(r->tracing);
    free(r);
}

/* A participant has a slot, and a place to look for free memory; a process that only looks on has neither. */
static int take_part(struct rtmw_region *r)
{
    r->refs = calloc(r->header->descriptors, sizeof *r->refs);
    int code = r->refs ? participant_claim(r) : RTMW_SYSTEM;
    if (code != RTMW_OK) return code;
    r->scan = (uint32_t)((uint64_t)r->me * r->header->descriptors / PARTICIPANTS); /* apart from one another */
    r->reclaim_scan = r->scan;
    sweep_the_dead(r);
    return RTMW_OK;
}

/* Lifetimes, waits and intervals compare times that several processes wrote, so that all have to mean the same. */
static int check_clock(const struct rtmw_region *r)
{
    int64_t offset_ns;
    return clock_offset(&offset_ns) && offset_ns == r->header->clock_offset_ns ? RTMW_OK : RTMW_OTHER_TIME;
}

int region_attach(uint32_t domain, enum attaching how, struct rtmw_region **out, uint32_t *version)
{
    struct rtmw_region *r = calloc(1, sizeof *r);
    if (!r) return RTMW_SYSTEM;
    r->domain = domain;
    r->me = how == TO_LOOK_ON ? NOBODY : 0;
    r->is_tool = how == AS_TOOL;
    r->control_fd = r->socket = -1;
    r->forks = rtmw_forks;
    int code = open_control(r);
    if (code == RTMW_OK) code = map_control(r, version);
    if (code == RTMW_OK) code = check_clock(r);
    if (code == RTMW_OK) code = map_blocks(r);
    if (code == RTMW_OK) find_tables(r);
    if (code == RTMW_OK) region_open_reserve(r);
    if (code == RTMW_OK && how != TO_LOOK_ON) code = take_part(r);
    if (code != RTMW_OK) {
        int saved = errno;
        unmap(r);
        errno = saved;
        return code;
    }
    *out = r;
    return RTMW_OK;
}

int rtmw_attach(uint32_t domain, rtmw_region **region)
{
    uint32_t version;
    int cancel = cancel_off(), code = region_attach(domain, TO_TAKE_PART, region, &version);
    cancel_back(cancel);
    return code;
}

void rtmw_detach(rtmw_region *r)
{
    int cancel = cancel_off();
    if (!is_forked(r) && !is_observer(r)) {
        lock_take(&r->lock);
        participant_leave(r);
        lock_give(&r->lock);
    }
    unmap(r);
    cancel_back(cancel);
}

/* ======== making a domain ======== */

/* Making a domain: its two objects, filled under names that nobody looks for.
 *
 *   /rtmw.DOMAIN.new.PID.NONCE       the control object while it is made; `leftovers` of region.py finds a dead creator's
 *   /rtmw.DOMAIN.blocks.NONCE        the blocks; the control object names them by the nonce
 *   /rtmw.DOMAIN.control             the control object: its name, given last, by link
 *
 * Of several creators at a time one is the first to link; the others take back what they made.
 *
 * Both objects are for the creator's user, or also for a group: then they get it, and mode 0660, before they have a name that
 * others look for, whatever the umask is.
 */

enum { NAME_MOST = 80 };

struct making {
    char control[NAME_MOST], blocks[NAME_MOST], unfinished[NAME_MOST];
    int control_fd;
    const uint32_t *group; /* NULL: none */
};

static bool open_to_group(const struct making *m, int fd)
{
    return !m->group || (fchown(fd, (uid_t)-1, *m->group) == 0 && fchmod(fd, 0660) == 0);
}

/* An object with all of its memory reserved: a full /dev/shm is an error here, and never a SIGBUS later. */
static int allocate(const struct making *m, const char *name, uint64_t bytes, int *fd)
{
    int failed;
    *fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (*fd < 0) return RTMW_SYSTEM;
    flock(*fd, LOCK_EX); /* its creator lives; where that is refused the pid in the name tells */
    do failed = posix_fallocate(*fd, 0, (off_t)bytes);
    while (failed == EINTR);
    if (!failed && !open_to_group(m, *fd)) failed = errno;
    if (failed) {
        close(*fd);
        shm_unlink(name);
        *fd = -1;
    }
    errno = failed;
    if (failed == ENOSPC || failed == ENOMEM || failed == EFBIG) return RTMW_NO_SPACE;
    if (failed == EPERM) return RTMW_DENIED;
    return failed ? RTMW_SYSTEM : RTMW_OK;
}

static int fill(const struct making *m, const struct pool *pool)
{
    int blocks, code = allocate(m, m->blocks, pool->bytes, &blocks);
    if (code != RTMW_OK) return code;
    close(blocks);
    return region_format(m->control_fd, pool);
}

static int give_name(const struct making *m)
{
    char from[NAME_MOST + sizeof SHM], to[NAME_MOST + sizeof SHM];
    snprintf(from, sizeof from, SHM "%s", m->unfinished);
    snprintf(to, sizeof to, SHM "%s", m->control);
    if (link(from, to) == 0) return RTMW_OK;
    return errno == EEXIST ? RTMW_EXISTS : RTMW_SYSTEM;
}

static bool is_there(const struct making *m)
{
    char path[NAME_MOST + sizeof SHM];
    snprintf(path, sizeof path, SHM "%s", m->control);
    return access(path, F_OK) == 0;
}

static int make(struct making *m, const struct pool *pool)
{
    if (is_there(m)) return RTMW_EXISTS;
    int code = allocate(m, m->unfinished, region_control_bytes(pool->bytes), &m->control_fd);
    if (code != RTMW_OK) return code;
    code = fill(m, pool);
    if (code == RTMW_OK) code = give_name(m);
    int saved = errno;
    close(m->control_fd);
    shm_unlink(m->unfinished);
    if (code != RTMW_OK) shm_unlink(m->blocks);
    errno = saved;
    return code;
}

static int make_for(uint32_t domain, const struct pool *pool, const uint32_t *group)
{
    struct making m = {.group = group};
    unsigned long long nonce = pool->nonce;
    snprintf(m.control, sizeof m.control, REGION_CONTROL, domain);
    snprintf(m.blocks, sizeof m.blocks, REGION_BLOCKS, domain, nonce);
    snprintf(m.unfinished, sizeof m.unfinished, REGION_UNFINISHED, domain, (int)getpid(), nonce);
    return make(&m, pool);
}

int region_create(uint32_t domain, const struct pool *pool) { return make_for(domain, pool, NULL); }

static int create(uint32_t domain, uint64_t pool_bytes, uint32_t reserve, const uint32_t *group)
{
    struct pool pool = {.bytes = (pool_bytes + PAGE - 1) / PAGE * PAGE, .reserve = reserve};
    if (pool_bytes < SMALLEST_POOL || pool_bytes > LARGEST_POOL || reserve > RESERVE_MOST) return RTMW_BAD_SIZE;
    if (getrandom(&pool.nonce, sizeof pool.nonce, 0) != (ssize_t)sizeof pool.nonce) return RTMW_SYSTEM;
    int cancel = cancel_off(), code = make_for(domain, &pool, group);
    cancel_back(cancel);
    return code;
}

int rtmw_create(uint32_t domain, uint64_t pool_bytes, uint32_t reserve)
{
    return create(domain, pool_bytes, reserve, NULL);
}

int rtmw_create_for_group(uint32_t domain, uint64_t pool_bytes, uint32_t reserve, uint32_t group)
{
    return create(domain, pool_bytes, reserve, &group);
}
