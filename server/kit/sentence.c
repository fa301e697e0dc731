/* One wording of errors for every process. Pure. */
#include "server/kit/sentence.h"

#include <stdio.h>
#include <string.h>

#include "jail/base/err.h"

/* Appends "PART: " unless the text names that part already. */
static void add_part(char ret[SENTENCE_BYTES], const char *part, const char *text)
{
    if (part[0] != '\0' && !strstr(text, part)) {
        size_t used = strlen(ret);
        snprintf(ret + used, SENTENCE_BYTES - used, "%s: ", part);
    }
}

void sentence_of(const struct err *err, char ret[SENTENCE_BYTES])
{
    ret[0] = '\0';
    add_part(ret, err->step, err->text);
    add_part(ret, err->item, err->text);
    size_t used = strlen(ret);
    snprintf(ret + used, SENTENCE_BYTES - used, "%s", err->text);
}
