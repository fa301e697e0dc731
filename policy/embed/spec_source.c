/* Writes a policy's spec as an initializer in C. Part of the tool that runs while the program is built.
 *
 * What must hold: every field is written, and reads back as the value it had, but for positions in the file
 * and waivers: no error is left to be found there, and lint reads the text. Hosts have no place in what is
 * shipped (embed.c).
 * tests/unit/policy/test_embedded.c holds the result to the policy's text. What is zero is left out. */
#include "policy/embed/spec_source.h"

#include <inttypes.h>
#include <stdio.h>

#include "config/policy/policy_file.h"

_Static_assert(sizeof(struct policy_spec) == 528 && sizeof(struct policy_mount) == 88 &&
                   sizeof(struct seccomp_rule) == 104 && sizeof(struct seccomp_condition) == 24 &&
                   sizeof(struct policy_rlimit) == 40 && sizeof(struct policy_limits) == 80,
               "a field has come or gone: see that it is written below, then correct the size");

#define PUT_TEXT(of, field)   put_text(#field, (of)->field)
#define PUT_NUMBER(of, field) put_number(#field, (of)->field)
#define PUT_TEXTS(of, field)  put_texts(#field, "n_" #field, (of)->field, (of)->n_##field)

static void put_bytes(const char *data, size_t size)
{
    putchar('"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '?';
        printf(plain ? "%c" : "\\%03o", c);
    }
    putchar('"');
}

static void put_literal(const char *text)
{
    size_t size = 0;
    while (text[size]) {
        size++;
    }
    put_bytes(text, size);
}

static void put_text(const char *field, const char *text)
{
    if (text) {
        printf(".%s = ", field);
        put_literal(text);
        printf(", ");
    }
}

static void put_number(const char *field, uint64_t value)
{
    if (value) {
        printf(".%s = %" PRIu64 "u, ", field, value);
    }
}

static void put_texts(const char *field, const char *count, char *const *texts, size_t n)
{
    if (n == 0) {
        return;
    }
    printf(".%s = (char *[]){", field);
    for (size_t i = 0; i < n; i++) {
        put_literal(texts[i]);
        printf(", ");
    }
    printf("}, .%s = %zu,\n", count, n);
}

static void put_mount(const struct policy_mount *mount)
{
    printf("    {");
    PUT_NUMBER(mount, kind);
    PUT_TEXT(mount, destination);
    PUT_TEXT(mount, source);
    PUT_NUMBER(mount, recursive);
    PUT_NUMBER(mount, size_bytes);
    PUT_NUMBER(mount, inodes);
    PUT_NUMBER(mount, mode);
    PUT_NUMBER(mount, subset_pid);
    PUT_NUMBER(mount, hidepid);
    if (mount->content) {
        printf(".content = ");
        put_bytes(mount->content, mount->content_size);
        printf(", ");
    }
    PUT_NUMBER(mount, content_size);
    PUT_NUMBER(mount, read_only);
    PUT_NUMBER(mount, allow_devices);
    PUT_NUMBER(mount, no_exec);
    PUT_NUMBER(mount, optional);
    printf("},\n");
}

static void put_conditions(const struct seccomp_rule *rule)
{
    if (rule->n_conditions == 0) {
        return;
    }
    printf(".conditions = (struct seccomp_condition[]){");
    for (size_t i = 0; i < rule->n_conditions; i++) {
        printf("{");
        PUT_NUMBER(&rule->conditions[i], arg);
        PUT_NUMBER(&rule->conditions[i], op);
        PUT_NUMBER(&rule->conditions[i], value);
        PUT_NUMBER(&rule->conditions[i], mask);
        printf("}, ");
    }
    printf("}, .n_conditions = %zu,\n", rule->n_conditions);
}

static void put_rule(const struct seccomp_rule *rule)
{
    printf("    {");
    PUT_NUMBER(rule, action);
    PUT_TEXTS(rule, syscalls);
    PUT_TEXTS(rule, sets);
    PUT_TEXT(rule, errno_name);
    put_conditions(rule);
    PUT_TEXT(rule, reason);
    PUT_NUMBER(rule, number);
    PUT_TEXT(rule, where);
    printf("},\n");
}

static void put_lists(const struct policy_spec *spec)
{
    printf(".mounts = (struct policy_mount[]){\n");
    for (size_t i = 0; i < spec->n_mounts; i++) {
        put_mount(&spec->mounts[i]);
    }
    printf("}, .n_mounts = %zu,\n.env = (struct policy_env[]){\n", spec->n_mounts);
    for (size_t i = 0; i < spec->n_env; i++) {
        printf("    {");
        PUT_TEXT(&spec->env[i], name);
        PUT_TEXT(&spec->env[i], value);
        printf("},\n");
    }
    printf("    {0}}, .n_env = %zu,\n.rules = (struct seccomp_rule[]){\n", spec->n_env);
    for (size_t i = 0; i < spec->n_rules; i++) {
        put_rule(&spec->rules[i]);
    }
    printf("    {0}}, .n_rules = %zu,\n.rlimits = (struct policy_rlimit[]){\n", spec->n_rules);
    for (size_t i = 0; i < spec->n_rlimits; i++) {
        printf("    {");
        PUT_NUMBER(&spec->rlimits[i], resource);
        PUT_NUMBER(&spec->rlimits[i], soft);
        PUT_NUMBER(&spec->rlimits[i], hard);
        printf("},\n");
    }
    printf("    {0}}, .n_rlimits = %zu,\n", spec->n_rlimits);
}

static void put_limits(const struct policy_limits *limits)
{
    printf(".limits = {");
    PUT_NUMBER(limits, memory_bytes);
    PUT_NUMBER(limits, pids);
    PUT_NUMBER(limits, cpu_percent);
    PUT_NUMBER(limits, cpu_ms);
    PUT_NUMBER(limits, scratch_bytes);
    PUT_NUMBER(limits, scratch_inodes);
    PUT_NUMBER(limits, output_bytes);
    PUT_NUMBER(limits, timeout_ms);
    PUT_NUMBER(limits, output_files);
    PUT_NUMBER(limits, output_file_bytes);
    PUT_NUMBER(limits, address_space);
    PUT_NUMBER(limits, file_locks);
    printf("},\n");
}

void spec_source_put(const struct policy_spec *spec)
{
    printf("{");
    PUT_TEXT(spec, name);
    PUT_TEXT(spec, description);
    PUT_TEXT(spec, hostname);
    PUT_NUMBER(spec, uid);
    PUT_NUMBER(spec, gid);
    PUT_NUMBER(spec, namespaces);
    PUT_NUMBER(spec, loopback);
    PUT_TEXTS(spec, capabilities);
    put_lists(spec);
    PUT_TEXTS(spec, env_allow);
    PUT_TEXT(spec, working_directory);
    PUT_NUMBER(spec, umask);
    PUT_NUMBER(spec, state);
    PUT_NUMBER(spec, approval);
    PUT_NUMBER(spec, store_bypass);
    PUT_NUMBER(spec, indirect_branch);
    PUT_NUMBER(spec, core_sharing);
    PUT_TEXTS(spec, preload);
    PUT_TEXT(spec, interpreter);
    PUT_TEXT(spec, image);
    PUT_TEXTS(spec, images);
    PUT_NUMBER(spec, has_seccomp);
    PUT_NUMBER(spec, seccomp_default);
    PUT_TEXT(spec, seccomp_default_errno);
    PUT_TEXTS(spec, architectures);
    put_limits(&spec->limits);
    PUT_TEXT(spec, sha256);
    PUT_TEXT(spec, origin);
    printf("}");
}
