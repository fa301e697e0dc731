/* What `immure check` looks at: one row per layer of the host, each a function that tries the real thing. */
#pragma once

#include <stddef.h>

enum probe_status {
    PROBE_OK,      /* there */
    PROBE_WARN,    /* there, or not needed by every policy, but worth knowing */
    PROBE_MISSING, /* jails cannot be as they should */
};
const char *probe_status_to_string(enum probe_status status); /* "OK", ... */

struct probe_result {
    enum probe_status status;
    char found[512];   /* what is there */
    char means[512];   /* what follows from it; "" where all is well */
    char remedy[1024]; /* what to do; "" likewise */
};

struct probe {
    const char *name; /* "mount namespace" */
    void (*run)(const struct probe *probe, struct probe_result *ret);
    unsigned long argument; /* of `run`: a CLONE_NEW* bit */
};

/* Fills the result. `ok` sets only `found`. */
void probe_ok(struct probe_result *ret, const char *found, ...) __attribute__((format(printf, 2, 3)));
void probe_fail(struct probe_result *ret, enum probe_status status, const char *found, const char *means,
                const char *remedy);

/* Runs `fn` in a forked child and returns what it returned: 0 or a negative errno above -256. */
int probe_in_child(int (*fn)(unsigned long argument), unsigned long argument);

/* The rows, by file. */
/* probe_kernel.c */
void probe_kernel(const struct probe *probe, struct probe_result *ret);
void probe_chroot(const struct probe *probe, struct probe_result *ret);
void probe_clone3(const struct probe *probe, struct probe_result *ret);
void probe_pidfd(const struct probe *probe, struct probe_result *ret);
void probe_seccomp_notify(const struct probe *probe, struct probe_result *ret);
void probe_mount_api(const struct probe *probe, struct probe_result *ret);
void probe_pivot_root(const struct probe *probe, struct probe_result *ret);
void probe_proc(const struct probe *probe, struct probe_result *ret);
void probe_landlock(const struct probe *probe, struct probe_result *ret);
void probe_overlay(const struct probe *probe, struct probe_result *ret);
void probe_namespace(const struct probe *probe, struct probe_result *ret);
void probe_user_namespace(const struct probe *probe, struct probe_result *ret);
/* probe_confinement.c */
void probe_cgroup(const struct probe *probe, struct probe_result *ret);
void probe_identity(const struct probe *probe, struct probe_result *ret);
void probe_groups(const struct probe *probe, struct probe_result *ret);
void probe_no_new_privs(const struct probe *probe, struct probe_result *ret);
void probe_own_seccomp(const struct probe *probe, struct probe_result *ret);
void probe_apparmor(const struct probe *probe, struct probe_result *ret);
void probe_lsm(const struct probe *probe, struct probe_result *ret);
