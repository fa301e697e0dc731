/* Runs, in the template, what programs usually run, and throws it away.
 *
 * The first run of a function writes all over the interpreter: symbols of libraries are resolved, code is
 * specialised, caches are filled. In a job each such write copies a page; here it happens once. What must
 * hold: nothing of it can be seen by a program (rehearsal.py). */
#include "jail/runtime/python/rehearse.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>

#define REHEARSALS 20 /* code is specialised when it has run eight times; its callers come later */

__asm__(".pushsection .rodata\n"
        "rehearsal_begin: .incbin \"jail/runtime/python/rehearsal.py\"\n"
        "rehearsal_end: .byte 0\n"
        ".popsection\n");
extern const char rehearsal_begin[] __attribute__((visibility("hidden")));
extern const char rehearsal_end[] __attribute__((visibility("hidden")));

/* From a FILE, as a job's script is. */
static PyObject *run_once(PyObject *names)
{
    FILE *file = fmemopen((void *)(uintptr_t)rehearsal_begin, (size_t)(rehearsal_end - rehearsal_begin), "r");
    if (!file) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyRun_FileExFlags(file, "<rehearsal>", Py_file_input, names, names, 1, NULL);
}

/* In a context of its own: what it sets there goes with it. */
static int run_in_context(PyObject *names)
{
    PyObject *context = PyContext_New();
    if (!context || PyContext_Enter(context) < 0) {
        Py_XDECREF(context);
        return -1;
    }
    PyObject *none = run_once(names);
    int r = PyContext_Exit(context);
    Py_DECREF(context);
    Py_XDECREF(none);
    return none ? r : -1;
}

int rehearse(void)
{
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    PyObject *name = PyUnicode_FromString("rehearsal");
    int r = name ? 0 : -1;
    for (int i = 0; i < REHEARSALS && r == 0; i++) {
        PyObject *names = PyDict_New();
        r = names ? PyDict_SetItemString(names, "__name__", name) : -1;
        r = r < 0 ? r : run_in_context(names);
        Py_XDECREF(names);
    }
    Py_XDECREF(name);
    return r;
}
