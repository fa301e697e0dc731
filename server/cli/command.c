/* What the sub-commands share. Runs in the process of the command line. */
#include "server/cli/command.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/sentence.h"

/* What an operator can do where a system call fails that nobody's input is to blame for. */
static const struct {
    int code;
    const char *remedy;
} remedies[] = {
    {EMFILE, "the limit of open files is too low: " SENTENCE_RAISE_OPEN_FILES},
    {ENFILE, "the host has too many open files: raise fs.file-max (sysctl)"},
    {ENOMEM, "give it more memory (systemd: MemoryMax=, containers: --memory=, shells: ulimit -v)"},
    {EAGAIN, "it may need more processes (systemd: TasksMax=, containers: --pids-limit=, shells: ulimit -u)"},
    {ENOSYS, "this kernel, or a filter around us, has no such call: `immure check` says what is missing"},
    {EPERM, "something around us forbids it: `immure check` says what"},
};

static const char *remedy_of(const struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(remedies) && err->kind == ERR_INTERNAL; i++) {
        if (remedies[i].code == err->code) {
            return remedies[i].remedy;
        }
    }
    return NULL;
}

int command_fail(const char *command, const struct err *err, int code)
{
    char sentence[SENTENCE_BYTES];
    sentence_of(err, sentence);
    const char *remedy = remedy_of(err);
    fprintf(stderr, "immure %s: %s%s%s\n", command, sentence, remedy ? "; " : "", remedy ? remedy : "");
    return code;
}

int command_usage(int argc, char **argv, const char *usage)
{
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    fputs(usage, help ? stdout : stderr);
    return help ? EXIT_CODE_OK : EXIT_CODE_USAGE;
}
