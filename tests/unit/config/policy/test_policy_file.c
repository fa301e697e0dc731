/* config/policy/policy_file.c, policy_mounts.c and policy_seccomp.c: what a policy file gives, and what is
 * refused and where. */
#include "config/policy/policy_file.h"

#include <errno.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/format/digest.h"
#include "jail/base/cleanup.h"

#define NAME    "name: 'p' "
#define WORK    "mount { destination: '/workspace' scratch { directory: WORK } } "
#define MINIMAL NAME WORK

static struct policy_spec *accepted(const char *text)
{
    struct err err = {0};
    struct policy_spec *spec = NULL;
    if (policy_spec_decode_text("p", text, strlen(text), &spec, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return spec;
}

static void test_defaults(void **state)
{
    (void)state;
    struct policy_spec *spec = accepted(MINIMAL);
    assert_string_equal(spec->name, "p");
    assert_null(spec->description);
    assert_string_equal(spec->hostname, "immure");
    assert_int_equal(spec->uid, 1000);
    assert_int_equal(spec->gid, 1000);
    assert_int_equal(spec->umask, 022);
    assert_true(spec->namespaces == (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                     CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP));
    assert_false(spec->loopback);
    assert_int_equal(spec->store_bypass, POLICY_SPECULATION_LEAVE);
    assert_int_equal(spec->indirect_branch, POLICY_SPECULATION_LEAVE);
    assert_int_equal(spec->core_sharing, POLICY_SPECULATION_LEAVE);
    assert_int_equal(spec->n_capabilities, 0);
    assert_string_equal(spec->working_directory, "/workspace");
    assert_false(spec->has_seccomp);
    assert_int_equal(spec->n_mounts, 1);
    assert_int_equal(spec->mounts[0].kind, POLICY_MOUNT_SCRATCH);
    assert_string_equal(spec->mounts[0].source, "work");
    assert_false(spec->mounts[0].read_only);
    assert_int_equal(spec->limits.memory_bytes, 536870912);
    assert_int_equal(spec->limits.pids, 64);
    assert_int_equal(spec->limits.cpu_percent, 100);
    assert_int_equal(spec->limits.cpu_ms, 0);
    assert_int_equal(spec->limits.scratch_bytes, 67108864);
    assert_int_equal(spec->limits.scratch_inodes, 4096);
    assert_int_equal(spec->limits.output_bytes, 524288);
    assert_int_equal(spec->limits.timeout_ms, 0);
    assert_int_equal(spec->limits.output_files, 256);
    assert_int_equal(spec->limits.output_file_bytes, 10485760);
    assert_string_equal(spec->origin, "p");
    char sha256[SHA256_HEX];
    sha256_hex_of(MINIMAL, strlen(MINIMAL), sha256);
    assert_string_equal(spec->sha256, sha256);
    policy_spec_free(spec);
    policy_spec_free(NULL);
}

static void test_mounts(void **state)
{
    (void)state;
    struct policy_spec *spec =
        accepted(NAME "mount { destination: '/usr' bind { source: '/usr' } }"
                      "mount { destination: '/opt' bind { source: '/opt/x' recursive: false } read_only: "
                      "false allow_devices: true "
                      "no_exec: true optional: true }"
                      "mount { destination: '/run' tmpfs { size_bytes: 4096 inodes: 2 mode: 01777 } }"
                      "mount { destination: '/proc' proc { subset_pid: false } optional: true }"
                      "mount { destination: '/bin' symlink { target: 'usr/bin' } }"
                      "mount { destination: '/etc/passwd' file { content: 'a\\000b' mode: 0400 } }"
                      "mount { destination: '/tmp' scratch { directory: TMP } no_exec: true }" WORK
                      "mount { destination: '/dev/shm' scratch { directory: SHM } }");
    const struct policy_mount *m = spec->mounts;
    assert_int_equal(spec->n_mounts, 9);
    assert_int_equal(m[0].kind, POLICY_MOUNT_BIND);
    assert_string_equal(m[0].source, "/usr");
    assert_true(m[0].recursive && m[0].read_only && !m[0].allow_devices && !m[0].no_exec && !m[0].optional);
    assert_true(!m[1].recursive && !m[1].read_only && m[1].allow_devices && m[1].no_exec && m[1].optional);
    assert_int_equal(m[2].kind, POLICY_MOUNT_TMPFS);
    assert_int_equal(m[2].size_bytes, 4096);
    assert_int_equal(m[2].inodes, 2);
    assert_int_equal(m[2].mode, 01777);
    assert_true(m[2].read_only);
    assert_int_equal(m[3].kind, POLICY_MOUNT_PROC);
    assert_true(!m[3].subset_pid && m[3].hidepid && m[3].read_only && m[3].optional);
    assert_int_equal(m[4].kind, POLICY_MOUNT_SYMLINK);
    assert_string_equal(m[4].source, "usr/bin");
    assert_int_equal(m[5].kind, POLICY_MOUNT_FILE);
    assert_int_equal(m[5].content_size, 3);
    assert_memory_equal(m[5].content, "a\0b", 3);
    assert_int_equal(m[5].mode, 0400);
    assert_string_equal(m[6].source, "tmp");
    assert_true(!m[6].read_only && m[6].no_exec);
    assert_string_equal(m[8].source, "shm");
    policy_spec_free(spec);
}

static void test_seccomp(void **state)
{
    (void)state;
    struct policy_spec *spec = accepted(
        MINIMAL "seccomp { default_action: ERRNO default_errno: 'ENOSYS' architecture: 'x86_64' "
                "rule { action: ALLOW set: ['@file-io', '@process'] syscall: 'getpid' reason: 'because' }"
                "rule { action: ERRNO syscall: ['clone', 'clone3'] errno: '38' condition { arg: 0 value: 1 }"
                "  condition { arg: 5 op: MASKED_EQ value: 0x10 mask: 0x30 } }"
                "rule { action: KILL_PROCESS syscall: 'ptrace' } rule { action: LOG syscall: 'a' }"
                "rule { action: NOTIFY syscall: 'b' } }");
    assert_true(spec->has_seccomp);
    assert_int_equal(spec->seccomp_default, ACTION_ERRNO);
    assert_string_equal(spec->seccomp_default_errno, "ENOSYS");
    assert_int_equal(spec->n_architectures, 1);
    assert_string_equal(spec->architectures[0], "x86_64");
    assert_int_equal(spec->n_rules, 5);
    assert_int_equal(spec->rules[0].n_sets, 2);
    assert_string_equal(spec->rules[0].sets[1], "@process");
    assert_string_equal(spec->rules[0].reason, "because");
    assert_null(spec->rules[0].errno_name);
    assert_int_equal(spec->rules[1].action, ACTION_ERRNO);
    assert_string_equal(spec->rules[1].errno_name, "38");
    assert_int_equal(spec->rules[1].n_conditions, 2);
    assert_int_equal(spec->rules[1].conditions[0].op, OP_EQ);
    assert_int_equal(spec->rules[1].conditions[1].op, OP_MASKED_EQ);
    assert_int_equal(spec->rules[1].conditions[1].mask, 0x30);
    assert_int_equal(spec->rules[2].action, ACTION_KILL_PROCESS);
    assert_int_equal(spec->rules[3].action, ACTION_LOG);
    assert_int_equal(spec->rules[4].action, ACTION_NOTIFY);
    policy_spec_free(spec);
    spec = accepted(MINIMAL "seccomp {}");
    assert_int_equal(spec->seccomp_default, ACTION_NOTIFY);
    policy_spec_free(spec);
}

static void test_the_rest(void **state)
{
    (void)state;
    struct policy_spec *spec = accepted(
        MINIMAL
        "description: 'd' hostname: 'h-1.x' uid: 1 gid: 2 umask: 077 namespace: [USER, MOUNT, PID, NET, "
        "UTS, TIME] "
        "store_bypass: IF_OFFERED indirect_branch: INSIST core_sharing: IF_OFFERED "
        "loopback: true capability: ['CAP_NET_BIND_SERVICE'] env { name: 'A' value: 'b c' } env { name: "
        "'_x1' } "
        "env_allow: ['A', 'PY*', '*'] working_directory: '/workspace/deep/er' "
        "rlimit { resource: NOFILE soft: 10 hard: 20 } rlimit { resource: CPU soft: 5s hard: 1m } "
        "rlimit { resource: FSIZE soft: '8MiB' } rlimit { resource: STACK soft: 18446744073709551615 } "
        "limits { memory_bytes: 1048576 pids: 1 cpu_percent: 1 cpu_ms: 5 timeout_ms: 6 output_files: 7 }");
    assert_true(spec->namespaces ==
                (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWTIME));
    assert_string_equal(spec->hostname, "h-1.x");
    assert_true(spec->loopback);
    assert_int_equal(spec->store_bypass, POLICY_SPECULATION_IF_OFFERED);
    assert_int_equal(spec->indirect_branch, POLICY_SPECULATION_INSIST);
    assert_int_equal(spec->core_sharing, POLICY_SPECULATION_IF_OFFERED);
    assert_int_equal(spec->uid, 1);
    assert_int_equal(spec->umask, 077);
    assert_string_equal(spec->capabilities[0], "CAP_NET_BIND_SERVICE");
    assert_int_equal(spec->n_env, 2);
    assert_string_equal(spec->env[0].value, "b c");
    assert_string_equal(spec->env[1].value, "");
    assert_int_equal(spec->n_env_allow, 3);
    assert_string_equal(spec->working_directory, "/workspace/deep/er");
    assert_int_equal(spec->n_rlimits, 4);
    assert_int_equal(spec->rlimits[0].resource, RLIMIT_NOFILE);
    assert_int_equal(spec->rlimits[0].hard, 20);
    assert_int_equal(spec->rlimits[1].soft, 5);
    assert_int_equal(spec->rlimits[1].hard, 60);
    assert_int_equal(spec->rlimits[2].hard, 8388608);
    assert_int_equal(spec->rlimits[3].resource, RLIMIT_STACK);
    assert_true(spec->rlimits[3].hard == UINT64_MAX);
    assert_int_equal(spec->limits.cpu_ms, 5);
    assert_int_equal(spec->limits.output_files, 7);
    policy_spec_free(spec);
    spec = accepted(MINIMAL "namespace: [USER, MOUNT, PID]");
    assert_string_equal(spec->hostname, "immure");
    policy_spec_free(spec);
}

/* Every resource by its name, so that the table cannot be off by one. */
static void test_every_resource(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t resource;
    } resources[] = {
#define R(name) {#name, RLIMIT_##name}
        R(AS),     R(CORE),  R(CPU), R(DATA),   R(FSIZE),  R(MEMLOCK),    R(MSGQUEUE), R(NICE),
        R(NOFILE), R(NPROC), R(RSS), R(RTPRIO), R(RTTIME), R(SIGPENDING), R(STACK),
#undef R
    };
    for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
        char text[256];
        snprintf(text, sizeof text, "%s rlimit { resource: %s soft: 0 }", MINIMAL, resources[i].name);
        struct policy_spec *spec = accepted(text);
        assert_int_equal(spec->rlimits[0].resource, resources[i].resource);
        policy_spec_free(spec);
    }
}

static const struct {
    const char *text, *message;
} broken[] = {
    {WORK, "required field \"name\" is missing"},
    {"name: '' " WORK, "name: must not be empty"},
    {"name: 'P' " WORK, "name: may hold small letters, digits and any of \"_-\", nothing else"},
    {"name: '../p' " WORK, "name: may hold small letters, digits and any of \"_-\", nothing else"},
    {MINIMAL "hostname: ''", "hostname: must not be empty"},
    {MINIMAL "hostname: '-a'", "hostname: must begin with a letter or digit"},
    {MINIMAL "hostname: 'a\\nb'", "hostname: may hold letters, digits and any of \"-.\", nothing else"},
    {MINIMAL "uid: 0", "uid: must be 1 to 4294967294, not 0"},
    {MINIMAL "gid: 0", "gid: must be 1 to 4294967294, not 0"},
    {MINIMAL "gid: 4294967295", "gid: must be 1 to 4294967294, not 4294967295"},
    {MINIMAL "umask: 01000", "umask: must be 0 to 0777, not 01000"},
    {MINIMAL "namespace: [USER, PID]", "namespace: USER, MOUNT and PID cannot be left out"},
    {MINIMAL "namespace: [USER, PID, MOUNT] loopback: true", "loopback: needs the job's own NET namespace"},
    {MINIMAL "namespace: [USER, PID, MOUNT] hostname: 'immure'",
     "hostname: needs the job's own UTS namespace"},
    {MINIMAL "capability: 'net_admin'",
     "capability[0]: \"net_admin\" is not the name of a capability (CAP_...); did you mean CAP_NET_ADMIN?"},
    {MINIMAL "capability: 'CAP_SYS_ADMN'", "capability[0]: \"CAP_SYS_ADMN\" is not the name of a capability "
                                           "(CAP_...); did you mean CAP_SYS_ADMIN?"},
    {MINIMAL "capability: ''", "capability[0]: \"\" is not the name of a capability (CAP_...)"},
    {MINIMAL "capability: ['CAP_CHOWN', 'CAP_KILL', 'CAP_CHOWN']",
     "capability[2]: CAP_CHOWN is given by capability[0] already"},
    {MINIMAL "env { name: '' }", "env[0].name: \"\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)"},
    {MINIMAL "env { name: 'A=B' }",
     "env[0].name: \"A=B\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)"},
    {MINIMAL "env { name: '1A' }",
     "env[0].name: \"1A\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)"},
    {MINIMAL "env { name: 'A' } env { name: 'A' }", "env[1].name: A is given by env[0] already"},
    {MINIMAL "env_allow: ''", "env_allow[0]: \"\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)"},
    {MINIMAL "env_allow: 'A*B'",
     "env_allow[0]: \"A*B\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)"},
    {MINIMAL "env_allow: ['A', '**']",
     "env_allow[1]: \"*\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)"},
    {NAME, "working_directory: /workspace lies on no mount of this policy"},
    {MINIMAL "working_directory: '/workspaces'",
     "working_directory: /workspaces lies on no mount of this policy"},
    {MINIMAL "working_directory: 'workspace'", "working_directory: must be an absolute path"},
    {MINIMAL "working_directory: '/workspace/../etc'", "working_directory: must not hold \".\" or \"..\""},
    {NAME "mount { destination: '/workspace' symlink { target: 'x' } }",
     "working_directory: /workspace lies on no mount of this policy"},
    /* mounts */
    {NAME "mount { destination: '/a' }",
     "mount[0]: needs one of bind, tmpfs, proc, symlink, file and scratch"},
    {NAME "mount { destination: 'a' proc {} }", "mount[0].destination: must be an absolute path"},
    {NAME "mount { destination: '' proc {} }", "mount[0].destination: must be an absolute path"},
    {NAME "mount { destination: '/' proc {} }",
     "mount[0].destination: must not be the root, which is the jail's own"},
    {NAME "mount { destination: '/a/' proc {} }", "mount[0].destination: must not end with '/'"},
    {NAME "mount { destination: '/a/../b' proc {} }", "mount[0].destination: must not hold \".\" or \"..\""},
    {NAME "mount { destination: '/a/..' proc {} }", "mount[0].destination: must not hold \".\" or \"..\""},
    {NAME "mount { destination: '/./a' proc {} }", "mount[0].destination: must not hold \".\" or \"..\""},
    {NAME "mount { destination: '//a' proc {} }",
     "mount[0].destination: must not hold an empty part (\"//\")"},
    {NAME "mount { destination: '/a' bind { source: 'x' } }",
     "mount[0].bind.source: must be an absolute path"},
    {NAME "mount { destination: '/a' bind { source: '/x/../y' } }",
     "mount[0].bind.source: must not hold \".\" or \"..\""},
    {NAME "mount { destination: '/a' tmpfs { size_bytes: 0 } }",
     "mount[0].tmpfs.size_bytes: must be 1 to 1125899906842624, not 0"},
    {NAME "mount { destination: '/a' tmpfs { inodes: 0 } }",
     "mount[0].tmpfs.inodes: must be 1 to 4294967296, not 0"},
    {NAME "mount { destination: '/a' tmpfs { mode: 04755 } }",
     "mount[0].tmpfs.mode: must be 0 to 01777, not 04755"},
    {NAME "mount { destination: '/a' file { content: '' mode: 04755 } }",
     "mount[0].file.mode: must be 0 to 0777, not 04755"},
    {NAME "mount { destination: '/a' symlink { target: '' } }",
     "mount[0].symlink.target: must be 1 to 1024 bytes long"},
    {NAME WORK "mount { destination: '/workspace' proc {} }",
     "mount[1].destination: /workspace is the destination of mount[0] already"},
    {NAME WORK "mount { destination: '/b' scratch { directory: WORK } }",
     "mount[1].scratch.directory: is at /workspace already"},
    {NAME "mount { destination: '/a' symlink { target: 'b' } } mount { destination: '/a/c' proc {} }",
     "mount[1].destination: /a/c would lie below the symlink /a"},
    {NAME "mount { destination: '/a/c' proc {} } mount { destination: '/a' symlink { target: 'b' } }",
     "mount[1].destination: /a/c would lie below the symlink /a"},
    {NAME "mount { destination: '/a' scratch { directory: WORK } read_only: true }",
     "mount[0].read_only: a scratch directory is always writable"},
    {NAME "mount { destination: '/a' proc {} read_only: false }",
     "mount[0].read_only: this kind of mount is never writable"},
    {NAME "mount { destination: '/a' file { content: '' } read_only: false }",
     "mount[0].read_only: this kind of mount is never writable"},
    {NAME "mount { destination: '/a' scratch { directory: WORK } allow_devices: true }",
     "mount[0].allow_devices: only a bind mount can have devices"},
    {NAME "mount { destination: '/a' symlink { target: 'b' } no_exec: true }",
     "mount[0].no_exec: this kind of mount has no such restriction"},
    {NAME "mount { destination: '/a' tmpfs {} optional: true }",
     "mount[0].optional: only bind and proc can be optional"},
    /* seccomp */
    {MINIMAL "seccomp { default_errno: 'EPERM' }",
     "seccomp.default_errno: has a meaning for the action ERRNO only"},
    {MINIMAL "seccomp { rule { action: ALLOW } }", "seccomp.rule[0]: names no system call and no set"},
    {MINIMAL "seccomp { rule { action: ALLOW syscall: 'Open' } }",
     "seccomp.rule[0].syscall[0]: may hold small letters, digits and any of \"_\", nothing else"},
    {MINIMAL "seccomp { rule { action: ALLOW set: 'io' } }",
     "seccomp.rule[0].set[0]: a set's name begins with '@': \"@io\"?"},
    {MINIMAL "seccomp { rule { action: ALLOW set: '@' } }", "seccomp.rule[0].set[0]: must not be empty"},
    {MINIMAL "seccomp { rule { action: ALLOW syscall: 'open' errno: 'EPERM' } }",
     "seccomp.rule[0].errno: has a meaning for the action ERRNO only"},
    {MINIMAL "seccomp { rule { action: ERRNO syscall: 'open' errno: '' } }",
     "seccomp.rule[0].errno: must not be empty"},
    {MINIMAL "seccomp { rule { action: ALLOW syscall: 'a' condition { arg: 6 value: 1 } } }",
     "seccomp.rule[0].condition[0].arg: must be 0 to 5, not 6"},
    {MINIMAL "seccomp { rule { action: ALLOW syscall: 'a' condition { arg: 0 value: 1 mask: 1 } } }",
     "seccomp.rule[0].condition[0].mask: has a meaning for MASKED_EQ only"},
    {MINIMAL "seccomp { rule { action: ALLOW syscall: 'a' condition { arg: 0 op: MASKED_EQ value: 1 } } }",
     "seccomp.rule[0].condition[0].mask: is needed for MASKED_EQ"},
    {MINIMAL
     "seccomp { rule { action: ALLOW syscall: 'a' condition { arg: 0 op: MASKED_EQ value: 3 mask: 1 } } }",
     "seccomp.rule[0].condition[0].value: has bits outside the mask, so that it could never be equal"},
    /* limits */
    {MINIMAL "rlimit { soft: 8KiB resource: NOFILE }",
     "rlimit[0].soft: counts in no unit of this kind; give the number alone"},
    {MINIMAL "rlimit { soft: '5s' resource: STACK }", "rlimit[0].soft: is a number of bytes (\"8MiB\")"},
    {MINIMAL "rlimit { resource: CPU soft: 1 hard: 1KiB }",
     "rlimit[0].hard: is a number of seconds (\"5s\")"},
    {MINIMAL "rlimit { resource: RTTIME soft: 1s }",
     "rlimit[0].soft: counts in no unit of this kind; give the number alone"},
    {MINIMAL "rlimit { resource: CPU soft: 1500ms }",
     "rlimit[0].soft: 1500ms is less than a second; this is a number of whole ones (\"5s\")"},
    {MINIMAL "rlimit { resource: AS soft: 2 hard: 1 }", "rlimit[0].soft: must not be above the hard limit"},
    {MINIMAL "rlimit { resource: AS soft: 1 } rlimit { resource: AS soft: 1 }",
     "rlimit[1].resource: has a limit already (rlimit[0])"},
    {MINIMAL "limits { memory_bytes: 0 }", "limits.memory_bytes: must be 1048576 to 1125899906842624, not 0"},
    {MINIMAL "limits { pids: 0 }", "limits.pids: must be 1 to 4194304, not 0"},
    {MINIMAL "limits { cpu_percent: 0 }", "limits.cpu_percent: must be 1 to 102400, not 0"},
    {MINIMAL "limits { scratch_bytes: 0 }", "limits.scratch_bytes: must be 4096 to 1125899906842624, not 0"},
    {MINIMAL "limits { scratch_inodes: 0 }", "limits.scratch_inodes: must be 8 to 4294967296, not 0"},
    {MINIMAL "limits { output_bytes: 0 }", "limits.output_bytes: must be 1 to 1073741824, not 0"},
    {MINIMAL "limits { output_files: 0 }", "limits.output_files: must be 1 to 65536, not 0"},
    {MINIMAL "limits { output_file_bytes: 0 }", "limits.output_file_bytes: must be 1 to 1073741824, not 0"},
    {MINIMAL "limits { timeout_ms: 86400001 }", "limits.timeout_ms: must be 0 to 86400000, not 86400001"},
    {MINIMAL "limts { pids: 1 }", "Policy has no field \"limts\"; did you mean limits?"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        struct err err = {0};
        struct policy_spec *spec = NULL;
        int r = policy_spec_decode_text("p", broken[i].text, strlen(broken[i].text), &spec, &err);
        if (r != -EINVAL || spec || err.kind != ERR_CONFIG || strcmp(err.text, broken[i].message) != 0 ||
            strncmp(err.item, "p", 1) != 0) {
            fail_msg("%s\n%d %s: %s", broken[i].text, r, err.item, err.text);
        }
    }
}

static void test_places(void **state)
{
    (void)state;
    static const char text[] = "name: 'p'\nlimits {\n  pids: 2\n  cpu_percent: 0\n}\n" WORK;
    struct err err = {0};
    struct policy_spec *spec = NULL;
    assert_int_equal(policy_spec_decode_text("dir/p.textproto", text, sizeof text - 1, &spec, &err), -EINVAL);
    assert_string_equal(err.item, "dir/p.textproto:4:16");
}

/* The same policy in all three forms; each form's digest is of its own bytes. */
static void test_load_by_extension(void **state)
{
    (void)state;
    static const struct {
        const char *name, *content;
        size_t size;
    } files[] = {
        {"p.textproto", MINIMAL, sizeof MINIMAL - 1},
        {"p.txt", MINIMAL, sizeof MINIMAL - 1},
#define JSON                                                                                                 \
    "{\"name\": \"p\", \"mount\": [{\"destination\": \"/workspace\", \"scratch\": {\"directory\": "          \
    "\"WORK\"}}]}"
        {"p.json", JSON, sizeof JSON - 1},
#define BINARY "\x0a\x01p\x4a\x10\x0a\x0a/workspace\x3a\x02\x08\x01"
        {"p.binpb", BINARY, sizeof BINARY - 1},
    };
    char directory[] = "/tmp/immure-policy-XXXXXX";
    assert_non_null(mkdtemp(directory));
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char path[64], sha256[SHA256_HEX];
        struct err err = {0};
        struct policy_spec *spec = NULL;
        snprintf(path, sizeof path, "%s/%s", directory, files[i].name);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        assert_int_equal(fwrite(files[i].content, 1, files[i].size, file), files[i].size);
        assert_int_equal(fclose(file), 0);
        int r = policy_spec_load(path, &spec, &err);
        unlink(path);
        if (r < 0) {
            fail_msg("%s: %s", err.item, err.text);
        }
        assert_string_equal(spec->name, "p");
        assert_string_equal(spec->mounts[0].source, "work");
        assert_string_equal(spec->origin, path);
        sha256_hex_of(files[i].content, files[i].size, sha256);
        assert_string_equal(spec->sha256, sha256);
        policy_spec_free(spec);
    }
    rmdir(directory);
    struct err err = {0};
    struct policy_spec *spec = NULL;
    assert_int_equal(policy_spec_load("/nonexistent/p.textproto", &spec, &err), -ENOENT);
    assert_string_equal(err.item, "/nonexistent/p.textproto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_seccomp),        cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_every_resource), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_places),         cmocka_unit_test(test_load_by_extension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
