/* How many CPUs this process may really use. */
#define _GNU_SOURCE
#include "platform/threads.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 512, FILE_SIZE = 4096 };

/* The start of a file as a string; 0 if it cannot be read. */
static size_t read_text(const char *path, char *text, size_t size) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    size_t used = 0;
    ssize_t got;
    while (used < size - 1 && (got = read(file, text + used, size - 1 - used)) > 0) used += (size_t)got;
    close(file);
    text[used] = '\0';
    return used;
}

static int join(char *path, const char *mount, const char *group, const char *name) {
    const size_t a = strlen(mount), b = strlen(group), c = strlen(name);
    if (a + b + c >= PATH_SIZE) return 0;
    memcpy(path, mount, a);
    memcpy(path + a, group, b);
    memcpy(path + a + b, name, c + 1);
    return 1;
}

/* Whole CPUs of the quota in one control group; 0 for no quota. */
static long group_cpus(const char *mount, const char *group, int version) {
    char path[PATH_SIZE], text[64], *end;
    long quota, period;
    if (version == 2) { /* "max 100000" or "150000 100000" */
        if (!join(path, mount, group, "/cpu.max") || !read_text(path, text, sizeof text)) return 0;
        quota = strtol(text, &end, 10);
        if (end == text) return 0;
        period = strtol(end, NULL, 10);
    } else {
        if (!join(path, mount, group, "/cpu.cfs_quota_us") || !read_text(path, text, sizeof text)) return 0;
        quota = strtol(text, NULL, 10); /* -1 for none */
        if (!join(path, mount, group, "/cpu.cfs_period_us") || !read_text(path, text, sizeof text)) return 0;
        period = strtol(text, NULL, 10);
    }
    if (quota <= 0 || period <= 0) return 0;
    return quota < period ? 1 : quota / period; /* more threads than that would be throttled */
}

static void limit(long *cpus, long found) {
    if (found > 0 && found < *cpus) *cpus = found;
}

/* The tightest quota from a control group up to the root. */
static void limit_by_groups(long *cpus, const char *mount, char *group, int version) {
    for (;;) {
        limit(cpus, group_cpus(mount, group, version));
        char *slash = strrchr(group, '/');
        if (slash == NULL) return;
        *slash = '\0';
    }
}

/* "cpu" as one of the words between colons and commas of a line of /proc/self/cgroup. */
static int names_cpu(const char *controllers, const char *end) {
    for (const char *at = controllers; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        if (stop - at == 3 && memcmp(at, "cpu", 3) == 0) return 1;
        at = stop + 1;
    }
    return 0;
}

static void limit_by_quota(long *cpus) {
    char text[FILE_SIZE];
    if (!read_text("/proc/self/cgroup", text, sizeof text)) return;
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        if (group == controllers + 1) {
            limit_by_groups(cpus, "/sys/fs/cgroup", group + 1, 2);
        } else if (names_cpu(controllers + 1, group)) {
            char copy[PATH_SIZE];
            if (strlen(group + 1) >= sizeof copy) continue;
            memcpy(copy, group + 1, strlen(group + 1) + 1);
            limit_by_groups(cpus, "/sys/fs/cgroup/cpu", group + 1, 1);
            limit_by_groups(cpus, "/sys/fs/cgroup/cpu,cpuacct", copy, 1);
        }
    }
}

uint32_t cf_usable_cpus(void) {
    long cpus = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cpus = CPU_COUNT(&set);
    } else {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        if (online > 0) cpus = online;
    }
    limit_by_quota(&cpus);
    /* A small function sees two CPUs and gets a share of them: 1769 MB are one (AWS Lambda's documentation). */
    const char *memory = getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE");
    if (memory != NULL) {
        const long share = (strtol(memory, NULL, 10) + 1769 / 2) / 1769;
        if (strtol(memory, NULL, 10) > 0) limit(&cpus, share > 1 ? share : 1);
    }
    return cpus < 1 ? 1u : cpus > CF_MAX_THREADS ? (uint32_t)CF_MAX_THREADS : (uint32_t)cpus;
}
