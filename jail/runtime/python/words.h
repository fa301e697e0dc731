/* struct python: what everybody here knows of the template's interpreter: what it was started with, and the
 * words, objects and namespaces that are remembered of it for every job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "jail/runtime/python/entropy.h"
#include "jail/runtime/python/internals.h"
#include "jail/runtime/python/memory.h"
#include "jail/runtime/python/pages.h"

struct _object; /* PyObject: CPython's own headers are included by .c files only */

/* A namespace, and what it held when the template was ready. */
struct python_names {
    struct _object *live, *before;
    unsigned long long
        version; /* changes whenever the namespace does; where there is none (internals.h), 0 */
};

/* Names that are looked up for every job. */
/* clang-format off */
#define PYTHON_WORDS(X) \
    X(stdin) X(stdout) X(stderr) X(__stdin__) X(__stdout__) X(__stderr__) X(flush) X(closed) X(argv) \
    X(orig_argv) X(path) X(path_importer_cache) X(path_hooks) X(meta_path) X(modules) X(ps1) X(ps2) \
    X(last_type) X(last_value) X(last_traceback) X(last_exc) X(__interactivehook__) X(_) X(threading) X(code) \
    X(_shutdown) X(_shutdown_locks) X(_threading_atexits) X(__file__) X(__cached__) X(__loader__) X(__main__) \
    X(__builtins__)
/* clang-format on */

struct python_words {
#define X(word) struct _object *word;
    PYTHON_WORDS(X)
#undef X
};

struct python {
    struct memory *memory;
    struct pages pages;
    size_t n_least_runs; /* the first of them, which every program needs */
    int log_fd;
    bool stands_by; /* for one job, in its jail: nothing is forked */
    /* How every job's command line begins: the interpreter and its options. */
    char **argv;
    size_t argc;
    /* What the interpreter was started with; ends with NULL. */
    char **environment;
    /* LC_CTYPE as the interpreter has set it for itself where the environment names no locale; else NULL. */
    char *coerced_locale;
    bool safe_path; /* -P, -I: the script's directory is not searched for modules */
    int minor;      /* 3.MINOR */

    struct internals internals;
    struct entropy entropy;

    /* The rest is filled in by remember(). */
    unsigned char magic[2]; /* how a compiled file begins */
    char **module_names;    /* what is imported and a file could take the place of, sorted */
    size_t n_module_names;

    struct python_words words;
    struct _object *main_module, *main; /* __main__, and its namespace */
    struct _object *environ_data;       /* the dict of bytes that os.environ and os.environb wrap */
    struct _object *source_loader;      /* the type of a script's __loader__ */
    struct _object *run_exitfuncs, *count_exitfuncs;  /* atexit's */
    long n_exitfuncs;                                 /* how many functions it would call */
    struct _object *set_signal, *get_signal;          /* signal.signal, signal.getsignal */
    struct _object *collect, *callbacks, *is_enabled; /* gc's */
    struct _object *count_threads;                    /* _thread._count */
    void (*signal_handler)(int);                      /* behind every handler written in Python */
    struct _object *set_native_id;                    /* of threading's main thread; NULL: not imported */
    struct _object *stdio[2];                         /* sys.stdout, sys.stderr */
    struct _object *imported;                         /* sys.modules as it was, without __main__ */
    unsigned long long imported_version;              /* of sys.modules while that is true; 0: it never is */
    /* What sys.modules looks like at the end, as far as the template's modules go: names without modules, but
     * for those that CPython has not come to yet when __main__ goes. */
    struct _object *modules_while_main_ends, *modules_while_others_end;
    struct python_names sys, builtins;
    struct _object *added_builtins; /* a list: the names among the builtins that CPython does not bring */
    struct _object *threading;      /* the namespace of that module; NULL: not imported */
    struct python_names
        *modules; /* the namespaces of all others but __main__, in the order of their import */
    size_t n_modules;
};
