/* struct egress_rule: a host that the jobs of a policy may reach, and how. Policies have them, and the front
 * keeps a proxy to them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/bind.h"

struct buf;

#define EGRESS_RULES_MAX      64u /* of one policy */
#define EGRESS_METHODS_MAX    16u
#define EGRESS_HEADERS_MAX    8u
#define EGRESS_HOST_MAX       253u
#define EGRESS_NAME_MAX       64u /* of a method, a header, a secret */
#define EGRESS_POLICIES_BYTES (16u << 20)

enum egress_mode {
    EGRESS_TUNNEL,          /* CONNECT host:port; what goes through is not looked at */
    EGRESS_HTTP,            /* http://host:port/, passed on as plain HTTP */
    EGRESS_TLS_ORIGINATION, /* the same, passed on inside TLS; http://host/ means port 443 */
    EGRESS_MODES
};
/* As policies write them. */
const char *egress_mode_to_string(enum egress_mode mode);

struct egress_header {
    char *name;
    char *secret; /* its name in the server's configuration, never its value */
};

struct egress_rule {
    char *host; /* in lower case */
    uint32_t port;
    enum egress_mode mode;
    char **methods; /* none: any */
    size_t n_methods;
    uint64_t max_bytes; /* of one job, both directions together */
    struct egress_header *headers;
    size_t n_headers;
};

/* Those of one policy. */
struct egress_rules {
    char *policy;
    struct egress_rule *rules;
    size_t n_rules;
};

/* Those of all policies that have some. */
struct egress_policies {
    struct egress_rules *policies;
    size_t n_policies;
};

/* egress_rule_table clears a rule that owns all it has; egress_policies_table reads and writes what goes
 * beside MSG_CONFIG. */
extern const struct bind_table egress_rule_table, egress_policies_table;

/* Each returns NULL, or what is wrong with it. */
const char *egress_host_fault(const char *host);
const char *egress_method_fault(const char *method);
const char *egress_header_fault(const char *name);

/* Appends it in words: "api.example.com:443 TUNNEL max_bytes=67108864". */
void egress_rule_print(const struct egress_rule *rule, struct buf *ret);

/* The port that the program's URL or CONNECT has to have. */
uint32_t egress_rule_asked_port(const struct egress_rule *rule);
/* Two rules of one policy that could both be meant. */
bool egress_rules_clash(const struct egress_rule *a, const struct egress_rule *b);
