/* The configuration, the policies and the runtimes' preludes that are part of the binary: the files as they
 * are, put there by the assembler. Runs in every process that reads configuration; holds no state. The paths
 * are relative to the source root, where the compiler runs, or to where generated files lie. */
#include "config/shipped.h"

#include <string.h>

/* The rows are laid out by hand below. */
_Static_assert(offsetof(struct shipped_file, name) == 0 && offsetof(struct shipped_file, data) == 8 &&
                   offsetof(struct shipped_file, size) == 16 && sizeof(struct shipped_file) == 24,
               "struct shipped_file is not three 64-bit words");

/* One row of a table, and in read-only memory what it points to: the file's bytes, a NUL, the name. The
 * labels are local; "b" is the last one of that number before. */
#define FILE_ROW(name, path)                                                                                 \
    ".pushsection .rodata\n"                                                                                 \
    "1: .incbin \"" path "\"\n"                                                                              \
    "2: .byte 0\n"                                                                                           \
    "3: .asciz \"" name "\"\n"                                                                               \
    ".popsection\n"                                                                                          \
    ".8byte 3b, 1b, 2b - 1b\n"

#define PRELUDE_ROW(runtime, file) FILE_ROW(runtime "/" file, "jail/runtime/" runtime "/prelude/" file)

#define END_ROW ".8byte 0, 0, 0\n"

#define FILE_TABLE(symbol, rows)                                                                             \
    extern const struct shipped_file symbol[] __attribute__((visibility("hidden")));                         \
    __asm__(".pushsection .data.rel.ro,\"aw\"\n"                                                             \
            ".balign 8\n"                                                                                    \
            ".global " #symbol "\n"                                                                          \
            ".hidden " #symbol "\n" #symbol ":\n" rows END_ROW ".popsection\n")

FILE_TABLE(shipped_server_table, FILE_ROW("server", "config/server.textproto"));
#define POLICY_ROW(name) FILE_ROW(name, "config/policies/" name ".textproto")
#define PART_ROW(name)   FILE_ROW(name, "config/policies/parts/" name ".textproto")

FILE_TABLE(shipped_policy_table,
           POLICY_ROW("python") POLICY_ROW("python-kernel") POLICY_ROW("python-data") POLICY_ROW("strict")
               POLICY_ROW("node") POLICY_ROW("node-kernel") POLICY_ROW("isolate") POLICY_ROW("bash")
                   POLICY_ROW("command") POLICY_ROW("shell"));

FILE_TABLE(shipped_part_table,
           PART_ROW("debian") PART_ROW("cpython") PART_ROW("nodejs") PART_ROW("libc") PART_ROW("processes")
               PART_ROW("sockets") PART_ROW("egress") PART_ROW("scratch") PART_ROW("limits"));
FILE_TABLE(shipped_prelude_table,
           PRELUDE_ROW("python", "immure.pth") PRELUDE_ROW("python", "immure-prelude.py")
               PRELUDE_ROW("python", "immure-prelude.pyc") PRELUDE_ROW("python", "immure-bridge.py")
                   PRELUDE_ROW("python", "immure-install.py") PRELUDE_ROW("python", "immure-kernel.py")
                       PRELUDE_ROW("python", "immure-results.py") PRELUDE_ROW("node", "immure-results.cjs")
                           PRELUDE_ROW("node", "immure-launch.cjs") PRELUDE_ROW("node", "immure-prelude.cjs")
                               PRELUDE_ROW("node", "immure-install.cjs")
                                   PRELUDE_ROW("node", "immure-kernel.cjs")
                                       PRELUDE_ROW("isolate", "immure-isolate.cjs")
                                           PRELUDE_ROW("isolate", "immure-realm.js")
                                               PRELUDE_ROW("isolate", "immure-typescript.cjs"));

const struct shipped_file *shipped_server(void)
{
    return &shipped_server_table[0];
}

const struct shipped_file *shipped_policies(void)
{
    return shipped_policy_table;
}

static const struct shipped_file *find(const struct shipped_file *table, const char *name)
{
    for (const struct shipped_file *file = table; file->name; file++) {
        if (strcmp(file->name, name) == 0) {
            return file;
        }
    }
    return NULL;
}

const struct shipped_file *shipped_policy(const char *name)
{
    return find(shipped_policies(), name);
}

bool shipped_policy_is_for_servers(const struct shipped_file *policy)
{
    return strcmp(policy->name, "command") != 0 && strcmp(policy->name, "shell") != 0;
}

const struct shipped_file *shipped_parts(void)
{
    return shipped_part_table;
}

const struct shipped_file *shipped_part(const char *name)
{
    return find(shipped_parts(), name);
}

const struct shipped_file *shipped_prelude(const char *name)
{
    return find(shipped_prelude_table, name);
}
