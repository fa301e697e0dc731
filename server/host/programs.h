/* The other programs that are installed with immure. */
#pragma once

#include <limits.h>

struct err;

/* Writes the path of `name`: an absolute one, or one that lies beside our own binary (a build directory), or
 * where `make install` puts it. ERR_HOST where there is none that can be executed. */
int program_find(const char *name, char ret[PATH_MAX], struct err *reterr);
