/* What a job's start and end will want to know of the interpreter, looked up once, in the template. */
#include "jail/runtime/python/remember.h"

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <internal/pycore_context.h>
#include <internal/pycore_interp.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/words.h"

PyObject *remember_attribute(const char *module_name, const char *name)
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

static int remember_names(PyObject *names, struct python_names *ret)
{
    ret->live = names;
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
    bool seen_main = false;
    for (Py_ssize_t at = 0; PyDict_Next(imported, &at, &name, &module);) {
        if (PyDict_SetItem(python->modules_while_others_end, name, Py_None) < 0 ||
            (!seen_main && PyDict_SetItem(python->modules_while_main_ends, name, Py_None) < 0)) {
            return -1;
        }
        seen_main = seen_main || PyUnicode_CompareWithASCIIString(name, "__main__") == 0;
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
        struct python_names names;
        if (!PyModule_Check(module)) {
            continue;
        }
        if (remember_names(PyModule_GetDict(module), &names) < 0) {
            return -1;
        }
        if (PyUnicode_CompareWithASCIIString(name, "__main__") == 0) {
            python->main = names.live;
        } else if (PyUnicode_CompareWithASCIIString(name, "sys") == 0) {
            python->sys = names;
        } else if (PyUnicode_CompareWithASCIIString(name, "builtins") == 0) {
            python->builtins = names;
        } else {
            python->modules[python->n_modules++] = names;
        }
    }
    PyThreadState *self = PyThreadState_Get();
    python->context_variables = self->context ? ((PyContext *)self->context)->ctx_vars : NULL;
    return remember_names(PyThreadState_GetDict(), &python->thread);
}

/* Whatever is imported in between must have gone again. */
void remember_imported(struct python *python)
{
    PyObject *modules = PyImport_GetModuleDict(), *name, *module;
    for (Py_ssize_t at = 0; PyDict_Next(modules, &at, &name, &module);) {
        PyObject *before = PyDict_GetItemWithError(python->imported, name);
        if (before != module &&
            !(module && PyModule_Check(module) && PyModule_GetDict(module) == python->main)) {
            return;
        }
    }
    python->imported_version = ((PyDictObject *)modules)->ma_version_tag;
}

/* What restore_builtins() will find in every job that leaves them alone. */
static int remember_added_builtins(struct python *python)
{
    PyObject *copy = PyInterpreterState_Get()->builtins_copy, *name, *value;
    PyObject *added = PyList_New(0);
    for (Py_ssize_t at = 0; added && PyDict_Next(python->builtins.live, &at, &name, &value);) {
        PyObject *before = PyDict_GetItemWithError(copy, name);
        if (before && before != value) {
            Py_CLEAR(added);
            return 0;
        }
        if (!before && PyList_Append(added, name) < 0) {
            Py_CLEAR(added);
        }
    }
    python->added_builtins = added;
    return added ? 0 : -1;
}

static int remember_threads(struct python *python)
{
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *count = PyObject_CallNoArgs(python->count_exitfuncs);
    python->threading = module ? PyModule_GetDict(module) : NULL;
    python->n_exitfuncs = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    return count ? 0 : -1;
}

static int remember_words(struct python_words *words)
{
    const struct {
        PyObject **place;
        const char *text;
    } rows[] = {
#define X(word) {&words->word, #word},
        PYTHON_WORDS(X)
#undef X
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        *rows[i].place = PyUnicode_InternFromString(rows[i].text);
        if (!*rows[i].place) {
            return -1;
        }
    }
    return 0;
}

static int remember_signal_handler(struct python *python)
{
    struct sigaction action;
    if (sigaction(SIGINT, NULL, &action) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) {
        PyErr_SetString(PyExc_RuntimeError, "SIGINT is not handled");
        return -1;
    }
    python->signal_handler = action.sa_handler;
    return 0;
}

static int remember_objects(struct python *python)
{
    long magic = PyImport_GetMagicNumber();
    python->magic[0] = (unsigned char)(magic & 0xff);
    python->magic[1] = (unsigned char)(magic >> 8 & 0xff);
    PyObject *os_environ = remember_attribute("os", "environ");
    python->environ_data = os_environ ? PyObject_GetAttrString(os_environ, "_data") : NULL;
    Py_XDECREF(os_environ);
    python->source_loader = remember_attribute("_frozen_importlib_external", "SourceFileLoader");
    python->run_exitfuncs = remember_attribute("atexit", "_run_exitfuncs");
    python->count_exitfuncs = remember_attribute("atexit", "_ncallbacks");
    python->set_signal = remember_attribute("_signal", "signal");
    python->get_signal = remember_attribute("_signal", "getsignal");
    if (PyDict_GetItemString(PyImport_GetModuleDict(), "threading")) {
        PyObject *thread = remember_attribute("threading", "_main_thread");
        python->set_native_id = thread ? PyObject_GetAttrString(thread, "_set_native_id") : NULL;
        Py_XDECREF(thread);
        if (!python->set_native_id) {
            return -1;
        }
    }
    const char *const names[] = {"stdout", "stderr"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        python->stdio[i] = PySys_GetObject(names[i]);
        Py_XINCREF(python->stdio[i]);
    }
    bool all = python->environ_data && python->source_loader && python->run_exitfuncs &&
               python->count_exitfuncs && python->set_signal && python->get_signal && python->stdio[0] &&
               python->stdio[1];
    return all ? 0 : -1;
}

int remember(struct python *python)
{
    int r = remember_words(&python->words);
    r = r < 0 ? r : remember_objects(python);
    r = r < 0 ? r : remember_signal_handler(python);
    r = r < 0 ? r : remember_module_names(python);
    r = r < 0 ? r : remember_namespaces(python);
    r = r < 0 ? r : remember_added_builtins(python);
    r = r < 0 ? r : remember_threads(python);
    return r < 0 ? r : prepare_ending(python);
}
