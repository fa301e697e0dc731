/* A plan with one step of each kind that is in order, for tests to break or to print. */
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"

static inline void plan_freep(struct jail_plan **plan)
{
    jail_plan_free(*plan);
}

static inline jail_ref add_run(struct jail_plan *plan, const char *text, size_t size)
{
    return jail_plan_bytes(plan, text, size, 1);
}

/* One step of each kind, in an order that the rules accept. */
static inline struct jail_plan *good_plan(void)
{
    struct jail_plan *plan = jail_plan_new();
    assert_non_null(plan);
    plan->namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS;
    plan->uid = plan->gid = 1000;
    plan->limits = (struct jail_limits){.memory_bytes = 64 << 20,
                                        .pids = 8,
                                        .cpu_percent = 100,
                                        .timeout_ms = 1000,
                                        .scratch_bytes = 1 << 20,
                                        .scratch_inodes = 64};
    const uint32_t guarded = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV;
    jail_plan_add(plan, JAIL_STEP_PROPAGATION);
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_IDENTITY);
    step->identity.uid = step->identity.gid = 1000;
    jail_plan_add(plan, JAIL_STEP_LOOPBACK);
    step = jail_plan_add(plan, JAIL_STEP_HOSTNAME);
    step->hostname.name = jail_plan_text(plan, "immure");
    step = jail_plan_add(plan, JAIL_STEP_ROOT);
    step->root.size_bytes = 65536;
    step->root.inodes = 64;
    step = jail_plan_add(plan, JAIL_STEP_MKDIR);
    step->mkdir.path = jail_plan_text(plan, "/usr");
    step->mkdir.mode = 0755;
    step = jail_plan_add(plan, JAIL_STEP_BIND);
    step->bind.source = jail_plan_text(plan, "/usr/lib");
    step->bind.path = jail_plan_text(plan, "/usr/lib");
    step->bind.flags = guarded | JAIL_MOUNT_READONLY | JAIL_MOUNT_RECURSIVE;
    step = jail_plan_add(plan, JAIL_STEP_SYMLINK);
    step->symlink.target = jail_plan_text(plan, "usr/lib");
    step->symlink.path = jail_plan_text(plan, "/lib");
    step = jail_plan_add(plan, JAIL_STEP_FILE);
    step->file.path = jail_plan_text(plan, "/motd");
    step->file.mode = 0444;
    step->file.content = jail_plan_bytes(plan, "hello,\n\"you\"", 12, 1);
    step->file.size_bytes = 12;
    step = jail_plan_add(plan, JAIL_STEP_FILE);
    step->file.path = jail_plan_text(plan, "/main.py");
    step->file.mode = 0444;
    step->file.from_input = true;
    step->file.size_bytes = 99;
    step = jail_plan_add(plan, JAIL_STEP_TMPFS);
    step->tmpfs.path = jail_plan_text(plan, "/run");
    step->tmpfs.size_bytes = 4096;
    step->tmpfs.inodes = 4;
    step->tmpfs.mode = 01777;
    step->tmpfs.flags = guarded;
    step = jail_plan_add(plan, JAIL_STEP_PROC);
    step->proc.path = jail_plan_text(plan, "/proc");
    step->proc.flags = guarded | JAIL_MOUNT_READONLY | JAIL_MOUNT_NOEXEC | JAIL_MOUNT_OPTIONAL |
                       JAIL_PROC_SUBSET_PID | JAIL_PROC_HIDE;
    step = jail_plan_add(plan, JAIL_STEP_SCRATCH);
    step->scratch.path = jail_plan_text(plan, "/tmp");
    step->scratch.flags = guarded;
    step = jail_plan_add(plan, JAIL_STEP_SUBMOUNT);
    step->submount.source = jail_plan_text(plan, "/tmp/work");
    step->submount.path = jail_plan_text(plan, "/workspace");
    step->submount.flags = guarded;
    step = jail_plan_add(plan, JAIL_STEP_WORKSPACE);
    step->workspace.path = jail_plan_text(plan, "/shared");
    step->workspace.flags = guarded;
    jail_plan_add(plan, JAIL_STEP_PIVOT);
    jail_plan_add(plan, JAIL_STEP_ROOT_READONLY);
    jail_plan_add(plan, JAIL_STEP_STDIO);
    jail_plan_add(plan, JAIL_STEP_BRIDGE);
    jail_plan_add(plan, JAIL_STEP_CAPABILITIES);
    jail_plan_add(plan, JAIL_STEP_NO_NEW_PRIVS);
    jail_plan_add(plan, JAIL_STEP_PROGRAM);
    jail_plan_add(plan, JAIL_STEP_SESSION);
    step = jail_plan_add(plan, JAIL_STEP_UMASK);
    step->umask.mask = 022;
    step = jail_plan_add(plan, JAIL_STEP_WORKDIR);
    step->workdir.path = jail_plan_text(plan, "/workspace");
    step = jail_plan_add(plan, JAIL_STEP_RLIMIT);
    step->rlimit.resource = RLIMIT_NOFILE;
    step->rlimit.soft = 64;
    step->rlimit.hard = UINT64_MAX;
    step = jail_plan_add(plan, JAIL_STEP_SPECULATION);
    step->speculation.store_bypass = JAIL_SPECULATION_IF_OFFERED;
    step->speculation.core_sharing = JAIL_SPECULATION_INSIST;
    step = jail_plan_add(plan, JAIL_STEP_LANDLOCK);
    step->landlock.writable = add_run(plan, "/workspace\0/tmp\0", 16);
    step->landlock.n_writable = 2;
    step->landlock.devices = add_run(plan, "/dev/null\0", 10);
    step->landlock.n_devices = 1;
    step->landlock.abi = 7;
    jail_plan_add(plan, JAIL_STEP_NO_SET_ID);
    step = jail_plan_add(plan, JAIL_STEP_SECCOMP);
    const struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)};
    step->seccomp.bpf = jail_plan_bytes(plan, filter, sizeof filter, 8);
    step->seccomp.length = 1;
    step->seccomp.notify = true;
    step = jail_plan_add(plan, JAIL_STEP_EXEC);
    step->exec.path = jail_plan_text(plan, "/usr/bin/python3");
    step->exec.argv = add_run(plan, "python3\0a b\0", 12);
    step->exec.argc = 2;
    step->exec.envp = add_run(plan, "HOME=/workspace\0", 16);
    step->exec.envc = 1;
    assert_false(plan->failed);
    return plan;
}

static inline void assert_refused(struct jail_plan *plan, const char *words)
{
    struct err err = {0};
    assert_int_equal(jail_plan_check(plan, &err), -EINVAL);
    assert_int_equal(err.kind, ERR_SETUP);
    if (!strstr(err.text, words)) {
        fail_msg("refused with \"%s\" (%s), expected \"%s\"", err.text, err.step, words);
    }
}
