/* Starts CPython in a template and makes it ready to be forked. Runs once per template, before any job exists.
 *
 * What must hold: nothing that is remembered here is a secret or differs from job to job, and exactly one thread
 * exists at the end. */
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

#if PY_VERSION_HEX >> 16 != 0x030b
#error "written for CPython 3.11: what is restored for a job, and torn down after it, was read in its sources"
#endif

/* Modules that cannot be shared by jobs. */
static const struct {
    const char *name, *why;
} refused_modules[] = {
    {"multiprocessing.process", "its key for connections, and the directory it remembers, would be every job's"},
    {"numpy.random", "every job would draw the same numbers"},
};

/* How the collector stood when the interpreter had just been started. */
struct collector {
    int counts[NUM_GENERATIONS];
    Py_ssize_t long_lived_total, long_lived_pending;
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
    python->safe_path = config.safe_path;
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        return complain(log_fd, "starting the interpreter", status.err_msg ? status.err_msg : "it would exit");
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

/* What lies in these directories differs from job to job. */
static int forget_directories(void)
{
    PyObject *cache = PySys_GetObject("path_importer_cache");
    const char *rest = getenv("PYTHONPATH");
    while (rest && *rest) {
        size_t length = strcspn(rest, ":");
        PyObject *path = PyUnicode_DecodeFSDefaultAndSize(rest, (Py_ssize_t)length);
        PyObject *finder = path ? PyDict_GetItemWithError(cache, path) : NULL;
        int r = PyErr_Occurred() ? -1 : 0;
        if (r == 0 && finder && PyObject_HasAttrString(finder, "invalidate_caches")) {
            PyObject *none = PyObject_CallMethod(finder, "invalidate_caches", NULL);
            r = none ? 0 : -1;
            Py_XDECREF(none);
        } else if (r == 0 && finder) {
            r = PyDict_DelItem(cache, path);
        }
        Py_XDECREF(path);
        if (r < 0) {
            return -1;
        }
        rest += length + (rest[length] == ':');
    }
    return 0;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* True if nothing that lies in a directory can take the place of this module. */
static bool is_built_in(PyObject *module)
{
    PyObject *spec = PyObject_GetAttrString(module, "__spec__");
    PyObject *origin = spec ? PyObject_GetAttrString(spec, "origin") : NULL;
    PyErr_Clear();
    bool built_in = origin && PyUnicode_Check(origin) &&
                    (PyUnicode_CompareWithASCIIString(origin, "built-in") == 0 ||
                     PyUnicode_CompareWithASCIIString(origin, "frozen") == 0);
    Py_XDECREF(origin);
    Py_XDECREF(spec);
    return built_in;
}

/* Looked for when an interpreter starts, whether they are there or not. */
static const char *const customizers[] = {"sitecustomize", "usercustomize"};

static int remember_module_names(struct python *python)
{
    PyObject *imported = PyImport_GetModuleDict(), *name, *module;
    size_t room = (size_t)PyDict_Size(imported) + ARRAY_SIZE(customizers);
    python->module_names = calloc(room, sizeof *python->module_names);
    if (!python->module_names) {
        return -1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(customizers); i++) {
        python->module_names[python->n_module_names++] = strdup(customizers[i]);
    }
    for (Py_ssize_t at = 0; PyDict_Next(imported, &at, &name, &module);) {
        const char *text = PyUnicode_AsUTF8(name);
        if (text && !strchr(text, '.') && strcmp(text, "__main__") != 0 && !is_built_in(module)) {
            python->module_names[python->n_module_names++] = strdup(text);
        }
    }
    qsort(python->module_names, python->n_module_names, sizeof *python->module_names, compare_strings);
    return 0;
}

static int remember_names(PyObject *module, struct python_names *ret)
{
    ret->live = PyModule_GetDict(module);
    ret->before = PyDict_Copy(ret->live);
    ret->version = ((PyDictObject *)ret->live)->ma_version_tag;
    return ret->before ? 0 : -1;
}

/* CPython ends modules in the order of their import, __main__ among the first. */
static int prepare_ending(struct python *python)
{
    PyObject *imported = PyImport_GetModuleDict(), *name, *module;
    python->imported = PyDict_Copy(imported);
    python->modules_while_main_ends = PyDict_Copy(imported);
    python->modules_while_others_end = PyDict_Copy(imported);
    if (!python->imported || !python->modules_while_main_ends || !python->modules_while_others_end ||
        PyDict_DelItemString(python->imported, "__main__") < 0) {
        return -1;
    }
    bool before_main = true;
    for (Py_ssize_t at = 0; PyDict_Next(imported, &at, &name, &module);) {
        before_main = before_main && PyUnicode_CompareWithASCIIString(name, "__main__") != 0;
        if (PyDict_SetItem(python->modules_while_others_end, name, Py_None) < 0 ||
            (before_main && PyDict_SetItem(python->modules_while_main_ends, name, Py_None) < 0)) {
            return -1;
        }
    }
    return 0;
}

static int remember_namespaces(struct python *python)
{
    PyObject *imported = PyImport_GetModuleDict(), *name, *module;
    python->modules = calloc((size_t)PyDict_Size(imported), sizeof *python->modules);
    if (!python->modules) {
        return -1;
    }
    for (Py_ssize_t at = 0; PyDict_Next(imported, &at, &name, &module);) {
        struct python_names *names = PyUnicode_CompareWithASCIIString(name, "sys") == 0        ? &python->sys
                                     : PyUnicode_CompareWithASCIIString(name, "builtins") == 0 ? &python->builtins
                                     : &python->modules[python->n_modules];
        if (PyUnicode_CompareWithASCIIString(name, "__main__") == 0) {
            python->main = PyModule_GetDict(module);
        } else if (PyModule_Check(module)) {
            if (remember_names(module, names) < 0) {
                return -1;
            }
            python->n_modules += names == &python->modules[python->n_modules];
        }
    }
    return python->main && python->sys.live && python->builtins.live ? 0 : -1;
}

/* An attribute of a module that a fresh interpreter has not imported: afterwards it looks as if it never had been. */
static PyObject *borrow_attribute(const char *module_name, const char *name)
{
    PyObject *imported = PyImport_GetModuleDict();
    bool was_there = PyDict_GetItemString(imported, module_name) != NULL;
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *attribute = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    if (attribute && !was_there && PyDict_DelItemString(imported, module_name) < 0) {
        Py_CLEAR(attribute);
    }
    return attribute;
}

static int remember_objects(struct python *python)
{
    long magic = PyImport_GetMagicNumber();
    python->magic[0] = (unsigned char)(magic & 0xff);
    python->magic[1] = (unsigned char)(magic >> 8 & 0xff);
    PyObject *os_environ = borrow_attribute("os", "environ");
    python->environ_data = os_environ ? PyObject_GetAttrString(os_environ, "_data") : NULL;
    Py_XDECREF(os_environ);
    python->source_loader = borrow_attribute("_frozen_importlib_external", "SourceFileLoader");
    python->run_exitfuncs = borrow_attribute("atexit", "_run_exitfuncs");
    const char *const names[] = {"stdout", "stderr"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        python->stdio[i] = PySys_GetObject(names[i]);
        Py_XINCREF(python->stdio[i]);
    }
    return python->environ_data && python->source_loader && python->run_exitfuncs && python->stdio[0] &&
                   python->stdio[1]
               ? 0
               : -1;
}

static void look_at_collector(struct collector *ret)
{
    struct _gc_runtime_state *gc = &PyInterpreterState_Get()->gc;
    for (int i = 0; i < NUM_GENERATIONS; i++) {
        ret->counts[i] = gc->generations[i].count;
    }
    ret->long_lived_total = gc->long_lived_total;
    ret->long_lived_pending = gc->long_lived_pending;
}

/* Takes all that exists out of the collector's sight: no collection in a job touches its pages. The collector then
 * stands as in a fresh interpreter, so that it runs when it would run there. */
static int freeze(const struct collector *fresh)
{
    PyObject *function = borrow_attribute("gc", "freeze");
    PyGC_Collect();
    PyObject *none = function ? PyObject_CallNoArgs(function) : NULL;
    Py_XDECREF(function);
    if (!none) {
        return -1;
    }
    Py_DECREF(none);
    struct _gc_runtime_state *gc = &PyInterpreterState_Get()->gc;
    for (int i = 0; i < NUM_GENERATIONS; i++) {
        gc->generations[i].count = fresh->counts[i];
        gc->generation_stats[i] = (struct gc_generation_stats){0};
    }
    gc->long_lived_total = fresh->long_lived_total;
    gc->long_lived_pending = fresh->long_lived_pending;
    return 0;
}

int python_start(char **argv, size_t argc, char *const *modules, size_t n, int log_fd, struct python *ret)
{
    struct python python = {.argv = argv, .argc = argc, .environment = copy_environment()};
    if (!python.environment) {
        return complain(log_fd, "starting", strerror(errno));
    }
    if (initialize(&python, log_fd) < 0) {
        return -1;
    }
    struct collector fresh;
    look_at_collector(&fresh);
    remember_locale(&python);
    if (import_modules(modules, n, log_fd) < 0) {
        return -1;
    }
    if (forget_directories() < 0 || remember_objects(&python) < 0 || remember_module_names(&python) < 0 ||
        remember_namespaces(&python) < 0 ||
        prepare_ending(&python) < 0 || freeze(&fresh) < 0) {
        return complain_exception(log_fd, "making ready for jobs");
    }
    if (check_single_thread(log_fd) < 0) {
        return -1;
    }
    PyOS_BeforeFork();
    *ret = python;
    return 0;
}
