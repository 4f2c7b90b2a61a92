#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR = 512, PAGE = 4096, KEPT_VERSIONS = 3 };

uint64_t disk_random(uint64_t *seed)
{
    uint64_t x = *seed += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64, by Sebastiano Vigna: public domain */
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static void put(struct content *c, uint64_t at, const void *bytes, size_t size)
{
    size_t end = at + size;
    if (end > c->room) {
        size_t room = c->room ? c->room : PAGE;
        while (room < end) room *= 2;
        c->bytes = realloc(c->bytes, room);
        if (!c->bytes) abort();
        memset(c->bytes + c->room, 0, room - c->room);
        c->room = room;
    }
    memcpy(c->bytes + at, bytes, size);
    if (end > c->size) c->size = end;
}

static int *find(struct names *names, const char *text)
{
    for (int n = 0; n < names->count; n++)
        if (!strcmp(names->list[n].text, text)) return &names->list[n].inode;
    return NULL;
}

static void set_name(struct names *names, const char *text, int inode)
{
    int *there = find(names, text);
    if (there && inode < 0) {
        struct name *gone = (struct name *)(void *)((char *)there - offsetof(struct name, inode));
        *gone = names->list[--names->count];
    } else if (there) {
        *there = inode;
    } else if (inode >= 0) {
        if (names->count == DISK_NAMES) abort();
        struct name *new = &names->list[names->count++];
        snprintf(new->text, sizeof new->text, "%s", text);
        new->inode = inode;
    }
}

static void apply_rename(struct names *names, const struct change *c)
{
    if (c->gone[0]) set_name(names, c->gone, -1);
    if (c->name[0]) set_name(names, c->name, c->inode);
}

/* All of it, or those sectors of it that chance keeps. */
static void apply_write(struct content *media, const struct change *c, enum fate fate, uint64_t *seed)
{
    if (fate == FATE_LOST) return;
    if (fate == FATE_KEPT) return put(media, c->at, c->bytes, c->size);
    uint64_t unit = disk_random(seed) % 2 ? SECTOR : PAGE, way = disk_random(seed) % 3, sectors = c->size / unit + 2;
    uint64_t middle = disk_random(seed) % sectors, number = 0;
    for (uint64_t at = c->at, end; at < c->at + c->size; at = end, number++) {
        end = at - at % unit + unit;
        if (end > c->at + c->size) end = c->at + c->size;
        bool is_kept = way == 0 ? number < middle : way == 1 ? number >= middle : disk_random(seed) % 2;
        if (is_kept) put(media, at, c->bytes + (at - c->at), end - at);
    }
}

static void forget_write(struct disk *d, int n)
{
    free(d->writes[n].bytes);
    memmove(&d->writes[n], &d->writes[n + 1], (size_t)(--d->write_count - n) * sizeof d->writes[0]);
}

/* Of a place that is written again and again without a sync, the system has written the older versions by itself. */
static void write_back_old(struct disk *d, const struct change *newest)
{
    int versions = 0;
    for (int n = d->write_count - 1; n >= 0; n--) {
        struct change *c = &d->writes[n];
        if (c->inode != newest->inode || c->at != newest->at || c->size != newest->size) continue;
        if (++versions <= KEPT_VERSIONS) continue;
        apply_write(&d->inodes[c->inode].media, c, FATE_KEPT, &d->seed);
        forget_write(d, n);
    }
}

/* ---- the seam ---- */

/* Lock held. What the call is to fail with, 0: nothing, 1: it is short. */
static int enter(struct disk *d, enum call call, const char *name)
{
    if (call == CALL_READ && !d->reads_count) return 0;
    if (d->before && call != CALL_READ) d->before(d, call, d->argument);
    if (d->has_failed && d->failed_call != CALL_READ && (call == CALL_WRITE || call == CALL_SYNC) &&
        !strcmp(name, d->failed_name))
        d->again++;
    d->calls++;
    bool fails = d->fail_at && (d->calls == d->fail_at || (d->fails_from_there && d->calls > d->fail_at));
    if (!fails || (d->only_allocate && call != CALL_ALLOCATE)) return 0;
    if (!d->fail_with) return call == CALL_WRITE ? 1 : 0;
    d->has_failed = true;
    d->failed_call = call;
    snprintf(d->failed_name, sizeof d->failed_name, "%s", name);
    return -d->fail_with;
}

static const char *name_of(struct disk *d, int inode)
{
    for (int n = 0; n < d->cache.count; n++)
        if (d->cache.list[n].inode == inode) return d->cache.list[n].text;
    return "?";
}

static int new_inode(struct disk *d)
{
    if (d->inode_count == DISK_FILES) abort();
    d->inodes[d->inode_count] = (struct inode){0};
    return d->inode_count++;
}

static void change_folder(struct disk *d, const char *name, int inode, const char *gone)
{
    if (d->rename_count == DISK_NAMES) abort();
    struct change *c = &d->renames[d->rename_count++];
    *c = (struct change){.inode = inode};
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->gone, sizeof c->gone, "%s", gone);
    apply_rename(&d->cache, c);
}

static int disk_open_file(void *disk, int folder, const char *name, int flags)
{
    struct disk *d = disk;
    (void)folder;
    pthread_mutex_lock(&d->lock);
    int *there = find(&d->cache, name), file = there ? *there : -ENOENT;
    bool makes = flags & O_CREAT && (!there || flags & O_TRUNC);
    int error = enter(d, makes ? CALL_OPEN : CALL_READ, name);
    if (error < 0) {
        file = error;
    } else if (makes) {
        file = new_inode(d);
        change_folder(d, name, file, "");
        if (!strcmp(name, d->failed_name)) d->has_failed = false; /* begun anew, with nothing of the old one */
    }
    pthread_mutex_unlock(&d->lock);
    return file < 0 ? file : file + DISK_FIRST_FILE;
}

static int disk_close_file(void *disk, int file)
{
    (void)disk;
    (void)file;
    return 0;
}

static int64_t disk_read(void *disk, int file, void *to, size_t size, uint64_t at)
{
    struct disk *d = disk;
    int inode = file - DISK_FIRST_FILE;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_READ, name_of(d, inode));
    const struct content *c = &d->inodes[inode].cache;
    int64_t count = at >= c->size ? 0 : (int64_t)(c->size - at < size ? c->size - at : size);
    if (error < 0)
        count = error;
    else if (count)
        memcpy(to, c->bytes + at, (size_t)count);
    pthread_mutex_unlock(&d->lock);
    return count;
}

static int64_t disk_write(void *disk, int file, const void *from, size_t size, uint64_t at)
{
    struct disk *d = disk;
    int inode = file - DISK_FIRST_FILE;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_WRITE, name_of(d, inode));
    if (error < 0) return pthread_mutex_unlock(&d->lock), error;
    if (error) size = (size + 1) / 2;
    put(&d->inodes[inode].cache, at, from, size);
    if (d->write_count == DISK_PENDING) abort();
    struct change *c = &d->writes[d->write_count++];
    *c = (struct change){.inode = inode, .at = at, .size = size, .bytes = malloc(size)};
    if (!c->bytes) abort();
    memcpy(c->bytes, from, size);
    struct change newest = *c;
    write_back_old(d, &newest);
    pthread_mutex_unlock(&d->lock);
    return (int64_t)size;
}

static int disk_allocate(void *disk, int file, uint64_t size)
{
    struct disk *d = disk;
    (void)size;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_ALLOCATE, name_of(d, file - DISK_FIRST_FILE));
    pthread_mutex_unlock(&d->lock);
    return error < 0 ? error : 0;
}

/* What has begun may be over when the power goes: so it is with each write that is not synced. */
static void disk_begin_sync(void *disk, int file, uint64_t at, uint64_t size)
{
    (void)disk;
    (void)file;
    (void)at;
    (void)size;
}

/* After one that has failed, too, nothing of the file is left to be written: that is what makes it dangerous. */
static int disk_sync(void *disk, int file)
{
    struct disk *d = disk;
    int inode = file - DISK_FIRST_FILE;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_SYNC, name_of(d, inode));
    for (int n = 0; n < d->write_count;) {
        struct change *c = &d->writes[n];
        enum fate fate = error < 0 ? (enum fate)(disk_random(&d->seed) % 3) : FATE_KEPT;
        if (c->inode != inode && ++n) continue;
        apply_write(&d->inodes[inode].media, c, fate, &d->seed);
        forget_write(d, n);
    }
    pthread_mutex_unlock(&d->lock);
    return error < 0 ? error : 0;
}

/* The file system's journal is written once more by the next sync of any file: what failed here is not forgotten. */
static int disk_sync_folder(void *disk, int folder)
{
    struct disk *d = disk;
    (void)folder;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_SYNC_FOLDER, ".");
    if (error >= 0) {
        for (int n = 0; n < d->rename_count; n++) apply_rename(&d->media, &d->renames[n]);
        d->rename_count = 0;
    }
    pthread_mutex_unlock(&d->lock);
    return error < 0 ? error : 0;
}

static int disk_rename(void *disk, int folder, const char *from, const char *to)
{
    struct disk *d = disk;
    (void)folder;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_RENAME, to), *there = find(&d->cache, from);
    if (error >= 0 && !there) error = -ENOENT;
    if (error >= 0) change_folder(d, to, *there, from);
    pthread_mutex_unlock(&d->lock);
    return error < 0 ? error : 0;
}

static int disk_unlink(void *disk, int folder, const char *name)
{
    struct disk *d = disk;
    (void)folder;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_UNLINK, name);
    if (error >= 0 && !find(&d->cache, name)) error = -ENOENT;
    if (error >= 0) change_folder(d, "", -1, name);
    pthread_mutex_unlock(&d->lock);
    return error < 0 ? error : 0;
}

static int disk_list(void *disk, int folder, log_see_name *see, void *argument)
{
    struct disk *d = disk;
    (void)folder;
    pthread_mutex_lock(&d->lock);
    int error = enter(d, CALL_READ, ".");
    for (int n = 0; n < d->cache.count && error >= 0; n++) see(argument, d->cache.list[n].text);
    pthread_mutex_unlock(&d->lock);
    return error < 0 ? error : 0;
}

static int64_t disk_size(void *disk, int file)
{
    struct disk *d = disk;
    pthread_mutex_lock(&d->lock);
    int64_t size = (int64_t)d->inodes[file - DISK_FIRST_FILE].cache.size;
    pthread_mutex_unlock(&d->lock);
    return size;
}

static uint64_t disk_now(void *disk, enum log_clock clock)
{
    (void)disk;
    return log_io_system.now_ns(NULL, clock);
}

struct log_io disk_io(struct disk *d)
{
    return (struct log_io){
        d,         disk_open_file,   disk_close_file, disk_read,   disk_write, disk_allocate, disk_begin_sync,
        disk_sync, disk_sync_folder, disk_rename,     disk_unlink, disk_list,  disk_size,     disk_now};
}

/* ---- its lives ---- */

void disk_open(struct disk *d, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    d->seed = seed;
}

void disk_close(struct disk *d)
{
    for (int n = 0; n < d->inode_count; n++) {
        free(d->inodes[n].cache.bytes);
        free(d->inodes[n].media.bytes);
    }
    for (int n = 0; n < d->write_count; n++) free(d->writes[n].bytes);
    pthread_mutex_destroy(&d->lock);
}

/* The files that have a name, as they are in `media`, for cache and media both. */
static void begin_anew(struct disk *after)
{
    for (int n = 0; n < after->inode_count; n++) {
        struct inode *i = &after->inodes[n];
        if (i->media.size) put(&i->cache, 0, i->media.bytes, i->media.size);
    }
    after->cache = after->media;
}

static void copy_media(const struct disk *d, struct disk *after)
{
    after->inode_count = d->inode_count;
    for (int n = 0; n < d->inode_count; n++)
        if (d->inodes[n].media.size) put(&after->inodes[n].media, 0, d->inodes[n].media.bytes, d->inodes[n].media.size);
    after->media = d->media;
}

void disk_cut(const struct disk *d, const enum fate *writes, const bool *renames, uint64_t seed, struct disk *after)
{
    disk_open(after, seed);
    copy_media(d, after);
    for (int n = 0; n < d->write_count; n++)
        apply_write(&after->inodes[d->writes[n].inode].media, &d->writes[n], writes[n], &after->seed);
    for (int n = 0; n < d->rename_count; n++)
        if (renames[n]) apply_rename(&after->media, &d->renames[n]);
    begin_anew(after);
}

/* What was not synced stays what it is: a later power cut may still take it. */
void disk_kill(const struct disk *d, struct disk *after)
{
    disk_open(after, d->seed + 1);
    copy_media(d, after);
    for (int n = 0; n < d->inode_count; n++)
        if (d->inodes[n].cache.size) put(&after->inodes[n].cache, 0, d->inodes[n].cache.bytes, d->inodes[n].cache.size);
    after->cache = d->cache;
    after->rename_count = d->rename_count;
    memcpy(after->renames, d->renames, sizeof d->renames);
    for (int n = 0; n < d->write_count; n++) {
        struct change *c = &after->writes[after->write_count++];
        *c = d->writes[n];
        c->bytes = malloc(c->size);
        if (!c->bytes) abort();
        memcpy(c->bytes, d->writes[n].bytes, c->size);
    }
}

struct content *disk_content(struct disk *d, const char *name)
{
    int *inode = find(&d->cache, name);
    return inode ? &d->inodes[*inode].cache : NULL;
}

bool disk_is_dirty(struct disk *d, const char *name)
{
    const int *inode = find(&d->cache, name);
    for (int n = 0; inode && n < d->write_count; n++)
        if (d->writes[n].inode == *inode) return true;
    return false;
}
