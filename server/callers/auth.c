/* Authentication and what a key may use. Runs in the front, on headers that anybody can send. A key is
 * compared by its SHA-256 with every configured one, in a time that depends neither on which of them matches
 * nor on where they differ. */
#include "server/callers/auth.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/buf.h"

static const struct key_config *find_key(const struct server_config *config, const char *key, size_t len)
{
    unsigned char hash[KEY_HASH_BYTES];
    sha256_of(key, len, hash);
    const struct key_config *found = NULL;
    for (size_t i = 0; i < config->n_keys; i++) {
        if (secure_equal(hash, config->keys[i]->sha256, sizeof hash)) {
            found = config->keys[i];
        }
    }
    return found;
}

/* What follows `scheme` and blanks, or NULL. */
static const char *credentials(const char *authorization, const char *scheme)
{
    size_t len = strlen(scheme);
    if (strncasecmp(authorization, scheme, len) != 0 || authorization[len] != ' ') {
        return NULL;
    }
    return authorization + len + strspn(authorization + len, " ");
}

/* base64("USER:KEY"). The decoded text is wiped before its memory is given back. */
static const struct key_config *find_basic(const struct server_config *config, const char *text)
{
    struct buf decoded = BUF_INIT;
    const struct key_config *found = NULL;
    if (buf_reserve(&decoded, strlen(text)) && base64_decode(text, strlen(text), &decoded) == 0 &&
        decoded.data) {
        const char *colon = memchr(decoded.data, ':', decoded.len);
        if (colon) {
            found = find_key(config, colon + 1, decoded.len - (size_t)(colon + 1 - decoded.data));
        }
    }
    if (decoded.data) {
        explicit_bzero(decoded.data, decoded.cap);
    }
    buf_free(&decoded);
    return found;
}

static const struct key_config *find_authorization(const struct server_config *config,
                                                   const char *authorization)
{
    const char *bearer = credentials(authorization, "Bearer");
    if (bearer) {
        return find_key(config, bearer, strlen(bearer));
    }
    const char *basic = credentials(authorization, "Basic");
    return basic ? find_basic(config, basic) : NULL;
}

/* base64("USER:KEY") */
static char *basic_key(const char *text)
{
    struct buf decoded = BUF_INIT;
    char *key = NULL;
    if (buf_reserve(&decoded, strlen(text)) && base64_decode(text, strlen(text), &decoded) == 0 &&
        decoded.data) {
        const char *colon = memchr(decoded.data, ':', decoded.len);
        key = colon ? strdup(colon + 1) : NULL;
    }
    if (decoded.data) {
        explicit_bzero(decoded.data, decoded.cap);
    }
    buf_free(&decoded);
    return key;
}

char *auth_shown_key(const char *service_api_key, const char *authorization)
{
    if (service_api_key) {
        return strdup(service_api_key);
    }
    const char *bearer = authorization ? credentials(authorization, "Bearer") : NULL;
    const char *basic = authorization ? credentials(authorization, "Basic") : NULL;
    return bearer ? strdup(bearer) : basic ? basic_key(basic) : NULL;
}

bool auth_identify(const struct server_config *config, const char *service_api_key, const char *authorization,
                   struct caller *ret)
{
    if (config->open) {
        *ret = (struct caller){.name = "open"};
        return true;
    }
    const struct key_config *key = NULL;
    if (service_api_key) {
        key = find_key(config, service_api_key, strlen(service_api_key));
    } else if (authorization) {
        key = find_authorization(config, authorization);
    }
    if (!key || key_has_expired(key)) {
        return false;
    }
    *ret = (struct caller){.key = key, .name = key->name};
    return true;
}

static bool has_team(const struct caller *caller)
{
    return caller->key && caller->key->team && caller->key->team[0] != '\0';
}

const struct team_config *auth_team(const struct server_config *config, const struct caller *caller)
{
    return has_team(caller) ? server_config_team(config, caller->key->team) : NULL;
}

bool auth_team_may(const struct server_config *config, const struct caller *caller)
{
    const struct team_config *team = auth_team(config, caller);
    return !has_team(caller) || (team && team->enabled);
}

bool auth_may_use_runtime(const struct server_config *config, const struct caller *caller,
                          const struct runtime_config *runtime)
{
    const struct key_config *key = caller->key;
    for (size_t i = 0; key && i < key->n_runtimes; i++) {
        if (server_config_runtime(config, key->runtimes[i]) == runtime) {
            return true;
        }
    }
    return !key || key->n_runtimes == 0;
}

static bool lists_policy(const struct key_config *key, const char *policy)
{
    for (size_t i = 0; i < key->n_policies; i++) {
        if (strcmp(key->policies[i], policy) == 0 || strcmp(key->policies[i], "*") == 0) {
            return true;
        }
    }
    return false;
}

bool auth_may_use_policy(const struct server_config *config, const struct caller *caller,
                         const struct runtime_config *runtime, const char *policy)
{
    const struct key_config *key = caller->key;
    if (!key) {
        return true;
    }
    if (key->n_policies > 0) {
        return lists_policy(key, policy ? policy : runtime->policy);
    }
    for (size_t i = 0; policy && i < config->n_runtimes; i++) {
        if (strcmp(config->runtimes[i].policy, policy) == 0 &&
            auth_may_use_runtime(config, caller, &config->runtimes[i])) {
            return true;
        }
    }
    return !policy;
}
