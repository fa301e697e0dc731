/* CPython's own header, held to what every version from 3.9 on has: its limited API. For .c files only. */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdbool.h>

static inline void drop_object(PyObject **object)
{
    Py_CLEAR(*object);
}
