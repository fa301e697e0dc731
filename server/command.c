/* What the sub-commands share. Runs in the process of the command line. */
#include "server/command.h"

#include <stdio.h>

#include "server/sentence.h"

int command_fail(const char *command, const struct err *err, int code)
{
    char sentence[SENTENCE_BYTES];
    sentence_of(err, sentence);
    fprintf(stderr, "immure %s: %s\n", command, sentence);
    return code;
}
