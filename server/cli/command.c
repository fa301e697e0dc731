/* What the sub-commands share. Runs in the process of the command line. */
#include "server/cli/command.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/kit/sentence.h"

int command_fail(const char *command, const struct err *err, int code)
{
    char sentence[SENTENCE_BYTES];
    sentence_of(err, sentence);
    fprintf(stderr, "immure %s: %s\n", command, sentence);
    return code;
}

int command_usage(int argc, char **argv, const char *usage)
{
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    fputs(usage, help ? stdout : stderr);
    return help ? EXIT_CODE_OK : EXIT_CODE_USAGE;
}
