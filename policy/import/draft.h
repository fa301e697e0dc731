/* struct draft: what has been read of another launcher's policy, in the terms of ours, before it is written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/policy/policy_file.h"

struct buf;
struct clause;
struct clauses;
struct import_request;

/* What becomes of a call; `code` for ACTION_ERRNO. */
struct verdict {
    enum seccomp_action_kind kind;
    uint32_t code;
};

/* The first rule about a call whose condition holds decides. */
struct call_rule {
    const char *call;
    struct verdict verdict;
    bool always, inexact;
    const struct clause *when; /* any of these, where it is not always */
    size_t n_when, order;
};

struct draft_mount {
    const char *destination, *source; /* BIND, SYMLINK; "work", "tmp" and "shm" of SCRATCH; content of FILE */
    enum policy_mount_kind kind;
    bool writable, devices, no_exec, optional;
    uint64_t size_bytes; /* TMPFS */
};

/* A line of the policy: "uid: 7", `env { ... }`; of the latter, and of limits of the kernel, with its name.
 */
struct draft_field {
    const char *name, *text;
};

struct draft_note {
    const char *what, *why;
};

struct draft {
    const struct import_request *request;
    bool failed;   /* out of memory */
    bool too_many; /* rows of a kind for a policy that somebody wrote */
    void **blocks;
    size_t n_blocks;
    const char *name, *description, *working_directory;
    const char *program; /* an absolute path that has to be there to be run; NULL: none */
    bool host_files;     /* it sees the host's files: ours are the part debian and what that program needs */
    struct verdict otherwise; /* of a call that no rule decides; ACTION_ALLOW: all that is not denied */
    bool explicit_execve;
    struct call_rule *rules;
    size_t n_rules;
    struct draft_mount *mounts;
    size_t n_mounts;
    struct draft_field *fields, *env, *rlimits, *limits, *comments;
    size_t n_comments, n_fields, n_env, n_rlimits, n_limits;
    struct draft_note *notes, *suggested, *added;
    size_t n_notes, n_suggested, n_added;
};

void draft_free(struct draft *draft);
/* Memory that lives as long as the draft; never NULL but where the draft has failed. */
void *draft_alloc(struct draft *draft, size_t size);
const char *draft_printf(struct draft *draft, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *draft_text(struct draft *draft, const char *text, size_t size);

/* What has no counterpart, by name, and why or what happens instead. The same is said once. */
__attribute__((format(printf, 3, 4))) void draft_note(struct draft *draft, const char *why, const char *fmt,
                                                      ...);
/* What the policy may want beside it. */
__attribute__((format(printf, 3, 4))) void draft_suggest(struct draft *draft, const char *why,
                                                         const char *fmt, ...);
/* What the policy has beyond the source, and why. */
__attribute__((format(printf, 3, 4))) void draft_added(struct draft *draft, const char *why, const char *fmt,
                                                       ...);
/* A single field; a later one of that name takes its place. */
__attribute__((format(printf, 3, 4))) void draft_field(struct draft *draft, const char *name, const char *fmt,
                                                       ...);
void draft_string(struct draft *draft, const char *name, const char *value, size_t size);
void draft_limit(struct draft *draft, const char *name, uint64_t value);
void draft_env(struct draft *draft, const char *name, const char *value, size_t value_size);
/* A limit of the kernel; one that this process could not give is noted instead. */
void draft_rlimit(struct draft *draft, const char *resource, uint64_t soft, uint64_t hard);
/* A capability by its name; a dangerous one is noted instead. */
void draft_capability(struct draft *draft, const char *name);
/* A mount, with a clean destination; what cannot be is noted. */
void draft_mount(struct draft *draft, struct draft_mount mount);
/* A line that is left as a comment. */
void draft_comment(struct draft *draft, const char *text, size_t size);
/* A rule behind those that there are; `when` is copied, NULL: always. */
void draft_rule(struct draft *draft, const char *call, struct verdict verdict, const struct clauses *when);
/* The same rule again, behind those that there are. */
void draft_repeat(struct draft *draft, struct call_rule rule);

/* As a quoted string of the text format. */
void put_quoted(struct buf *ret, const char *text, size_t size);
/* "EPERM", or the number. Into `ret`. */
const char *errno_text(uint32_t code, char ret[32]);
