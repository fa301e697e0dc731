/* struct content_types: what a file without a telling name is, by its content. */
#pragma once

#include <stddef.h>

struct content_types;
struct log;

/* Loads libmagic and its database, which a confined process cannot. NULL where they are not there: said in
 * the log, and nothing else depends on it. */
struct content_types *content_types_new(struct log *log);
void content_types_free(struct content_types *types); /* takes NULL */

/* A media type, or NULL where it cannot tell (or `types` is NULL). Good until the next call. */
const char *content_type_of(const struct content_types *types, const char *content, size_t size);
