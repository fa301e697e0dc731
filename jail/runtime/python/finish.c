/* The end of a job's program: what can be seen of Py_FinalizeEx(), without what only frees memory.
 *
 * CPython takes every module apart before it exits; with the template's imports that costs more than most
 * programs, and copies pages that were shared until then. Here it is the program's own objects that go, in
 * the order in which CPython lets them go (Python/pylifecycle.c, finalize_modules()), so that destructors
 * run, files are flushed and complaints are written as they would be. What the template had before stays,
 * unless the program has changed it.
 *
 * Runs on the main thread of a job's process, which exits right afterwards. */
#include "jail/runtime/python/finish.h"

#include <signal.h>
#include <stdint.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/python.h"
#include "jail/runtime/python/words.h"

/* What CPython exits with when the last output could not be written. */
#define EXIT_LOST_OUTPUT 120

static unsigned long long version_of(const struct python *python, PyObject *names)
{
    return internals_version(&python->internals, names);
}

/* Are two namespaces the same, entry by entry? Writes to nothing, and so copies no page. */
static bool same_entries(PyObject *a, PyObject *b)
{
    PyObject *name_a, *name_b, *value_a, *value_b;
    Py_ssize_t at_a = 0, at_b = 0;
    bool same = PyDict_Size(a) == PyDict_Size(b);
    while (same && PyDict_Next(a, &at_a, &name_a, &value_a)) {
        same = PyDict_Next(b, &at_b, &name_b, &value_b) && name_a == name_b && value_a == value_b;
    }
    return same;
}

static bool is_unchanged(const struct python *python, const struct python_names *names)
{
    return python->internals.has_versions ? version_of(python, names->live) == names->version
                                          : same_entries(names->live, names->before);
}

void finish_prepare(const struct python *python, struct finish_versions *ret)
{
    ret->sys = version_of(python, python->sys.live);
    ret->threading = python->threading ? version_of(python, python->threading) : 0;
}

/* A container among the globals of threading, where it has one, that holds something. */
static bool holds_something(const struct python *python, PyObject *name)
{
    PyObject *container = PyDict_GetItemWithError(python->threading, name);
    Py_ssize_t size = container ? PyObject_Size(container) : 0;
    PyErr_Clear();
    return size != 0;
}

static long call_for_number(PyObject *function)
{
    PyObject *number = PyObject_CallObject(function, NULL);
    long value = number ? PyLong_AsLong(number) : -1;
    PyErr_Clear();
    Py_XDECREF(number);
    return value;
}

/* True where threading._shutdown() would find nobody to wait for, and nobody to tell. Only a destructor could
 * see that it was not called. */
static bool has_no_threads(const struct python *python, const struct finish_versions *begun)
{
    return begun->threading != 0 && version_of(python, python->threading) == begun->threading &&
           call_for_number(python->count_threads) == 0 &&
           !holds_something(python, python->words._threading_atexits) &&
           !holds_something(python, python->words._shutdown_locks) &&
           call_for_number(python->count_exitfuncs) == python->n_exitfuncs;
}

static void wait_for_threads(const struct python *python, const struct finish_versions *begun)
{
    PyObject *threading = PyImport_GetModule(python->words.threading);
    if (!threading) {
        PyErr_Clear();
        return;
    }
    if (PyModule_Check(threading) && PyModule_GetDict(threading) == python->threading &&
        has_no_threads(python, begun)) {
        Py_DECREF(threading);
        return;
    }
    PyObject *none = PyObject_CallMethodObjArgs(threading, python->words._shutdown, NULL);
    if (!none) {
        PyErr_WriteUnraisable(threading);
    }
    Py_XDECREF(none);
    Py_DECREF(threading);
}

static void call_exitfuncs(const struct python *python)
{
    PyObject *none = PyObject_CallObject(python->run_exitfuncs, NULL);
    if (!none) {
        PyErr_Clear();
    }
    Py_XDECREF(none);
}

/* From here on sys.is_finalizing() is true, and other threads end where they would take the interpreter's
 * lock. */
static void begin_finalizing(const struct python *python)
{
    if (python->internals.finalizing) {
        *(volatile uintptr_t *)python->internals.finalizing = (uintptr_t)PyThreadState_Get();
    }
}

static bool is_closed(const struct python *python, PyObject *file)
{
    PyObject *closed = PyObject_GetAttr(file, python->words.closed);
    bool is = closed && PyObject_IsTrue(closed) > 0;
    PyErr_Clear();
    Py_XDECREF(closed);
    return is;
}

/* In the words of each version. */
static void complain_of_flush(const struct python *python, PyObject *file)
{
    if (python->internals.say_unraisable) {
        python->internals.say_unraisable(python->minor > 13 ? "Exception ignored while flushing sys.stdout"
                                                            : "Exception ignored on flushing sys.stdout");
    } else {
        PyErr_WriteUnraisable(file);
    }
}

static int flush(const struct python *python, PyObject *name, bool complains)
{
    PyObject *file = PyDict_GetItemWithError(python->sys.live, name);
    if (!file || file == Py_None || is_closed(python, file)) {
        return 0;
    }
    PyObject *none = PyObject_CallMethodObjArgs(file, python->words.flush, NULL);
    if (!none && complains) {
        complain_of_flush(python, file);
    }
    PyErr_Clear();
    Py_XDECREF(none);
    return none ? 0 : -1;
}

static int flush_stdio(const struct python *python)
{
    int out = flush(python, python->words.stdout, true), err = flush(python, python->words.stderr, false);
    return out < 0 ? out : err;
}

/* Is a function in Python to be called for this signal? */
static bool has_handler(const struct python *python, int number)
{
    PyObject *argument = PyLong_FromLong(number);
    PyObject *handler = argument ? PyObject_CallFunctionObjArgs(python->get_signal, argument, NULL) : NULL;
    bool has = handler && PyCallable_Check(handler);
    PyErr_Clear();
    Py_XDECREF(argument);
    Py_XDECREF(handler);
    return has;
}

/* Signals that were the program's to handle have their default effect again. Those of faulthandler stay its
 * own. */
static void reset_signals(const struct python *python)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (has_handler(python, number) && sigaction(number, NULL, &action) == 0 &&
            action.sa_handler == python->signal_handler) {
            PyObject *old = PyObject_CallFunction(python->set_signal, "ii", number, (int)(intptr_t)SIG_DFL);
            PyErr_Clear();
            Py_XDECREF(old);
        }
    }
}

static void collect(const struct python *python)
{
    PyObject *count = PyObject_CallObject(python->collect, NULL);
    PyErr_Clear();
    Py_XDECREF(count);
}

/* Where the program has not switched collection off. */
static void collect_enabled(const struct python *python)
{
    PyObject *answer = PyObject_CallObject(python->is_enabled, NULL);
    if (answer == Py_True) {
        collect(python);
    }
    Py_XDECREF(answer);
}

/* As _PyGC_CollectNoFail(): whether or not the program has switched collection off, and without its
 * callbacks. */
static void collect_always(const struct python *python)
{
    Py_ssize_t n = PyList_Size(python->callbacks);
    PyObject *kept = n > 0 ? PyList_GetSlice(python->callbacks, 0, n) : NULL;
    if (kept) {
        PyList_SetSlice(python->callbacks, 0, n, NULL);
    }
    collect(python);
    if (kept) {
        PyList_SetSlice(python->callbacks, 0, 0, kept);
    }
    Py_XDECREF(kept);
}

static void set(PyObject *names, PyObject *name, PyObject *value)
{
    if (PyDict_SetItem(names, name, value) < 0) {
        PyErr_WriteUnraisable(NULL);
    }
}

/* Where values of the program's like to hide, and people complain when their destructors find too little
 * left. */
static void clear_special_names(const struct python *python)
{
    const struct python_words *words = &python->words;
    PyObject *const cleared[] = {words->path,
                                 words->argv,
                                 words->ps1,
                                 words->ps2,
                                 words->last_type,
                                 words->last_value,
                                 words->last_traceback,
                                 words->last_exc,
                                 words->path_hooks,
                                 words->path_importer_cache,
                                 words->meta_path,
                                 words->__interactivehook__};
    PyObject *const restored[][2] = {{words->stdin, words->__stdin__},
                                     {words->stdout, words->__stdout__},
                                     {words->stderr, words->__stderr__}};
    set(python->builtins.live, words->_, Py_None);
    for (size_t i = 0; i < ARRAY_SIZE(cleared); i++) {
        if (cleared[i] == words->last_exc && python->minor < 12) {
            continue;
        }
        set(python->sys.live, cleared[i], Py_None);
    }
    for (size_t i = 0; i < ARRAY_SIZE(restored); i++) {
        PyObject *value = PyDict_GetItemWithError(python->sys.live, restored[i][1]);
        set(python->sys.live, restored[i][0], value ? value : Py_None);
    }
}

/* From here on `modules`, which names all of the template's, is what sys.modules is. Where the interpreter's
 * own pointer is not known, the dict that there is takes over its contents. */
static void set_modules(const struct python *python, PyObject *modules)
{
    PyObject *before = PyImport_GetModuleDict(), *name, *value;
    if (python->internals.modules) {
        /* What was there until now is never freed: it holds the template's modules. */
        Py_INCREF(modules);
        *python->internals.modules = modules;
        set(python->sys.live, python->words.modules, modules);
        return;
    }
    for (Py_ssize_t at = 0; PyDict_Next(modules, &at, &name, &value);) {
        if (PyDict_GetItemWithError(before, name) != value) {
            set(before, name, value);
        }
    }
    if (PyDict_Size(modules) == 0) {
        PyDict_Clear(before);
    }
}

static void take_module(PyObject *modules, PyObject *list, PyObject *name, PyObject *module)
{
    PyObject *pair = PyModule_Check(module) ? PyTuple_Pack(2, name, module) : NULL;
    if (pair && PyList_Append(list, pair) < 0) {
        PyErr_WriteUnraisable(NULL);
    }
    Py_XDECREF(pair);
    set(modules, name, Py_None);
}

/* The program's own entries of sys.modules, as a list of names and modules; no more of them is left there.
 * Without an import of the program's own that is __main__; to look at all names then would be much of what a
 * short program costs. */
static PyObject *take_modules(const struct python *python)
{
    PyObject *modules = PyImport_GetModuleDict(), *list = PyList_New(0), *name, *module;
    PyObject *main = PyDict_GetItemWithError(modules, python->words.__main__);
    if (list && main && python->imported_version != 0 &&
        version_of(python, modules) == python->imported_version) {
        take_module(modules, list, python->words.__main__, main);
        return list;
    }
    for (Py_ssize_t at = 0; list && PyDict_Next(modules, &at, &name, &module);) {
        if (PyDict_GetItemWithError(python->imported, name) != module) {
            take_module(modules, list, name, module);
        }
    }
    return list;
}

/* Makes `modules`, which names all of the template's, the dict behind sys.modules, and removes the program's
 * from it one by one: those of the list from `first` up to `end`. Most of them end with that; the list has
 * weak references to them afterwards. Those behind `end` are still there meanwhile. */
static void drop_modules(const struct python *python, PyObject *modules, PyObject *list, Py_ssize_t first,
                         Py_ssize_t end)
{
    set_modules(python, modules);
    modules = PyImport_GetModuleDict();
    for (Py_ssize_t i = first; i < PyList_Size(list); i++) {
        PyObject *pair = PyList_GetItem(list, i);
        set(modules, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1));
    }
    for (Py_ssize_t i = first; i < PyList_Size(list); i++) {
        PyObject *pair = PyList_GetItem(list, i), *name = PyTuple_GetItem(pair, 0);
        PyObject *weak = i < end ? PyWeakref_NewRef(PyTuple_GetItem(pair, 1), NULL) : NULL;
        Py_INCREF(name);
        if (i < end && (!weak || PyList_SetItem(list, i, weak) < 0)) {
            PyErr_WriteUnraisable(NULL);
        }
        set(modules, name, Py_None);
        Py_DECREF(name);
    }
}

/* As _PyModule_Clear(): first the names that begin with one underscore, then all others. */
static void wipe_module(const struct python *python, PyObject *module)
{
    PyObject *names = PyModule_GetDict(module), *name, *value;
    for (int pass = 0; pass < 2; pass++) {
        for (Py_ssize_t at = 0; PyDict_Next(names, &at, &name, &value);) {
            if (value == Py_None || !PyUnicode_Check(name) || PyUnicode_GetLength(name) == 0) {
                continue;
            }
            bool has_second = PyUnicode_GetLength(name) > 1;
            bool is_private =
                PyUnicode_ReadChar(name, 0) == '_' && (!has_second || PyUnicode_ReadChar(name, 1) != '_');
            if (pass == 0 ? is_private : PyUnicode_Compare(name, python->words.__builtins__) != 0) {
                set(names, name, Py_None);
            }
        }
    }
}

static void wipe_survivors(const struct python *python, PyObject *list)
{
    for (Py_ssize_t i = PyList_Size(list) - 1; i >= 0; i--) {
        PyObject *weak = PyList_GetItem(list, i);
        PyObject *module = PyTuple_Check(weak) ? NULL : PyObject_CallObject(weak, NULL);
        if (module && module != Py_None) {
            wipe_module(python, module);
        }
        PyErr_Clear();
        Py_XDECREF(module);
    }
}

/* What the program has put into a namespace of the template's. */
static void wipe_changes(const struct python *python, const struct python_names *names)
{
    PyObject *name, *value;
    if (is_unchanged(python, names)) {
        return;
    }
    for (Py_ssize_t at = 0; PyDict_Next(names->live, &at, &name, &value);) {
        if (value != Py_None && PyDict_GetItemWithError(names->before, name) != value) {
            set(names->live, name, Py_None);
        }
    }
}

static void remove_builtin(const struct python *python, PyObject *name)
{
    PyDict_DelItem(python->builtins.live, name);
    PyErr_Clear();
}

/* As they were before site.py: without what has been added since, and with what has been replaced. */
static void restore_builtins(const struct python *python)
{
    const struct python_names *builtins = &python->builtins;
    PyObject *added = PyList_New(0), *name, *value;
    for (Py_ssize_t at = 0;
         added && !is_unchanged(python, builtins) && PyDict_Next(builtins->live, &at, &name, &value);) {
        PyObject *before = PyDict_GetItemWithError(builtins->before, name);
        if (!before) {
            PyList_Append(added, name);
        } else if (before != value) {
            set(builtins->live, name, before);
        }
    }
    for (Py_ssize_t i = 0; i < PyList_Size(python->added_builtins); i++) {
        remove_builtin(python, PyList_GetItem(python->added_builtins, i));
    }
    for (Py_ssize_t i = 0; added && i < PyList_Size(added); i++) {
        remove_builtin(python, PyList_GetItem(added, i));
    }
    Py_XDECREF(added);
}

/* What a job has set in sys before its program began (job.c), where the program has set nothing there and
 * clear_special_names() has not come to it. */
static void clear_own_sys_names(const struct python *python)
{
    set(python->sys.live, python->words.orig_argv, Py_None);
    set(python->sys.live, python->words.modules, Py_None);
}

static void clear_stdio_names(const struct python *python)
{
    const struct python_words *words = &python->words;
    PyObject *const names[] = {words->stdin,      words->__stdin__, words->stdout,
                               words->__stdout__, words->stderr,    words->__stderr__};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        set(python->sys.live, names[i], Py_None);
    }
}

static bool is_main(const struct python *python, PyObject *list)
{
    return PyList_Size(list) > 0 &&
           PyModule_GetDict(PyTuple_GetItem(PyList_GetItem(list, 0), 1)) == python->main;
}

static void finalize_modules(const struct python *python, const struct finish_versions *begun)
{
    bool usual_sys = begun->sys != 0 && version_of(python, python->sys.live) == begun->sys;
    clear_special_names(python);
    PyObject *list = take_modules(python), *empty = PyDict_New();
    if (!list || !empty) {
        return;
    }
    Py_ssize_t others = is_main(python, list);
    drop_modules(python, python->modules_while_main_ends, list, 0, others);
    drop_modules(python, python->modules_while_others_end, list, others, PyList_Size(list));
    set_modules(python, empty);
    restore_builtins(python);
    collect_always(python);
    wipe_survivors(python, list);
    Py_DECREF(list);
    for (size_t i = python->n_modules; i > 0; i--) {
        wipe_changes(python, &python->modules[i - 1]);
    }
    clear_stdio_names(python);
    if (usual_sys) {
        clear_own_sys_names(python);
    } else {
        wipe_changes(python, &python->sys);
    }
    collect_always(python);
    PyThreadState_Clear(PyThreadState_Get()); /* threading.local, context variables */
}

/* As the destructors of sys.stdout and sys.stderr do it: whoever has closed them has had their reasons. */
static void flush_last(const struct python *python)
{
    for (size_t i = 0; i < ARRAY_SIZE(python->stdio); i++) {
        PyObject *none = is_closed(python, python->stdio[i])
                             ? NULL
                             : PyObject_CallMethodObjArgs(python->stdio[i], python->words.flush, NULL);
        PyErr_Clear();
        Py_XDECREF(none);
    }
}

int finish(const struct python *python, const struct finish_versions *begun, int code)
{
    wait_for_threads(python, begun);
    call_exitfuncs(python);
    begin_finalizing(python);
    int lost = flush_stdio(python);
    reset_signals(python);
    collect_enabled(python);
    finalize_modules(python, begun);
    flush_last(python);
    return lost < 0 ? EXIT_LOST_OUTPUT : code;
}
