/* Makes the interpreter that this process has started ready to be forked. Runs once per template, before any
 * job exists.
 *
 * What must hold: nothing that is remembered here is a secret or differs from job to job, and exactly one
 * thread exists at the end. */
#include "jail/runtime/python/template.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/base/cleanup.h"
#include "jail/plan/template_plan.h"
#include "jail/runtime/python/python.h"
#include "jail/runtime/python/remember.h"
#include "jail/runtime/python/scripts.h"
#include "jail/runtime/python/words.h"

/* Of CPython 3: those whose ends of programs were compared with a fresh interpreter's. */
#define MINOR_LEAST 9
#define MINOR_MOST  13

#define COLLECTOR_GENERATIONS 3

/* So many of its objects more than before a fresh interpreter's program are made here: by start.py, and by a
 * job's beginning. Between 40 and 57 in versions 3.9 to 3.13. */
#define COLLECTOR_EXCESS 48

static int complain(int log_fd, const char *what)
{
    dprintf(log_fd, "immure-python: %s\n", what);
    return -1;
}

/* Says what the pending exception is, where a person can read it. */
static int complain_exception(int log_fd)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    CLEANUP(drop_object) PyObject *text = value ? PyObject_Str(value) : NULL;
    CLEANUP(drop_object) PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    return complain(log_fd, bytes ? PyBytes_AsString(bytes) : "an exception without words");
}

static int refuse(const char *why)
{
    PyErr_SetString(PyExc_RuntimeError, why);
    return -1;
}

/* The namespace of prepare.py, run. */
static PyObject *load_preparation(void)
{
    CLEANUP(drop_object) PyObject *code = Py_CompileString(text_of(TEXT_PREPARE), "<prepare>", Py_file_input);
    CLEANUP(drop_object) PyObject *builtins = PyImport_ImportModule("builtins");
    CLEANUP(drop_object) PyObject *names = PyDict_New();
    if (!code || !builtins || !names || PyDict_SetItemString(names, "__builtins__", builtins) < 0) {
        return NULL;
    }
    CLEANUP(drop_object) PyObject *none = PyEval_EvalCode(code, names, names);
    return none ? TAKE_PTR(names) : NULL;
}

static long flag(const char *name)
{
    PyObject *flags = PySys_GetObject("flags");
    CLEANUP(drop_object) PyObject *value = flags ? PyObject_GetAttrString(flags, name) : NULL;
    long number = value ? PyLong_AsLong(value) : 0;
    PyErr_Clear();
    return number;
}

static int find_version(struct python *python)
{
    CLEANUP(drop_object) PyObject *minor = PySequence_GetItem(PySys_GetObject("version_info"), 1);
    PyObject *flags = PySys_GetObject("abiflags");
    python->minor = minor ? (int)PyLong_AsLong(minor) : 0;
    python->safe_path = flag("safe_path") || flag("isolated");
    if (flags && PyUnicode_FindChar(flags, 't', 0, PyUnicode_GetLength(flags), 1) >= 0) {
        return refuse("the interpreter is a free-threaded build, which this cannot fork");
    }
    if (python->minor < MINOR_LEAST || python->minor > MINOR_MOST) {
        return refuse("the interpreter's version is none that this was tried with");
    }
    return internals_find(python->minor, &python->internals);
}

/* How every job's command line begins: what stands before our script. */
static int remember_argv(struct python *python)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    char *text = NULL;
    size_t size = 0;
    ssize_t n = file ? getdelim(&text, &size, EOF, file) : -1;
    if (file) {
        fclose(file);
    }
    python->argv = n > 0 ? calloc((size_t)n + 1, sizeof *python->argv) : NULL;
    for (char *word = text; python->argv && word < text + n && strcmp(word, TEMPLATE_START) != 0;
         word += strlen(word) + 1) {
        python->argv[python->argc++] = word;
    }
    return python->argc > 0 ? 0 : refuse("the command line cannot be read");
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

/* fork copies one thread. Behind a job's filter the kernel cannot be asked by unshare(2). */
static int check_single_thread(const struct python *python)
{
    struct stat threads;
    bool single = python->stands_by ? stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 2 + 1
                                    : unshare(CLONE_THREAD) == 0;
    return single ? 0 : refuse("the imported modules have started threads");
}

/* What runs one program need not be specialised for many. */
static int prepare(const struct python *python, PyObject *names)
{
    PyObject *argv = PySys_GetObject("argv");
    CLEANUP(drop_object) PyObject *modules = argv ? PyList_GetSlice(argv, 1, PyList_Size(argv)) : NULL;
    PyObject *function = PyDict_GetItemString(names, "prepare");
    const char *library = python->stands_by ? "" : text_of(TEXT_LIBRARY);
    const char *job = python->stands_by ? "" : text_of(TEXT_JOB);
    const char *packages = python->stands_by ? "" : text_of(TEXT_PACKAGES);
    CLEANUP(drop_object)
    PyObject *none =
        modules ? PyObject_CallFunction(function, "Osss", modules, library, job, packages) : NULL;
    return none ? 0 : -1;
}

/* A __main__ that the collector knows like any other: what was made before the freeze it never looks at
 * again. */
static int make_main(struct python *python, PyObject *preparation)
{
    CLEANUP(drop_object)
    PyObject *names = PyObject_CallFunction(PyDict_GetItemString(preparation, "new_main"), NULL);
    CLEANUP(drop_object) PyObject *module = PyModule_New("__main__");
    if (!names || !module) {
        return -1;
    }
    python->main_module = module; /* sys.modules alone keeps it */
    python->main = PyModule_GetDict(module);
    PyDict_Clear(python->main);
    return PyDict_Update(python->main, names) < 0
               ? -1
               : PyDict_SetItemString(PyImport_GetModuleDict(), "__main__", module);
}

static int collect(PyObject *function, long generation)
{
    CLEANUP(drop_object) PyObject *number = PyObject_CallFunction(function, "l", generation);
    return number ? 0 : -1;
}

static int call_and_drop(const char *module, const char *name)
{
    CLEANUP(drop_object) PyObject *function = remember_attribute(module, name);
    CLEANUP(drop_object) PyObject *none = function ? PyObject_CallObject(function, NULL) : NULL;
    return none ? 0 : -1;
}

/* How the collector stands: how many objects and collections until it runs next. */
static int read_collector(long counts[COLLECTOR_GENERATIONS])
{
    CLEANUP(drop_object) PyObject *function = remember_attribute("gc", "get_count");
    CLEANUP(drop_object) PyObject *tuple = function ? PyObject_CallObject(function, NULL) : NULL;
    return tuple && PyArg_ParseTuple(tuple, "lll", &counts[0], &counts[1], &counts[2]) ? 0 : -1;
}

/* How it would stand in a fresh interpreter before its program. */
static int read_fresh_collector(long counts[COLLECTOR_GENERATIONS])
{
    CLEANUP(drop_object) PyObject *function = remember_attribute("gc", "get_threshold");
    CLEANUP(drop_object) PyObject *thresholds = function ? PyObject_CallObject(function, NULL) : NULL;
    CLEANUP(drop_object) PyObject *first = thresholds ? PySequence_GetItem(thresholds, 0) : NULL;
    if (!first || read_collector(counts) < 0) {
        return -1;
    }
    if (counts[0] < COLLECTOR_EXCESS && counts[1] > 0) { /* one collection was for what is too much */
        counts[0] += PyLong_AsLong(first);
        counts[1]--;
    }
    counts[0] -= counts[0] < COLLECTOR_EXCESS ? counts[0] : COLLECTOR_EXCESS;
    return 0;
}

/* Makes it stand so again, so that in a job it runs when it would run in a fresh interpreter: programs whose
 * objects have destructors show when that is. Objects that it no longer tracks count all the same. */
static int write_collector(PyObject *function, const long counts[COLLECTOR_GENERATIONS])
{
    int r = 0;
    for (int generation = COLLECTOR_GENERATIONS - 1; generation > 0; generation--) {
        for (long i = 0; i < counts[generation] && r == 0; i++) {
            r = collect(function, generation - 1);
        }
    }
    long now[COLLECTOR_GENERATIONS];
    r = r < 0 ? r : read_collector(now);
    for (long i = now[0]; i < counts[0] && r == 0; i++) {
        PyObject *list = PyList_New(0);
        r = list ? 0 : -1;
        if (list) {
            PyObject_GC_UnTrack(list);
        }
    }
    return r;
}

/* Takes all that exists out of the collector's sight, so that no collection in a job touches its pages. The
 * second collection sees to it that nothing is left of the first one's numbers, which decide when a full one
 * is due; and that free lists are empty: the first one in a job would write to all that they hold. */
static int freeze(struct python *python)
{
    const long all = COLLECTOR_GENERATIONS - 1;
    return collect(python->collect, all) < 0 || call_and_drop("gc", "freeze") < 0
               ? -1
               : collect(python->collect, all);
}

static void relieve(PyThreadState *next)
{
    PyThreadState *old = PyThreadState_Swap(next);
    PyThreadState_Clear(old);
    PyThreadState_Delete(old);
}

/* Another Python thread for this thread, on which no frame lies: a job's program is the first. From 3.13 on
 * signals are announced to the very first of the process, whose place is taken again when there is no other
 * at all. Before that, the thread that may call Python from C is the first one which finds that place free.
 */
static void change_thread(const struct python *python)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyThreadState *between = PyThreadState_New(interpreter);
    relieve(between);
    if (python->minor < 13) {
        relieve(PyThreadState_New(interpreter));
        return;
    }
    PyThreadState_Clear(between);
    PyThreadState_Swap(NULL);
    PyThreadState_Delete(between);
    PyThreadState_Swap(PyThreadState_New(interpreter));
}

static int make_ready(struct python *python)
{
    long counts[COLLECTOR_GENERATIONS];
    struct internals_statistics statistics;
    bool has_statistics = internals_read_statistics(&statistics);
    if (read_fresh_collector(counts) < 0 || call_and_drop("gc", "disable") < 0 || find_version(python) < 0 ||
        remember_argv(python) < 0) {
        return -1;
    }
    remember_locale(python);
    CLEANUP(drop_object) PyObject *preparation = load_preparation();
    if (!preparation || prepare(python, preparation) < 0 ||
        entropy_prepare(preparation, &python->entropy) < 0 || remember(python, preparation) < 0 ||
        check_single_thread(python) < 0 || freeze(python) < 0 || make_main(python, preparation) < 0 ||
        write_collector(python->collect, counts) < 0) {
        return -1;
    }
    if (has_statistics) {
        internals_write_statistics(&statistics);
    }
    return call_and_drop("gc", "enable");
}

int python_start(struct python *python)
{
    if (make_ready(python) < 0) {
        return complain_exception(python->log_fd);
    }
    change_thread(python);
    PyOS_BeforeFork();
    remember_imported(python);
    if (!python->stands_by) {
        memory_settle(python->memory);
    }
    return 0;
}
