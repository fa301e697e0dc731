/* Keeps the random numbers of jobs apart. In the template, and in each process that it forks.
 *
 * What asks the kernel each time (os.urandom, secrets, uuid4) needs nothing, and random seeds its own
 * generator after a fork. A library that tells a fork by its PID sees this one (jail/child/child.h: no
 * process of a job has the template's). The rest is here: what stays in the memory of the process, whoever
 * runs in it.
 *
 * What must hold: nothing that a preloaded module has drawn decides what a job draws. What cannot be seen
 * from outside, a number that a module of its own has put away, is the policy's matter. */
#include "jail/runtime/python/entropy.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/random.h>
#include <unistd.h>

#define SSL_ENTROPY_BYTES 32

/* All generators of a template. */
struct search {
    PyTypeObject *type,
        *system;   /* _random.Random; random.SystemRandom, which has no state (NULL: not imported) */
    PyObject *own; /* random's, which seeds itself; NULL: not imported */
    PyObject *found;
};

static int look_at(PyObject *object, void *argument)
{
    struct search *search = argument;
    if (PyObject_TypeCheck(object, search->type) && object != search->own &&
        !(search->system && PyObject_TypeCheck(object, search->system))) {
        int known = PySequence_Contains(search->found, object);
        return known < 0 || (known == 0 && PyList_Append(search->found, object) < 0) ? -1 : 0;
    }
    /* Out of the collector's sight are those that hold nothing which it would look at. */
    bool hidden = (PyDict_CheckExact(object) || PyTuple_CheckExact(object)) && !PyObject_GC_IsTracked(object);
    return hidden ? Py_TYPE(object)->tp_traverse(object, look_at, search) : 0;
}

static PyObject *imported(const char *module, const char *name)
{
    PyObject *found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    PyObject *attribute = found ? PyObject_GetAttrString(found, name) : NULL;
    PyErr_Clear();
    return attribute;
}

static int find_in(PyObject *objects, struct search *search)
{
    int r = objects ? 0 : -1;
    for (Py_ssize_t i = 0; r == 0 && i < PyList_GET_SIZE(objects); i++) {
        PyObject *object = PyList_GET_ITEM(objects, i);
        r = look_at(object, search);
        r = r < 0 || !Py_TYPE(object)->tp_traverse ? r
                                                   : Py_TYPE(object)->tp_traverse(object, look_at, search);
    }
    return r < 0 ? -1 : 0;
}

static int find_randoms(struct entropy *ret)
{
    PyObject *type = imported("_random", "Random"), *system = imported("random", "SystemRandom");
    PyObject *own = imported("random", "_inst");
    PyObject *collector = type ? PyImport_ImportModule("gc") : NULL;
    PyObject *objects = collector ? PyObject_CallMethod(collector, "get_objects", NULL) : NULL;
    struct search search = {(PyTypeObject *)type, (PyTypeObject *)system, own, type ? PyList_New(0) : NULL};
    int r = !type ? 0 : search.found ? find_in(objects, &search) : -1;
    if (r == 0 && type && PyList_GET_SIZE(search.found) > 0) {
        ret->randoms = Py_NewRef(search.found);
        ret->seed = PyObject_GetAttrString(type, "seed");
        r = ret->seed ? 0 : -1;
    }
    Py_XDECREF(search.found);
    Py_XDECREF(objects);
    Py_XDECREF(collector);
    Py_XDECREF(own);
    Py_XDECREF(system);
    Py_XDECREF(type);
    return r;
}

/* Its generator looks at the PID only where a file is opened, which a database in memory is not. */
static int forget_sqlite(void)
{
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "_sqlite3");
    PyObject *path = module ? PyModule_GetFilenameObject(module) : NULL;
    if (!module) {
        return 0;
    }
    PyErr_Clear(); /* no file: it is part of the interpreter */
    void *library = dlopen(path ? PyUnicode_AsUTF8(path) : NULL, RTLD_LAZY | RTLD_NOLOAD);
    void (*randomness)(int n, void *buffer) =
        library ? (__typeof__(randomness))dlsym(library, "sqlite3_randomness") : NULL;
    Py_XDECREF(path);
    if (!randomness) {
        PyErr_SetString(PyExc_ImportError, "_sqlite3: its random numbers would be the same in every job");
        return -1;
    }
    randomness(0, NULL);
    return 0;
}

static int set(PyObject *module, const char *name, PyObject *value)
{
    int r = value ? PyObject_SetAttrString(module, name, value) : -1;
    Py_XDECREF(value);
    return r;
}

/* libuuid keeps the node and the clock sequence that it has drawn, and has no way to forget them; a jail has
 * no network card to ask instead. So the module goes without, and draws both when they are wanted. */
static int forget_uuid(void)
{
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "uuid");
    if (!module) {
        return 0;
    }
    int r = set(module, "_generate_time_safe", Py_NewRef(Py_None));
    r = r < 0 ? r : set(module, "_node", Py_NewRef(Py_None));
    r = r < 0 ? r : set(module, "_last_timestamp", Py_NewRef(Py_None));
    return r < 0 ? r : set(module, "_GETTERS", PyList_New(0));
}

int entropy_prepare(struct entropy *ret)
{
    *ret = (struct entropy){.ssl_add = imported("_ssl", "RAND_add")};
    int r = forget_sqlite();
    r = r < 0 ? r : forget_uuid();
    return r < 0 ? r : find_randoms(ret);
}

static int seed_randoms(const struct entropy *entropy)
{
    int r = 0;
    for (Py_ssize_t i = 0; r == 0 && entropy->randoms && i < PyList_GET_SIZE(entropy->randoms); i++) {
        PyObject *random = PyList_GET_ITEM(entropy->randoms, i);
        PyObject *none = PyObject_CallOneArg(entropy->seed, random);
        /* The second of a pair that gauss() has drawn. */
        bool has_pair = none && PyObject_HasAttrString(random, "gauss_next");
        r = none && (!has_pair || PyObject_SetAttrString(random, "gauss_next", Py_None) == 0) ? 0 : -1;
        Py_XDECREF(none);
    }
    return r;
}

/* Where a fork has gone unnoticed all the same. */
static int feed_ssl(PyObject *add)
{
    char bytes[SSL_ENTROPY_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return -1;
    }
    PyObject *none = PyObject_CallFunction(add, "y#d", bytes, (Py_ssize_t)sizeof bytes, 0.0);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

void entropy_renew(const struct entropy *entropy)
{
    if (seed_randoms(entropy) < 0 || (entropy->ssl_add && feed_ssl(entropy->ssl_add) < 0)) {
        _exit(1);
    }
}
