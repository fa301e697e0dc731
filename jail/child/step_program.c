/* Steps of the program's own process: pipes, limits, filter, exec; and the pipes' step of PID 1.
 *
 * Child side: raw system calls only. From SECCOMP on, the process shares memory with a PID 1 that stands
 * still: a system call that the filter hands to PID 1 would wait for ever, so nothing but exec comes behind
 * it. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/child/child.h"

/* Puts descriptors at `first` and above. They may lie there already, in another order: so they all go out of
 * the way before they go into place. */
static int place_fds(struct child *child, const int *fds, int n, int first)
{
    int moved[3];
    child_forget_parent(child); /* which may lie there as well */
    child->call = "fcntl";
    for (int i = 0; i < n; i++) {
        moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, JAIL_PROGRAM_FDS);
        if (moved[i] < 0) {
            return -errno;
        }
    }
    child->call = "dup2";
    for (int i = 0; i < n; i++) {
        if (dup2(moved[i], first + i) < 0) {
            return -errno;
        }
        close(moved[i]);
    }
    return 0;
}

int step_STDIO(struct child *child, const struct jail_step *step)
{
    (void)step;
    int r = place_fds(child, &child->fds[JAIL_FD_STDIN], 3, STDIN_FILENO);
    if (r < 0) {
        return r;
    }
    /* Whatever else is open, however it was given to us, ends at the exec. */
    child->call = "close_range";
    return close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

int step_BRIDGE(struct child *child, const struct jail_step *step)
{
    (void)step;
    return place_fds(child, &child->fds[JAIL_FD_BRIDGE_IN], 2, JAIL_BRIDGE_IN);
}

int step_RUN(struct child *child, const struct jail_step *step)
{
    /* zygote_serve() returns to the interpreter; the loop stops here. */
    (void)child;
    (void)step;
    return -EINVAL;
}

int step_PROGRAM(struct child *child, const struct jail_step *step)
{
    /* init_main() makes the process; the loop stops here. */
    (void)child;
    (void)step;
    return -EINVAL;
}

int step_UMASK(struct child *child, const struct jail_step *step)
{
    (void)child;
    umask(step->umask.mask);
    return 0;
}

int step_WORKDIR(struct child *child, const struct jail_step *step)
{
    child->call = "chdir";
    return chdir(jail_plan_string(child->plan, step->workdir.path)) < 0 ? -errno : 0;
}

int step_RLIMIT(struct child *child, const struct jail_step *step)
{
    struct rlimit limit = {.rlim_cur = step->rlimit.soft, .rlim_max = step->rlimit.hard};
    child->call = "prlimit64";
    /* No core at all: 0 keeps the kernel from writing a file, but not from starting the host's handler
     * (core_pattern with a pipe), as root, with what the program has made of its memory as input. 1 is too
     * little for any file, and the one value that stops the pipe as well. */
    const struct rlimit no_core = {.rlim_cur = 1, .rlim_max = 1};
    if (step->rlimit.resource == RLIMIT_CORE && limit.rlim_max == 0) {
        if (prlimit(0, RLIMIT_CORE, &no_core, NULL) == 0) {
            return 0;
        }
        if (errno != EPERM) { /* EPERM: the parent itself has less */
            return -errno;
        }
    }
    return prlimit(0, step->rlimit.resource, &limit, NULL) < 0 ? -errno : 0;
}

int step_SECCOMP(struct child *child, const struct jail_step *step)
{
    struct sock_fprog program = {.len = (unsigned short)step->seccomp.length,
                                 .filter = (void *)(child->plan->arena + step->seccomp.bpf)};
    child->call = "seccomp";
    if (!step->seccomp.notify) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
    }
    /* Once PID 1 has picked a call up, only a fatal signal interrupts it, so that it is not counted twice.
     * Kernels before 5.19 do not have that flag. */
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (listener < 0 && errno == EINVAL) {
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    }
    if (listener < 0) {
        return -errno;
    }
    child->listener = (int)listener;
    return 0;
}

const char *step_search_path(char *const *envp)
{
    for (; *envp; envp++) {
        if (strncmp(*envp, "PATH=", 5) == 0) {
            return *envp + 5;
        }
    }
    return "/usr/bin:/bin";
}

bool step_next_on_path(const char **from, const char *name, char *full)
{
    if (!*from) {
        return false;
    }
    size_t length = strcspn(*from, ":"), name_length = strlen(name);
    full[0] = '\0';
    if (length > 0 && length + name_length + 2 <= PATH_MAX) {
        memcpy(full, *from, length);
        full[length] = '/';
        memcpy(full + length + 1, name, name_length + 1);
    }
    *from = (*from)[length] ? *from + length + 1 : NULL;
    return true;
}

int step_EXEC(struct child *child, const struct jail_step *step)
{
    const char *path = jail_plan_string(child->plan, step->exec.path);
    child->call = "execve";
    if (strchr(path, '/')) {
        execve(path, child->argv, child->envp);
        return -errno;
    }
    /* A bare name is looked up inside the jail. */
    int error = ENOENT;
    char full[PATH_MAX];
    const char *from = step_search_path(child->envp);
    while (step_next_on_path(&from, path, full)) {
        if (full[0]) {
            execve(full, child->argv, child->envp);
            error = errno == ENOENT || errno == ENOTDIR ? error : errno;
        }
    }
    return -error;
}
