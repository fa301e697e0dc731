/* Secrets for the headers of policies' `egress`. Their files are read by the warden, with the configuration;
 * what is checked is checked again in the front, which gets them packed.
 *
 * What must hold: a value fits into a header as it is, and stands in no message of an error. */
#include "config/server/egress_secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/server/config.h"
#include "config/server/server.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

static void wipe(struct buf *text)
{
    if (text->data) {
        explicit_bzero(text->data, text->cap);
    }
    buf_free(text);
}

static int read_one(Immure__EgressSecret *secret, const struct source *source, const char *path,
                    struct err *reterr)
{
    CLEANUP(wipe) struct buf text = BUF_INIT;
    char place[64];
    snprintf(place, sizeof place, "%s.%s", path, secret->value[0] != '\0' ? "value" : "file");
    if (secret->value[0] != '\0') {
        return source_fail(source, place, reterr, "is read from `file`; write it there");
    }
    if (secret->file[0] != '/') {
        return source_fail(source, place, reterr, "must be an absolute path, not \"%.60s\"", secret->file);
    }
    int r = protofile_read(secret->file, &text, NULL);
    if (r < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return source_fail(source, place, reterr, "\"%.200s\" cannot be read: %s", secret->file,
                           io_path_error(secret->file, -r, why));
    }
    while (text.len > 0 && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r')) {
        text.len--;
    }
    if (text.len > 0 && memchr(text.data, '\0', text.len)) {
        text.len = 0; /* no text, and refused below */
    }
    secret->value = strndup(text.data ? text.data : "", text.len);
    return secret->value ? 0 : err_errno(reterr, ENOMEM, "while reading %s", secret->file);
}

int egress_secrets_read(Immure__Server *message, const struct source *source, struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < message->n_egress_secret; i++) {
        char path[48];
        snprintf(path, sizeof path, "egress_secret[%zu]", i);
        r = read_one(message->egress_secret[i], source, path, reterr);
    }
    return r;
}

void egress_secrets_wipe(Immure__Server *message)
{
    for (size_t i = 0; message && i < message->n_egress_secret; i++) {
        char *value = message->egress_secret[i]->value;
        if (value && value[0] != '\0') { /* "" may be the schema's default, which is constant */
            explicit_bzero(value, strlen(value));
        }
    }
}

static bool fits_into_a_header(const char *value)
{
    size_t size = strlen(value);
    for (size_t i = 0; i < size; i++) {
        if (value[i] < ' ' || value[i] > '~') {
            return false;
        }
    }
    return size > 0 && size <= EGRESS_SECRET_BYTES_MAX && value[0] != ' ' && value[size - 1] != ' ';
}

int egress_secrets_check(struct checker *checker, const struct server_config *config)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < config->n_egress_secrets; i++) {
        const struct egress_secret_config *secret = &config->egress_secrets[i];
        size_t before = check_enter(checker, "egress_secret", i);
        r = check_name(checker, "name", secret->name, true, "_.-");
        if (r == 0 && server_config_egress_secret(config, secret->name) != secret) {
            r = check_fail(checker, "name", "\"%s\" is the name of two secrets", secret->name);
        }
        if (r == 0 && !fits_into_a_header(secret->value)) {
            r = check_fail(checker, "file",
                           "\"%.200s\" must hold one line of 1 to %u visible ASCII characters", secret->file,
                           EGRESS_SECRET_BYTES_MAX);
        }
        check_leave(checker, before);
    }
    return r;
}
