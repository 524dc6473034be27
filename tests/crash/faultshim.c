/* Faults at chosen calls of a program: preloaded, configured by the environment.
 *
 * FAULT_RULES   rules separated by ';', each  call:path-part:nth:action[:argument]
 *               call    write (pwritev, pwrite), grow (a write behind the file's end),
 *                       sync (fdatasync, fsync), rename
 *               path    a part of the file's path (for rename: of the new name)
 *               nth     the nth matching call counts; n+ means this one and all later ones
 *               action  kill-before, kill-after, tear (write half, then kill),
 *                       fail:ERRNO, hold (wait for FAULT_GO, then do it)
 * FAULT_ARMED   a file: calls count only while it exists; without it they count from the start
 * FAULT_HIT     a file that is made when a rule strikes
 * FAULT_GO      a file that ends a hold
 * FAULT_RECORD  a file that gets every call that changes something below FAULT_UNDER, in order:
 *               a line  call TAB path TAB new path TAB position TAB length  and the bytes
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define RULES_MAX 8

struct rule {
    char call[16], path[256], action[32];
    int nth, and_later, argument, seen;
};

static struct rule rules[RULES_MAX];
static int rule_count = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int exists(const char *name) {
    const char *path = getenv(name);
    struct stat found;
    return path != NULL && stat(path, &found) == 0;
}

static void touch(const char *name) {
    const char *path = getenv(name);
    if (path == NULL) return;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0) syscall(SYS_close, fd);
}

static void load(void) {
    rule_count = 0;
    const char *text = getenv("FAULT_RULES");
    if (text == NULL) return;
    char *copy = strdup(text), *state = NULL;
    for (char *part = strtok_r(copy, ";", &state); part && rule_count < RULES_MAX;
         part = strtok_r(NULL, ";", &state)) {
        struct rule *rule = &rules[rule_count];
        char nth[16] = "1";
        int fields = sscanf(part, "%15[^:]:%255[^:]:%15[^:]:%31[^:]:%d", rule->call, rule->path,
                            nth, rule->action, &rule->argument);
        if (fields < 4) {
            fprintf(stderr, "faultshim: bad rule %s\n", part);
            abort();
        }
        rule->nth = atoi(nth);
        rule->and_later = strchr(nth, '+') != NULL;
        rule_count++;
    }
    free(copy);
}

/* Return the rule that strikes at this call, or NULL. */
static struct rule *strike(const char *call, const char *path) {
    struct rule *found = NULL;
    pthread_mutex_lock(&mutex);
    if (rule_count < 0) load();
    int counts = rule_count > 0 && (getenv("FAULT_ARMED") == NULL || exists("FAULT_ARMED"));
    for (int i = 0; counts && i < rule_count && found == NULL; i++) {
        struct rule *rule = &rules[i];
        if (strcmp(rule->call, call) != 0 || strstr(path, rule->path) == NULL) continue;
        rule->seen++;
        if (rule->seen == rule->nth || (rule->and_later && rule->seen > rule->nth)) found = rule;
    }
    pthread_mutex_unlock(&mutex);
    if (found != NULL) touch("FAULT_HIT");
    return found;
}

static struct rule *strike_fd(const char *call, int fd) {
    if (rule_count == 0) return NULL;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return strike(call, path);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Do what comes before the call; return nonzero when the call must fail with errno set. */
static int before(const struct rule *rule) {
    if (rule == NULL) return 0;
    if (strcmp(rule->action, "kill-before") == 0) die();
    if (strcmp(rule->action, "hold") == 0)
        while (!exists("FAULT_GO")) usleep(2000);
    if (strcmp(rule->action, "fail") == 0) {
        errno = rule->argument;
        return 1;
    }
    return 0;
}

static void after(const struct rule *rule) {
    if (rule != NULL && strcmp(rule->action, "kill-after") == 0) die();
}

/* One call and its record are one step, for all threads and for child processes. */
static pthread_mutex_t step = PTHREAD_MUTEX_INITIALIZER;
static int record_fd = -2;

static int begin(const char *path) {
    if (record_fd == -1) return 0;
    const char *under = getenv("FAULT_UNDER"), *target = getenv("FAULT_RECORD");
    if (under == NULL || target == NULL) {
        record_fd = -1;
        return 0;
    }
    if (strncmp(path, under, strlen(under)) != 0) return 0;
    pthread_mutex_lock(&step);
    if (record_fd == -2)
        record_fd = syscall(SYS_openat, AT_FDCWD, target,
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    flock(record_fd, LOCK_EX);
    return 1;
}

static void end(int recording, int succeeded, const char *call, const char *path,
                const char *other, off_t at, const struct iovec *parts, int count) {
    if (!recording) return;
    int saved = errno;
    if (succeeded) {
        char line[9000];
        size_t length = 0;
        for (int i = 0; i < count; i++) length += parts[i].iov_len;
        int size = snprintf(line, sizeof line, "%s\t%s\t%s\t%lld\t%zu\n", call, path, other,
                            (long long)at, length);
        syscall(SYS_write, record_fd, line, size);
        for (int i = 0; i < count; i++)
            syscall(SYS_write, record_fd, parts[i].iov_base, parts[i].iov_len);
    }
    flock(record_fd, LOCK_UN);
    pthread_mutex_unlock(&step);
    errno = saved;
}

static int begin_fd(int fd, char *path, size_t size) {
    path[0] = 0;
    if (record_fd == -1) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
    return begin(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static ssize_t gathered(int fd, const struct iovec *parts, int count, off_t at) {
    struct stat found;
    struct rule *rule = NULL;
    if (rule_count != 0 && fstat(fd, &found) == 0 && at >= found.st_size)
        rule = strike_fd("grow", fd);
    if (rule == NULL) rule = strike_fd("write", fd);
    if (before(rule)) return -1;
    if (rule != NULL && strcmp(rule->action, "tear") == 0) {
        size_t total = 0;
        for (int i = 0; i < count; i++) total += parts[i].iov_len;
        size_t left = total / 2;
        for (int i = 0; i < count && left > 0; i++) {
            size_t step = parts[i].iov_len < left ? parts[i].iov_len : left;
            syscall(SYS_pwrite64, fd, parts[i].iov_base, step, at);
            at += step;
            left -= step;
        }
        die();
    }
    char path[4096];
    int recording = begin_fd(fd, path, sizeof path);
    ssize_t done = syscall(SYS_pwritev, fd, parts, count, at, 0);
    end(recording, done >= 0, "write", path, "", at, parts, count);
    after(rule);
    return done;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return gathered(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    return gathered(fd, parts, count, at);
}

/* The flags are only hints about speed. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    (void)flags;
    return gathered(fd, parts, count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    (void)flags;
    return gathered(fd, parts, count, at);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    struct iovec part = {(void *)data, length};
    return gathered(fd, &part, 1, at);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    struct iovec part = {(void *)data, length};
    return gathered(fd, &part, 1, at);
}

int fdatasync(int fd) {
    struct rule *rule = strike_fd("sync", fd);
    if (before(rule)) return -1;
    char path[4096];
    int recording = begin_fd(fd, path, sizeof path);
    int done = REAL(fdatasync)(fd);
    end(recording, done == 0, "sync", path, "", 0, NULL, 0);
    after(rule);
    return done;
}

int fsync(int fd) {
    struct rule *rule = strike_fd("sync", fd);
    if (before(rule)) return -1;
    char path[4096];
    int recording = begin_fd(fd, path, sizeof path);
    int done = REAL(fsync)(fd);
    end(recording, done == 0, "sync", path, "", 0, NULL, 0);
    after(rule);
    return done;
}

int rename(const char *from, const char *to) {
    struct rule *rule = strike("rename", to);
    if (before(rule)) return -1;
    int recording = begin(from);
    int done = REAL(rename)(from, to);
    end(recording, done == 0, "rename", from, to, 0, NULL, 0);
    after(rule);
    return done;
}

int unlink(const char *path) {
    int recording = begin(path);
    int done = REAL(unlink)(path);
    end(recording, done == 0, "unlink", path, "", 0, NULL, 0);
    return done;
}

int mkdir(const char *path, mode_t mode) {
    int recording = begin(path);
    int done = REAL(mkdir)(path, mode);
    end(recording, done == 0, "mkdir", path, "", 0, NULL, 0);
    return done;
}

static int truncated(int fd, off_t size) {
    char path[4096];
    int recording = begin_fd(fd, path, sizeof path);
    int done = syscall(SYS_ftruncate, fd, size);
    end(recording, done == 0, "truncate", path, "", size, NULL, 0);
    return done;
}

int ftruncate(int fd, off_t size) { return truncated(fd, size); }

int ftruncate64(int fd, off64_t size) { return truncated(fd, size); }

static int opened(const char *path, int flags, mode_t mode) {
    struct stat found;
    int recording = flags & O_CREAT ? begin(path) : 0;
    int is_new = recording && stat(path, &found) != 0;
    int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    end(recording, fd >= 0 && is_new, "create", path, "", 0, NULL, 0);
    return fd;
}

#define MODE(flags)                         \
    mode_t mode = 0;                        \
    if ((flags) & (O_CREAT | O_TMPFILE)) {  \
        va_list rest;                       \
        va_start(rest, flags);              \
        mode = va_arg(rest, int);           \
        va_end(rest);                       \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return opened(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return opened(path, flags | O_LARGEFILE, mode);
}
