/* Media types of output files: by their names' extensions, else by content, through libmagic, which only this
 * file includes. Runs in the front, on names and bytes that a program chose, behind the front's confinement:
 * whoever finds a hole in libmagic is in a process that holds nothing but replies. It looks at the beginning
 * of a file only, and into no archive. */
#include "server/doors/content_type.h"

#include <magic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/utf8.h"
#include "jail/base/cleanup.h"
#include "server/kit/log.h"

/* A millisecond's worth, whatever the bytes are: everybody else waits meanwhile. */
#define LOOKED_AT_BYTES 4096u

/* What it would have to unpack, or parse deeply. */
#define FLAGS                                                                                                \
    (MAGIC_MIME_TYPE | MAGIC_ERROR | MAGIC_NO_CHECK_COMPRESS | MAGIC_NO_CHECK_ELF | MAGIC_NO_CHECK_CDF |     \
     MAGIC_NO_CHECK_APPTYPE)

static const struct {
    const char *extension, *type;
} by_extension[] = {
    {"png", "image/png"},         {"jpg", "image/jpeg"},    {"jpeg", "image/jpeg"},     {"gif", "image/gif"},
    {"webp", "image/webp"},       {"svg", "image/svg+xml"}, {"pdf", "application/pdf"}, {"csv", "text/csv"},
    {"json", "application/json"}, {"html", "text/html"},    {"htm", "text/html"},       {"txt", "text/plain"},
    {"log", "text/plain"},        {"md", "text/markdown"},  {"zip", "application/zip"},
};

/* Text has no NUL, although U+0000 is a character. Its last one may have been cut off with the rest of the
 * file. */
static bool looks_like_text(const char *content, size_t size)
{
    return !memchr(content, '\0', size) && utf8_is_valid(content, size - utf8_unfinished(content, size));
}

struct content_types {
    magic_t cookie;
};

static const char *load(struct content_types *types)
{
    types->cookie = magic_open(FLAGS);
    return !types->cookie || magic_load(types->cookie, NULL) != 0 ? "its database cannot be loaded" : NULL;
}

struct content_types *content_types_new(struct log *log)
{
    struct content_types *types = calloc(1, sizeof *types);
    const char *why = types ? load(types) : "out of memory";
    if (why) {
        LOG(log, LOG_INFO, "no_libmagic", LOG_FIELD_STR("error", why),
            LOG_FIELD_STR(
                "means",
                "output files without a known extension are text/plain or application/octet-stream"));
        content_types_free(types);
        return NULL;
    }
    return types;
}

void content_types_free(struct content_types *types)
{
    if (types) {
        if (types->cookie) {
            magic_close(types->cookie);
        }
        free(types);
    }
}

/* A media type, or NULL where it cannot tell (or `types` is NULL). Good until the next call. */
static const char *by_content(const struct content_types *types, const char *content, size_t size)
{
    if (!types || size == 0) {
        return NULL;
    }
    size_t looked_at = size < LOOKED_AT_BYTES ? size : LOOKED_AT_BYTES;
    const char *type = magic_buffer(types->cookie, content, looked_at);
    return type && strchr(type, '/') ? type : NULL;
}

const char *mime_of(const struct content_types *types, const char *name, const char *content, size_t size)
{
    const char *slash = strrchr(name, '/');
    const char *dot = strrchr(slash ? slash : name, '.');
    for (size_t i = 0; dot && i < ARRAY_SIZE(by_extension); i++) {
        if (strcasecmp(dot + 1, by_extension[i].extension) == 0) {
            return by_extension[i].type;
        }
    }
    static const char unknown[] = "application/octet-stream";
    const char *type = content ? by_content(types, content, size) : NULL;
    if (type && strcmp(type, unknown) != 0) {
        return type;
    }
    return content && looks_like_text(content, size) ? "text/plain" : unknown;
}
