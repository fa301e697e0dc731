/* `use`: a policy is made of others, which are put together here field by field, before anything is checked.
 * Runs in the warden and the command line.
 *
 * What must hold: nothing is lost or decided in silence. Two that are used and differ about a field that is
 * no list are refused, unless the policy says itself which value it means; so is a `without` that takes
 * nothing away. Each field is pointed at where it was written. */
#include "config/policy/policy_use.h"

#include <dirent.h>
#include <linux/errno.h> /* a field of the schema is called errno, which <errno.h> makes a macro */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/builder.h"
#include "config/format/fieldpath.h"
#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/format/suggest.h"
#include "config/format/textformat.h"
#include "config/policy/policy.pb-c.h"
#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define FILES_MAX   256u /* that one policy comes to be made of, those counted twice that are used twice */
#define WITHOUT_MAX 256u
#define FIELDS_MAX  64u
#define PATH_BYTES  4096

/* A file whose `use` is being followed, and the file that uses it. */
struct user {
    const struct user *by;
    const Immure__Policy *message;
    const struct source *source;
    size_t index; /* into its `use` */
    unsigned *n_files;
    struct err *reterr;
};

/* A file that is used. */
struct used {
    Immure__Policy *message;
    struct source source;
    char name[PATH_BYTES]; /* the source's */
};

static void used_clear(struct used *used)
{
    if (used->message) {
        immure__policy__free_unpacked(used->message, NULL);
    }
    source_free(&used->source);
}

static int fail_use(const struct user *user, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail_use(const struct user *user, const char *fmt, ...)
{
    char path[40], text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(path, sizeof path, "use[%zu]", user->index);
    return source_fail(user->source, path, user->reterr, "%s", text);
}

static int fail_memory(const struct user *user)
{
    return err_errno(user->reterr, ENOMEM, "while reading %s", user->source->name);
}

/* ---- Which file is meant ---- */

static const char *const extensions[] = {".textproto", ".json", ".binpb"};

/* The directory of the file that uses, with the '/'; its length. 0: it is no file. */
static int directory_length(const char *origin)
{
    const char *slash = strrchr(origin, '/');
    return slash ? (int)(slash - origin) + 1 : 0;
}

/* A file beside the one that uses it, but not that one itself: it may have the name of the one it changes. */
static bool find_beside(const char *origin, const char *name, char ret[PATH_BYTES])
{
    int length = directory_length(origin);
    for (size_t i = 0; length > 0 && i < ARRAY_SIZE(extensions); i++) {
        int n = snprintf(ret, PATH_BYTES, "%.*s%s%s", length, origin, name, extensions[i]);
        if (n < PATH_BYTES && strcmp(ret, origin) != 0 && access(ret, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void offer_beside(const char *origin, struct suggestion *suggestion, char near[NAME_MAX + 1])
{
    char path[PATH_BYTES];
    int length = directory_length(origin);
    if (length == 0 || snprintf(path, sizeof path, "%.*s", length, origin) >= PATH_BYTES) {
        return;
    }
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char *dot = strrchr(entry->d_name, '.');
        for (size_t i = 0; dot && i < ARRAY_SIZE(extensions); i++) {
            if (strcmp(dot, extensions[i]) == 0) {
                char name[NAME_MAX + 1];
                snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
                suggestion_offer(suggestion, name);
                /* The best one has to outlive the directory. */
                if (suggestion->best == name) {
                    memcpy(near, name, strlen(name) + 1);
                    suggestion->best = near;
                }
                break;
            }
        }
    }
    if (directory) {
        closedir(directory);
    }
}

static int unknown(const struct user *user, const char *name)
{
    char near[NAME_MAX + 1], text[SUGGESTION_TEXT_MAX];
    struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        suggestion_offer(&suggestion, file->name);
    }
    for (const struct shipped_file *file = shipped_parts(); file->name; file++) {
        suggestion_offer(&suggestion, file->name);
    }
    offer_beside(user->source->name, &suggestion, near);
    return fail_use(user, "no policy or part \"%.60s\" is shipped%s%s", name,
                    directory_length(user->source->name) > 0 ? " or lies beside this file" : "",
                    suggestion_text(&suggestion, "", text));
}

/* A circle is refused where it closes, with the place where it began. */
static int check_circle(const struct user *user, const char *origin)
{
    for (const struct user *at = user; at; at = at->by) {
        if (strcmp(at->source->name, origin) == 0) {
            char path[40], place[SOURCE_PLACE_TEXT_MAX];
            snprintf(path, sizeof path, "use[%zu]", at->index);
            source_where(at->source, source_position(at->source, path), place);
            return at == user ? fail_use(user, "it uses itself")
                              : fail_use(user, "%s uses this file in turn (%s)", at->message->name, place);
        }
    }
    return 0;
}

static int decode_used(const struct user *user, const char *name, struct used *used)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    const struct shipped_file *shipped = NULL;
    if (!find_beside(user->source->name, name, used->name)) {
        shipped = shipped_policy(name);
        shipped = shipped ? shipped : shipped_part(name);
        if (!shipped) {
            return unknown(user, name);
        }
        snprintf(used->name, sizeof used->name, "shipped:%s", name);
    }
    used->source = (struct source){.name = used->name, .errors = user->source->errors};
    int r = check_circle(user, used->name);
    r = r < 0 || shipped ? r : protofile_read(used->name, &data, user->reterr);
    ProtobufCMessage *message = NULL;
    r = r < 0 ? r
              : protofile_decode(&immure__policy__descriptor, &used->source,
                                 shipped     ? shipped->data
                                 : data.data ? data.data
                                             : "",
                                 shipped ? shipped->size : data.len, &message, user->reterr);
    used->message = r < 0 ? NULL : (Immure__Policy *)message;
    if (r == 0 && strcmp(used->message->name, name) != 0) {
        return fail_use(user, "%s names itself \"%.60s\"", used->name, used->message->name);
    }
    return r;
}

/* ---- What is left out ---- */

/* One list of `without`. */
struct left_out {
    const char *list, *what; /* its own field, and what it takes away */
    char *const *names;
    size_t n;
    bool found[WITHOUT_MAX];
};

enum { OUT_MOUNT, OUT_ENV, OUT_ENV_ALLOW, OUT_PRELOAD, OUT_RLIMIT, OUT_EGRESS, OUT_SYSCALL, OUT_SET, N_OUT };

static const char *name_of_rlimit(int resource)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&immure__rlimit_resource__descriptor, resource);
    return value ? value->name : "";
}

static bool leaves_out(struct left_out *out, const char *name)
{
    bool any = false;
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->names[i], name) == 0) {
            any = out->found[i] = true;
        }
    }
    return any;
}

/* Takes the names out of a list of names. */
static void leave_names_out(struct left_out *out, char **names, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (leaves_out(out, names[i])) {
            free(names[i]);
        } else {
            names[kept++] = names[i];
        }
    }
    *n = kept;
}

/* Whether the item of a list goes; a rule may lose some of its calls instead. */
static bool item_goes(struct left_out out[N_OUT], const char *list, void *item)
{
    if (strcmp(list, "mount") == 0) {
        return leaves_out(&out[OUT_MOUNT], (*(Immure__Mount **)item)->destination);
    }
    if (strcmp(list, "env") == 0) {
        return leaves_out(&out[OUT_ENV], (*(Immure__EnvVar **)item)->name);
    }
    if (strcmp(list, "env_allow") == 0) {
        return leaves_out(&out[OUT_ENV_ALLOW], *(char **)item);
    }
    if (strcmp(list, "preload") == 0) {
        return leaves_out(&out[OUT_PRELOAD], *(char **)item);
    }
    if (strcmp(list, "rlimit") == 0) {
        return leaves_out(&out[OUT_RLIMIT], name_of_rlimit((int)(*(Immure__Rlimit **)item)->resource));
    }
    if (strcmp(list, "egress") == 0) {
        return leaves_out(&out[OUT_EGRESS], (*(Immure__Egress **)item)->host);
    }
    if (strcmp(list, "rule") == 0) {
        Immure__SeccompRule *rule = *(Immure__SeccompRule **)item;
        bool named = rule->n_syscall + rule->n_set > 0;
        leave_names_out(&out[OUT_SYSCALL], rule->syscall, &rule->n_syscall);
        leave_names_out(&out[OUT_SET], rule->set, &rule->n_set);
        return named && rule->n_syscall + rule->n_set == 0;
    }
    return false;
}

/* What is not there cannot be left out: a name may be misspelt, or what was used has changed. */
static int check_left_out(const struct user *user, const struct left_out out[N_OUT])
{
    for (size_t k = 0; k < N_OUT; k++) {
        for (size_t i = 0; i < out[k].n; i++) {
            char path[60];
            snprintf(path, sizeof path, "without.%s[%zu]", out[k].list, i);
            if (!out[k].found[i]) {
                return source_fail(user->source, path, user->reterr,
                                   "takes nothing away: nothing that is used has the %s %.100s", out[k].what,
                                   out[k].names[i]);
            }
        }
    }
    return 0;
}

/* `rlimits` holds the names of the resources. */
static int list_left_out(const struct user *user, const char **rlimits, struct left_out out[N_OUT])
{
    const Immure__Without *without = user->message->without;
    if (!without) {
        return 0;
    }
    size_t n_rlimits = without->n_rlimit < WITHOUT_MAX ? without->n_rlimit : 0;
    for (size_t i = 0; i < n_rlimits; i++) {
        rlimits[i] = name_of_rlimit((int)without->rlimit[i]);
    }
    const struct left_out lists[N_OUT] = {
        [OUT_MOUNT] = {"mount", "mount", without->mount, without->n_mount, {0}},
        [OUT_ENV] = {"env", "variable", without->env, without->n_env, {0}},
        [OUT_ENV_ALLOW] = {"env_allow", "variable", without->env_allow, without->n_env_allow, {0}},
        [OUT_PRELOAD] = {"preload", "module", without->preload, without->n_preload, {0}},
        [OUT_RLIMIT] = {"rlimit", "limit of", (char *const *)rlimits, without->n_rlimit, {0}},
        [OUT_EGRESS] = {"egress", "host", without->egress, without->n_egress, {0}},
        [OUT_SYSCALL] = {"syscall", "system call", without->syscall, without->n_syscall, {0}},
        [OUT_SET] = {"set", "set", without->set, without->n_set, {0}},
    };
    for (size_t k = 0; k < N_OUT; k++) {
        if (lists[k].n > WITHOUT_MAX) {
            return source_fail(user->source, "without", user->reterr, "more than %u of one kind",
                               WITHOUT_MAX);
        }
        out[k] = lists[k];
    }
    return 0;
}

/* ---- Putting together ---- */

struct merge {
    const struct user *user;
    struct source *flat;       /* of what there is so far */
    const struct source *from; /* of what is being added */
    struct left_out *out;      /* NULL: nothing is left out */
    struct fieldpath path;
};

static void *member_of(const ProtobufCMessage *message, unsigned offset)
{
    return (char *)(uintptr_t)message + offset;
}

/* A place in a message for one more value of a field. */
static void *new_slot(ProtobufCMessage *into, const ProtobufCFieldDescriptor *field, size_t *ret_index)
{
    bool given[FIELDS_MAX] = {0};
    struct builder view = {.message = into, .given = given};
    return into->descriptor->n_fields <= FIELDS_MAX ? builder_slot(&view, field, ret_index) : NULL;
}

static void free_value(const ProtobufCFieldDescriptor *field, void *value)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        protobuf_c_message_free_unpacked(*(ProtobufCMessage **)value, NULL);
    } else if (field->type == PROTOBUF_C_TYPE_STRING) {
        free(*(char **)value);
    }
}

static size_t names_of_rule(const ProtobufCFieldDescriptor *field, const void *item)
{
    const Immure__SeccompRule *rule =
        strcmp(field->name, "rule") == 0 ? *(Immure__SeccompRule *const *)item : NULL;
    return rule ? rule->n_syscall + rule->n_set : 0;
}

/* Moves an item to the end of a list, or frees it: where it is left out, and where it is there by another
 * way. */
static int merge_item(struct merge *merge, ProtobufCMessage *into, const ProtobufCFieldDescriptor *field,
                      void *item, size_t index)
{
    char from_path[sizeof merge->path.text];
    size_t before = fieldpath_push_index(&merge->path, index), names = names_of_rule(field, item);
    memcpy(from_path, merge->path.text, merge->path.len + 1);
    fieldpath_pop(&merge->path, before);
    bool goes = merge->out && item_goes(merge->out, field->name, item);
    /* A rule that has lost some of its names is not the one that comes whole by another way. */
    bool cut = !goes && names_of_rule(field, item) < names;
    if (goes || (!cut && source_has_adopted(merge->flat, merge->from, from_path))) {
        free_value(field, item);
        return 0;
    }
    size_t at;
    void *slot = new_slot(into, field, &at);
    if (!slot) {
        free_value(field, item);
        return fail_memory(merge->user);
    }
    memcpy(slot, item, builder_value_size(field->type));
    before = fieldpath_push_index(&merge->path, at);
    int r = source_adopt(merge->flat, merge->path.text, merge->from, from_path, cut);
    fieldpath_pop(&merge->path, before);
    return r < 0 ? fail_memory(merge->user) : 0;
}

static int merge_list(struct merge *merge, ProtobufCMessage *into, ProtobufCMessage *from,
                      const ProtobufCFieldDescriptor *field)
{
    char **items = member_of(from, field->offset);
    size_t *n = member_of(from, field->quantifier_offset), size = builder_value_size(field->type);
    int r = 0;
    for (size_t i = 0; i < *n; i++) {
        int one = r < 0 ? r : merge_item(merge, into, field, *items + i * size, i);
        if (r < 0) {
            free_value(field, *items + i * size);
        }
        r = one;
    }
    free(*items);
    *items = NULL;
    *n = 0;
    return r;
}

static bool same_value(const ProtobufCFieldDescriptor *field, const void *a, const void *b)
{
    return field->type == PROTOBUF_C_TYPE_STRING ? strcmp(*(char *const *)a, *(char *const *)b) == 0
                                                 : memcmp(a, b, builder_value_size(field->type)) == 0;
}

/* Two that are used, and say different things. */
static int check_agree(struct merge *merge, const ProtobufCFieldDescriptor *field, const void *there,
                       const void *here)
{
    if (same_value(field, there, here)) {
        return 0;
    }
    char other[SOURCE_PLACE_TEXT_MAX];
    source_where(merge->flat, source_position(merge->flat, merge->path.text), other);
    return source_fail(merge->from, merge->path.text, merge->user->reterr,
                       "differs from %s; %.60s uses both, and has to say itself which it wants", other,
                       merge->user->message->name);
}

static int merge_single(struct merge *merge, ProtobufCMessage *into, ProtobufCMessage *from,
                        const ProtobufCFieldDescriptor *field)
{
    void *value = member_of(from, field->offset);
    if (builder_has(into, field)) {
        return check_agree(merge, field, member_of(into, field->offset), value);
    }
    size_t at;
    void *slot = new_slot(into, field, &at);
    if (!slot) {
        return fail_memory(merge->user);
    }
    memcpy(slot, value, builder_value_size(field->type));
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        *(char **)value = NULL;
    }
    return source_adopt(merge->flat, merge->path.text, merge->from, merge->path.text, false) < 0
               ? fail_memory(merge->user)
               : 0;
}

static int merge_fields(struct merge *merge, ProtobufCMessage *into, ProtobufCMessage *from,
                        const ProtobufCMessage *own);

/* `seccomp` and `limits`, field by field. `own`: of the policy itself, whose fields decide; NULL: it has
 * none. */
static int merge_message(struct merge *merge, ProtobufCMessage *into, ProtobufCMessage *from,
                         const ProtobufCMessage *own, const ProtobufCFieldDescriptor *field)
{
    ProtobufCMessage *inner = *(ProtobufCMessage **)member_of(into, field->offset);
    if (!inner) {
        struct builder builder;
        size_t at;
        void *slot = new_slot(into, field, &at);
        if (!slot || builder_open(field->descriptor, &builder) < 0) {
            return fail_memory(merge->user);
        }
        inner = builder_take(&builder);
        memcpy(slot, &inner, sizeof(void *));
        builder_close(&builder);
    }
    /* The message around them all is the policy's own, where it has one. */
    struct source_position at = {0};
    if (!merge->out) {
        at = source_position(merge->from, merge->path.text);
    }
    if (source_note(merge->flat, merge->path.text, at.line, at.column) < 0) {
        return fail_memory(merge->user);
    }
    return merge_fields(merge, inner, *(ProtobufCMessage **)member_of(from, field->offset),
                        own ? *(ProtobufCMessage **)member_of(own, field->offset) : NULL);
}

static int merge_fields(struct merge *merge, ProtobufCMessage *into, ProtobufCMessage *from,
                        const ProtobufCMessage *own)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < from->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &from->descriptor->fields[i];
        size_t before = fieldpath_push(&merge->path, field->name);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            r = merge_list(merge, into, from, field);
        } else if (builder_has(from, field) && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            r = merge_message(merge, into, from, own, field);
        } else if (builder_has(from, field) && !(own && builder_has(own, field))) {
            r = merge_single(merge, into, from, field);
        }
        fieldpath_pop(&merge->path, before);
    }
    return r;
}

/* A file's own business: what it is called, and how it is made. */
static void drop_own(Immure__Policy *message, bool name_too)
{
    for (size_t i = 0; i < message->n_use; i++) {
        free(message->use[i]);
    }
    free(message->use);
    message->use = NULL;
    message->n_use = 0;
    if (message->without) {
        immure__without__free_unpacked(message->without, NULL);
        message->without = NULL;
    }
    if (name_too) {
        free(message->description);
        message->description = NULL;
        message->has_part = false;
    }
}

static int flatten(const struct user *by, unsigned *n_files, struct source *source, Immure__Policy **message,
                   struct err *reterr);

/* Adds the file that `use` names, and all that it uses itself. */
static int add_used(struct user *user, struct merge *merge, Immure__Policy *into)
{
    const char *name = user->message->use[user->index];
    if (*name == '\0' || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] != '\0') {
        return fail_use(user, "\"%.60s\" is not the name of a policy ([a-z0-9_-]+)", name);
    }
    for (size_t i = 0; i < user->index; i++) {
        if (strcmp(user->message->use[i], name) == 0) {
            return fail_use(user, "%s is use[%zu] already", name, i);
        }
    }
    if (++*user->n_files > FILES_MAX) {
        return fail_use(user, "this policy is made of more than %u files", FILES_MAX);
    }
    CLEANUP(used_clear) struct used used = {0};
    int r = decode_used(user, name, &used);
    r = r < 0 ? r : flatten(user, user->n_files, &used.source, &used.message, user->reterr);
    if (r < 0) {
        return r;
    }
    drop_own(used.message, true);
    free(used.message->name);
    used.message->name = NULL;
    merge->from = &used.source;
    r = merge_fields(merge, &into->base, &used.message->base, &user->message->base);
    merge->from = NULL;
    return r;
}

/* In the place of the message the one that all together come to. */
static int flatten(const struct user *by, unsigned *n_files, struct source *source, Immure__Policy **message,
                   struct err *reterr)
{
    struct user user = {.by = by, .message = *message, .source = source, .reterr = reterr};
    user.n_files = n_files;
    if (user.message->n_use == 0) {
        return user.message->without ? source_fail(source, "without", reterr, "needs `use`") : 0;
    }
    CLEANUP(source_free) struct source flat = {.name = source->name, .errors = source->errors};
    CLEANUP(builder_close) struct builder into = BUILDER_INIT;
    const char *rlimits[WITHOUT_MAX];
    struct left_out out[N_OUT] = {0};
    struct merge merge = {.user = &user, .flat = &flat, .out = out};
    int r = builder_open(&immure__policy__descriptor, &into) < 0 ? fail_memory(&user) : 0;
    r = r < 0 ? r : list_left_out(&user, rlimits, out);
    for (; r == 0 && user.index < user.message->n_use; user.index++) {
        r = add_used(&user, &merge, (Immure__Policy *)into.message);
        if (r < 0 && source->errors) {
            source->errors->incomplete = true;
            r = source_go_on(source, reterr, r);
        }
    }
    r = r == 0 && source->errors && source->errors->incomplete ? -EINVAL : r;
    r = r < 0 ? r : check_left_out(&user, out);
    if (r < 0) {
        return r;
    }
    merge.from = source;
    merge.out = NULL;
    drop_own(*message, false);
    r = merge_fields(&merge, into.message, &(*message)->base, NULL);
    if (r < 0) {
        return r;
    }
    immure__policy__free_unpacked(*message, NULL);
    *message = (Immure__Policy *)builder_take(&into);
    source_free(source);
    *source = flat;
    flat = SOURCE_NAMED(source->name);
    return 0;
}

int policy_use(struct source *source, Immure__Policy **message, struct buf *ret_text, struct err *reterr)
{
    unsigned n_files = 0;
    bool alone = (*message)->n_use == 0;
    int r = flatten(NULL, &n_files, source, message, reterr);
    if (r == 0 && !alone) {
        textformat_print(&(*message)->base, ret_text);
        r = ret_text->failed ? err_errno(reterr, ENOMEM, "while reading %s", source->name) : 0;
    }
    return r;
}
