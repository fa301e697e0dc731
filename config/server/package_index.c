/* Package indexes: where installers in jails find packages, and the hosts and ports that follow from it. Runs
 * wherever the configuration is read.
 *
 * What must hold: an index's URL is read the way a callback's is (config/server/callback_url.h), so that what
 * is checked here is what is connected to. */
#include "config/server/package_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static const char *field_of(enum package_installer installer)
{
    return installer == INSTALLER_PIP ? "pip_index" : "npm_registry";
}

/* Takes the text over, also where it fails. */
static int add_egress(struct checker *checker, char *text, const char *field, const char *shown,
                      bool private_addresses, struct server_config *config)
{
    struct callback_config *entry = &config->egress[config->n_egress++];
    const char *why;
    *entry = (struct callback_config){.text = text, .private_addresses = private_addresses};
    if (!text) {
        return check_memory(checker);
    }
    if (callback_url_parse(text, &entry->url, &why) < 0) {
        return check_fail(checker, field, "\"%.100s\" %s", shown, why);
    }
    return 0;
}

static char *url_of_host(const char *host)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, "https://%s", host);
    char *url = text.failed ? NULL : buf_steal(&text);
    buf_free(&text);
    return url;
}

static int add_hosts(struct checker *checker, const char *field, const struct package_index_config *index,
                     struct server_config *config)
{
    for (size_t i = 0; i < index->n_hosts; i++) {
        const char *host = index->hosts[i];
        char place[64];
        snprintf(place, sizeof place, "%s.host[%zu]", field, i);
        if (strpbrk(host, "/?#@")) {
            return check_fail(checker, place, "must be HOST or HOST:PORT");
        }
        int r = add_egress(checker, url_of_host(host), place, host, index->private_addresses, config);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int add_index(struct checker *checker, const char *field, const struct package_index_config *index,
                     struct server_config *config)
{
    char place[64];
    snprintf(place, sizeof place, "%s.url", field);
    if (strchr(index->url, '?')) {
        return check_fail(checker, place, "\"%.100s\" must not hold a query", index->url);
    }
    int r = add_egress(checker, strdup(index->url), place, index->url, index->private_addresses, config);
    return r < 0 ? r : add_hosts(checker, field, index, config);
}

int package_indexes_check(struct checker *checker, struct server_config *config)
{
    size_t n = 0;
    for (size_t i = 0; i < INSTALLERS; i++) {
        n += config->package_indexes[i].url ? 1 + config->package_indexes[i].n_hosts : 0;
    }
    int r = check_new_array(checker, n, sizeof *config->egress, &config->egress);
    for (size_t i = 0; r == 0 && i < INSTALLERS; i++) {
        const struct package_index_config *index = &config->package_indexes[i];
        r = index->url ? add_index(checker, field_of((enum package_installer)i), index, config) : 0;
    }
    const char *ca_file = config->package_index_ca_file;
    return r < 0 || !*ca_file ? r : check_absolute_path(checker, "package_index_ca_file", ca_file);
}
