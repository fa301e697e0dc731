/* Reads and sets the state of CPython's collector, so that in a job it runs when it would run in a fresh
 * interpreter: programs whose objects have destructors show when that is. */
#include "jail/runtime/python/collector.h"

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <internal/pycore_interp.h>

_Static_assert(COLLECTOR_GENERATIONS == NUM_GENERATIONS, "CPython's collector has other generations");

void collector_read(struct collector *ret)
{
    const struct _gc_runtime_state *gc = &PyInterpreterState_Get()->gc;
    for (int i = 0; i < NUM_GENERATIONS; i++) {
        ret->counts[i] = gc->generations[i].count;
    }
    ret->long_lived_total = gc->long_lived_total;
    ret->long_lived_pending = gc->long_lived_pending;
}

void collector_write(const struct collector *collector)
{
    struct _gc_runtime_state *gc = &PyInterpreterState_Get()->gc;
    for (int i = 0; i < NUM_GENERATIONS; i++) {
        gc->generations[i].count = collector->counts[i];
        gc->generation_stats[i] = (struct gc_generation_stats){0};
    }
    gc->long_lived_total = collector->long_lived_total;
    gc->long_lived_pending = collector->long_lived_pending;
}
