/* The hosts that a policy lets its programs reach. Runs in the warden and the command line. A rule that would
 * look stricter than it is is refused: a tunnel shows neither methods nor headers. */
#include <linux/errno.h> /* a field of the schema is called errno, which <errno.h> makes a macro */
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/check.h"
#include "config/message/egress.h"
#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_message.h"

#define MAX_BYTES_MOST (1ull << 40)

static int fail_unless_null(struct checker *checker, const char *field, const char *fault)
{
    return fault ? check_fail(checker, field, "%s", fault) : 0;
}

/* Methods and headers of a tunnel lie inside TLS, which is the program's own. */
static int check_visible(struct checker *checker, const char *field, const struct egress_rule *rule)
{
    return rule->mode != EGRESS_TUNNEL
               ? 0
               : check_fail(checker, field,
                            "cannot be seen in a tunnel, where TLS is the program's own; say `mode: "
                            "TLS_ORIGINATION`, and let the program ask for http://%s/",
                            rule->host);
}

static int methods_from_message(struct checker *checker, const Immure__Egress *message,
                                struct egress_rule *rule)
{
    int r = message->n_method > 0 ? check_visible(checker, "method", rule) : 0;
    if (r == 0 && message->n_method > EGRESS_METHODS_MAX) {
        r = check_fail(checker, "method", "must not have more than %u items", EGRESS_METHODS_MAX);
    }
    for (size_t i = 0; r == 0 && i < message->n_method; i++) {
        size_t before = check_enter(checker, "method", i);
        r = fail_unless_null(checker, NULL, egress_method_fault(message->method[i]));
        check_leave(checker, before);
    }
    return r < 0 ? r
                 : check_copy_all(checker, message->method, message->n_method, &rule->methods,
                                  &rule->n_methods);
}

static int header_from_message(struct checker *checker, const Immure__Egress *message, size_t index,
                               struct egress_rule *rule)
{
    const Immure__EgressHeader *header = message->header[index];
    int r = fail_unless_null(checker, "name", egress_header_fault(header->name));
    for (size_t i = 0; r == 0 && i < index; i++) {
        if (strcasecmp(message->header[i]->name, header->name) == 0) {
            r = check_fail(checker, "name", "%s is given by header[%zu] already", header->name, i);
        }
    }
    r = r < 0 ? r : check_name(checker, "secret", header->secret, true, "_-.");
    r = r < 0 ? r : check_copy(checker, header->name, &rule->headers[index].name);
    return r < 0 ? r : check_copy(checker, header->secret, &rule->headers[index].secret);
}

static int headers_from_message(struct checker *checker, const Immure__Egress *message,
                                struct egress_rule *rule)
{
    int r = message->n_header > 0 ? check_visible(checker, "header", rule) : 0;
    if (r == 0 && message->n_header > EGRESS_HEADERS_MAX) {
        r = check_fail(checker, "header", "must not have more than %u items", EGRESS_HEADERS_MAX);
    }
    r = r < 0 ? r : check_new_array(checker, message->n_header, sizeof *rule->headers, &rule->headers);
    for (size_t i = 0; r == 0 && i < message->n_header; i++) {
        size_t before = check_enter(checker, "header", i);
        rule->n_headers = i + 1;
        r = header_from_message(checker, message, i, rule);
        check_leave(checker, before);
    }
    return r;
}

static int mode_from_message(struct checker *checker, const Immure__Egress *message, struct egress_rule *rule)
{
    if (message->has_mode) {
        rule->mode = (enum egress_mode)(message->mode - IMMURE__EGRESS_MODE__TUNNEL);
    } else {
        rule->mode = message->has_port && message->port == 80 ? EGRESS_HTTP : EGRESS_TUNNEL;
    }
    rule->port = message->has_port ? message->port : rule->mode == EGRESS_HTTP ? 80 : 443;
    rule->max_bytes = message->max_bytes;
    int r = message->has_mode ? check_range(checker, "mode", (uint64_t)message->mode,
                                            IMMURE__EGRESS_MODE__TUNNEL, IMMURE__EGRESS_MODE__TLS_ORIGINATION)
                              : 0;
    r = r < 0 ? r : check_range(checker, "port", rule->port, 1, UINT16_MAX);
    return r < 0 ? r : check_range(checker, "max_bytes", rule->max_bytes, 1, MAX_BYTES_MOST);
}

static int rule_from_message(struct checker *checker, const Immure__Policy *message, size_t index,
                             struct policy_spec *spec)
{
    const Immure__Egress *from = message->egress[index];
    struct egress_rule *rule = &spec->egress[index];
    int r = fail_unless_null(checker, "host", egress_host_fault(from->host));
    r = r < 0 ? r : check_copy(checker, from->host, &rule->host);
    r = r < 0 ? r : mode_from_message(checker, from, rule);
    r = r < 0 ? r : methods_from_message(checker, from, rule);
    r = r < 0 ? r : headers_from_message(checker, from, rule);
    for (size_t i = 0; r == 0 && i < index; i++) {
        if (spec->egress[i].host && egress_rules_clash(&spec->egress[i], rule)) {
            r = check_fail(checker, "host", "%s, port %u, is given by egress[%zu] already; one rule for each",
                           rule->host, (unsigned)egress_rule_asked_port(rule), i);
        }
    }
    return r;
}

int policy_egress_from_message(struct checker *checker, const Immure__Policy *message,
                               struct policy_spec *spec)
{
    if (message->n_egress > 0 && !(spec->namespaces & CLONE_NEWNET)) {
        return check_fail(checker, "egress", "needs the job's own NET namespace");
    }
    if (message->n_egress > EGRESS_RULES_MAX) {
        return check_fail(checker, "egress", "must not have more than %u items", EGRESS_RULES_MAX);
    }
    int r = check_new_array(checker, message->n_egress, sizeof *spec->egress, &spec->egress);
    for (size_t i = 0; r == 0 && i < message->n_egress; i++) {
        size_t before = check_enter(checker, "egress", i);
        spec->n_egress = i + 1;
        r = check_go_on(checker, rule_from_message(checker, message, i, spec));
        check_leave(checker, before);
    }
    return r;
}

void policy_egress_free(struct policy_spec *spec)
{
    for (size_t i = 0; i < spec->n_egress; i++) {
        bind_clear(&egress_rule_table, &spec->egress[i]);
    }
    free(spec->egress);
}
