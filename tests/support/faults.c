/*
 * A library to be loaded before all others (LD_PRELOAD), which lets file operations fail, as SQLite's tests do.
 *
 * Once armed, it counts the calls that change a file system, below one folder. At the chosen one the process is killed,
 * interrupted (SIGINT), or told an error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, KILL, INTERRUPT, FAIL_ONCE, FAIL_ON };
enum { NEEDS_NONE, TAKES_SPACE }; /* what a full disk refuses is the second kind */

static const char *root = "";
static long chosen, counted;
static int mode, number, full_disk, no_exchange;

/* `error` ENOSPC and EDQUOT: only calls that take space fail. `exchanges` 0: renameat2 is refused throughout. */
void fault_arm(const char *folder, int how, long at, int error, int exchanges) {
    root = strdup(folder);
    chosen = at;
    counted = 0;
    number = error;
    full_disk = error == ENOSPC || error == EDQUOT;
    no_exchange = !exchanges;
    mode = how;
}

long fault_count(void) { return counted; }
void fault_disarm(void) { mode = OFF, no_exchange = 0; }

static int is_below(const char *path) { return path[0] != '/' || strncmp(path, root, strlen(root)) == 0; }

/* Count a call; nonzero where it must fail, with errno set. It may not return. */
static int fault(int kind) {
    if (full_disk && kind != TAKES_SPACE) return 0;
    const long now = ++counted;
    if (now == chosen && mode == KILL) kill(getpid(), SIGKILL);
    if (now == chosen && mode == INTERRUPT) kill(getpid(), SIGINT);
    if ((mode == FAIL_ONCE && now == chosen) || (mode == FAIL_ON && now >= chosen)) {
        errno = number;
        return 1;
    }
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ARMED(path) (*root != '\0' && is_below(path))

#define OPEN(name)                                                    \
    int name(const char *path, int flags, ...) {                      \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        const mode_t permissions = va_arg(rest, mode_t);              \
        va_end(rest);                                                 \
        if (ARMED(path) && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && fault(TAKES_SPACE)) return -1; \
        return REAL(name)(path, flags, permissions);                  \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                  \
    int name(int folder, const char *path, int flags, ...) {          \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        const mode_t permissions = va_arg(rest, mode_t);              \
        va_end(rest);                                                 \
        if (ARMED(path) && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && fault(TAKES_SPACE)) return -1; \
        return REAL(name)(folder, path, flags, permissions);          \
    }
OPENAT(openat)
OPENAT(openat64)

/* Half of what is written has arrived when the process is killed. */
ssize_t write(int file, const void *data, size_t size) {
    if (*root != '\0' && file > 2) {
        if (mode == KILL && counted + 1 == chosen) (void)REAL(write)(file, data, size / 2);
        if (fault(TAKES_SPACE)) return -1;
    }
    return REAL(write)(file, data, size);
}

/* What the disk has does not matter here, and waiting for it takes long. */
int fsync(int file) { return *root == '\0' ? REAL(fsync)(file) : fault(TAKES_SPACE) ? -1 : 0; }

#define CALL(result, name, parameters, arguments, when, kind) \
    result name parameters {                                  \
        if (when && fault(kind)) return -1;                   \
        return REAL(name) arguments;                          \
    }

#define ON_FILE (*root != '\0' && file > 2)
CALL(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), ON_FILE, TAKES_SPACE)
CALL(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), ON_FILE,
     TAKES_SPACE)
CALL(ssize_t, writev, (int file, const struct iovec *data, int count), (file, data, count), ON_FILE, TAKES_SPACE)
CALL(ssize_t, sendfile, (int file, int from, off_t *at, size_t size), (file, from, at, size), ON_FILE, TAKES_SPACE)
CALL(ssize_t, sendfile64, (int file, int from, off64_t *at, size_t size), (file, from, at, size), ON_FILE, TAKES_SPACE)
CALL(int, ftruncate, (int file, off_t size), (file, size), ON_FILE, TAKES_SPACE)
CALL(int, ftruncate64, (int file, off64_t size), (file, size), ON_FILE, TAKES_SPACE)
CALL(int, fchmod, (int file, mode_t permissions), (file, permissions), ON_FILE, NEEDS_NONE)
CALL(int, flock, (int file, int operation), (file, operation), ON_FILE, NEEDS_NONE)
CALL(int, truncate, (const char *path, off_t size), (path, size), ARMED(path), TAKES_SPACE)
CALL(int, truncate64, (const char *path, off64_t size), (path, size), ARMED(path), TAKES_SPACE)
CALL(int, mkdir, (const char *path, mode_t permissions), (path, permissions), ARMED(path), TAKES_SPACE)
CALL(int, mkdirat, (int folder, const char *path, mode_t permissions), (folder, path, permissions), ARMED(path),
     TAKES_SPACE)
CALL(int, rmdir, (const char *path), (path), ARMED(path), NEEDS_NONE)
CALL(int, unlink, (const char *path), (path), ARMED(path), NEEDS_NONE)
CALL(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), ARMED(path), NEEDS_NONE)
CALL(int, chmod, (const char *path, mode_t permissions), (path, permissions), ARMED(path), NEEDS_NONE)
CALL(int, fchmodat, (int folder, const char *path, mode_t permissions, int flags), (folder, path, permissions,
     flags), ARMED(path), NEEDS_NONE)
CALL(int, link, (const char *from, const char *path), (from, path), ARMED(path), TAKES_SPACE)
CALL(int, linkat, (int a, const char *from, int b, const char *path, int flags), (a, from, b, path, flags),
     ARMED(path), TAKES_SPACE)
CALL(int, symlink, (const char *from, const char *path), (from, path), ARMED(path), TAKES_SPACE)
CALL(int, rename, (const char *from, const char *path), (from, path), ARMED(path), NEEDS_NONE)
CALL(int, renameat, (int a, const char *from, int b, const char *path), (a, from, b, path), ARMED(path), NEEDS_NONE)

int renameat2(int a, const char *from, int b, const char *path, unsigned flags) {
    if (no_exchange) {
        errno = EINVAL;
        return -1;
    }
    if (ARMED(path) && fault(NEEDS_NONE)) return -1;
    return REAL(renameat2)(a, from, b, path, flags);
}
