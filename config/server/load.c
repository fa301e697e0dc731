/* The server's configuration from a file and the environment, and packed for the front and unpacked there.
 * Runs in the warden, the front and the command line. Either everything holds or nothing is returned. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/format/wire.h"
#include "config/server/config.h"
#include "config/server/config_message.h"
#include "config/server/config_table.h"
#include "config/server/egress_secret.h"
#include "config/server/environment.h"
#include "config/server/key_file.h"
#include "config/server/server.pb-c.h"
#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static void config_freep(struct server_config **config)
{
    server_config_free(*config);
}

static void server_freep(Immure__Server **message)
{
    egress_secrets_wipe(*message);
    immure__server__free_unpacked(*message, NULL);
}

static int decode_shipped(struct source *source, Immure__Server **ret, struct err *reterr)
{
    const struct shipped_file *shipped = shipped_server();
    ProtobufCMessage *message;
    int r =
        protofile_decode(&immure__server__descriptor, source, shipped->data, shipped->size, &message, reterr);
    if (r < 0) {
        return r;
    }
    *ret = (Immure__Server *)message;
    return 0;
}

static int decode_file(struct source *source, Immure__Server **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    ProtobufCMessage *message;
    int r = protofile_read(source->name, &text, reterr);
    if (r == 0) {
        r = protofile_decode(&immure__server__descriptor, source, text.data ? text.data : "", text.len,
                             &message, reterr);
    }
    if (r < 0) {
        return r;
    }
    *ret = (Immure__Server *)message;
    return 0;
}

/* A name or an alias of the configuration's own runtimes, of which there are `n`. */
static bool is_taken(const Immure__Server *message, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        const Immure__Runtime *runtime = message->runtime[i];
        if (strcmp(runtime->name, name) == 0) {
            return true;
        }
        for (size_t j = 0; j < runtime->n_alias; j++) {
            if (strcmp(runtime->alias[j], name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_replaced(const Immure__Server *message, size_t n, const Immure__Runtime *shipped)
{
    bool replaced = is_taken(message, n, shipped->name);
    for (size_t i = 0; shipped->evaluator && i < n; i++) {
        replaced = replaced || message->runtime[i]->evaluator;
    }
    return replaced;
}

/* A shipped runtime beside the configuration's own: where those have its aliases they are theirs, and a host
 * need not have its interpreter for their sake. */
static void fit_in(const Immure__Server *message, size_t n, Immure__Runtime *shipped)
{
    size_t kept = 0;
    for (size_t i = 0; i < shipped->n_alias; i++) {
        if (is_taken(message, n, shipped->alias[i])) {
            free(shipped->alias[i]);
        } else {
            shipped->alias[kept++] = shipped->alias[i];
        }
    }
    shipped->n_alias = kept;
    if (n > 0 && strcmp(shipped->name, message->default_runtime) != 0) {
        shipped->has_optional = shipped->optional = true;
    }
}

/* Behind the configuration's own, which take the place of those whose names they have. */
static int add_shipped_runtimes(Immure__Server *message, struct err *reterr)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED("shipped:server");
    CLEANUP(server_freep) Immure__Server *shipped = NULL;
    int r = decode_shipped(&source, &shipped, reterr);
    if (r < 0) {
        return r;
    }
    size_t n = message->n_runtime, replaced = 0;
    Immure__Runtime **all = reallocarray(message->runtime, n + shipped->n_runtime, sizeof *message->runtime);
    if (!all) {
        return err_errno(reterr, ENOMEM, "reading the shipped runtimes");
    }
    message->runtime = all;
    for (size_t i = 0; i < shipped->n_runtime; i++) {
        Immure__Runtime *runtime = shipped->runtime[i];
        if (is_replaced(message, n, runtime)) {
            shipped->runtime[replaced++] = runtime;
        } else {
            fit_in(message, n, runtime);
            all[message->n_runtime++] = runtime;
        }
    }
    shipped->n_runtime = replaced;
    return 0;
}

/* Moves the places out of `source`. */
static int keep_source(struct server_config *config, struct source *source, struct err *reterr)
{
    config->source_name = strdup(source->name);
    config->source = calloc(1, sizeof *config->source);
    if (!config->source_name || !config->source) {
        return err_errno(reterr, ENOMEM, "while reading %s", source->name);
    }
    *config->source = *source;
    config->source->name = config->source_name;
    *source = SOURCE_NAMED(source->name);
    return 0;
}

int server_config_fail(const struct server_config *config, const char *path, struct err *reterr,
                       const char *fmt, ...)
{
    static const struct source nowhere = {.name = ""};
    char text[sizeof reterr->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return source_fail(config->source ? config->source : &nowhere, path, reterr, "%s", text);
}

int server_config_load(const char *path, char *const *env, struct server_config **ret, struct err *reterr)
{
    CLEANUP(freep) char *named = NULL;
    int r = environment_check(env, reterr);
    if (r == 0 && !path) {
        r = environment_config_path(env, &named, reterr);
        path = named;
    }
    if (r < 0) {
        return r;
    }
    CLEANUP(source_free) struct source source = SOURCE_NAMED(path ? path : "shipped:server");
    CLEANUP(server_freep) Immure__Server *message = NULL;
    r = path ? decode_file(&source, &message, reterr) : decode_shipped(&source, &message, reterr);
    if (r == 0 && path && message->shipped_runtimes) {
        r = add_shipped_runtimes(message, reterr);
    }
    r = r < 0 ? r : key_file_append(message, &source, reterr);
    r = r < 0 ? r : egress_secrets_read(message, &source, reterr);
    r = r < 0 ? r : environment_apply(env, message, &source, reterr);
    CLEANUP(config_freep) struct server_config *config = NULL;
    r = r < 0 ? r : config_from_message(message, &source, &config, reterr);
    r = r < 0 ? r : keep_source(config, &source, reterr);
    if (r == 0) {
        *ret = TAKE_PTR(config);
    }
    return r;
}

int server_config_encode(const struct server_config *config, struct buf *ret, struct err *reterr)
{
    CLEANUP(pool_free) struct pool pool = POOL_INIT;
    Immure__Server message;
    bind_write(&server_table, config, &pool, &message);
    message.has_shipped_runtimes = true;
    message.shipped_runtimes = false; /* they are among these */
    if (pool.failed || wire_pack(&message.base, ret) < 0) {
        return err_errno(reterr, ENOMEM, "while packing the configuration");
    }
    return 0;
}

int server_config_decode(const void *data, size_t size, struct server_config **ret, struct err *reterr)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED("the packed configuration");
    CLEANUP(server_freep) Immure__Server *server = NULL;
    ProtobufCMessage *message;
    int r = wire_unpack(&immure__server__descriptor, data, size, NULL, &message);
    if (r < 0) {
        return err_set(reterr, ERR_INVALID, -r, source.name, "%zu bytes are not a packed configuration",
                       size);
    }
    server = (Immure__Server *)message;
    return config_from_message(server, &source, ret, reterr);
}
