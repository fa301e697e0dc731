/* Runs one program as __main__, as `python3 FILE` does. In a job's process, confined, on the main thread.
 *
 * What must hold: this is Modules/main.c of CPython from the command line on, less what the template has done
 * and what match.c has ruled out, so that a program finds the same names, frames, messages and exit codes. */
#include "jail/runtime/python/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/exit.h"
#include "jail/runtime/python/finish.h"
#include "jail/runtime/python/match.h"
#include "jail/runtime/python/python.h"
#include "jail/runtime/python/scripts.h"
#include "jail/runtime/python/words.h"
#include "jail/zygote.h"

/* A list of strings as the interpreter decodes its command line. */
static PyObject *string_list(char *const *strings)
{
    PyObject *list = PyList_New(0);
    for (; list && *strings; strings++) {
        PyObject *text = PyUnicode_DecodeFSDefault(*strings);
        if (!text || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    return list;
}

static int set_sys_list(const struct python *python, PyObject *name, char *const *strings)
{
    PyObject *list = string_list(strings);
    int r = list ? PyDict_SetItem(python->sys.live, name, list) : -1;
    Py_XDECREF(list);
    return r;
}

/* As posixmodule.c does it: of two variables with one name the first counts. */
static int add_variable(PyObject *data, const char *variable)
{
    const char *equals = strchr(variable, '=');
    if (!equals) {
        return 0;
    }
    PyObject *name = PyBytes_FromStringAndSize(variable, equals - variable);
    PyObject *value = PyBytes_FromString(equals + 1);
    int known = name && value ? PyDict_Contains(data, name) : -1;
    int r = known == 0 ? PyDict_SetItem(data, name, value) : known;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return r < 0 ? -1 : 0;
}

/* The job's own time zone. */
static int set_timezone(void)
{
    PyObject *time = PyImport_ImportModule("time");
    PyObject *none = time ? PyObject_CallMethod(time, "tzset", NULL) : NULL;
    Py_XDECREF(time);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

static int set_environment(const struct python *python, const struct zygote_run *run,
                           const struct script *script)
{
    if (script->same_environment) {
        return 0;
    }
    environ = run->envp;
    if (python->coerced_locale && setenv("LC_CTYPE", python->coerced_locale, 1) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    PyDict_Clear(python->environ_data);
    for (char **variable = environ; *variable; variable++) {
        if (add_variable(python->environ_data, *variable) < 0) {
            return -1;
        }
    }
    return script->same_timezone ? 0 : set_timezone();
}

/* What a fresh interpreter knows of the script before it opens it. */
static int set_path(const struct python *python, const struct script *script)
{
    PyObject *cache = PyDict_GetItemWithError(python->sys.live, python->words.path_importer_cache);
    PyObject *path = PyDict_GetItemWithError(python->sys.live, python->words.path);
    PyObject *name = PyUnicode_DecodeFSDefault(script->path);
    PyObject *directory = PyUnicode_DecodeFSDefault(script->directory);
    int r = -1;
    if (cache && path && name && directory && PyDict_SetItem(cache, name, Py_None) == 0) {
        r = python->safe_path ? 0 : PyList_Insert(path, 0, directory);
    }
    Py_XDECREF(name);
    Py_XDECREF(directory);
    return r;
}

static int set_main(const struct python *python, const char *path)
{
    PyObject *name = PyUnicode_DecodeFSDefault(path);
    const struct python_words *words = &python->words;
    PyObject *loader =
        name ? PyObject_CallFunctionObjArgs(python->source_loader, words->__main__, name, NULL) : NULL;
    int r = -1;
    if (loader && PyDict_SetItem(python->main, words->__file__, name) == 0 &&
        PyDict_SetItem(python->main, words->__cached__, Py_None) == 0) {
        r = PyDict_SetItem(python->main, words->__loader__, loader);
    }
    Py_XDECREF(name);
    Py_XDECREF(loader);
    return r;
}

static void flush_quietly(const struct python *python, PyObject *name)
{
    PyObject *file = PyDict_GetItemWithError(python->sys.live, name);
    PyObject *none = file ? PyObject_CallMethodObjArgs(file, python->words.flush, NULL) : NULL;
    if (!none) {
        PyErr_Clear();
    }
    Py_XDECREF(none);
}

static void flush_stdio(const struct python *python)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    flush_quietly(python, python->words.stderr);
    flush_quietly(python, python->words.stdout);
    PyErr_Restore(type, value, traceback);
}

static void delete_main(const struct python *python, PyObject *name)
{
    if (PyDict_DelItem(python->main, name) < 0) {
        PyErr_Clear();
    }
}

/* Ends as an interpreter does whose program has let a KeyboardInterrupt go: so that a shell sees it. */
static int end_interrupted(void)
{
    signal(SIGINT, SIG_DFL);
    kill(getpid(), SIGINT);
    return 128 + SIGINT;
}

/* PyCompilerFlags. */
struct compiler_flags {
    int flags, minor;
};

/* The prelude's function for a job whose results are wanted: a name among its globals. NULL: there is none.
 */
static PyObject *results_function(void)
{
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *known = builtins ? PyObject_GetAttrString(builtins, "call_tool") : NULL;
    PyObject *globals = known ? PyObject_GetAttrString(known, "__globals__") : NULL;
    PyObject *function = globals ? PyMapping_GetItemString(globals, "run_with_results") : NULL;
    Py_XDECREF(builtins);
    Py_XDECREF(known);
    Py_XDECREF(globals);
    return function;
}

/* It has raised this, out of frames of its own alone. */
static void raise_again(PyObject *raised)
{
    PyObject *type = (PyObject *)Py_TYPE(raised);
    Py_INCREF(type);
    PyErr_Restore(type, raised, PyException_GetTraceback(raised));
}

/* As run_file() of CPython's, but that the value of the program's last expression is shown. `*ret` NULL: it
 * has raised something. False: the program is to be run as any other. */
static bool run_with_results(const struct python *python, const struct script *script, PyObject **ret)
{
    if (script->same_environment || !getenv("IMMURE_RESULTS")) {
        return false;
    }
    PyObject *function = results_function();
    PyObject *path = function ? PyUnicode_DecodeFSDefault(script->path) : NULL;
    PyObject *outcome = path ? PyObject_CallFunctionObjArgs(function, path, python->main, NULL) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(path);
    PyErr_Clear();
    if (!outcome || outcome == Py_None) {
        Py_XDECREF(outcome);
        return false;
    }
    *ret = outcome;
    if (outcome != Py_True) {
        *ret = NULL;
        raise_again(outcome);
    }
    return true;
}

static int run_script(const struct python *python, const struct script *script)
{
    struct compiler_flags flags = {.minor = python->minor};
    struct finish_versions begun;
    finish_prepare(python, &begun);
    Py_INCREF(python->main); /* the program may remove __main__ */
    PyObject *result;
    if (run_with_results(python, script, &result)) {
        fclose(script->file);
    } else {
        result = python->internals.run_file(script->file, script->path, Py_file_input, python->main,
                                            python->main, 1, &flags);
    }
    flush_stdio(python);
    bool interrupted = !result && PyErr_Occurred() == PyExc_KeyboardInterrupt;
    int code = 0;
    if (!result && exit_end(python, &code)) {
        Py_DECREF(python->main);
        return finish(python, &begun, code);
    }
    Py_XDECREF(result);
    delete_main(python, python->words.__file__);
    delete_main(python, python->words.__cached__);
    Py_DECREF(python->main);
    code = finish(python, &begun, code);
    return interrupted ? end_interrupted() : code;
}

int job_run(const struct python *python, const struct zygote_run *run, const struct script *script)
{
    if (set_environment(python, run, script) < 0 ||
        (python->minor > 9 && set_sys_list(python, python->words.orig_argv, run->argv) < 0) ||
        set_sys_list(python, python->words.argv, script->argv) < 0 || set_path(python, script) < 0 ||
        set_main(python, script->path) < 0) {
        PyErr_Print();
        return EXIT_FAILURE;
    }
    return run_script(python, script);
}

/* As after any fork; and the main thread is another one. */
static void wake_up(const struct python *python)
{
    PyOS_AfterFork_Child();
    PyObject *none = python->set_native_id ? PyObject_CallObject(python->set_native_id, NULL) : NULL;
    PyErr_Clear();
    Py_XDECREF(none);
    entropy_renew(&python->entropy);
}

void job_park(const struct python *python, bool is_awaited)
{
    /* Usual programs need more pages than any one of them: too many to wait for. */
    pages_fetch(&python->pages, is_awaited ? python->n_least_runs : python->pages.n_runs);
    wake_up(python);
}

/* What is printed goes nowhere. */
static int divert_stdout(void)
{
    int ends[2]; /* the other end stays open as long as the process lives */
    return pipe2(ends, O_CLOEXEC) < 0 || dup2(ends[1], STDOUT_FILENO) < 0 ? -1 : 0;
}

/* The whole life of a job. Its script has a name that looks like any other's. */
static void run_rehearsal(const struct python *python, enum text rehearsal)
{
    char path[] = "/immure/main.py", directory[] = "/immure";
    const char *text = text_of(rehearsal);
    char **argv = calloc(python->argc + 2, sizeof *argv);
    struct script script = {.file = fmemopen((void *)(uintptr_t)text, strlen(text), "r"),
                            .path = path,
                            .directory = directory,
                            .same_environment = true};
    if (!argv || !script.file || divert_stdout() < 0) {
        return;
    }
    memcpy(argv, python->argv, python->argc * sizeof *argv);
    argv[python->argc] = path;
    script.argv = argv + python->argc;
    struct zygote_run run = {.argv = argv, .argc = python->argc + 1, .envp = environ};
    wake_up(python);
    job_run(python, &run, &script);
}

static void run_least(void *python)
{
    run_rehearsal(python, TEXT_LEAST);
}

static void run_usual(void *python)
{
    run_rehearsal(python, TEXT_JOB);
}

void job_rehearse(struct python *python)
{
    pages_learn(run_least, python, &python->pages);
    python->n_least_runs = python->pages.n_runs;
    pages_learn(run_usual, python, &python->pages);
}
