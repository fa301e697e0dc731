/* Finds what CPython has behind its limited API. Runs in a template, before its jobs.
 *
 * What must hold: nothing is believed because of a version number. Each finding is tried out by what the
 * public functions say afterwards, and a place that is written to is one that they have been seen to read. */
#include "jail/runtime/python/internals.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/python.h"

/* PyDictObject, up to 3.13: behind the head the number of entries, then the version. */
#define VERSION_OFFSET (sizeof(PyObject) + sizeof(Py_ssize_t))

#define INTERPRETER_BYTES (64u << 10) /* of PyInterpreterState; more than what lies before the modules */

static unsigned long long read_version(const PyObject *dict)
{
    uint64_t version;
    memcpy(&version, (const char *)dict + VERSION_OFFSET, sizeof version);
    return version;
}

unsigned long long internals_version(const struct internals *internals, const PyObject *dict)
{
    return internals->has_versions ? read_version(dict) : 0;
}

/* Every change must be seen, and nothing but changes. */
static bool try_versions(void)
{
    CLEANUP(drop_object) PyObject *dict = PyDict_New();
    CLEANUP(drop_object) PyObject *name = PyUnicode_InternFromString("name");
    bool good = dict && name;
    unsigned long long seen = good ? read_version(dict) : 0;
    PyObject *const values[] = {Py_True, Py_False, Py_None, NULL, Py_True, NULL};
    for (size_t i = 0; good && i < ARRAY_SIZE(values); i++) {
        good = (values[i] ? PyDict_SetItem(dict, name, values[i]) : PyDict_DelItem(dict, name)) == 0 &&
               read_version(dict) != seen;
        seen = read_version(dict);
        good = good && seen != 0 && PyDict_GetItemWithError(dict, name) == values[i] &&
               PyDict_Size(dict) >= 0 && read_version(dict) == seen;
    }
    return good;
}

static bool try_modules(PyObject **place, PyObject *modules)
{
    PyObject *other = PyDict_New();
    *place = other;
    bool good = other && PyImport_GetModuleDict() == other;
    *place = modules;
    Py_XDECREF(other);
    return good && PyImport_GetModuleDict() == modules;
}

/* A copy of the interpreter's state, as far as there is memory: it says itself how long it is in no version.
 */
static size_t copy_interpreter(void **ret)
{
    CLEANUP(fd_closep) int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    *ret = malloc(INTERPRETER_BYTES);
    ssize_t n =
        *ret ? pread(memory, *ret, INTERPRETER_BYTES, (off_t)(uintptr_t)PyInterpreterState_Get()) : -1;
    return n > 0 ? (size_t)n : 0;
}

/* Where in the interpreter's state something lies; NULL where it does not, or in more than one place. */
static void *find_in_interpreter(const void *wanted, size_t size)
{
    CLEANUP(freep) void *copy = NULL;
    size_t n = copy_interpreter(&copy);
    char *found = memmem(copy, n, wanted, size);
    size_t at = found ? (size_t)(found - (char *)copy) : 0;
    bool again = found && memmem(found + 1, n - at - 1, wanted, size);
    return found && !again && at % sizeof(void *) == 0 ? (char *)PyInterpreterState_Get() + at : NULL;
}

static PyObject **find_modules(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject **place = find_in_interpreter(&modules, sizeof modules);
    return place && try_modules(place, modules) ? place : NULL;
}

bool internals_read_statistics(struct internals_statistics *ret)
{
    static const char *const names[] = {"collections", "collected", "uncollectable"};
    CLEANUP(drop_object) PyObject *gc = PyImport_ImportModule("gc");
    CLEANUP(drop_object) PyObject *list = gc ? PyObject_CallMethod(gc, "get_stats", NULL) : NULL;
    bool good = list && PyList_Size(list) == INTERNALS_GENERATIONS;
    for (int i = 0; good && i < INTERNALS_GENERATIONS * 3; i++) {
        ret->numbers[i] = PyLong_AsSsize_t(PyDict_GetItemString(PyList_GetItem(list, i / 3), names[i % 3]));
    }
    PyErr_Clear();
    return good;
}

void internals_write_statistics(const struct internals_statistics *wanted)
{
    struct internals_statistics now;
    void *place = internals_read_statistics(&now) ? find_in_interpreter(&now, sizeof now) : NULL;
    if (place) {
        memcpy(place, wanted, sizeof *wanted);
    }
}

static bool is_finalizing(PyObject *function)
{
    PyObject *answer = PyObject_CallObject(function, NULL);
    Py_XDECREF(answer); /* one of the two that live for ever */
    return answer == Py_True;
}

/* _PyRuntimeState begins with some numbers and this pointer; from 3.13 on with a table of what lies where. */
static size_t finalizing_offset(int minor, const void *runtime)
{
    static const unsigned char offsets[] = {[9] = 16, [10] = 16, [11] = 24, [12] = 24};
    static const char cookie[8] = "xdebugpy";
    if (minor < (int)ARRAY_SIZE(offsets)) {
        return offsets[minor];
    }
    uint64_t table[5]; /* cookie, version, free-threaded?, its size, `finalizing` */
    memcpy(table, runtime, sizeof table);
    return minor == 13 && memcmp(&table[0], cookie, sizeof cookie) == 0 && table[4] < table[3]
               ? (size_t)table[4]
               : 0;
}

static uintptr_t *find_finalizing(int minor)
{
    char *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    size_t offset = runtime ? finalizing_offset(minor, runtime) : 0;
    uintptr_t *place = offset > 0 ? (uintptr_t *)(void *)(runtime + offset) : NULL;
    PyObject *function = PySys_GetObject("is_finalizing");
    if (!place || !function || *place != 0 || is_finalizing(function)) {
        return NULL;
    }
    *place = (uintptr_t)PyThreadState_Get();
    bool good = is_finalizing(function);
    *place = 0;
    return good && !is_finalizing(function) ? place : NULL;
}

int internals_find(int minor, struct internals *ret)
{
    *ret = (struct internals){.has_versions = minor < 14 && try_versions(),
                              .modules = find_modules(),
                              .finalizing = find_finalizing(minor)};
    ret->run_file = (__typeof__(ret->run_file))dlsym(RTLD_DEFAULT, "PyRun_FileExFlags");
    ret->say_unraisable = (__typeof__(ret->say_unraisable))dlsym(RTLD_DEFAULT, "PyErr_FormatUnraisable");
    if (!ret->run_file) {
        PyErr_SetString(PyExc_ImportError, "the interpreter has no PyRun_FileExFlags");
        return -1;
    }
    return 0;
}
