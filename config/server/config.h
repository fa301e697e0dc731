/* struct server_config: the server's configuration as plain data: schema defaults, then the file, then the
 * environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "config/message/job.h"
#include "config/server/callback_url.h"
#include "jail/base/err.h"

struct buf;
struct source;

#define KEY_HASH_BYTES            SHA256_BYTES
#define CALLBACK_SECRET_BYTES_MIN 16u
#define EGRESS_SECRET_BYTES_MAX   4096u

enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };
enum template_scope { TEMPLATE_SCOPE_ALL, TEMPLATE_SCOPE_TEAM, TEMPLATE_SCOPE_KEY };
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct key_config {
    char *name;
    unsigned char sha256[KEY_HASH_BYTES];
    char **policies;
    size_t n_policies;
    char **runtimes;
    size_t n_runtimes;
    uint32_t max_concurrent_jobs;
    uint32_t max_sessions;
    char *team; /* "": none */
    uint32_t max_jobs_per_minute;
    struct job_limits max; /* of its jobs; 0: the server's and the policy's */
    char *expires;         /* "": never */
    uint64_t expires_s;    /* since the epoch; 0: never */
    bool approver;
    char *callback_secret; /* "": none */
    unsigned account; /* 1 and up: its number in tables of whoever serves requests, never another key's */
};

struct team_config {
    char *name;
    bool enabled;
    uint32_t max_concurrent_jobs;
};

/* A prelude's path that stands for the file that the interpreter executes when it starts. */
#define PRELUDE_STARTUP "{startup}"

/* A file of ours in the jails of a runtime. */
struct prelude_config {
    char *path; /* in the jail, or PRELUDE_STARTUP */
    char *file;
    const void *data; /* its content, part of the binary */
    size_t size;
};

/* The part of a prelude that shows values, wherever in the jail it is. */
#define PRELUDE_RESULTS "/immure-results."

/* What an interpreter needs of the host, at the place where the host has it. */
struct interpreter_need {
    char *path;
    char *target; /* of a symbolic link; NULL: the host's own file or directory */
};

#define PYTHON_ENVIRONMENT_DEBIAN       "debian"
#define PYTHON_ENVIRONMENT_DISTRIBUTION "/usr/lib/python3/dist-packages"
#define PACKAGES_MAX                    256u
#define SELF_TEST_OUTPUT_MAX_BYTES      1024u

struct runtime_config {
    char *name;
    char **aliases;
    size_t n_aliases;
    char *interpreter; /* a name, or a path; where it was found, the path */
    char *wanted;      /* what it was before; NULL: the same */
    char **args;
    size_t n_args;
    char *extension;
    char *policy;
    char *template;         /* "": none */
    char *standby;          /* "": none */
    char *kernel;           /* "": none */
    char *self_test;        /* "": by the extension */
    char *self_test_output; /* "": anything; otherwise what that program has to print */
    uint32_t warm_jails;
    uint32_t template_max_jobs; /* 0: any number */
    uint64_t template_ttl_ms;   /* 0: for ever */
    bool optional;
    bool evaluator; /* of POST /run-code, and of nothing else */
    struct prelude_config *preludes;
    size_t n_preludes;
    char *description;        /* of it and */
    uint64_t memory_bytes;    /* its memory: what callers are told */
    char *version;            /* "": not known */
    char *python_environment; /* "": none; of Debian's packages PYTHON_ENVIRONMENT_DEBIAN */
    char **preload;
    size_t n_preload;
    char **packages; /* names and versions */
    size_t n_packages;
    /* Found on the host (server/host/interpreter.h), and not packed. */
    char *startup; /* a file that the interpreter executes when it starts; NULL: not known */
    struct interpreter_need *needs;
    size_t n_needs;
    uint64_t file[4]; /* which file it was */
    char *absent;     /* why it is not offered, if it is not */
    bool cold;        /* its template is for another interpreter and left out */
};

/* URLs that tool calls may be POSTed to. */
struct callback_config {
    char *text;
    struct callback_url url;
    bool private_addresses;
};

/* Where installers find packages. */
enum package_installer { INSTALLER_PIP, INSTALLER_NPM, INSTALLERS };
struct package_index_config {
    char *url; /* NULL: there is none */
    char **hosts;
    size_t n_hosts;
    bool private_addresses;
};

/* What headers of policies' `egress` may hold. */
struct egress_secret_config {
    char *name, *file;
    char *value; /* visible ASCII; never logged, overwritten when it is freed */
};

/* Meanings, units and defaults: config/server/server.proto. Owned; server_config_free(). */
struct server_config {
    struct source *source; /* where its fields stand; NULL where it was unpacked */
    char *source_name;
    char *listen;
    char *environment;
    struct key_config **keys;
    size_t n_keys;
    struct key_config **former_keys; /* whoever has begun something with one still points to it */
    size_t n_former_keys;
    unsigned n_accounts; /* numbers up to here are taken, with 0, nobody's */
    char *key_file;      /* "": none; its keys are among the others */
    struct team_config *teams;
    size_t n_teams;
    bool open; /* no key and no file of keys, in a local environment: everyone may call */
    uint64_t default_timeout_ms, max_timeout_ms;
    uint32_t max_concurrent_jobs;
    uint64_t queue_ms, mcp_queue_ms, max_queue_ms;
    uint32_t max_queued_jobs; /* 0: four for each slot */
    bool cgroup_best_effort;
    char **doors; /* that are open beside our own */
    size_t n_doors;
    char **policy_paths;
    size_t n_policy_paths;
    struct runtime_config *runtimes; /* behind the last one: those that were set aside */
    size_t n_runtimes, n_runtimes_aside;
    char *default_runtime;
    uint64_t max_body_bytes;
    uint32_t max_header_bytes;
    uint64_t header_timeout_ms, request_timeout_ms, idle_timeout_ms;
    uint32_t max_connections, max_connections_per_address;
    uint64_t max_unread_bytes, max_unread_bytes_per_key, reply_stall_ms;
    uint64_t drain_timeout_ms, drain_idle_ms;
    uint64_t front_timeout_ms; /* 0: a front that hangs is left alone */
    bool metrics_open;
    bool console; /* /ui/ is served */
    enum log_format log_format;
    enum log_level log_level;
    char *audit_log;
    uint64_t audit_log_bytes;                        /* of a file before it is rotated; 0: never */
    char *otlp_endpoint, *otlp_header, *otlp_secret; /* "": none */
    struct callback_url otlp_url;                    /* of the endpoint */
    uint32_t otlp_sample_percent;
    bool audit_stop;                            /* no job begins whose line cannot be written */
    uint32_t audit_keep_files, audit_keep_days; /* 0: no such limit */
    uint32_t audit_code_bytes;                  /* of a job's code in its line */
    uint32_t outer_uid_base;
    bool sub_uids;
    uint64_t max_output_bytes;
    struct callback_config *callbacks;
    size_t n_callbacks;
    bool callback_any; /* a local environment that lists none: every address in numbers, and localhost */
    char *callback_ca_file;
    uint64_t callback_margin_ms;
    uint64_t max_tool_frame_bytes, max_tool_bytes, max_result_bytes, tool_timeout_ms, max_tool_answer_bytes;
    uint32_t max_tool_calls, max_tool_calls_in_flight;
    uint64_t session_ttl_ms, session_evict_after_ms, max_session_bytes_total;
    uint32_t max_sessions;
    uint64_t session_bytes, session_inodes, session_free_bytes;
    char *image_directory;   /* "": there are no images */
    char *session_directory; /* "": workspaces lie in memory */
    uint32_t max_kernels;
    uint64_t kernel_interrupt_grace_ms, kernel_idle_cpu_ms;
    uint64_t kept_job_ttl_ms, max_kept_bytes;
    uint64_t stream_heartbeat_ms;
    uint32_t max_kept_jobs;
    struct package_index_config package_indexes[INSTALLERS];
    struct callback_config *egress; /* the hosts and ports of all of them; the texts are made up from those */
    size_t n_egress;
    char *package_index_ca_file;
    uint64_t max_egress_bytes, egress_timeout_ms;
    uint32_t max_egress_connections;
    struct egress_secret_config *egress_secrets;
    size_t n_egress_secrets;
    char **egress_private_hosts;
    size_t n_egress_private_hosts;
    char *approval_directory; /* "": approvals are kept in memory */
    uint64_t approval_expiry_ms, max_approval_job_bytes, max_approval_bytes, max_approval_wait_ms;
    uint32_t max_approvals_per_key, max_approvals;
    uint64_t memory_free_bytes;
    uint32_t memory_free_percent, kernel_memory_percent;
    enum template_scope template_scope;
    uint32_t max_templates; /* where the scope is not all */
    uint32_t max_image_templates;
    uint64_t max_image_template_bytes;
};

/* ---- config/server/load.c ---- */

/* `path` NULL: SANDBOX_EXECUTOR_CONFIG, else the shipped configuration. Then the environment,
 * `environ`-shaped. Values that do not parse and fields out of range are ERR_CONFIG naming file:line:column
 * and field, or the variable. Without any key: nobody may call where `key_file` names an empty file; else
 * ERR_CONFIG, unless `environment` is a local one (then `open`). */
int server_config_load(const char *path, char *const *env, struct server_config **ret, struct err *reterr);

/* ERR_CONFIG about the field at `path` ("key[1].policy[0]", counted as loaded), with where it stands. */
int server_config_fail(const struct server_config *config, const char *path, struct err *reterr,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* It packed (a Server message), for the front. */
int server_config_encode(const struct server_config *config, struct buf *ret, struct err *reterr);
int server_config_decode(const void *data, size_t size, struct server_config **ret, struct err *reterr);

/* ---- config/server/config.c ---- */

void server_config_free(struct server_config *config);
/* Of a runtime that is no part of a configuration: what names its interpreter, and what was found of it. */
void runtime_config_forget(struct runtime_config *runtime);

/* Keys and teams change their places, with where they were written; nothing that points to them may be left.
 */
void server_config_swap_callers(struct server_config *a, struct server_config *b);
/* The keys and teams of `from`, for whoever serves: a key of the same name and hash stays where it is, with
 * its account, and gets what is said of it now; others become former ones. -ENOMEM: nothing has changed. */
int server_config_take_callers(struct server_config *config, struct server_config *from);

/* By name or alias; NULL: none. */
const struct runtime_config *server_config_runtime(const struct server_config *config, const char *name);
/* Takes an optional runtime out of those that are offered. */
void server_config_set_runtime_aside(struct server_config *config, size_t index);

/* Whether tool calls may go to `url`, whose text is `text`. */
bool server_config_allows_callback(const struct server_config *config, const struct callback_url *url,
                                   const char *text);
/* NULL: the configuration has no key of that name; `name` may be NULL. */
const struct key_config *server_config_key(const struct server_config *config, const char *name);
/* Whether it still is this very key of the configuration's; NULL, nobody's, is. */
bool server_config_has_key(const struct server_config *config, const struct key_config *key);
/* Whether it is no key any more. */
bool key_has_expired(const struct key_config *key);
/* NULL: the configuration has no team of that name. */
const struct team_config *server_config_team(const struct server_config *config, const char *name);

bool server_config_has_door(const struct server_config *config, const char *name);
/* Whether there can be any. */
bool server_config_has_callbacks(const struct server_config *config);
/* NULL: the configuration has none of that name. */
const struct egress_secret_config *server_config_egress_secret(const struct server_config *config,
                                                               const char *name);
/* Whether a host of a policy's `egress` may have addresses that are not public. */
bool server_config_egress_is_private(const struct server_config *config, const char *host);
/* Whether the front is to connect to anything but the hosts of policies. */
bool server_config_connects(const struct server_config *config);

/* ---- config/server/environment.c ---- */

/* Overwrites and removes every variable of the process's environment that may hold a secret. */
void server_config_scrub_environment(void);
