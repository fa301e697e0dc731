/* The page in server/console, put into the binary by the assembler, and how it is served. Runs in the front,
 * for anybody: nothing of it is a secret, and nothing of it depends on who asks.
 *
 * The headers keep the page to itself. It loads nothing from elsewhere, runs nothing that stands in a
 * document, asks nobody but this server, and is shown inside no other page. Compiled from the top of the
 * tree, like everything. */
#include "server/front/console.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/front/handlers.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/json_out.h"

#define HTML   "text/html; charset=utf-8"
#define STYLE  "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define POLICY                                                                                               \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "    \
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for "                \
    "'script'; trusted-types 'none'"

#define FILES(X)                                                                                             \
    X(index, "index.html", HTML)                                                                             \
    X(style, "style.css", STYLE)                                                                             \
    X(main, "main.js", SCRIPT)                                                                               \
    X(api, "api.js", SCRIPT)                                                                                 \
    X(dom, "dom.js", SCRIPT)                                                                                 \
    X(shown, "shown.js", SCRIPT)                                                                             \
    X(listing, "listing.js", SCRIPT)                                                                         \
    X(approvals, "approvals.js", SCRIPT)

#define X(id, file, type)                                                                                    \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".balign 8\n"                                                                                    \
            "immure_console_" #id "_size: .quad immure_console_" #id "_end - immure_console_" #id "_data\n"  \
            "immure_console_" #id "_data: .incbin \"server/console/" file "\"\n"                             \
            "immure_console_" #id "_end:\n"                                                                  \
            ".popsection\n");                                                                                \
    extern const uint64_t immure_console_##id##_size;                                                        \
    extern const char immure_console_##id##_data[];
FILES(X)
#undef X

static const struct {
    const char *name, *type, *data;
    const uint64_t *size;
} files[] = {
#define X(id, file, type) {file, type, immure_console_##id##_data, &immure_console_##id##_size},
    FILES(X)
#undef X
};

const struct console_file *console_find(const char *name, struct console_file *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        if (strcmp(files[i].name, name) == 0) {
            *ret = (struct console_file){files[i].name, files[i].type, files[i].data, *files[i].size};
            return ret;
        }
    }
    return NULL;
}

/* The tag is the content's hash, so that no browser keeps a file of another version. */
static void reply_file(struct request *request, const struct console_file *file)
{
    char hash[SHA256_HEX], tag[SHA256_HEX + 2];
    struct buf body = BUF_INIT;
    sha256_hex_of(file->data, file->size, hash);
    snprintf(tag, sizeof tag, "\"%s\"", hash);
    const struct http_header headers[] = {
        {"Content-Type", file->type},
        {"Cache-Control", "no-cache"},
        {"ETag", tag},
        {"Content-Security-Policy", POLICY},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    const char *known = http_header(request->http, "If-None-Match");
    bool is_known = known && strstr(known, tag);
    buf_append(&body, file->data, is_known ? 0 : file->size);
    request_reply_headers(request, is_known ? 304 : 200, headers, ARRAY_SIZE(headers), &body);
}

void handle_console(struct request *request)
{
    struct console_file file;
    const char *name = request->argument_length > 0 ? request->argument : "index.html";
    if (console_find(name, &file)) {
        reply_file(request, &file);
    } else {
        request_refuse(request, ERROR_NO_SUCH_PATH, NULL, NULL);
    }
}

/* The page's own links begin where it lies; a proxy may have put something before it. */
void handle_console_place(struct request *request)
{
    struct buf body = BUF_INIT;
    const struct http_header headers[] = {{"Location", "ui/"}, {"Cache-Control", "no-store"}};
    buf_puts(&body, "");
    request_reply_headers(request, 308, headers, ARRAY_SIZE(headers), &body);
}

/* What this is, for whoever has found it with a browser: a 401 would ask for a name and a password. */
void handle_root(struct request *request)
{
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_text(&body, "service", "immure");
    json_out_text(&body, "about",
                  "runs programs in jails; calls need a key, and /openapi.json describes them");
    json_out_text(&body, "openapi", "/openapi.json");
    json_out_text(&body, "console", request->front->config->console ? "/ui/" : NULL);
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
}
