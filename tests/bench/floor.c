/* The least that a jail costs on this machine: what a kernel is asked for by any launcher, and nothing else.
 * No policy, no limits, no system-call filter, no answer; whoever jails programs can come near to it, not
 * below.
 *
 * It starts a command as the second process of seven fresh namespaces, on a root of its own with /usr
 * read-only, and exits with 0 if that did. It is timed from outside, with its own start; it is linked
 * statically, so that this is as short as the C library has it.
 *
 * usage: floor COMMAND [ARGUMENT...]
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMESPACES                                                                                           \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |               \
     CLONE_NEWCGROUP)
#define NEW_ROOT "/tmp"

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void check(long result, const char *what)
{
    if (result < 0) {
        fail(what);
    }
}

/* Returns like fork(2). The child is the first process of its namespaces. */
static pid_t fork_into_namespaces(void)
{
    struct clone_args args = {.flags = NAMESPACES, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    check(pid, "clone3");
    return (pid_t)pid;
}

/* Returns the exit code of a child that ended by itself; others fail. */
static int wait_for(pid_t pid)
{
    int status;
    check(waitpid(pid, &status, 0), "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* /proc/PID/name of a child that waits for it. */
static void write_map(pid_t pid, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    check(fd, path);
    check(write(fd, text, strlen(text)), path);
    close(fd);
}

static void map_us_to_root(pid_t pid)
{
    char uids[32], gids[32];
    snprintf(uids, sizeof uids, "0 %u 1", geteuid());
    snprintf(gids, sizeof gids, "0 %u 1", getegid());
    write_map(pid, "setgroups", "deny");
    write_map(pid, "uid_map", uids);
    write_map(pid, "gid_map", gids);
}

static void change_root(void)
{
    static const char *const links[][2] = {{"usr/bin", "bin"}, {"usr/lib", "lib"}, {"usr/lib64", "lib64"}};
    check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    check(mount("tmpfs", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m"), "root");
    check(chdir(NEW_ROOT), "chdir");
    check(mkdir("usr", 0755), "mkdir");
    check(mkdir("proc", 0755), "mkdir");
    check(mkdir("tmp", 0755), "mkdir");
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        check(symlink(links[i][0], links[i][1]), "symlink");
    }
    check(mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL), "/usr");
    check(mount(NULL, "usr", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL),
          "/usr read-only");
    check(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
    check(mount("tmpfs", "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m"), "scratch");
    check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    check(umount2(".", MNT_DETACH), "umount");
    check(chdir("/"), "chdir");
}

static int run_command(char **argv)
{
    int go[2];
    char byte;
    check(pipe2(go, O_CLOEXEC), "pipe2");
    pid_t pid = fork_into_namespaces();
    if (pid == 0) {
        close(go[1]);
        check(read(go[0], &byte, 1), "read");
        change_root();
        pid_t program = fork();
        check(program, "fork");
        if (program == 0) {
            execv(argv[0], argv);
            fail(argv[0]);
        }
        _exit(wait_for(program));
    }
    map_us_to_root(pid);
    close(go[1]);
    return wait_for(pid);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: floor COMMAND [ARGUMENT...]\n");
        return 2;
    }
    return run_command(argv + 1);
}
