/* What stands for a path in a policy: which directory is mounted for it, or why none is. */
#pragma once

#include <limits.h>
#include <stdbool.h>

/* Why a policy never shows this path of the host; NULL: it may. */
const char *place_secret(const char *path);
/* True if packages of the distribution put it there: names tell nothing, and everybody may have it. */
bool place_is_packaged(const char *path);
/* What is to be mounted for `path`, which is absolute and without links: where it is known what directories
 * are for, "/usr/lib/git-core" for all that lies in there; elsewhere the path itself. False: a directory that
 * is too wide to be shown ("/usr"). */
bool place_of(const char *path, bool directory, char ret[PATH_MAX]);
