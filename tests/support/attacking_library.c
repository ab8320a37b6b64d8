/*
 * A library that attacks the process which loads it, as a compiled model does that was taken over.
 *
 * COLDFORGE_TEST_FINDINGS: what it leaves as the findings of its verification. Else it prints each attack and the
 * number of the error that it met (0: none), and ends with 9. COLDFORGE_TEST_OUTSIDE: a folder of somebody else's,
 * with a file "secret".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

static void tell(const char *attack, long result) { fprintf(stderr, "%s: %d\n", attack, result < 0 ? errno : 0); }

static void leave_findings(const char *content) {
    char path[4096] = "";
    const int file = open("/proc/self/cmdline", O_RDONLY);
    const long size = read(file, path, sizeof path - 1);
    char *request = path;
    for (char *at = path; at < path + size; at += strlen(at) + 1) request = at; /* the last argument */
    strcpy(strrchr(request, '/'), "/findings.json");
    FILE *findings = fopen(request, "w");
    if (findings == NULL) _exit(8);
    fputs(content, findings);
    fclose(findings);
    _exit(0);
}

__attribute__((constructor)) static void attack(void) {
    if (getenv("COLDFORGE_TEST_FINDINGS") != NULL) leave_findings(getenv("COLDFORGE_TEST_FINDINGS"));
    char path[4096];
    char *const arguments[] = {"true", NULL};
    const char *outside = getenv("COLDFORGE_TEST_OUTSIDE");
    if (outside == NULL) _exit(8);
    snprintf(path, sizeof path, "%s/secret", outside);
    tell("read a file", open(path, O_RDONLY));
    tell("write a file", open(path, O_WRONLY));
    tell("delete a file", unlink(path));
    snprintf(path, sizeof path, "%s/new", outside);
    tell("make a file", open(path, O_WRONLY | O_CREAT, 0600));
    tell("leave a link", symlink("/etc/passwd", path));
    tell("open a socket", socket(AF_INET, SOCK_STREAM, 0));
    tell("a pair of datagrams", socketpair(AF_UNIX, SOCK_DGRAM, 0, (int[2]){0, 0}));
    tell("watch", inotify_init1(0));
    tell("signal the verifier", kill(getppid(), 0));
    const pid_t child = fork();
    if (child == 0) _exit(0);
    tell("fork", child);
    tell("run a program", execv("/bin/true", arguments));
    fprintf(stderr, "a secret in the environment: %d\n", getenv("AWS_SECRET_ACCESS_KEY") == NULL);
    _exit(9);
}
