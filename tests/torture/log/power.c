/* Lives and power cuts on ext4: see power.h. As root, with /dev/fuse and loop devices; 77 says what is missing. */
#include "power.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { CUTS_OF_A_LIFE = 250, LIVES_OF_A_DISK = 3, ONE_IN_ROT = 5, UNAVAILABLE = 77 };

static const char MAKE_EXT4[] = "PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F -b 4096 -N 256 -m 0 -O ^resize_inode"
                                " -E nodiscard,lazy_itable_init=0,lazy_journal_init=0";

struct rig_of_power {
    struct block_disk *disk;
    int disk_file;
    struct program program;
    struct notes *notes;
    char live[32], look[32]; /* loop devices: over the device that loses, and over a plain file in memory */
    int live_device, look_device;
    char
        image_name[32]; /* of that plain file: shown as what is under the loop device, with the process it belongs to */
    uint8_t *image;
    uint8_t *stable; /* see block_cut */
    uint8_t *base;   /* with what the next life begins */
    struct state before, found, next;
    uint32_t per_key; /* of all lives of this disk */
    long cuts, rots, records;
    uint64_t events, flushes, compacted;
};

static void unavailable(const char *what) __attribute__((noreturn));
static void unavailable(const char *what)
{
    fprintf(stderr, "UNAVAILABLE: the power rig needs root, /dev/fuse, loop devices and mkfs.ext4 (%s: %s)\n", what,
            strerror(errno));
    exit(UNAVAILABLE);
}

static void broken(const char *what) __attribute__((noreturn));
static void broken(const char *what)
{
    fprintf(stderr, "WRONG in the rig itself: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint8_t *memory(size_t size, int file)
{
    int how = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, how, file, 0);
    if (at == MAP_FAILED) broken("mmap");
    return at;
}

static int make_file(const char *name, off_t size)
{
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, size) < 0) broken(name);
    return file;
}

/* The process that answers the kernel: it has no file of the file system open, and does nothing else. */
static void serve(struct rig_of_power *rig)
{
    close(make_file("disk", 0));
    int fuse = fuse_mount("disk");
    if (fuse < 0) unavailable("mount of a file in user space");
    pid_t parent = getpid(), child = fork();
    if (child < 0) broken("fork");
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() != parent || fuse_serve(rig->disk, fuse));
    }
    close(fuse); /* only the server holds it: when the server ends, requests fail, and nobody waits for it */
}

static void set_up(struct rig_of_power *rig)
{
    if (mounts_begin() < 0) unavailable("mount");
    if (chdir(MOUNTS) < 0) broken(MOUNTS);
    rig->disk = block_new(&rig->disk_file);
    if (!rig->disk) broken("mmap");
    rig->notes = (struct notes *)memory(sizeof *rig->notes, -1);
    rig->stable = memory(BLOCK_BYTES, -1);
    rig->base = memory(BLOCK_BYTES, -1);
    snprintf(rig->image_name, sizeof rig->image_name, "image-%d", (int)getpid());
    int image = make_file(rig->image_name, BLOCK_BYTES);
    rig->image = memory(BLOCK_BYTES, image);
    serve(rig); /* before the loop devices: it has none of them open */
    rig->look_device = loop_attach(image, rig->look);
    if (rig->look_device < 0) unavailable("loop device");
    int file = open("disk", O_RDWR | O_CLOEXEC);
    if (file < 0) unavailable("open of the file in user space");
    rig->live_device = loop_attach(file, rig->live);
    if (rig->live_device < 0) unavailable("loop device over it");
    close(file);
    close(image);
    if (mkdir("mounted", 0700) < 0) broken("mkdir");
}

static void mount_ext4(const char *device, const char *when)
{
    if (mount(device, "mounted", "ext4", MS_NOATIME, "errors=remount-ro") < 0) broken(when);
}

static void unmount(int device)
{
    if (umount2("mounted", 0) < 0) broken("umount");
    if (loop_forget(device) < 0) broken("BLKFLSBUF");
}

static int open_log(void)
{
    int folder = open("mounted/log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) broken("the folder of the log");
    return folder;
}

/* An empty file system with the folder of the log: what the first life of a disk begins with. */
static void format(struct rig_of_power *rig)
{
    char command[sizeof MAKE_EXT4 + 64];
    snprintf(command, sizeof command, "%s %s 2>/dev/null", MAKE_EXT4, rig->image_name);
    memset(rig->image, 0, BLOCK_BYTES);
    if (system(command) != 0) unavailable("mkfs.ext4");
    mount_ext4(rig->look, "mount of an empty file system");
    if (mkdir("mounted/log", 0700) < 0) broken("mkdir");
    unmount(rig->look_device);
    memcpy(rig->base, rig->image, BLOCK_BYTES);
    rig->before.count = 0;
    rig->before.end = 0;
    rig->before.is_created = false;
}

static void live_in_child(struct rig_of_power *rig, uint32_t number, uint64_t seed)
{
    int status;
    struct power_life life = {rig->disk, rig->notes, number, rig->per_key, seed};
    memset(rig->notes, 0, sizeof *rig->notes);
    rig->notes->created = POWER_NEVER;
    pid_t child = fork();
    if (child < 0) broken("fork");
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir("mounted/log") < 0) broken("chdir");
        power_live(&life);
    }
    if (waitpid(child, &status, 0) != child) broken("waitpid");
    if (status) exit(1); /* it has said why */
    rig->compacted += rig->notes->compacted;
}

static void live_once(struct rig_of_power *rig, uint32_t number, uint64_t seed)
{
    block_begin(rig->disk, rig->base);
    mount_ext4(rig->live, "mount of the disk that loses");
    if (rig->program.asked)
        program_ask(&rig->program, "live", seed);
    else
        live_in_child(rig, number, seed);
    unmount(rig->live_device);
}

/* The image is a disk after a cut. */
static void look_once(struct rig_of_power *rig, const struct expected *expected, uint64_t *seed)
{
    mount_ext4(rig->look, "mount after a power cut");
    int folder = open_log();
    bool has_rotted = disk_random(seed) % ONE_IN_ROT == 0 && power_rot(folder, expected, seed);
    if (!has_rotted) power_look(folder, expected, disk_random(seed) % 2, &rig->found);
    rig->rots += has_rotted;
    rig->records += has_rotted ? 0 : rig->found.count;
    close(folder);
    unmount(rig->look_device);
}

static void cut_life(struct rig_of_power *rig, uint32_t life, uint64_t *seed)
{
    struct block_cut cut;
    uint64_t events = rig->disk->count, chosen = disk_random(seed) % CUTS_OF_A_LIFE;
    uint8_t *next = memory(BLOCK_BYTES, -1);
    memcpy(rig->stable, rig->base, BLOCK_BYTES);
    block_cut_begin(&cut, rig->disk, rig->stable);
    for (uint64_t n = 0; n < CUTS_OF_A_LIFE; n++) {
        uint64_t at = n * events / (CUTS_OF_A_LIFE - 1), next_at = (n + 1) * events / (CUTS_OF_A_LIFE - 1);
        if (next_at > at + 1) at += disk_random(seed) % (next_at - at);
        block_cut_move(&cut, at < events ? at : events);
        block_cut_take(&cut, seed, rig->image);
        struct expected expected = {life, rig->per_key, cut.event, &rig->before, rig->notes};
        if (n == chosen) memcpy(next, rig->image, BLOCK_BYTES);
        rig->found.count = 0;
        look_once(rig, &expected, seed);
        if (n == chosen && !rig->found.count) chosen++; /* it rotted, or is empty: the next one */
        if (n == chosen) rig->next = rig->found;
        rig->cuts++;
    }
    if (chosen < CUTS_OF_A_LIFE) {
        memcpy(rig->base, next, BLOCK_BYTES);
        rig->before = rig->next;
    }
    munmap(next, BLOCK_BYTES);
}

/* By a program. The next life begins with the disk of one of the cuts. */
static void cut_at_flushes(struct rig_of_power *rig, uint64_t flushes, uint64_t *seed)
{
    struct block_cut cut;
    uint64_t events = rig->disk->count, chosen = disk_random(seed) % (flushes + 1), n = 0, kept = 0;
    uint8_t *next = memory(BLOCK_BYTES, -1);
    memcpy(rig->stable, rig->base, BLOCK_BYTES);
    block_cut_begin(&cut, rig->disk, rig->stable);
    for (uint64_t event = 0; event <= events; event++) {
        if (event < events && !rig->disk->events[event].is_flush) continue;
        block_cut_move(&cut, event);
        block_cut_take(&cut, seed, rig->image);
        if (n++ == chosen) {
            memcpy(next, rig->image, BLOCK_BYTES);
            kept = event;
        }
        mount_ext4(rig->look, "mount after a power cut");
        program_ask(&rig->program, "look", event);
        unmount(rig->look_device);
        rig->cuts++;
    }
    program_ask(&rig->program, "keep", kept);
    memcpy(rig->base, next, BLOCK_BYTES);
    munmap(next, BLOCK_BYTES);
}

static void count_events(struct rig_of_power *rig)
{
    for (uint64_t n = 0; n < rig->disk->count; n++) rig->flushes += rig->disk->events[n].is_flush;
    rig->events += rig->disk->count;
}

void try_power(uint64_t seed, long cuts)
{
    static struct rig_of_power rig;
    set_up(&rig);
    format(&rig); /* also for no cuts: what is missing is said */
    long lives = 0;
    for (; rig.cuts < cuts; lives++) {
        if (lives && lives % LIVES_OF_A_DISK == 0) format(&rig);
        rig.per_key = 1 + (uint32_t)(lives / LIVES_OF_A_DISK % 2);
        live_once(&rig, (uint32_t)lives, seed + (uint64_t)lives);
        count_events(&rig);
        cut_life(&rig, (uint32_t)lives, &seed);
    }
    printf("%ld power cuts on ext4, and %ld of them with rot, in %ld lives with %llu writes and %llu flushes, "
           "%ld records read and %llu bytes compacted: all that was answered was there, and nothing else\n",
           rig.cuts, rig.rots, lives, (unsigned long long)(rig.events - rig.flushes), (unsigned long long)rig.flushes,
           rig.records, (unsigned long long)rig.compacted);
}

void try_program(uint64_t seed, long cuts, char **words)
{
    static struct rig_of_power rig;
    set_up(&rig);
    format(&rig);
    if (!words[0]) broken("it needs a program to run");
    program_start(&rig.program, words, rig.disk_file);
    long lives = 0;
    for (; rig.cuts < cuts; lives++) {
        uint64_t before = rig.flushes;
        if (lives && lives % LIVES_OF_A_DISK == 0) {
            format(&rig);
            program_ask(&rig.program, "format", (uint64_t)lives);
        }
        live_once(&rig, (uint32_t)lives, seed + (uint64_t)lives);
        count_events(&rig);
        cut_at_flushes(&rig, rig.flushes - before, &seed);
    }
    program_ask(&rig.program, "end", (uint64_t)lives);
    printf("%ld power cuts on ext4 in %ld lives with %llu writes and %llu flushes\n", rig.cuts, lives,
           (unsigned long long)(rig.events - rig.flushes), (unsigned long long)rig.flushes);
}
