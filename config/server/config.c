/* struct server_config: its memory, and what is looked up in it. Runs in the warden, the front and the
 * command line. */
#include "config/server/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "config/format/source.h"
#include "config/server/config_table.h"
#include "jail/base/cleanup.h"

/* What no row has. */
static void found_clear(struct runtime_config *runtime)
{
    for (size_t i = 0; i < runtime->n_needs; i++) {
        free(runtime->needs[i].path);
        free(runtime->needs[i].target);
    }
    free(runtime->needs);
    free(runtime->startup);
    free(runtime->wanted);
    free(runtime->absent);
}

void runtime_config_forget(struct runtime_config *runtime)
{
    found_clear(runtime);
    free(runtime->version);
    free(runtime->interpreter);
}

static void key_free(struct key_config *key)
{
    bind_clear(&key_table, key);
    free(key);
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
    for (size_t i = 0; i < config->n_egress; i++) {
        bind_clear(&callback_table, &config->egress[i]);
    }
    free(config->egress);
    for (size_t i = 0; i < config->n_egress_secrets; i++) {
        char *value = config->egress_secrets[i].value;
        explicit_bzero(value, value ? strlen(value) : 0);
    }
    config->n_runtimes += config->n_runtimes_aside; /* which lie behind them */
    for (size_t i = 0; i < config->n_runtimes; i++) {
        found_clear(&config->runtimes[i]);
    }
    for (size_t i = 0; i < config->n_former_keys; i++) {
        key_free(config->former_keys[i]);
    }
    free(config->former_keys);
    bind_clear(&server_table, config);
    free(config);
}

void server_config_swap_callers(struct server_config *a, struct server_config *b)
{
    const struct server_config was = *a;
    a->keys = b->keys;
    a->n_keys = b->n_keys;
    a->teams = b->teams;
    a->n_teams = b->n_teams;
    a->source = b->source;
    a->source_name = b->source_name;
    b->keys = was.keys;
    b->n_keys = was.n_keys;
    b->teams = was.teams;
    b->n_teams = was.n_teams;
    b->source = was.source;
    b->source_name = was.source_name;
}

static bool is_same_key(const struct key_config *a, const struct key_config *b)
{
    return a && memcmp(a->sha256, b->sha256, sizeof a->sha256) == 0 && strcmp(a->name, b->name) == 0;
}

/* What is said of it, not which one it is. */
static void swap_words(struct key_config *a, struct key_config *b)
{
    const struct key_config was = *a;
    char *name = b->name;
    *a = *b;
    a->name = was.name;
    a->account = was.account;
    *b = was;
    b->name = name;
}

int server_config_take_callers(struct server_config *config, struct server_config *from)
{
    size_t n = config->n_keys + config->n_former_keys;
    struct key_config **known = calloc(n + 1, sizeof *known);
    if (!known) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        known[i] = i < config->n_keys ? config->keys[i] : config->former_keys[i - config->n_keys];
    }
    for (size_t i = 0; i < from->n_keys; i++) {
        size_t j = 0;
        while (j < n && !is_same_key(known[j], from->keys[i])) {
            j++;
        }
        if (j == n) {
            from->keys[i]->account = config->n_accounts++;
            continue;
        }
        swap_words(known[j], from->keys[i]);
        key_free(from->keys[i]);
        from->keys[i] = TAKE_PTR(known[j]);
    }
    free(config->former_keys);
    config->former_keys = known;
    config->n_former_keys = 0;
    for (size_t i = 0; i < n; i++) {
        if (known[i]) {
            known[config->n_former_keys++] = known[i];
        }
    }
    config->n_keys = 0; /* they are among those */
    server_config_swap_callers(config, from);
    return 0;
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
        if (strcmp(config->keys[i]->name, name) == 0) {
            return config->keys[i];
        }
    }
    return NULL;
}

bool server_config_has_key(const struct server_config *config, const struct key_config *key)
{
    return !key || server_config_key(config, key->name) == key;
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

bool server_config_has_door(const struct server_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_doors; i++) {
        if (strcmp(config->doors[i], name) == 0) {
            return true;
        }
    }
    return false;
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

const struct egress_secret_config *server_config_egress_secret(const struct server_config *config,
                                                               const char *name)
{
    for (size_t i = 0; i < config->n_egress_secrets; i++) {
        if (strcmp(config->egress_secrets[i].name, name) == 0) {
            return &config->egress_secrets[i];
        }
    }
    return NULL;
}

bool server_config_egress_is_private(const struct server_config *config, const char *host)
{
    for (size_t i = 0; i < config->n_egress_private_hosts; i++) {
        if (strcasecmp(config->egress_private_hosts[i], host) == 0) {
            return true;
        }
    }
    return false;
}

bool server_config_has_callbacks(const struct server_config *config)
{
    return config->n_callbacks > 0 || config->callback_any;
}

bool server_config_connects(const struct server_config *config)
{
    return server_config_has_callbacks(config) || config->n_egress > 0 || *config->otlp_endpoint;
}
