/* Tells everything that a jail has made of it, as text that is the same in every jail of one policy:
 * identity, limits, mounts, descriptors, what is refused. A jail in which one step went missing tells
 * something else.
 *
 *     confess [WORD...]     the words are told as well */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

#define NAMES_MAX 256

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names in order, each as `tell` says. */
static void tell_directory(const char *path, void (*tell)(const char *path, const char *name))
{
    char *names[NAMES_MAX] = {0};
    size_t n = 0;
    CLEANUP(dir_closep) DIR *dir = opendir(path);
    printf("%s:%s\n", path, dir ? "" : strerror(errno));
    for (struct dirent *entry; dir && n < NAMES_MAX && (entry = readdir(dir));) {
        names[n++] = strdup(entry->d_name);
    }
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i < n; i++) {
        tell(path, names[i]);
        free(names[i]);
    }
}

static void tell_entry(const char *path, const char *name)
{
    char full[1024];
    struct stat st = {0};
    snprintf(full, sizeof full, "%s/%s", path, name);
    lstat(full, &st);
    printf("  %s %o %u:%u\n", name, st.st_mode, st.st_uid, st.st_gid);
}

/* The kind of what a descriptor leads to, without its number. */
static void tell_descriptor(const char *path, const char *name)
{
    char full[1024], target[256] = "";
    snprintf(full, sizeof full, "%s/%s", path, name);
    if (readlink(full, target, sizeof target - 1) > 0) {
        target[strcspn(target, "[0123456789")] = '\0';
        printf("  %s %s\n", name, target);
    }
}

/* The lines of a file that start with one of the words; all, if there is none. */
static void tell_lines(const char *path, const char *const *words)
{
    char line[4096];
    CLEANUP(file_closep) FILE *file = fopen(path, "re");
    printf("%s:%s\n", path, file ? "" : strerror(errno));
    while (file && fgets(line, sizeof line, file)) {
        for (const char *const *word = words; *word; word++) {
            if (strncmp(line, *word, strlen(*word)) == 0) {
                printf("  %s", line);
            }
        }
    }
}

/* Without the ids and device numbers, which no two jails share, nor the outer uid at the end of a tmpfs's
 * options. */
static void tell_mounts(void)
{
    char line[4096], root[1024], at[1024], rest[2048];
    CLEANUP(file_closep) FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*s %*s %*s %1023s %1023s %2047[^\n]", root, at, rest) == 3) {
            char *uid = strstr(rest, ",uid=");
            printf("mount %s %s %.*s\n", root, at, uid ? (int)(uid - rest) : (int)strlen(rest), rest);
        }
    }
}

static void tell_limits(void)
{
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit = {0};
        getrlimit((__rlimit_resource_t)resource, &limit);
        printf("rlimit %d %lu %lu\n", resource, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
}

static void tell_refusals(void)
{
    printf("unshare: %s\n", unshare(CLONE_NEWUSER) < 0 ? strerror(errno) : "allowed");
    printf("/proc/1/environ: %s\n", access("/proc/1/environ", R_OK) < 0 ? strerror(errno) : "readable");
    printf("write /: %s\n", mkdir("/made", 0755) < 0 ? strerror(errno) : "allowed");
    printf("write /workspace: %s\n", mkdir("/workspace/made", 0755) < 0 ? strerror(errno) : "allowed");
}

int main(int argc, char **argv)
{
    static const char *const status[] = {"Umask",  "PPid",    "Uid",    "Gid",    "Groups", "NSpid",
                                         "NSsid",  "NSpgid",  "SigBlk", "SigIgn", "SigCgt", "Cap",
                                         "NoNewP", "Seccomp", "THP_en", NULL};
    static const char *const anything[] = {"", NULL};
    struct utsname name = {0};
    char cwd[1024] = "";
    for (int i = 1; i < argc; i++) {
        printf("word %s\n", argv[i]);
    }
    for (char **variable = environ; *variable; variable++) {
        printf("env %s\n", *variable);
    }
    uname(&name);
    printf("host %s %s cwd %s\n", name.nodename, name.domainname, getcwd(cwd, sizeof cwd));
    printf("dumpable %d securebits %o\n", prctl(PR_GET_DUMPABLE), (unsigned)prctl(PR_GET_SECUREBITS));
    tell_lines("/proc/self/status", status);
    tell_lines("/proc/self/oom_score_adj", anything);
    tell_directory("/proc/self/fd", tell_descriptor);
    tell_directory("/", tell_entry);
    tell_directory("/workspace", tell_entry);
    tell_directory("/immure", tell_entry);
    tell_mounts();
    tell_limits();
    tell_refusals();
    return 0;
}
