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

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <internal/pycore_context.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_moduleobject.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>

#include <signal.h>
#include <stdbool.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/words.h"

/* What CPython exits with when the last output could not be written. */
#define EXIT_LOST_OUTPUT 120

static unsigned long long version_of(PyObject *names)
{
    return ((PyDictObject *)names)->ma_version_tag;
}

void finish_prepare(const struct python *python, struct finish_versions *ret)
{
    ret->sys = version_of(python->sys.live);
    ret->threading = python->threading ? version_of(python->threading) : 0;
}

/* True where threading._shutdown() would find nobody to wait for, and nobody to tell. Only a destructor could
 * see that it was not called. */
static bool has_no_threads(const struct python *python, const struct finish_versions *begun)
{
    const PyThreadState *self = PyThreadState_Get();
    if (self->next || self->prev || !python->threading || version_of(python->threading) != begun->threading) {
        return false;
    }
    PyObject *functions = PyDict_GetItemWithError(python->threading, python->words._threading_atexits);
    PyObject *locks = PyDict_GetItemWithError(python->threading, python->words._shutdown_locks);
    if (!functions || !PyList_Check(functions) || PyList_GET_SIZE(functions) > 0 || !locks ||
        !PyAnySet_Check(locks) || PySet_GET_SIZE(locks) > 0) {
        return false;
    }
    PyObject *count = PyObject_CallNoArgs(python->count_exitfuncs);
    bool same = count && PyLong_AsLong(count) == python->n_exitfuncs;
    PyErr_Clear();
    Py_XDECREF(count);
    return same;
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
    PyObject *none = PyObject_CallMethodNoArgs(threading, python->words._shutdown);
    if (!none) {
        PyErr_WriteUnraisable(threading);
    }
    Py_XDECREF(none);
    Py_DECREF(threading);
}

static void call_exitfuncs(const struct python *python)
{
    PyObject *none = PyObject_CallNoArgs(python->run_exitfuncs);
    if (!none) {
        PyErr_Clear();
    }
    Py_XDECREF(none);
}

/* From here on sys.is_finalizing() is true, and other threads end where they would take the interpreter's
 * lock. */
static void begin_finalizing(void)
{
    PyThreadState *self = PyThreadState_Get();
    _PyRuntimeState_SetFinalizing(&_PyRuntime, self);
    _PyRuntime.initialized = 0;
    _PyRuntime.core_initialized = 0;
    _PyThreadState_DeleteExcept(&_PyRuntime, self);
}

static bool is_closed(const struct python *python, PyObject *file)
{
    PyObject *closed = PyObject_GetAttr(file, python->words.closed);
    bool is = closed && PyObject_IsTrue(closed) > 0;
    PyErr_Clear();
    Py_XDECREF(closed);
    return is;
}

static int flush(const struct python *python, PyObject *name, bool complains)
{
    PyObject *file = PyDict_GetItemWithError(python->sys.live, name);
    if (!file || file == Py_None || is_closed(python, file)) {
        return 0;
    }
    PyObject *none = PyObject_CallMethodNoArgs(file, python->words.flush);
    if (!none && complains) {
        PyErr_WriteUnraisable(file);
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
    PyObject *handler = argument ? PyObject_CallOneArg(python->get_signal, argument) : NULL;
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

/* As _PyGC_CollectNoFail(): whether or not the program has switched collection off, and without its
 * callbacks. */
static void collect_always(void)
{
    struct _gc_runtime_state *gc = &PyInterpreterState_Get()->gc;
    PyObject *callbacks = gc->callbacks;
    gc->callbacks = NULL;
    int enabled = gc->enabled;
    gc->enabled = 1;
    PyGC_Collect();
    gc->enabled = enabled;
    gc->callbacks = callbacks;
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
                                 words->path_hooks,
                                 words->path_importer_cache,
                                 words->meta_path,
                                 words->__interactivehook__};
    PyObject *const restored[][2] = {{words->stdin, words->__stdin__},
                                     {words->stdout, words->__stdout__},
                                     {words->stderr, words->__stderr__}};
    set(python->builtins.live, words->_, Py_None);
    for (size_t i = 0; i < ARRAY_SIZE(cleared); i++) {
        set(python->sys.live, cleared[i], Py_None);
    }
    for (size_t i = 0; i < ARRAY_SIZE(restored); i++) {
        PyObject *value = PyDict_GetItemWithError(python->sys.live, restored[i][1]);
        set(python->sys.live, restored[i][0], value ? value : Py_None);
    }
}

static void set_modules(const struct python *python, PyObject *modules)
{
    /* What was there until now is never freed: it holds the template's modules. */
    Py_INCREF(modules);
    PyInterpreterState_Get()->modules = modules;
    set(python->sys.live, python->words.modules, modules);
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
    PyObject *modules = PyInterpreterState_Get()->modules, *list = PyList_New(0), *name, *module;
    PyObject *main = PyDict_GetItemWithError(modules, python->words.__main__);
    if (list && main && version_of(modules) == python->imported_version) {
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
    for (Py_ssize_t i = first; i < PyList_GET_SIZE(list); i++) {
        PyObject *pair = PyList_GET_ITEM(list, i);
        set(modules, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    for (Py_ssize_t i = first; i < PyList_GET_SIZE(list); i++) {
        PyObject *pair = PyList_GET_ITEM(list, i), *name = PyTuple_GET_ITEM(pair, 0);
        PyObject *weak = i < end ? PyWeakref_NewRef(PyTuple_GET_ITEM(pair, 1), NULL) : NULL;
        Py_INCREF(name);
        if (i < end && (!weak || PyList_SetItem(list, i, weak) < 0)) {
            PyErr_WriteUnraisable(NULL);
        }
        set(modules, name, Py_None);
        Py_DECREF(name);
    }
}

static void wipe_survivors(PyObject *list)
{
    for (Py_ssize_t i = PyList_GET_SIZE(list) - 1; i >= 0; i--) {
        PyObject *weak = PyList_GET_ITEM(list, i);
        PyObject *module = PyWeakref_Check(weak) ? PyWeakref_GET_OBJECT(weak) : Py_None;
        if (module != Py_None) {
            Py_INCREF(module);
            _PyModule_Clear(module);
            Py_DECREF(module);
        }
    }
}

/* What the program has put into a namespace of the template's. */
static void wipe_changes(const struct python_names *names)
{
    PyObject *name, *value;
    if (version_of(names->live) == names->version) {
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

/* The usual case: what has been added since was there in the template already, but for `_`. */
static void remove_added_builtins(const struct python *python)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(python->added_builtins); i++) {
        remove_builtin(python, PyList_GET_ITEM(python->added_builtins, i));
    }
    remove_builtin(python, python->words._);
}

/* As they were before site.py: CPython keeps a copy from then. */
static void restore_builtins(const struct python *python)
{
    PyObject *copy = PyInterpreterState_Get()->builtins_copy, *added = PyList_New(0), *name, *value;
    for (Py_ssize_t at = 0; added && PyDict_Next(python->builtins.live, &at, &name, &value);) {
        PyObject *before = PyDict_GetItemWithError(copy, name);
        if (!before) {
            PyList_Append(added, name);
        } else if (before != value) {
            set(python->builtins.live, name, before);
        }
    }
    for (Py_ssize_t i = 0; added && i < PyList_GET_SIZE(added); i++) {
        remove_builtin(python, PyList_GET_ITEM(added, i));
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

/* What hangs on the thread itself: threading.local, context variables. */
static void clear_thread(const struct python *python)
{
    PyThreadState *self = PyThreadState_Get();
    wipe_changes(&python->thread);
    if (self->context && ((PyContext *)self->context)->ctx_vars != python->context_variables) {
        Py_CLEAR(self->context);
    }
}

static bool is_main(const struct python *python, PyObject *list)
{
    return PyList_GET_SIZE(list) > 0 &&
           PyModule_GetDict(PyTuple_GET_ITEM(PyList_GET_ITEM(list, 0), 1)) == python->main;
}

static void finalize_modules(const struct python *python, const struct finish_versions *begun)
{
    bool usual_sys = version_of(python->sys.live) == begun->sys;
    bool usual_builtins =
        python->added_builtins && version_of(python->builtins.live) == python->builtins.version;
    clear_special_names(python);
    PyObject *list = take_modules(python), *empty = PyDict_New();
    if (!list || !empty) {
        return;
    }
    Py_ssize_t others = is_main(python, list);
    drop_modules(python, python->modules_while_main_ends, list, 0, others);
    drop_modules(python, python->modules_while_others_end, list, others, PyList_GET_SIZE(list));
    set_modules(python, empty);
    if (usual_builtins) {
        remove_added_builtins(python);
    } else {
        restore_builtins(python);
    }
    collect_always();
    wipe_survivors(list);
    Py_DECREF(list);
    for (size_t i = python->n_modules; i > 0; i--) {
        wipe_changes(&python->modules[i - 1]);
    }
    clear_stdio_names(python);
    if (usual_sys) {
        clear_own_sys_names(python);
    } else {
        wipe_changes(&python->sys);
    }
    collect_always();
    clear_thread(python);
}

/* As the destructors of sys.stdout and sys.stderr do it: whoever has closed them has had their reasons. */
static void flush_last(const struct python *python)
{
    for (size_t i = 0; i < ARRAY_SIZE(python->stdio); i++) {
        PyObject *none = is_closed(python, python->stdio[i])
                             ? NULL
                             : PyObject_CallMethodNoArgs(python->stdio[i], python->words.flush);
        PyErr_Clear();
        Py_XDECREF(none);
    }
}

int finish(const struct python *python, const struct finish_versions *begun, int code)
{
    wait_for_threads(python, begun);
    call_exitfuncs(python);
    begin_finalizing();
    int lost = flush_stdio(python);
    reset_signals(python);
    PyGC_Collect();
    finalize_modules(python, begun);
    flush_last(python);
    return lost < 0 ? EXIT_LOST_OUTPUT : code;
}
