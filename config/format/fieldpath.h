/* struct fieldpath: where in a message a reader is, "mount[3].bind.source", for error messages. */
#pragma once

#include <stddef.h>

struct fieldpath {
    char text[200]; /* what does not fit is left out */
    size_t len;
};

/* Both return the length to go back to with fieldpath_pop(). */
size_t fieldpath_push(struct fieldpath *path, const char *name);
size_t fieldpath_push_index(struct fieldpath *path, size_t index);
void fieldpath_pop(struct fieldpath *path, size_t len);
