/* A file's media type: by its name's extension, else by its content. */
#pragma once

#include <stddef.h>

struct content_types;

/* `content` is the file's beginning, or all of it; NULL where it is not known. `types` may be NULL. Good
 * until the next call. */
const char *mime_of(const struct content_types *types, const char *name, const char *content, size_t size);
