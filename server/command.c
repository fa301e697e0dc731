/* What the sub-commands share. Runs in the process of the command line. */
#include "server/command.h"

#include <stdio.h>
#include <string.h>

#include "jail/base/err.h"

/* Appends "PART: " unless the sentence names that part already. */
static void add_part(char *ret, size_t size, const char *part, const char *sentence)
{
    if (part[0] == '\0' || strstr(sentence, part)) {
        return;
    }
    size_t used = strlen(ret);
    snprintf(ret + used, size - used, "%s: ", part);
}

void command_sentence(const struct err *err, char *ret, size_t size)
{
    ret[0] = '\0';
    add_part(ret, size, err->step, err->text);
    add_part(ret, size, err->item, err->text);
    size_t used = strlen(ret);
    snprintf(ret + used, size - used, "%s", err->text);
}

int command_fail(const char *command, const struct err *err, int code)
{
    char sentence[1024];
    command_sentence(err, sentence, sizeof sentence);
    fprintf(stderr, "immure %s: %s\n", command, sentence);
    return code;
}
