/* immure-python3.11: a warm CPython. The program of a template's jail, and of every job's that is forked from
 * it.
 *
 *     immure-python3.11 INTERPRETER [OPTION...] -- [MODULE...]
 *
 * INTERPRETER and the options are how a job's command line begins, word for word; the modules are imported
 * beforehand. Descriptor 0 is the template's socket (jail/zygote.h), 2 is where it complains.
 *
 * What must hold: a program cannot tell this from `INTERPRETER [OPTION...] FILE [ARGUMENT...]`, but for what
 * README.md lists. Where a job asks for something that a started interpreter cannot become any more, the
 * interpreter itself is exec'd, in the same process and the same jail. Until the fork nothing in here sees a
 * byte of a job. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/plan/plan.h"
#include "jail/runtime/python/job.h"
#include "jail/runtime/python/match.h"
#include "jail/runtime/python/template.h"
#include "jail/runtime/python/words.h"
#include "jail/zygote.h"

enum { EXIT_USAGE = 2, EXIT_NOT_RUN = 127 };

static int fail(int log_fd, const char *what)
{
    dprintf(log_fd, "immure-python: %s: %s\n", what, strerror(errno));
    return -1;
}

/* Puts the ends of pipes on 0, 1 and 2, because the buffers of sys.stdin, sys.stdout and sys.stderr are made
 * for what they find there, and a job's are pipes. The other ends are closed: nobody reads or writes before
 * the fork. */
static int stdio_pipes(void)
{
    for (int fd = 0; fd < 3; fd++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) {
            return -1;
        }
        int moved = dup2(ends[fd == 0 ? 0 : 1], fd);
        close(ends[0]);
        close(ends[1]);
        if (moved < 0) {
            return -1;
        }
    }
    return 0;
}

/* Runs the interpreter itself, from the beginning. The dispositions that this process has inherited from a
 * started interpreter would outlive exec. */
static int exec_interpreter(const struct zygote_run *run)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (run->bridge) {
        fcntl(JAIL_BRIDGE_IN, F_SETFD, 0);
        fcntl(JAIL_BRIDGE_OUT, F_SETFD, 0);
    }
    execve(run->argv[0], run->argv, run->envp);
    fail(STDERR_FILENO, run->argv[0]);
    return EXIT_NOT_RUN;
}

static int add_loads(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    *(unsigned long long *)argument = info->dlpi_adds;
    return 1;
}

/* How many libraries have been loaded since the process began. */
static unsigned long long loaded_libraries(void)
{
    unsigned long long loads = 0;
    dl_iterate_phdr(add_loads, &loads);
    return loads;
}

/* Ends the process. What the template's libraries would do in exit() is to free memory, all over the place;
 * who else could have asked to be called there would have to be a library that the program has loaded. */
static void __attribute__((noreturn)) leave(int code, unsigned long long loaded_before)
{
    if (loaded_libraries() != loaded_before) {
        exit(code);
    }
    fflush(NULL);
    _exit(code);
}

/* The stack of a job is guarded by a value that no other job knows. Only where no frame returns any more that
 * has been entered under the old one. */
static inline __attribute__((always_inline)) void renew_canary(void)
{
#ifdef __x86_64__
    uintptr_t canary;
    if (getrandom(&canary, sizeof canary, 0) != (ssize_t)sizeof canary) {
        _exit(EXIT_FAILURE);
    }
    /* As glibc has it: a string that ends before it cannot be made to go on. */
    __asm__ volatile("movq %0, %%fs:0x28" : : "r"(canary & ~(uintptr_t)0xff));
#endif
}

static void park(void *python, bool is_awaited)
{
    job_park(python, is_awaited);
}

/* The functions that libraries call of each other are looked up here, once and for all, rather than in every
 * job on the first call. Only the dynamic linker can do that, and only when a process begins. */
static void bind_all(char **argv)
{
    static const char variable[] = "LD_BIND_NOW", mark[] = "template";
    const char *value = getenv(variable);
    if (value && strcmp(value, mark) == 0) {
        unsetenv(variable);
    } else if (!value && setenv(variable, mark, 1) == 0) {
        execv("/proc/self/exe", argv);
        unsetenv(variable); /* it works without */
    }
}

int main(int argc, char **argv)
{
    bind_all(argv);
    int options = 1;
    while (options < argc && strcmp(argv[options], "--") != 0) {
        options++;
    }
    if (options < 2 || options == argc) {
        fputs("usage: immure-python3.11 INTERPRETER [OPTION...] -- [MODULE...]\n", stderr);
        return EXIT_USAGE;
    }
    argv[options] = NULL;
    int sock = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (sock < 0 || log_fd < 0 || stdio_pipes() < 0) {
        fail(STDERR_FILENO, "taking descriptors");
        return EXIT_FAILURE;
    }
    /* What ps shows is the interpreter's name. */
    const char *slash = strrchr(argv[1], '/');
    prctl(PR_SET_NAME, slash ? slash + 1 : argv[1]);

    struct python python;
    if (python_start(argv + 1, (size_t)options - 1, (char *const *)argv + options + 1,
                     (size_t)(argc - options - 1), log_fd, &python) < 0) {
        return EXIT_FAILURE;
    }
    close(log_fd);
    job_rehearse(&python);
    unsigned long long loaded = loaded_libraries();
    struct zygote_run run;
    if (zygote_serve(sock, park, &python, &run) < 0) {
        return EXIT_FAILURE;
    }
    renew_canary(); /* main() itself does not return from here on */
    struct script script;
    if (!match_run(&python, &run, &script)) {
        _exit(exec_interpreter(&run));
    }
    leave(job_run(&python, &run, &script), loaded);
}
