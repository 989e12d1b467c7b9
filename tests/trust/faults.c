/* Preloaded into a process, fails or ends it at a chosen write, sync, rename, unlink, truncation, creation of a file
 * or link under one directory. When it ends the process, what was never synced is lost too, as when the power fails: appended
 * bytes are cut off, new files of a directory that was not synced disappear.
 *
 *     cc -shared -fPIC -O1 -o faults.so faults.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OFF, COUNT, CRASH, FAIL };
enum { WRITE = 1, SYNC = 2, NAME = 4, CREATE = 8 };
#define PATHS 512
#define LENGTH 1024

static int mode, error_number, kinds;
static long at, seen;
static char root[LENGTH];
static struct { char path[LENGTH]; off_t synced; int used; } dirty[PATHS];
static struct { char path[LENGTH]; int used; } created[PATHS];

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

void faults_arm(const char *directory, int how, long call, int number, int which) {
    snprintf(root, sizeof root, "%s", directory);
    mode = how, at = call, error_number = number, kinds = which, seen = 0;
    memset(dirty, 0, sizeof dirty), memset(created, 0, sizeof created);
}

long faults_seen(void) { return seen; }

static int inside(const char *path) { return mode != OFF && root[0] && !strncmp(path, root, strlen(root)); }

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, LENGTH - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    size_t tail = strlen(path);
    return inside(path) && !(tail > 4 && !strcmp(path + tail - 4, "-shm"));
}

static void lose_power(void) {
    mode = OFF;
    for (int i = 0; i < PATHS; i++)
        if (dirty[i].used) {
            struct stat facts;
            if (!stat(dirty[i].path, &facts) && facts.st_size > dirty[i].synced) truncate(dirty[i].path, dirty[i].synced);
        }
    for (int i = 0; i < PATHS; i++)
        if (created[i].used) remove(created[i].path);
    _exit(137);
}

/* Count a call; true when it has to fail. */
static int step(int kind) {
    if (!(kinds & kind)) return 0;
    seen++;
    if (mode == CRASH && seen == at) lose_power();
    if (mode == FAIL && seen >= at) return errno = error_number, 1;
    return 0;
}

static void wrote(int fd, const char *path) {
    struct stat facts;
    int empty = -1;
    for (int i = 0; i < PATHS; i++) {
        if (dirty[i].used && !strcmp(dirty[i].path, path)) return;
        if (!dirty[i].used && empty < 0) empty = i;
    }
    if (empty < 0 || fstat(fd, &facts)) return;
    snprintf(dirty[empty].path, LENGTH, "%s", path);
    dirty[empty].synced = facts.st_size, dirty[empty].used = 1;
}

static void synced(const char *path) {
    for (int i = 0; i < PATHS; i++) {
        if (dirty[i].used && !strcmp(dirty[i].path, path)) dirty[i].used = 0;
        const char *slash = created[i].used ? strrchr(created[i].path, '/') : NULL;
        if (slash && strlen(path) == (size_t)(slash - created[i].path) && !strncmp(path, created[i].path, strlen(path)))
            created[i].used = 0;
    }
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char path[LENGTH];
    if (path_of(fd, path)) {
        if (step(WRITE)) return -1;
        wrote(fd, path);
    }
    return real(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    char path[LENGTH];
    if (path_of(fd, path)) {
        if (step(WRITE)) return -1;
        wrote(fd, path);
    }
    return real(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    char path[LENGTH];
    if (path_of(fd, path)) {
        if (step(WRITE)) return -1;
        wrote(fd, path);
    }
    return real(fd, data, size, offset);
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    REAL(fwrite);
    char path[LENGTH];
    if (path_of(fileno(file), path)) {
        if (step(WRITE)) return 0;
        wrote(fileno(file), path);
    }
    return real(data, size, count, file);
}

int fsync(int fd) {
    REAL(fsync);
    char path[LENGTH];
    if (path_of(fd, path)) {
        if (step(SYNC)) return -1;
        synced(path);
    }
    return real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    char path[LENGTH];
    if (path_of(fd, path)) {
        if (step(SYNC)) return -1;
        synced(path);
    }
    return real(fd);
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    char path[LENGTH];
    if (path_of(fd, path) && step(NAME)) return -1;
    return real(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    char path[LENGTH];
    if (path_of(fd, path) && step(NAME)) return -1;
    return real(fd, size);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) {
    REAL(sendfile64);
    char path[LENGTH];
    if (path_of(out, path)) {
        if (step(WRITE)) return -1;
        wrote(out, path);
    }
    return real(out, in, offset, size);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t size) { return sendfile64(out, in, offset, size); }

static int move(char *path, const char *from, const char *to) {
    char rest[LENGTH];
    size_t length = strlen(from);
    if (strncmp(path, from, length) || (path[length] && path[length] != '/')) return 0;
    snprintf(rest, sizeof rest, "%s", path + length);
    return snprintf(path, LENGTH, "%s%s", to, rest) > 0;
}

/* What is not synced goes with the directory it is in. */
static void moved(const char *from, const char *to) {
    for (int i = 0; i < PATHS; i++) {
        if (dirty[i].used && !move(dirty[i].path, from, to)) move(dirty[i].path, to, from);
        if (created[i].used && !move(created[i].path, from, to)) move(created[i].path, to, from);
    }
}

int rename(const char *from, const char *to) {
    REAL(rename);
    if (inside(to) && step(NAME)) return -1;
    int failed = real(from, to);
    if (!failed && inside(to)) moved(from, to);
    return failed;
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    REAL(renameat2);
    if (inside(to) && step(NAME)) return -1;
    int failed = real(from_folder, from, to_folder, to, flags);
    if (!failed && inside(to)) moved(from, to);
    return failed;
}

int unlink(const char *path) {
    REAL(unlink);
    if (inside(path) && step(NAME)) return -1;
    return real(path);
}

int unlinkat(int folder, const char *name, int flags) {
    REAL(unlinkat);
    char path[LENGTH];
    if (path_of(folder, path) && step(NAME)) return -1;
    return real(folder, name, flags);
}

static int creates(const char *path, int flags) {
    if (!(flags & O_CREAT) || !inside(path) || !access(path, F_OK)) return 0;
    if (step(CREATE)) return -1;
    for (int i = 0; strstr(path, "/segments/") && i < PATHS; i++)
        if (!created[i].used) {
            snprintf(created[i].path, LENGTH, "%s", path);
            created[i].used = 1;
            break;
        }
    return 0;
}

int link(const char *from, const char *to) {
    REAL(link);
    return creates(to, O_CREAT) ? -1 : real(from, to);
}

#define OPEN(name, type) \
    int name(const char *path, int flags, ...) { \
        static int (*real)(const char *, int, ...); \
        if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, type) : 0; \
        va_end(rest); \
        return creates(path, flags) ? -1 : real(path, flags, permissions); \
    }
OPEN(open, int)
OPEN(open64, int)

FILE *fopen64(const char *path, const char *how) {
    REAL(fopen64);
    return strchr(how, 'w') && creates(path, O_CREAT) ? NULL : real(path, how);
}

FILE *fopen(const char *path, const char *how) {
    REAL(fopen);
    return strchr(how, 'w') && creates(path, O_CREAT) ? NULL : real(path, how);
}
