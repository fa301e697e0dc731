/* What a job's start and end will want to know of the interpreter, looked up once, in the template. */
#include "jail/runtime/python/remember.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/python.h"
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

static int remember_module_names(struct python *python, PyObject *names)
{
    size_t n = (size_t)PyList_Size(names);
    python->module_names = calloc(n, sizeof *python->module_names);
    for (size_t i = 0; python->module_names && i < n; i++) {
        const char *text = PyBytes_AsString(PyList_GetItem(names, (Py_ssize_t)i));
        python->module_names[i] = text ? strdup(text) : NULL;
        if (!python->module_names[i]) {
            return -1;
        }
        python->n_module_names++;
    }
    return python->module_names ? 0 : -1;
}

static int remember_names(const struct python *python, PyObject *names, struct python_names *ret)
{
    ret->live = names;
    ret->before = PyDict_Copy(ret->live);
    ret->version = internals_version(&python->internals, ret->live);
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
        if (remember_names(python, PyModule_GetDict(module), &names) < 0) {
            return -1;
        }
        if (PyUnicode_CompareWithASCIIString(name, "__main__") == 0) {
            continue;
        }
        if (PyUnicode_CompareWithASCIIString(name, "sys") == 0) {
            python->sys = names;
        } else if (PyUnicode_CompareWithASCIIString(name, "builtins") == 0) {
            python->builtins = names;
        } else {
            python->modules[python->n_modules++] = names;
        }
    }
    return 0;
}

/* Whatever is imported in between must have gone again. */
void remember_imported(struct python *python)
{
    PyObject *modules = PyImport_GetModuleDict(), *name, *module;
    for (Py_ssize_t at = 0; PyDict_Next(modules, &at, &name, &module);) {
        PyObject *before = PyDict_GetItemWithError(python->imported, name);
        if (before != module && module != python->main_module) {
            return;
        }
    }
    python->imported_version = internals_version(&python->internals, modules);
}

static int remember_threads(struct python *python)
{
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *count = PyObject_CallObject(python->count_exitfuncs, NULL);
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

/* What prepare.py has left in its namespace, and what the interpreter names itself. */
static int remember_objects(struct python *python, PyObject *preparation)
{
    const struct {
        PyObject **place;
        const char *name;
    } rows[] = {
        {&python->environ_data, "environ_data"},
        {&python->source_loader, "source_loader"},
        {&python->run_exitfuncs, "run_exitfuncs"},
        {&python->count_exitfuncs, "count_exitfuncs"},
        {&python->set_signal, "set_signal"},
        {&python->get_signal, "get_signal"},
        {&python->collect, "collect"},
        {&python->callbacks, "callbacks"},
        {&python->count_threads, "count_threads"},
        {&python->added_builtins, "added_builtins"},
        {&python->set_native_id, "set_native_id"},
        {&python->is_enabled, "is_enabled"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        PyObject *found = PyDict_GetItemString(preparation, rows[i].name);
        Py_XINCREF(found);
        *rows[i].place = found == Py_None ? NULL : found;
        if (!found) {
            PyErr_Format(PyExc_RuntimeError, "nothing is known of %s", rows[i].name);
            return -1;
        }
    }
    const char *const names[] = {"stdout", "stderr"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        python->stdio[i] = PySys_GetObject(names[i]);
        Py_XINCREF(python->stdio[i]);
    }
    long magic = PyImport_GetMagicNumber();
    python->magic[0] = (unsigned char)(magic & 0xff);
    python->magic[1] = (unsigned char)(magic >> 8 & 0xff);
    return python->stdio[0] && python->stdio[1] ? 0 : -1;
}

int remember(struct python *python, PyObject *preparation)
{
    int r = remember_words(&python->words);
    r = r < 0 ? r : remember_objects(python, preparation);
    r = r < 0 ? r : remember_signal_handler(python);
    r = r < 0 ? r : remember_module_names(python, PyDict_GetItemString(preparation, "module_names"));
    r = r < 0 ? r : remember_namespaces(python);
    r = r < 0 ? r : remember_threads(python);
    return r < 0 ? r : prepare_ending(python);
}
