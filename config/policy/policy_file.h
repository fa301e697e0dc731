/* struct policy_spec: a policy file decoded and checked as far as the schema goes, as plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/amount.h"
#include "config/format/source.h"
#include "jail/base/err.h"

struct buf;
struct egress_rule;

enum policy_mount_kind {
    POLICY_MOUNT_BIND,
    POLICY_MOUNT_TMPFS,
    POLICY_MOUNT_PROC,
    POLICY_MOUNT_SYMLINK,
    POLICY_MOUNT_FILE,
    POLICY_MOUNT_SCRATCH,
};

struct policy_mount {
    enum policy_mount_kind kind;
    char *destination;
    char *source;                /* BIND: host path; SYMLINK: target; SCRATCH: "work", "tmp" or "shm" */
    bool recursive;              /* BIND */
    uint64_t size_bytes, inodes; /* TMPFS */
    uint32_t mode;               /* TMPFS, FILE */
    bool subset_pid, hidepid;    /* PROC */
    void *content;               /* FILE */
    size_t content_size;
    bool read_only, allow_devices, no_exec, optional;
    struct source_position at; /* of its destination */
};

enum seccomp_action_kind {
    ACTION_ALLOW,
    ACTION_ERRNO,
    ACTION_KILL_PROCESS,
    ACTION_LOG,
    ACTION_NOTIFY,
    ACTION_COUNT
};
/* The last one is no policy's word: what `where` makes of what an argument may not be. */
enum seccomp_op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_MASKED_EQ, OP_MASKED_NE };

struct seccomp_condition {
    uint32_t arg;
    enum seccomp_op op;
    uint64_t value, mask;
};

struct seccomp_rule {
    enum seccomp_action_kind action;
    char **syscalls;
    size_t n_syscalls;
    char **sets; /* with the '@' */
    size_t n_sets;
    char *errno_name; /* NULL: EPERM */
    struct seccomp_condition *conditions;
    size_t n_conditions;
    char *reason; /* NULL: none */
    /* A rule whose `where` gives a choice stands here once for each: all have the number that it has in the
     * policy, from 1. */
    uint32_t number;
    char *where; /* in words; NULL: there is none */
    struct source_position at;
};

struct policy_rlimit {
    uint32_t resource; /* RLIMIT_* */
    uint64_t soft, hard;
    struct source_position at;
};

struct policy_env {
    char *name, *value;
    struct source_position at; /* of its name */
};

enum approval_mode { APPROVAL_NEVER, APPROVAL_ALWAYS, APPROVAL_FIRST_USE };

struct policy_limits {
    uint64_t memory_bytes;
    uint32_t pids, cpu_percent;
    uint64_t cpu_ms, scratch_bytes, scratch_inodes, output_bytes, timeout_ms;
    uint32_t output_files;
    uint64_t output_file_bytes;
    bool address_space;
    uint32_t file_locks;
};

/* A finding of lint that is meant. */
struct policy_waiver {
    char *rule;
    char *about;  /* what the finding is about; NULL: anything */
    char *reason; /* NULL: none */
};

/* How much a policy wants a protection that only some processors offer; in the order of jail/plan/plan.h's.
 */
enum policy_speculation {
    POLICY_SPECULATION_LEAVE,
    POLICY_SPECULATION_IF_OFFERED,
    POLICY_SPECULATION_INSIST
};

/* What a session keeps. */
enum policy_state { POLICY_STATE_WORKSPACE, POLICY_STATE_KERNEL };

/* Owned; policy_spec_free(). Meanings, units and defaults: config/policy/policy.proto. */
struct policy_spec {
    bool part; /* of others; it has a name, and nothing else here */
    char *name, *description, *hostname;
    uint32_t uid, gid;
    uint64_t namespaces; /* CLONE_NEW* bits */
    bool loopback;
    char **capabilities;
    size_t n_capabilities;
    struct policy_mount *mounts;
    size_t n_mounts;
    struct policy_env *env;
    size_t n_env;
    char **env_allow;
    size_t n_env_allow;
    char *working_directory;
    uint32_t umask;
    char **preload;
    size_t n_preload;
    char *interpreter; /* "": none is shown */
    char *image;       /* "": none */
    char **images;     /* that a request may choose; "*": any */
    size_t n_images;
    bool has_seccomp;
    enum seccomp_action_kind seccomp_default;
    char *seccomp_default_errno; /* NULL: EPERM */
    char **architectures;
    size_t n_architectures;
    struct seccomp_rule *rules;
    size_t n_rules;
    struct policy_rlimit *rlimits;
    size_t n_rlimits;
    struct policy_limits limits;
    struct egress_rule *egress; /* hosts that programs may reach */
    size_t n_egress;
    enum policy_state state;
    enum policy_speculation store_bypass, indirect_branch, core_sharing;
    enum approval_mode approval;
    struct policy_waiver *waivers; /* not part of what is embedded */
    size_t n_waivers;
    /* For errors that are found by whoever knows the kernel's names. */
    struct source_position working_directory_at, seccomp_at, default_errno_at, architectures_at;
    char sha256[65]; /* of the file's bytes; where it uses others, of the text of all together */
    char *origin;    /* the file's path, or "shipped:python" */
    char **files;    /* of what it uses; a source_position's `file` is one of them */
    size_t n_files;
};

/* Decodes one file (text, JSON or binary, told apart by extension: .json, .binpb, anything else text), with
 * the files beside it and the shipped ones that it uses. */
int policy_spec_load(const char *path, struct policy_spec **ret, struct err *reterr);
/* The same for a text that lies nowhere: it can use what is shipped. */
int policy_spec_decode_text(const char *origin, const char *text, size_t size, struct policy_spec **ret,
                            struct err *reterr);
/* The same with what lint needs: `source`, with a name and nothing else, or with a place for `errors`, then
 * knows where each field stands; source_free(). `data` NULL: its name is a file's. */
int policy_spec_read(struct source *source, const char *data, size_t size, struct policy_spec **ret,
                     struct err *reterr);
/* Appends the text of a policy together with all that it uses: what its sha256 is of. What uses nothing is as
 * it stands in its file, or as text if that holds another form. */
int policy_text_load(const char *path, struct buf *ret, struct err *reterr);
int policy_text_decode(const char *origin, const char *data, size_t size, struct buf *ret,
                       struct err *reterr);
void policy_spec_free(struct policy_spec *spec);
/* What the numbers of a limit count: bytes, seconds (AMOUNT_TIME), or neither. */
enum amount_unit policy_rlimit_unit(uint32_t resource);

/* Where a field of the policy was written: "FILE:LINE:COLUMN", or FILE alone. */
const char *policy_where(const struct policy_spec *spec, const struct source_position *at,
                         char ret[SOURCE_PLACE_TEXT_MAX]);
/* Fails with ERR_CONFIG about this policy, with the place in its file as item; `at` NULL: the whole file. */
int policy_bad(const struct policy_spec *spec, const struct source_position *at, struct err *reterr,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));
