/* Package indexes: where installers in jails find packages, and the hosts and ports that follow from it. Runs
 * wherever the configuration is read.
 *
 * What must hold: an index's URL is read the way a callback's is (config/server/callback_url.h), so that what
 * is checked here is what is connected to. */
#include "config/server/package_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/format/pool.h"
#include "config/server/server.pb-c.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static Immure__PackageIndex **place_of(Immure__Server *message, enum package_installer installer)
{
    return installer == INSTALLER_PIP ? &message->pip_index : &message->npm_registry;
}

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

static int hosts_from_message(struct checker *checker, const char *field, const Immure__PackageIndex *row,
                              struct server_config *config)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < row->n_host; i++) {
        char place[64];
        snprintf(place, sizeof place, "%s.host[%zu]", field, i);
        r = strpbrk(row->host[i], "/?#@") ? check_fail(checker, place, "must be HOST or HOST:PORT")
                                          : add_egress(checker, url_of_host(row->host[i]), place,
                                                       row->host[i], row->private_addresses, config);
    }
    return r;
}

static int index_from_message(struct checker *checker, enum package_installer installer,
                              const Immure__PackageIndex *row, struct server_config *config)
{
    struct package_index_config *index = &config->package_indexes[installer];
    const char *field = field_of(installer);
    char place[64];
    snprintf(place, sizeof place, "%s.url", field);
    index->private_addresses = row->private_addresses;
    int r = check_copy(checker, row->url, &index->url);
    r = r < 0 ? r : check_copy_all(checker, row->host, row->n_host, &index->hosts, &index->n_hosts);
    r = r < 0 || !strchr(row->url, '?')
            ? r
            : check_fail(checker, place, "\"%.100s\" must not hold a query", row->url);
    r = r < 0 ? r : add_egress(checker, strdup(row->url), place, row->url, row->private_addresses, config);
    return r < 0 ? r : hosts_from_message(checker, field, row, config);
}

int package_indexes_from_message(struct checker *checker, const Immure__Server *message,
                                 struct server_config *config)
{
    const Immure__PackageIndex *rows[INSTALLERS] = {message->pip_index, message->npm_registry};
    size_t n = 0;
    for (size_t i = 0; i < INSTALLERS; i++) {
        n += rows[i] ? 1 + rows[i]->n_host : 0;
    }
    int r = check_new_array(checker, n, sizeof *config->egress, &config->egress);
    for (size_t i = 0; r == 0 && i < INSTALLERS; i++) {
        r = rows[i] ? index_from_message(checker, (enum package_installer)i, rows[i], config) : 0;
    }
    const char *ca_file = message->package_index_ca_file;
    r = r < 0 || !*ca_file ? r : check_absolute_path(checker, "package_index_ca_file", ca_file);
    return r < 0 ? r : check_copy(checker, ca_file, &config->package_index_ca_file);
}

void package_indexes_to_message(const struct server_config *config, struct pool *pool, Immure__Server *ret)
{
    ret->package_index_ca_file = config->package_index_ca_file;
    for (size_t i = 0; i < INSTALLERS; i++) {
        const struct package_index_config *index = &config->package_indexes[i];
        Immure__PackageIndex *row = index->url ? pool_alloc(pool, 1, sizeof *row) : NULL;
        if (row) {
            immure__package_index__init(row);
            row->url = index->url;
            row->host = index->hosts;
            row->n_host = index->n_hosts;
            row->has_private_addresses = true;
            row->private_addresses = index->private_addresses;
            *place_of(ret, (enum package_installer)i) = row;
        }
    }
}
