/* struct server_config: loaded from a file and the environment, packed for the front and unpacked there. Runs
 * in the warden, the front and the command line. Either everything holds or nothing is returned. */
#include "config/server/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/format/pool.h"
#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/format/wire.h"
#include "config/server/server.pb-c.h"
#include "config/server/config_message.h"
#include "config/server/environment.h"
#include "config/server/key_file.h"
#include "config/server/package_index.h"
#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static void texts_free(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(texts[i]);
    }
    free(texts);
}

static void runtime_clear(struct runtime_config *runtime)
{
    free(runtime->name);
    texts_free(runtime->aliases, runtime->n_aliases);
    free(runtime->interpreter);
    free(runtime->standby);
    free(runtime->kernel);
    texts_free(runtime->args, runtime->n_args);
    free(runtime->extension);
    free(runtime->policy);
    free(runtime->template);
    for (size_t i = 0; i < runtime->n_preludes; i++) {
        free(runtime->preludes[i].path);
        free(runtime->preludes[i].file);
    }
    free(runtime->preludes);
}

void server_config_free(struct server_config *config)
{
    if (!config) {
        return;
    }
    if (config->source) {
        source_free(config->source);
    }
    free(config->source);
    free(config->source_name);
    free(config->listen);
    free(config->environment);
    free(config->default_runtime);
    free(config->audit_log);
    free(config->session_directory);
    free(config->image_directory);
    free(config->approval_directory);
    free(config->callback_ca_file);
    for (size_t i = 0; i < config->n_callbacks; i++) {
        free(config->callbacks[i].text);
    }
    free(config->callbacks);
    package_indexes_clear(config);
    for (size_t i = 0; i < config->n_keys; i++) {
        free(config->keys[i].name);
        texts_free(config->keys[i].policies, config->keys[i].n_policies);
        texts_free(config->keys[i].runtimes, config->keys[i].n_runtimes);
        free(config->keys[i].team);
        free(config->keys[i].expires);
    }
    free(config->keys);
    free(config->key_file);
    for (size_t i = 0; i < config->n_teams; i++) {
        free(config->teams[i].name);
    }
    free(config->teams);
    texts_free(config->policy_paths, config->n_policy_paths);
    for (size_t i = 0; i < config->n_runtimes + config->n_runtimes_aside; i++) {
        runtime_clear(&config->runtimes[i]);
    }
    free(config->runtimes);
    free(config);
}

static void config_freep(struct server_config **config)
{
    server_config_free(*config);
}

const struct runtime_config *server_config_runtime(const struct server_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_runtimes; i++) {
        const struct runtime_config *runtime = &config->runtimes[i];
        if (strcmp(runtime->name, name) == 0) {
            return runtime;
        }
        for (size_t j = 0; j < runtime->n_aliases; j++) {
            if (strcmp(runtime->aliases[j], name) == 0) {
                return runtime;
            }
        }
    }
    return NULL;
}

const struct key_config *server_config_key(const struct server_config *config, const char *name)
{
    for (size_t i = 0; name && i < config->n_keys; i++) {
        if (strcmp(config->keys[i].name, name) == 0) {
            return &config->keys[i];
        }
    }
    return NULL;
}

bool key_has_expired(const struct key_config *key)
{
    return key->expires_s > 0 && time(NULL) >= (time_t)key->expires_s;
}

const struct team_config *server_config_team(const struct server_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_teams; i++) {
        if (strcmp(config->teams[i].name, name) == 0) {
            return &config->teams[i];
        }
    }
    return NULL;
}

void server_config_set_runtime_aside(struct server_config *config, size_t index)
{
    struct runtime_config aside = config->runtimes[index];
    size_t n = config->n_runtimes + config->n_runtimes_aside;
    memmove(&config->runtimes[index], &config->runtimes[index + 1], (n - index - 1) * sizeof aside);
    config->runtimes[n - 1] = aside;
    config->n_runtimes--;
    config->n_runtimes_aside++;
}

static void server_freep(Immure__Server **message)
{
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

/* A configuration that names no runtime gets the shipped ones. */
static int add_shipped_runtimes(Immure__Server *message, struct err *reterr)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED("shipped:server");
    CLEANUP(server_freep) Immure__Server *shipped = NULL;
    int r = decode_shipped(&source, &shipped, reterr);
    if (r < 0) {
        return r;
    }
    message->runtime = shipped->runtime;
    message->n_runtime = shipped->n_runtime;
    shipped->runtime = NULL;
    shipped->n_runtime = 0;
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
    char text[400];
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
    if (r == 0 && message->n_runtime == 0) {
        r = add_shipped_runtimes(message, reterr);
    }
    r = r < 0 ? r : key_file_append(message, &source, reterr);
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
    Immure__Server message = IMMURE__SERVER__INIT;
    config_to_message(config, &pool, &message);
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
    int r = wire_unpack(&immure__server__descriptor, data, size, &message);
    if (r < 0) {
        return err_set(reterr, ERR_INVALID, -r, source.name, "%zu bytes are not a packed configuration",
                       size);
    }
    server = (Immure__Server *)message;
    return config_from_message(server, &source, ret, reterr);
}

bool server_config_allows_callback(const struct server_config *config, const struct callback_url *url,
                                   const char *text)
{
    for (size_t i = 0; i < config->n_callbacks; i++) {
        const struct callback_config *entry = &config->callbacks[i];
        if (callback_url_covers(&entry->url, entry->text, url, text)) {
            return true;
        }
    }
    return config->callback_any && (url->is_literal || callback_url_is_localhost(url));
}

bool server_config_has_callbacks(const struct server_config *config)
{
    return config->n_callbacks > 0 || config->callback_any;
}

bool server_config_connects(const struct server_config *config)
{
    return server_config_has_callbacks(config) || config->n_egress > 0;
}
