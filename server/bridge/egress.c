/* Connections of jobs to package indexes. Runs in the front. A job has no network; its program asks over the
 * bridge for a host and a port, and gets them if the configuration names exactly these for a package index.
 * What goes through is not looked into: it is the installer's, mostly TLS from end to end.
 *
 * What must hold: names are looked up before the front is confined, under the rules of callbacks; how many
 * connections a job has, how long they last and how much goes through is limited; each attempt is counted and
 * has a line in the audit trail, and a job has only so many attempts. */
#include "server/bridge/egress.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/json.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/bridge/bridge.h"
#include "server/bridge/callback_hosts.h"
#include "server/bridge/egress_internal.h"
#include "server/bridge/tools.h"
#include "server/host/certificates.h"
#include "server/kit/json_out.h"

enum member { MEMBER_OP, MEMBER_ID, MEMBER_HOST, MEMBER_PORT, MEMBER_BYTES, MEMBER_INSTALLER, MEMBERS };
static const char *const member_names[MEMBERS] = {"op", "id", "host", "port", "bytes", "installer"};

/* Returns NULL, or which rule the frame breaks. */
typedef const char *(*handle_fn)(struct egress_job *job, uint64_t id, const struct json_slice *members);

static void reply_error(struct egress_job *job, uint64_t id, const char *text)
{
    bridge_reply(job->bridge, id, BRIDGE_ERROR, text, strlen(text));
}

/* ---- Which index ---- */

static const struct package_index_config *find_index(const struct server_config *config,
                                                     const struct json_slice *installer)
{
    static const char *const names[INSTALLERS] = {[INSTALLER_PIP] = "\"pip\"", [INSTALLER_NPM] = "\"npm\""};
    for (size_t i = 0; i < INSTALLERS; i++) {
        if (installer->type == JSON_STRING && installer->size == strlen(names[i]) &&
            memcmp(installer->text, names[i], installer->size) == 0) {
            return config->package_indexes[i].url ? &config->package_indexes[i] : NULL;
        }
    }
    return NULL;
}

/* The answer's text is JSON itself; "" where there is no such index. */
static const char *take_index(struct egress_job *job, uint64_t id, const struct json_slice *members)
{
    const struct egress *egress = job->egress;
    const struct package_index_config *index = find_index(egress->config, &members[MEMBER_INSTALLER]);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf quoted = BUF_INIT;
    if (!index) {
        bridge_reply(job->bridge, id, BRIDGE_DATA, "", 0);
        return NULL;
    }
    buf_putc(&text, '{');
    json_out_text(&text, "url", index->url);
    json_out_bytes(&text, "ca", egress->ca.data ? egress->ca.data : "", egress->ca.len);
    buf_putc(&text, '}');
    if (text.failed || json_write_string(&quoted, text.data, text.len) < 0 || quoted.failed) {
        reply_error(job, id, "out of memory");
    } else {
        bridge_reply(job->bridge, id, BRIDGE_DATA, quoted.data + 1, quoted.len - 2);
    }
    return NULL;
}

/* ---- Connections ---- */

static const struct callback_config *find_entry(const struct server_config *config, const char *host,
                                                uint64_t port)
{
    for (size_t i = 0; i < config->n_egress; i++) {
        const struct callback_url *url = &config->egress[i].url;
        if (url->port == port && strcasecmp(url->host, host) == 0) {
            return &config->egress[i];
        }
    }
    return NULL;
}

static void refuse(struct egress_job *job, uint64_t id, const char *host, uint64_t port, const char *outcome,
                   const char *why)
{
    egress_note(job->who, host, port, outcome, 0, 0, clock_now_ns());
    reply_error(job, id, why);
}

static const char *take_open(struct egress_job *job, uint64_t id, const struct json_slice *members)
{
    const struct server_config *config = job->egress->config;
    const struct json_slice *slice = &members[MEMBER_HOST];
    CLEANUP(freep) char *host = slice->size < CALLBACK_HOST_BYTES ? bridge_decode_string(slice) : NULL;
    uint64_t port;
    if (!host || !bridge_read_number(&members[MEMBER_PORT], &port)) {
        return "a connection without host or port";
    }
    if (egress_find(job, id)) {
        return "a number that a connection has already";
    }
    if (job->n_connections >= config->max_egress_connections) {
        /* Without a line in the log: there have been enough. */
        reply_error(job, id, "this job has made as many connections as it may");
        return NULL;
    }
    job->n_connections++;
    const struct callback_config *to = find_entry(config, host, port);
    if (!to) {
        refuse(job, id, host, port, EGRESS_REFUSED, "that host and port are no package index of this server");
    } else if (job->n_open >= EGRESS_CONNECTIONS_MAX) {
        refuse(job, id, host, port, EGRESS_LIMIT, "this job has as many connections as it may have at once");
    } else if (job->bytes >= config->max_egress_bytes) {
        refuse(job, id, host, port, EGRESS_LIMIT, "this job has moved as many bytes as it may");
    } else if (egress_connect(job, id, to) < 0) {
        refuse(job, id, host, port, EGRESS_FAILED, "out of memory");
    }
    return NULL;
}

/* What is said of a connection that has ended meanwhile means nothing. */
static const char *take_window(struct egress_job *job, uint64_t id, const struct json_slice *members)
{
    struct egress_connection *connection = egress_find(job, id);
    uint64_t bytes;
    if (!bridge_read_number(&members[MEMBER_BYTES], &bytes)) {
        return "a window without a size";
    }
    return connection ? egress_grant(connection, bytes) : NULL;
}

static const char *take_abort(struct egress_job *job, uint64_t id, const struct json_slice *members)
{
    (void)members;
    struct egress_connection *connection = egress_find(job, id);
    if (connection) {
        egress_end(connection, EGRESS_CLOSED);
    }
    return NULL;
}

static const struct {
    const char *op; /* in its quotes */
    handle_fn handle;
} handlers[] = {
    {"\"index\"", take_index},
    {"\"open\"", take_open},
    {"\"window\"", take_window},
    {"\"abort\"", take_abort},
};

/* The first byte, the connection's number in 8 bytes, big-endian, the data. */
static const char *take_data(struct egress_job *job, const char *data, size_t size)
{
    uint64_t id;
    if (size < 1 + sizeof id) {
        return "a frame of an unknown kind";
    }
    memcpy(&id, data + 1, sizeof id);
    struct egress_connection *connection = egress_find(job, be64toh(id));
    return connection ? egress_send(connection, data + 1 + sizeof id, size - 1 - sizeof id) : NULL;
}

const char *egress_take(struct egress_job *job, const char *data, size_t size)
{
    struct json_slice members[MEMBERS];
    const char *why;
    uint64_t id;
    if (data[0] == BRIDGE_BINARY) {
        return take_data(job, data, size);
    }
    if (json_split(data, size, member_names, MEMBERS, members, &why) < 0 ||
        !bridge_read_number(&members[MEMBER_ID], &id)) {
        return "a frame without a number";
    }
    const struct json_slice *op = &members[MEMBER_OP];
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        if (op->type == JSON_STRING && op->size == strlen(handlers[i].op) &&
            memcmp(op->text, handlers[i].op, op->size) == 0) {
            return handlers[i].handle(job, id, members);
        }
    }
    return "a frame of an unknown kind";
}

/* ---- Life ---- */

struct egress_job *egress_job_new(const struct egress *egress, const struct tools *who, struct bridge *bridge)
{
    struct egress_job *job = calloc(1, sizeof *job);
    if (job) {
        *job = (struct egress_job){.egress = egress, .who = who, .bridge = bridge};
    }
    return job;
}

void egress_job_free(struct egress_job *job)
{
    while (job && job->connections) {
        egress_end(job->connections, EGRESS_CANCELLED);
    }
    free(job);
}

int egress_new(struct loop *loop, struct log *log, const struct server_config *config, struct egress **ret,
               struct err *reterr)
{
    struct egress *egress = calloc(1, sizeof *egress);
    if (!egress) {
        return err_errno(reterr, ENOMEM, "preparing connections to package indexes");
    }
    egress->loop = loop;
    egress->config = config;
    int r = callback_hosts_new(config->egress, config->n_egress, log, &egress->hosts, reterr);
    if (r == 0 && callback_hosts_use_https(config->egress, config->n_egress)) {
        r = certificates_read(config->package_index_ca_file, "package_index_ca_file", &egress->ca, reterr);
    }
    if (r < 0) {
        egress_free(egress);
        return r;
    }
    *ret = egress;
    return 0;
}

void egress_free(struct egress *egress)
{
    if (egress) {
        callback_hosts_free(egress->hosts);
        buf_free(&egress->ca);
        free(egress);
    }
}
