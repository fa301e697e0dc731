/* Files that a command names on its command line, for a command that was given no policy: they are there for
 * it. */
#pragma once

#include <stdbool.h>

/* A regular file that argument `argument` names; what to do with it. */
enum named_file {
    NAMED_NONE,  /* it names none, or one that holds secrets */
    NAMED_COPY,  /* a path in the caller's directory: a copy goes into the working directory, as `ret` */
    NAMED_SHOWN, /* an absolute path, or the program itself: it is shown where it is, `ret` */
};

/* `ret` of PATH_MAX bytes. `is_program`: the argument is the command itself, which must stay executable. */
enum named_file named_file_find(const char *argument, bool is_program, char *ret);
