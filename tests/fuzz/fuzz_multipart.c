/* Uploads: a Content-Type, a line break, and a body. What is taken of it lies in it, in its order, and
 * written again it is read as the same. */
#include <stdlib.h>
#include <string.h>

#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/multipart.h"
#include "tests/fuzz/fuzz.h"

static void write_name(struct buf *to, const char *key, const char *name)
{
    buf_printf(to, "; %s=\"", key);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') {
            buf_putc(to, '\\');
        }
        buf_putc(to, *name);
    }
    buf_putc(to, '"');
}

static void check_name(const char *name)
{
    REQUIRE(utf8_is_valid(name, strlen(name)));
    for (; *name; name++) {
        REQUIRE((unsigned char)*name >= ' ' && *name != 0x7f);
    }
}

static void check_part(const struct multipart *multipart, const char *content_type,
                       const struct multipart_part *part)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    static struct multipart again;
    static struct multipart_part same;
    struct err err = {0};
    check_name(part->name);
    check_name(part->filename);
    REQUIRE(*part->name);
    buf_printf(&text, "--%s\r\nContent-Disposition: form-data", multipart->boundary);
    write_name(&text, "name", part->name);
    if (*part->filename) {
        write_name(&text, "filename", part->filename);
    }
    buf_puts(&text, "\r\n\r\n");
    buf_append(&text, part->data, part->size);
    buf_printf(&text, "\r\n--%s--\r\n", multipart->boundary);
    REQUIRE(multipart_begin(&again, content_type, text.data, text.len, &err) == 0);
    REQUIRE(multipart_next(&again, &same, &err) == 1);
    REQUIRE(strcmp(same.name, part->name) == 0 && strcmp(same.filename, part->filename) == 0);
    REQUIRE(same.size == part->size && memcmp(same.data, part->data, part->size) == 0);
    REQUIRE(multipart_next(&again, &same, &err) == 0);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct multipart multipart;
    static struct multipart_part part;
    struct err err = {0};
    const uint8_t *line = memchr(data, '\n', size);
    if (!line) {
        return;
    }
    char *content_type = strndup((const char *)data, (size_t)(line - data));
    const char *body = (const char *)line + 1, *at = body, *end = (const char *)data + size;
    REQUIRE(content_type);
    int r = multipart_begin(&multipart, content_type, body, (size_t)(end - body), &err);
    for (unsigned n = 0; r == 0 && (r = multipart_next(&multipart, &part, &err)) == 1; r = 0) {
        REQUIRE(++n <= MULTIPART_PARTS_MAX);
        REQUIRE(part.data >= at && part.size <= (size_t)(end - part.data));
        at = part.data + part.size;
        check_part(&multipart, content_type, &part);
    }
    REQUIRE(r == 0 || (r < 0 && err.kind == ERR_INVALID && *err.text));
    free(content_type);
}
