/* A file's media type: by its name's extension, else by its content. */
#pragma once

#include <stddef.h>

/* `content` is the file's beginning, or all of it; NULL where it is not known. Returns a constant. */
const char *mime_of(const char *name, const char *content, size_t size);
