/* Media types of output files. Used by the front, over names and bytes that a program chose: the answer is
 * one of the constants below, or of libmagic's. */
#include "server/doors/mime.h"

#include <string.h>
#include <strings.h>

#include "jail/base/cleanup.h"
#include "server/doors/content_type.h"
#include "server/kit/text.h"

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
    return !memchr(content, '\0', size) && text_is_utf8(content, size - text_unfinished(content, size));
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
    const char *type = content ? content_type_of(types, content, size) : NULL;
    if (type && strcmp(type, unknown) != 0) {
        return type;
    }
    return content && looks_like_text(content, size) ? "text/plain" : unknown;
}
