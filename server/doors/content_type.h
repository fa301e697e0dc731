/* struct content_types: what a file is, by its name or its content. */
#pragma once

#include <stddef.h>

struct content_types;
struct log;

/* Loads libmagic's database, which a confined process cannot. NULL where it is not there: said in the log,
 * and nothing else depends on it. */
struct content_types *content_types_new(struct log *log);
void content_types_free(struct content_types *types); /* takes NULL */

/* A file's media type: by its name's extension, else by its content. `content` is the file's beginning, or
 * all of it; NULL where it is not known. `types` may be NULL. Good until the next call. */
const char *mime_of(const struct content_types *types, const char *name, const char *content, size_t size);
