/* Starts CPython in a template and makes it ready to be forked. Runs once per template, before any job
 * exists.
 *
 * What must hold: nothing that is remembered here is a secret or differs from job to job, and exactly one
 * thread exists at the end. */
#include "jail/runtime/python/template.h"

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <internal/pycore_interp.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/collector.h"
#include "jail/runtime/python/rehearse.h"
#include "jail/runtime/python/remember.h"
#include "jail/runtime/python/words.h"

#if PY_VERSION_HEX >> 16 != 0x030b
#error "written for CPython 3.11: what is restored for a job, and torn down after it, was read in its sources"
#endif

#define REHEARSALS 20 /* code is specialised when it has run eight times; its callers come later */

/* Modules that cannot be shared by jobs. */
static const struct {
    const char *name, *why;
} refused_modules[] = {
    {"multiprocessing.process",
     "its key for connections, and the directory it remembers, would be every job's"},
    {"numpy.random", "every job would draw the same numbers"},
};

static int complain(int log_fd, const char *what, const char *why)
{
    dprintf(log_fd, "immure-python3.11: %s: %s\n", what, why);
    return -1;
}

/* Says what the pending exception is, where a person can read it. */
static int complain_exception(int log_fd, const char *what)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Repr(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8(text) : NULL;
    return complain(log_fd, what, words ? words : "an exception without words");
}

static int initialize(struct python *python, int log_fd)
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyStatus status = PyConfig_SetBytesArgv(&config, (Py_ssize_t)python->argc, python->argv);
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        return complain(log_fd, "starting the interpreter",
                        status.err_msg ? status.err_msg : "it would exit");
    }
    python->safe_path = PyInterpreterState_Get()->config.safe_path;
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

/* PEP 538: in the C locale the interpreter puts LC_CTYPE into its own environment. */
static void remember_locale(struct python *python)
{
    bool before = false;
    for (char **variable = python->environment; *variable; variable++) {
        before |= strncmp(*variable, "LC_CTYPE=", 9) == 0;
    }
    const char *now = getenv("LC_CTYPE");
    python->coerced_locale = now && !before ? strdup(now) : NULL;
}

static int import_modules(char *const *modules, size_t n, int log_fd)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *module = PyImport_ImportModule(modules[i]);
        if (!module) {
            return complain_exception(log_fd, modules[i]);
        }
        Py_DECREF(module);
    }
    PyObject *imported = PyImport_GetModuleDict();
    for (size_t i = 0; i < ARRAY_SIZE(refused_modules); i++) {
        if (PyDict_GetItemString(imported, refused_modules[i].name)) {
            return complain(log_fd, refused_modules[i].name, refused_modules[i].why);
        }
    }
    return 0;
}

/* fork copies one thread; this fails where there are others. */
static int check_single_thread(int log_fd)
{
    return unshare(CLONE_THREAD) < 0 ? complain(log_fd, "threads of imported modules", strerror(errno)) : 0;
}

static int forget_directory(PyObject *path)
{
    PyObject *cache = PySys_GetObject("path_importer_cache");
    PyObject *finder = PyDict_GetItemWithError(cache, path);
    int r = PyErr_Occurred() ? -1 : 0;
    if (r == 0 && finder && PyObject_HasAttrString(finder, "invalidate_caches")) {
        PyObject *none = PyObject_CallMethod(finder, "invalidate_caches", NULL);
        r = none ? 0 : -1;
        Py_XDECREF(none);
    } else if (r == 0 && finder) {
        r = PyDict_DelItem(cache, path);
    }
    return r;
}

/* A variable of the prelude's own; NULL where there is no prelude, or another one. */
static PyObject *prelude_variable(const char *name)
{
    PyObject *function = PyDict_GetItemString(PyEval_GetBuiltins(), "call_tool");
    return function && PyFunction_Check(function)
               ? PyDict_GetItemString(PyFunction_GetGlobals(function), name)
               : NULL;
}

/* What lies in these directories differs from job to job: those of PYTHONPATH, and the session's packages. */
static int forget_directories(void)
{
    PyObject *packages = prelude_variable("packages");
    int r = packages && PyUnicode_Check(packages) ? forget_directory(packages) : 0;
    const char *rest = getenv("PYTHONPATH");
    while (r == 0 && rest && *rest) {
        size_t length = strcspn(rest, ":");
        PyObject *path = PyUnicode_DecodeFSDefaultAndSize(rest, (Py_ssize_t)length);
        r = path ? forget_directory(path) : -1;
        Py_XDECREF(path);
        rest += length + (rest[length] == ':');
    }
    return r;
}

static int call_and_drop(const char *module, const char *name)
{
    PyObject *function = remember_attribute(module, name);
    PyObject *none = function ? PyObject_CallNoArgs(function) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

/* What is behind the functions of a prelude is read at their first call, unless it is there already
 * (prelude/immure-prelude.py). */
static int load_prelude(void)
{
    PyObject *load = prelude_variable("load");
    PyObject *none = load ? PyObject_CallNoArgs(load) : Py_NewRef(Py_None);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

/* Takes all that exists out of the collector's sight, so that no collection in a job touches its pages; but
 * for __main__, which is the program's. The collector then stands as in a fresh interpreter, so that it runs
 * when it would run there. */
static int freeze(void)
{
    PyObject *main = PyImport_AddModule("__main__");
    if (!main) {
        return -1;
    }
    PyGC_Collect();
    PyObject_GC_UnTrack(main);
    PyObject_GC_UnTrack(PyModule_GetDict(main));
    if (call_and_drop("gc", "freeze") < 0) {
        return -1;
    }
    PyObject_GC_Track(main);
    PyObject_GC_Track(PyModule_GetDict(main));
    PyGC_Collect(); /* into the oldest generation */
    return 0;
}

int python_start(char **argv, size_t argc, char *const *modules, size_t n, int log_fd, struct python *ret)
{
    *ret = (struct python){.argv = argv, .argc = argc, .environment = copy_environment()};
    if (!ret->environment) {
        return complain(log_fd, "starting", strerror(errno));
    }
    memory_prepare(&ret->memory);
    if (initialize(ret, log_fd) < 0) {
        return -1;
    }
    collector_read(&ret->collector);
    remember_locale(ret);
    if (import_modules(modules, n, log_fd) < 0) {
        return -1;
    }
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    if (load_prelude() < 0 || rehearse(REHEARSAL_LIBRARY, REHEARSALS) < 0 ||
        rehearse(REHEARSAL_JOB, REHEARSALS) < 0 || forget_directories() < 0 ||
        entropy_prepare(&ret->entropy) < 0 || remember(ret) < 0 || freeze() < 0) {
        return complain_exception(log_fd, "making ready for jobs");
    }
    if (check_single_thread(log_fd) < 0) {
        return -1;
    }
    PyOS_BeforeFork();
    remember_imported(ret);
    memory_settle(&ret->memory);
    return 0;
}
