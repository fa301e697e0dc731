/* immure-python.so: makes a warm CPython of the very interpreter that jobs name, whichever version it is
 * from 3.9 on. The shared object of a template's jail, and of every job's that is forked from it.
 *
 *     LD_PRELOAD=/immure/template INTERPRETER [OPTION...] /proc/self/fd/9 [MODULE...]
 *
 * INTERPRETER and the options are how a job's command line begins, word for word; the modules are imported
 * beforehand. Descriptor 0 is the template's socket (jail/zygote.h), 2 is where it complains. Preloaded, this
 * takes both away before the interpreter starts, and puts start.py on descriptor 9, which comes back here as
 * to a module. Where descriptor 0 is no socket, this is a jail of one job (standby.c), and nothing is forked.
 *
 * What must hold: a program cannot tell this from `INTERPRETER [OPTION...] FILE [ARGUMENT...]`, but for what
 * README.md lists. Where a job asks for something that a started interpreter cannot become any more, the
 * interpreter itself is exec'd, in the same process and the same jail. Until the fork nothing in here sees a
 * byte of a job. */
#include "jail/runtime/python/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/plan/template_plan.h"
#include "jail/runtime/python/job.h"
#include "jail/runtime/python/match.h"
#include "jail/runtime/python/scripts.h"
#include "jail/runtime/python/standby.h"
#include "jail/runtime/python/template.h"
#include "jail/runtime/python/words.h"
#include "jail/zygote.h"

enum { EXIT_NOT_RUN = 127 };

/* The process is the template's, and no other part of it could hand this on from before main(). */
static struct before_main {
    struct memory memory;
    char **environment;
    int sock, log_fd;
    bool stands_by;
} before_main = {.sock = -1};

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

/* The environment as it is now; the strings themselves never change. */
static char **copy_environment(void)
{
    size_t n = 0;
    while (environ[n]) {
        n++;
    }
    char **copy = calloc(n + 1, sizeof *copy);
    if (copy) {
        memcpy(copy, environ, n * sizeof *copy);
    }
    return copy;
}

/* Whoever it has started for sees no more of it, in /proc/self/environ either. */
static void hide_preload(void)
{
    static const char name[] = "LD_PRELOAD=";
    /* A policy may have one, too. */
    for (char **variable = environ; *variable;) {
        char *text = *variable;
        if (strncmp(text, name, strlen(name)) != 0) {
            variable++;
            continue;
        }
        for (char **at = variable; *at; at++) {
            at[0] = at[1];
        }
        memset(text, 0, strlen(text));
    }
}

/* In a pipe, which every policy allows that has the streams of one. */
static int offer_start(const char *own_path)
{
    char text[1024];
    int ends[2];
    int size = snprintf(text, sizeof text, text_of(TEXT_START), own_path);
    if (size < 0 || (size_t)size >= sizeof text || pipe2(ends, O_CLOEXEC) < 0) {
        return -1;
    }
    CLEANUP(fd_closep) int reader = ends[0];
    CLEANUP(fd_closep) int writer = ends[1];
    return io_write_full(writer, text, (size_t)size) < 0 || dup2(reader, TEMPLATE_START_FD) < 0 ? -1 : 0;
}

static void __attribute__((constructor)) begin(void)
{
    Dl_info own;
    if (!getenv("LD_PRELOAD") || !dladdr(&before_main, &own)) {
        return; /* loaded by other means: not a template */
    }
    hide_preload();
    before_main.stands_by = standby_is_wanted(STDIN_FILENO);
    before_main.sock = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, TEMPLATE_START_FD + 1);
    before_main.log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, TEMPLATE_START_FD + 1);
    before_main.environment = copy_environment();
    if (before_main.sock < 0 || before_main.log_fd < 0 || !before_main.environment ||
        offer_start(own.dli_fname) < 0 || stdio_pipes() < 0) {
        fail(STDERR_FILENO, "taking descriptors");
        _exit(EXIT_FAILURE);
    }
    if (!before_main.stands_by) {
        memory_prepare(&before_main.memory);
    }
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

static int await_program(struct python *python, struct zygote_run *ret)
{
    if (python->stands_by) {
        close(before_main.sock);
        job_park(python, true);
        return standby_serve(python, ret);
    }
    job_rehearse(python);
    return zygote_serve(before_main.sock, park, python, ret);
}

/* Neither this nor a frame below it, those of the interpreter that runs start.py, ever returns. */
static void __attribute__((noreturn)) serve(struct python *python)
{
    if (python_start(python) < 0) {
        _exit(EXIT_FAILURE);
    }
    close(TEMPLATE_START_FD);
    close(python->log_fd);
    unsigned long long loaded = loaded_libraries();
    struct zygote_run run;
    if (await_program(python, &run) < 0) {
        _exit(EXIT_FAILURE);
    }
    renew_canary();
    struct script script;
    if (!match_run(python, &run, &script)) {
        _exit(exec_interpreter(&run));
    }
    leave(job_run(python, &run, &script), loaded);
}

static PyObject *become_template(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    static struct python python;
    if (before_main.sock < 0) {
        PyErr_SetString(PyExc_RuntimeError, "this interpreter was not started to be a template");
        return NULL;
    }
    python = (struct python){.memory = &before_main.memory,
                             .environment = before_main.environment,
                             .log_fd = before_main.log_fd,
                             .stands_by = before_main.stands_by};
    serve(&python);
}

PyMODINIT_FUNC PyInit_immure_template(void);

PyMODINIT_FUNC PyInit_immure_template(void)
{
    static PyMethodDef methods[] = {{.ml_name = "serve", .ml_meth = become_template, .ml_flags = METH_NOARGS},
                                    {0}};
    static PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "immure_template", .m_methods = methods};
    return PyModuleDef_Init(&definition);
}
