/* Ends a program whose last exception nobody has caught (Python/pythonrunc.c). Never by CPython's own exit(),
 * which would take the template's modules apart. On the main thread of a job's process. */
#include "jail/runtime/python/exit.h"

#include <stdio.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/python.h"
#include "jail/runtime/python/words.h"

/* Says on stderr what a program has given sys.exit() that is no number. */
static void print_exit(const struct python *python, PyObject *value)
{
    PyObject *file = PyDict_GetItemWithError(python->sys.live, python->words.stderr);
    if (file && file != Py_None) {
        PyFile_WriteObject(value, file, Py_PRINT_RAW);
    } else {
        CLEANUP(drop_object) PyObject *text = PyObject_Str(value);
        CLEANUP(drop_object) PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
        fputs(bytes ? PyBytes_AsString(bytes) : "", stderr);
        fflush(stderr);
    }
    PyErr_Clear();
    PySys_WriteStderr("\n");
}

/* True where the pending exception is a SystemExit. */
static bool handle_exit(const struct python *python, int *ret)
{
    if (!PyErr_ExceptionMatches(PyExc_SystemExit)) {
        return false;
    }
    fflush(stdout);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    CLEANUP(drop_object) PyObject *code = value ? PyObject_GetAttr(value, python->words.code) : NULL;
    PyErr_Clear();
    PyObject *given = code ? code : value;
    *ret = 0;
    if (given && PyLong_Check(given)) {
        *ret = (int)PyLong_AsLong(given);
    } else if (given && given != Py_None) {
        print_exit(python, given);
        *ret = 1;
    }
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return true;
}

/* A program's own excepthook, and the SystemExit that it has ended with. */
struct guarded_hook {
    PyObject *hook;
    PyObject *type, *value, *traceback;
};

#define GUARD_NAME "immure.excepthook"

static PyObject *call_guarded(PyObject *capsule, PyObject *arguments)
{
    struct guarded_hook *guarded = PyCapsule_GetPointer(capsule, GUARD_NAME);
    PySys_SetObject("excepthook", guarded->hook);
    PyObject *result = PyObject_CallObject(guarded->hook, arguments);
    if (result || !PyErr_ExceptionMatches(PyExc_SystemExit)) {
        return result;
    }
    PyErr_Fetch(&guarded->type, &guarded->value, &guarded->traceback);
    return Py_BuildValue("");
}

/* PyErr_Print() in such a way that a hook which exits does not end the process behind our back. */
static bool print_guarded(const struct python *python, PyObject *hook, int *ret)
{
    static PyMethodDef method = {.ml_name = "excepthook", .ml_meth = call_guarded, .ml_flags = METH_VARARGS};
    struct guarded_hook guarded = {.hook = hook};
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_INCREF(hook);
    CLEANUP(drop_object) PyObject *capsule = PyCapsule_New(&guarded, GUARD_NAME, NULL);
    CLEANUP(drop_object) PyObject *guard = capsule ? PyCFunction_NewEx(&method, capsule, NULL) : NULL;
    if (guard) {
        PySys_SetObject("excepthook", guard);
    }
    PyErr_Restore(type, value, traceback);
    PyErr_Print();
    if (guard && PySys_GetObject("excepthook") == guard) {
        PySys_SetObject("excepthook", hook); /* it has not been called */
    }
    Py_DECREF(hook);
    if (!guarded.type) {
        return false;
    }
    PyErr_Restore(guarded.type, guarded.value, guarded.traceback);
    return handle_exit(python, ret);
}

bool exit_end(const struct python *python, int *ret)
{
    PyObject *hook = PySys_GetObject("excepthook"), *usual = PySys_GetObject("__excepthook__");
    if (handle_exit(python, ret)) {
        return true;
    }
    *ret = 1;
    if (!hook || hook == usual) {
        PyErr_Print();
        return false;
    }
    return print_guarded(python, hook, ret);
}
