/* Runs what programs usually run, and throws it away.
 *
 * The first run of a function writes all over the interpreter: symbols of libraries are resolved, code is
 * specialised, caches are filled. What must hold: nothing of it can be seen by a program. */
#include "jail/runtime/python/rehearse.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

/* The scripts as they are, put here by the assembler; the paths are relative to the source root. */
#define SCRIPT(name, path)                                                                                   \
    __asm__(".pushsection .rodata\n" #name "_begin: .incbin \"" path "\"\n" #name "_end: .byte 0\n"          \
            ".popsection\n");                                                                                \
    extern const char name##_begin[] __attribute__((visibility("hidden")));                                  \
    extern const char name##_end[] __attribute__((visibility("hidden")))

SCRIPT(library_script, "jail/runtime/python/rehearsal/library.py");
SCRIPT(job_script, "jail/runtime/python/rehearsal/job.py");
SCRIPT(least_script, "jail/runtime/python/rehearsal/least.py");

FILE *rehearsal_open(enum rehearsal rehearsal)
{
    static const struct {
        const char *begin, *end;
    } scripts[] = {[REHEARSAL_LIBRARY] = {library_script_begin, library_script_end},
                   [REHEARSAL_JOB] = {job_script_begin, job_script_end},
                   [REHEARSAL_LEAST] = {least_script_begin, least_script_end}};
    const char *begin = scripts[rehearsal].begin;
    return fmemopen((void *)(uintptr_t)begin, (size_t)(scripts[rehearsal].end - begin), "r");
}

int rehearsal_divert_stdout(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -1;
    }
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    return ends[0];
}

/* From a FILE, as a job's script is; in a context of its own: what it sets there goes with it. */
static int run_once(enum rehearsal rehearsal, PyObject *names)
{
    FILE *file = rehearsal_open(rehearsal);
    PyObject *context = PyContext_New(), *none = NULL;
    if (!file) {
        PyErr_SetFromErrno(PyExc_OSError);
    } else if (context && PyContext_Enter(context) == 0) {
        none = PyRun_FileExFlags(file, "<rehearsal>", Py_file_input, names, names, 1, NULL);
        PyContext_Exit(context);
    }
    Py_XDECREF(context);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

static int run_times(enum rehearsal rehearsal, int times)
{
    PyObject *name = PyUnicode_FromString("rehearsal");
    int r = name ? 0 : -1;
    for (int i = 0; i < times && r == 0; i++) {
        PyObject *names = PyDict_New();
        r = names ? PyDict_SetItemString(names, "__name__", name) : -1;
        r = r < 0 ? r : run_once(rehearsal, names);
        Py_XDECREF(names);
    }
    Py_XDECREF(name);
    return r;
}

int rehearse(enum rehearsal rehearsal, int times)
{
    CLEANUP(fd_closep) int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    CLEANUP(fd_closep) int reader = kept < 0 ? -1 : rehearsal_divert_stdout();
    if (reader < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    int r = run_times(rehearsal, times);
    dup2(kept, STDOUT_FILENO);
    return r;
}
