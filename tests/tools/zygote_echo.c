/* A template whose "interpreter" is this: it prints what it has been given and looks around, or does what its
 * last argument says. For the tests of the jail side, which need no Python. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/zygote.h"

static void print_directory(const char *path)
{
    DIR *dir = opendir(path);
    printf("%s:", path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.') {
            printf(" %s", entry->d_name);
        }
    }
    printf("\n");
    if (dir) {
        closedir(dir);
    }
}

static void print_file(const char *path)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    printf("%s: %s\n", path, n < 0 ? strerror(errno) : text);
    if (fd >= 0) {
        close(fd);
    }
}

static int look_around(const struct zygote_run *run)
{
    char cwd[256];
    for (size_t i = 0; i < run->argc; i++) {
        printf("arg %s\n", run->argv[i]);
    }
    for (size_t i = 0; i < run->envc; i++) {
        printf("env %s\n", run->envp[i]);
    }
    printf("uid %u gid %u pid %d cwd %s\n", getuid(), getgid(), (int)getpid(), getcwd(cwd, sizeof cwd));
    static const char *const directories[] = {"/", "/tmp", "/workspace", "/immure", "/proc/self/fd"};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        print_directory(directories[i]);
    }
    print_file("/immure/main.txt");
    print_file("/proc/1/environ");
    print_file("/proc/self/status");
    int fd = open("/immure/evil", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    printf("write: %s\n", fd < 0 ? strerror(errno) : "allowed");
    fd = open("/workspace/made", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    printf("workspace: %s\n", fd < 0 ? strerror(errno) : "written");
    printf("mkdir: %s\n", mkdir("/tmp/x", 0755) < 0 ? strerror(errno) : "done");
    fflush(stdout);
    return 7;
}

/* Its own PID, and those of children and a grandchild. */
static void print_pids(void)
{
    printf("pid %d\n", (int)getpid());
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            printf("pid %d\n", (int)getpid());
            fflush(stdout);
            if (i > 0 || fork() > 0) {
                waitpid(-1, NULL, 0);
                _exit(0);
            }
            printf("pid %d\n", (int)getpid());
            fflush(stdout);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

/* In a jail the leak checker cannot look at its own process, and says so with an exit code of its own; and a
 * crash is to be one. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:handle_segv=0";
}

int main(void)
{
    int sock = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    close(null);
    pid_t template_pid = getpid();
    struct zygote_run run;
    if (sock < 0 || zygote_serve(sock, NULL, NULL, &run) < 0) {
        return 1;
    }
    const char *what = run.argv[run.argc - 1];
    if (strcmp(what, "segv") == 0) {
        raise(SIGSEGV);
    } else if (strcmp(what, "pids") == 0) {
        printf("template %d\n", (int)template_pid);
        print_pids();
        return 0;
    } else if (strcmp(what, "loop") == 0) {
        for (;;) {
        }
    } else if (strcmp(what, "exit") == 0) {
        return 3;
    }
    return look_around(&run);
}
