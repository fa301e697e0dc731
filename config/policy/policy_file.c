/* A policy file as struct policy_spec: read, decoded, and held to every rule that needs nothing but the file.
 * Runs in the warden and the command line. Names that only the kernel or libseccomp know are looked up by the
 * policy layer. */
#include "config/policy/policy_file.h"

#include <linux/errno.h> /* a field of the schema is called errno, which <errno.h> makes a macro */
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/format/digest.h"
#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/format/suggest.h"
#include "config/format/textformat.h"
#include "config/message/job.h"
#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_message.h"
#include "config/policy/policy_use.h"
#include "jail/base/buf.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"

#define MS_PER_DAY 86400000ull
#define MIB        (1024ull * 1024)
#define TIB        (1024ull * 1024 * MIB)

/* Every field of Limits: field, least, most. Only the two clocks may be 0, "no limit of its own". */
#define LIMITS(X)                                                                                            \
    X(memory_bytes, MIB, 1024 * TIB)                                                                         \
    X(pids, 1, 1u << 22)                                                                                     \
    X(cpu_percent, 1, 102400)                                                                                \
    X(cpu_ms, 0, 365 * MS_PER_DAY)                                                                           \
    X(scratch_bytes, 4096, 1024 * TIB)                                                                       \
    X(scratch_inodes, 8, (uint64_t)1 << 32)                                                                  \
    X(output_bytes, 1, 1024 * MIB)                                                                           \
    X(timeout_ms, 0, MS_PER_DAY)                                                                             \
    X(output_files, 1, 65536)                                                                                \
    X(output_file_bytes, 1, 1024 * MIB)                                                                      \
    X(file_locks, 2, 1u << 20)

void policy_spec_free(struct policy_spec *spec)
{
    if (!spec) {
        return;
    }
    char *const texts[] = {spec->name,     spec->interpreter,       spec->description,
                           spec->hostname, spec->working_directory, spec->origin,
                           spec->image};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        free(texts[i]);
    }
    for (size_t i = 0; i < spec->n_capabilities; i++) {
        free(spec->capabilities[i]);
    }
    free(spec->capabilities);
    for (size_t i = 0; i < spec->n_env; i++) {
        free(spec->env[i].name);
        free(spec->env[i].value);
    }
    free(spec->env);
    for (size_t i = 0; i < spec->n_env_allow; i++) {
        free(spec->env_allow[i]);
    }
    free(spec->env_allow);
    for (size_t i = 0; i < spec->n_preload; i++) {
        free(spec->preload[i]);
    }
    free(spec->preload);
    for (size_t i = 0; i < spec->n_images; i++) {
        free(spec->images[i]);
    }
    free(spec->images);
    for (size_t i = 0; i < spec->n_files; i++) {
        free(spec->files[i]);
    }
    free(spec->files);
    for (size_t i = 0; i < spec->n_waivers; i++) {
        free(spec->waivers[i].rule);
        free(spec->waivers[i].about);
        free(spec->waivers[i].reason);
    }
    free(spec->waivers);
    free(spec->rlimits);
    policy_egress_free(spec);
    policy_mounts_free(spec);
    policy_seccomp_free(spec);
    free(spec);
}

static void policy_spec_freep(struct policy_spec **spec)
{
    policy_spec_free(*spec);
}

static int check_hostname(struct checker *checker, const char *hostname)
{
    int r = check_name(checker, "hostname", hostname, true, "-.");
    if (r == 0 && (hostname[0] == '-' || hostname[0] == '.')) {
        return check_fail(checker, "hostname", "must begin with a letter or digit");
    }
    return r;
}

static int identity_from_message(struct checker *checker, const Immure__Policy *message,
                                 struct policy_spec *spec)
{
    spec->uid = message->uid;
    spec->gid = message->gid;
    spec->umask = message->umask;
    spec->loopback = message->loopback;
    int r = check_name(checker, "name", message->name, false, "_-");
    r = r < 0 ? r : check_hostname(checker, message->hostname);
    r = r < 0 ? r : check_range(checker, "uid", message->uid, 1, UINT32_MAX - 1);
    r = r < 0 ? r : check_range(checker, "gid", message->gid, 1, UINT32_MAX - 1);
    r = r < 0 ? r : check_mode(checker, "umask", message->umask, 0777);
    r = r < 0 ? r : check_copy(checker, message->name, &spec->name);
    r = r < 0 ? r : check_copy(checker, message->description, &spec->description);
    return r < 0 ? r : check_copy(checker, message->hostname, &spec->hostname);
}

static int namespaces_from_message(struct checker *checker, const Immure__Policy *message,
                                   struct policy_spec *spec)
{
    static const uint64_t flags[] = {
        [IMMURE__NAMESPACE__USER] = CLONE_NEWUSER,     [IMMURE__NAMESPACE__MOUNT] = CLONE_NEWNS,
        [IMMURE__NAMESPACE__PID] = CLONE_NEWPID,       [IMMURE__NAMESPACE__NET] = CLONE_NEWNET,
        [IMMURE__NAMESPACE__IPC] = CLONE_NEWIPC,       [IMMURE__NAMESPACE__UTS] = CLONE_NEWUTS,
        [IMMURE__NAMESPACE__CGROUP] = CLONE_NEWCGROUP, [IMMURE__NAMESPACE__TIME] = CLONE_NEWTIME,
    };
    static const uint64_t needed = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID;
    for (size_t i = 0; i < message->n_namespace_; i++) {
        size_t n = (size_t)message->namespace_[i];
        if (n >= ARRAY_SIZE(flags) || flags[n] == 0) {
            return check_fail(checker, "namespace", "there is no namespace of number %zu", n);
        }
        spec->namespaces |= flags[n];
    }
    if (message->n_namespace_ == 0) {
        spec->namespaces = needed | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    }
    if ((spec->namespaces & needed) != needed) {
        return check_fail(checker, "namespace", "USER, MOUNT and PID cannot be left out");
    }
    if (spec->loopback && !(spec->namespaces & CLONE_NEWNET)) {
        return check_fail(checker, "loopback", "needs the job's own NET namespace");
    }
    /* Where it is not given it is the default's very memory. */
    static const Immure__Policy defaults = IMMURE__POLICY__INIT;
    if (message->hostname != defaults.hostname && !(spec->namespaces & CLONE_NEWUTS)) {
        return check_fail(checker, "hostname", "needs the job's own UTS namespace");
    }
    return 0;
}

static int check_capability(struct checker *checker, char *const *names, size_t index)
{
    const char *name = names[index];
    if (capability_number(name) < 0) {
        char near[SUGGESTION_TEXT_MAX];
        struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
        for (unsigned n = 0; capability_name(n); n++) {
            suggestion_offer(&suggestion, capability_name(n));
        }
        return check_fail(checker, NULL, "\"%.40s\" is not the name of a capability (CAP_...)%s", name,
                          suggestion_text(&suggestion, "", near));
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(names[i], name) == 0) {
            return check_fail(checker, NULL, "%s is given by capability[%zu] already", name, i);
        }
    }
    return 0;
}

static int capabilities_from_message(struct checker *checker, const Immure__Policy *message,
                                     struct policy_spec *spec)
{
    for (size_t i = 0; i < message->n_capability; i++) {
        size_t before = check_enter(checker, "capability", i);
        int r = check_go_on(checker, check_capability(checker, message->capability, i));
        check_leave(checker, before);
        if (r < 0) {
            return r;
        }
    }
    return check_copy_all(checker, message->capability, message->n_capability, &spec->capabilities,
                          &spec->n_capabilities);
}

/* [A-Za-z_][A-Za-z0-9_]*, so that no value can pass for a name and every shell can use it. */
static int check_variable_name(struct checker *checker, const char *field, const char *name, size_t len)
{
    static const size_t len_max = 256;
    size_t good = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    if (len == 0 || len > len_max || good < len || (name[0] >= '0' && name[0] <= '9')) {
        return check_fail(checker, field, "\"%.*s\" is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*)",
                          (int)(len < 60 ? len : 60), name);
    }
    return 0;
}

static int env_from_message(struct checker *checker, const Immure__Policy *message, struct policy_spec *spec)
{
    int r = check_new_array(checker, message->n_env, sizeof *spec->env, &spec->env);
    for (size_t i = 0; r == 0 && i < message->n_env; i++) {
        const Immure__EnvVar *variable = message->env[i];
        size_t before = check_enter(checker, "env", i);
        spec->env[i].at = check_position(checker, "name");
        r = check_variable_name(checker, "name", variable->name, strlen(variable->name));
        for (size_t j = 0; r == 0 && j < i; j++) {
            if (spec->env[j].name && strcmp(spec->env[j].name, variable->name) == 0) {
                char other[SOURCE_PLACE_TEXT_MAX];
                r = check_fail(checker, "name", "%s is given by env[%zu] already%s", variable->name, j,
                               check_other_file(checker, spec->env[j].at, other));
            }
        }
        spec->n_env = i + 1;
        r = r < 0 ? r : check_copy(checker, variable->name, &spec->env[i].name);
        r = r < 0 ? r : check_copy(checker, variable->value, &spec->env[i].value);
        r = check_go_on(checker, r);
        check_leave(checker, before);
    }
    return r;
}

static int env_allow_from_message(struct checker *checker, const Immure__Policy *message,
                                  struct policy_spec *spec)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < message->n_env_allow; i++) {
        const char *pattern = message->env_allow[i];
        size_t len = strlen(pattern);
        if (strcmp(pattern, "*") == 0) {
            continue;
        }
        size_t before = check_enter(checker, "env_allow", i);
        r = check_variable_name(checker, NULL, pattern, len > 0 && pattern[len - 1] == '*' ? len - 1 : len);
        r = check_go_on(checker, r);
        check_leave(checker, before);
    }
    return r < 0 ? r
                 : check_copy_all(checker, message->env_allow, message->n_env_allow, &spec->env_allow,
                                  &spec->n_env_allow);
}

static int preload_from_message(struct checker *checker, const Immure__Policy *message,
                                struct policy_spec *spec)
{
    int r = check_names(checker, "preload", message->preload, message->n_preload, true, "_./@-");
    return r < 0 ? r
                 : check_copy_all(checker, message->preload, message->n_preload, &spec->preload,
                                  &spec->n_preload);
}

static int check_image_name(struct checker *checker, const char *field, const char *name)
{
    return image_name_is_valid(name) ? 0 : check_fail(checker, field, "\"%.80s\" " IMAGE_NAME_RULE, name);
}

static int interpreter_from_message(struct checker *checker, const Immure__Policy *message,
                                    struct policy_spec *spec)
{
    const char *text = message->interpreter;
    int r = text[0] == '\0'     ? 0
            : strchr(text, '/') ? check_absolute_path(checker, "interpreter", text)
                                : check_name(checker, "interpreter", text, true, "+-._");
    return r < 0 ? r : check_copy(checker, text, &spec->interpreter);
}

static int images_from_message(struct checker *checker, const Immure__Policy *message,
                               struct policy_spec *spec)
{
    bool fixed = message->image[0] != '\0';
    int r = fixed ? check_image_name(checker, "image", message->image) : 0;
    if (r == 0 && fixed && message->n_images > 0) {
        r = check_fail(checker, "images", "has no meaning beside `image`, which fixes one");
    }
    if (r == 0 && (fixed || message->n_images > 0) && message->state == IMMURE__STATE__KERNEL) {
        r = check_fail(checker, fixed ? "image" : "images", "does not go with `state: KERNEL`");
    }
    for (size_t i = 0; r == 0 && i < message->n_images; i++) {
        size_t before = check_enter(checker, "images", i);
        r = strcmp(message->images[i], "*") == 0 ? 0 : check_image_name(checker, NULL, message->images[i]);
        check_leave(checker, before);
    }
    r = r < 0 ? r : check_copy(checker, message->image, &spec->image);
    return r < 0
               ? r
               : check_copy_all(checker, message->images, message->n_images, &spec->images, &spec->n_images);
}

/* After the mounts, on one of which it must lie: the jail's own root is read-only and empty. */
static int working_directory_from_message(struct checker *checker, const Immure__Policy *message,
                                          struct policy_spec *spec)
{
    const char *path = message->working_directory;
    spec->working_directory_at = check_position(checker, "working_directory");
    int r = check_absolute_path(checker, "working_directory", path);
    bool on_a_mount = false;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        size_t len = strlen(mount->destination);
        bool holds = mount->kind != POLICY_MOUNT_SYMLINK && mount->kind != POLICY_MOUNT_FILE;
        on_a_mount = on_a_mount || (holds && strncmp(path, mount->destination, len) == 0 &&
                                    (path[len] == '/' || path[len] == '\0'));
    }
    if (r == 0 && !on_a_mount) {
        return check_fail(checker, "working_directory", "%.200s lies on no mount of this policy", path);
    }
    return r < 0 ? r : check_copy(checker, path, &spec->working_directory);
}

static int limits_from_message(struct checker *checker, const Immure__Policy *message,
                               struct policy_spec *spec)
{
    static const Immure__Limits defaults = IMMURE__LIMITS__INIT;
    const Immure__Limits *limits = message->limits ? message->limits : &defaults;
    size_t before = fieldpath_push(&checker->path, "limits");
    int r = 0;
#define X(field, min, max)                                                                                   \
    r = r < 0 ? r : check_go_on(checker, check_range(checker, #field, limits->field, min, max));             \
    spec->limits.field = limits->field;
    LIMITS(X)
#undef X
    spec->limits.address_space = limits->address_space;
    fieldpath_pop(&checker->path, before);
    return r;
}

static int waivers_from_message(struct checker *checker, const Immure__Policy *message,
                                struct policy_spec *spec)
{
    int r = check_new_array(checker, message->n_lint_waive, sizeof *spec->waivers, &spec->waivers);
    for (size_t i = 0; r == 0 && i < message->n_lint_waive; i++) {
        const Immure__LintWaive *waive = message->lint_waive[i];
        struct policy_waiver *waiver = &spec->waivers[i];
        size_t before = check_enter(checker, "lint_waive", i);
        spec->n_waivers = i + 1;
        r = check_name(checker, "rule", waive->rule, false, "-");
        r = r < 0 ? r : check_copy(checker, waive->rule, &waiver->rule);
        r = r < 0 ? r : check_copy(checker, waive->about, &waiver->about);
        r = r < 0 ? r : check_copy(checker, waive->reason, &waiver->reason);
        r = check_go_on(checker, r);
        check_leave(checker, before);
    }
    return r;
}

/* A binary file can hold any number where an enum is meant. */
static int state_from_message(struct checker *checker, const Immure__Policy *message,
                              struct policy_spec *spec)
{
    bool kernel = message->state == IMMURE__STATE__KERNEL;
    spec->state = kernel ? POLICY_STATE_KERNEL : POLICY_STATE_WORKSPACE;
    return check_range(checker, "state", (uint64_t)message->state, IMMURE__STATE__WORKSPACE,
                       IMMURE__STATE__KERNEL);
}

static int speculation_from_message(struct checker *checker, const Immure__Policy *message,
                                    struct policy_spec *spec)
{
    const struct {
        const char *name;
        Immure__Speculation from;
        enum policy_speculation *to;
    } fields[] = {
        {"store_bypass", message->store_bypass, &spec->store_bypass},
        {"indirect_branch", message->indirect_branch, &spec->indirect_branch},
        {"core_sharing", message->core_sharing, &spec->core_sharing},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
        *fields[i].to = (enum policy_speculation)(fields[i].from - IMMURE__SPECULATION__LEAVE);
        r = check_range(checker, fields[i].name, (uint64_t)fields[i].from, IMMURE__SPECULATION__LEAVE,
                        IMMURE__SPECULATION__INSIST);
    }
    return r;
}

static int approval_from_message(struct checker *checker, const Immure__Policy *message,
                                 struct policy_spec *spec)
{
    spec->approval = (enum approval_mode)(message->approval - IMMURE__APPROVAL_MODE__NEVER);
    return check_range(checker, "approval", (uint64_t)message->approval, IMMURE__APPROVAL_MODE__NEVER,
                       IMMURE__APPROVAL_MODE__FIRST_USE);
}

static int spec_from_message(struct checker *checker, const Immure__Policy *message, struct policy_spec *spec)
{
    static int (*const parts[])(struct checker *, const Immure__Policy *, struct policy_spec *) = {
        identity_from_message,
        namespaces_from_message,
        capabilities_from_message,
        policy_mounts_from_message,
        env_from_message,
        env_allow_from_message,
        preload_from_message,
        interpreter_from_message,
        images_from_message,
        working_directory_from_message,
        policy_seccomp_from_message,
        policy_rlimits_from_message,
        limits_from_message,
        policy_egress_from_message,
        waivers_from_message,
        state_from_message,
        approval_from_message,
        speculation_from_message,
    };
    struct source_errors *errors = checker->source->errors;
    size_t n_errors = errors ? errors->n : 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++) {
        r = parts[i](checker, message, spec);
        /* Without its mounts a policy has no place to work in, which is not what is wrong with it. */
        if (r < 0 && parts[i] == working_directory_from_message && errors && errors->n > 0) {
            err_clear(checker->reterr);
            errors->incomplete = true;
            r = 0;
        }
        r = check_go_on(checker, r);
    }
    bool good = !errors || (errors->n == n_errors && !errors->incomplete);
    return r == 0 && !good ? -EINVAL : r;
}

/* A part is checked where it is used, with what it is used with. */
static int part_from_message(struct checker *checker, const Immure__Policy *message, struct policy_spec *spec)
{
    spec->part = true;
    int r = check_name(checker, "name", message->name, false, "_-");
    return r < 0 ? r : check_copy(checker, message->name, &spec->name);
}

static void message_freep(Immure__Policy **message)
{
    if (*message) {
        immure__policy__free_unpacked(*message, NULL);
    }
}

/* A file with all that it uses. */
struct policy_text {
    struct source source;
    Immure__Policy *message;
    struct buf text; /* of all together; empty where nothing is used */
};

static void policy_text_clear(struct policy_text *text)
{
    source_free(&text->source);
    message_freep(&text->message);
    buf_free(&text->text);
}

static int read_message(const char *data, size_t size, struct policy_text *text, bool any_form,
                        struct err *reterr)
{
    ProtobufCMessage *message;
    int r = any_form
                ? protofile_decode(&immure__policy__descriptor, &text->source, data, size, &message, reterr)
                : textformat_parse(&immure__policy__descriptor, &text->source, data, size, &message, reterr);
    if (r < 0) {
        return r;
    }
    text->message = (Immure__Policy *)message;
    return policy_use(&text->source, &text->message, &text->text, reterr);
}

static int finish(struct policy_text *text, const char *data, size_t size, struct policy_spec **ret,
                  struct err *reterr)
{
    struct checker checker = {.source = &text->source, .reterr = reterr};
    CLEANUP(policy_spec_freep) struct policy_spec *spec = calloc(1, sizeof *spec);
    int r = !spec                 ? check_memory(&checker)
            : text->message->part ? part_from_message(&checker, text->message, spec)
                                  : spec_from_message(&checker, text->message, spec);
    r = r < 0 ? r : check_copy(&checker, text->source.name, &spec->origin);
    r = r < 0 ? r
              : check_copy_all(&checker, text->source.files, text->source.n_files, &spec->files,
                               &spec->n_files);
    if (r < 0) {
        return r;
    }
    bool together = text->text.len > 0;
    sha256_hex_of(together ? text->text.data : data, together ? text->text.len : size, spec->sha256);
    *ret = TAKE_PTR(spec);
    return 0;
}

int policy_spec_load(const char *path, struct policy_spec **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    CLEANUP(policy_text_clear) struct policy_text text = {.source = SOURCE_NAMED(path)};
    int r = protofile_read(path, &data, reterr);
    const char *bytes = data.data ? data.data : "";
    r = r < 0 ? r : read_message(bytes, data.len, &text, true, reterr);
    return r < 0 ? r : finish(&text, bytes, data.len, ret, reterr);
}

int policy_spec_decode_text(const char *origin, const char *data, size_t size, struct policy_spec **ret,
                            struct err *reterr)
{
    CLEANUP(policy_text_clear) struct policy_text text = {.source = SOURCE_NAMED(origin)};
    int r = read_message(data, size, &text, false, reterr);
    return r < 0 ? r : finish(&text, data, size, ret, reterr);
}

int policy_spec_read(struct source *source, const char *data, size_t size, struct policy_spec **ret,
                     struct err *reterr)
{
    CLEANUP(buf_free) struct buf file = BUF_INIT;
    CLEANUP(policy_text_clear) struct policy_text text = {.source = *source};
    int r = data ? 0 : protofile_read(source->name, &file, reterr);
    const char *bytes = data ? data : file.data ? file.data : "";
    size = data ? size : file.len;
    r = r < 0 ? r : read_message(bytes, size, &text, true, reterr);
    r = r < 0 ? r : finish(&text, bytes, size, ret, reterr);
    *source = text.source;
    text.source = SOURCE_NAMED(source->name);
    return r;
}

int policy_text_load(const char *path, struct buf *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = protofile_read(path, &data, reterr);
    return r < 0 ? r : policy_text_decode(path, data.data ? data.data : "", data.len, ret, reterr);
}

int policy_text_decode(const char *origin, const char *data, size_t size, struct buf *ret, struct err *reterr)
{
    CLEANUP(policy_text_clear) struct policy_text text = {.source = SOURCE_NAMED(origin)};
    int r = read_message(data, size, &text, true, reterr);
    if (r < 0) {
        return r;
    }
    const char *dot = strrchr(origin, '.');
    bool is_text = !dot || (strcmp(dot, ".json") != 0 && strcmp(dot, ".binpb") != 0);
    if (text.text.len > 0) {
        buf_append(ret, text.text.data, text.text.len);
    } else if (is_text) {
        buf_append(ret, data, size);
    } else {
        textformat_print(&text.message->base, ret);
    }
    return ret->failed ? err_errno(reterr, ENOMEM, "while reading %s", origin) : 0;
}
