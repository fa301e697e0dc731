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

#include <dlfcn.h>
#include <sys/random.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/python.h"

#define SSL_ENTROPY_BYTES 32

/* Its generator looks at the PID only where a file is opened, which a database in memory is not. */
static int forget_sqlite(void)
{
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "_sqlite3");
    if (!module) {
        return 0;
    }
    CLEANUP(drop_object) PyObject *path = PyModule_GetFilenameObject(module);
    CLEANUP(drop_object) PyObject *bytes = path ? PyUnicode_EncodeFSDefault(path) : NULL;
    PyErr_Clear(); /* no file: it is part of the interpreter */
    void *library = dlopen(bytes ? PyBytes_AsString(bytes) : NULL, RTLD_LAZY | RTLD_NOLOAD);
    void (*randomness)(int n, void *buffer) =
        library ? (__typeof__(randomness))dlsym(library, "sqlite3_randomness") : NULL;
    if (!randomness) {
        PyErr_SetString(PyExc_ImportError, "_sqlite3: its random numbers would be the same in every job");
        return -1;
    }
    randomness(0, NULL);
    return 0;
}

/* NULL for what prepare.py says is not there. */
static PyObject *take(PyObject *preparation, const char *name)
{
    PyObject *found = PyDict_GetItemString(preparation, name);
    found = found == Py_None ? NULL : found;
    Py_XINCREF(found);
    return found;
}

int entropy_prepare(PyObject *preparation, struct entropy *ret)
{
    *ret = (struct entropy){.randoms = take(preparation, "randoms"),
                            .seed = take(preparation, "seed"),
                            .renew_numpy = take(preparation, "renew_numpy"),
                            .ssl_add = take(preparation, "ssl_add")};
    return forget_sqlite();
}

static int seed_randoms(const struct entropy *entropy)
{
    int r = 0;
    for (Py_ssize_t i = 0; r == 0 && entropy->randoms && i < PyList_Size(entropy->randoms); i++) {
        PyObject *random = PyList_GetItem(entropy->randoms, i);
        PyObject *none = PyObject_CallFunctionObjArgs(entropy->seed, random, NULL);
        /* The second of a pair that gauss() has drawn. */
        bool has_pair = none && PyObject_HasAttrString(random, "gauss_next");
        r = none && (!has_pair || PyObject_SetAttrString(random, "gauss_next", Py_None) == 0) ? 0 : -1;
        Py_XDECREF(none);
    }
    return r;
}

static int call(PyObject *function)
{
    PyObject *none = PyObject_CallObject(function, NULL);
    Py_XDECREF(none);
    return none ? 0 : -1;
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
    if (seed_randoms(entropy) < 0 || (entropy->renew_numpy && call(entropy->renew_numpy) < 0) ||
        (entropy->ssl_add && feed_ssl(entropy->ssl_add) < 0)) {
        _exit(1);
    }
}
