/* What replies a caller takes. Runs in the front, on a header that anybody can send. */
#include "server/kit/accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* True if one of the parameters up to the next item is a weight of zero: "q=0", "q=0.000". */
static bool is_unwanted(const char *parameters)
{
    const char *end = parameters + strcspn(parameters, ",");
    for (const char *at = parameters; at < end && *at == ';'; at += strcspn(at, ";,")) {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, "q=", 2) == 0) {
            at += 2;
            size_t zeros = strspn(at, "0.");
            return zeros > 0 && strchr(";, \t", at[zeros]) != NULL;
        }
    }
    return false;
}

bool accept_lists(const char *accept, const char *type)
{
    for (const char *item = accept; item && *item; item += strcspn(item, ",") + (strchr(item, ',') != NULL)) {
        item += strspn(item, " \t");
        size_t length = strcspn(item, ",; \t");
        const char *parameters = item + length + strspn(item + length, " \t");
        if (length == strlen(type) && strncasecmp(item, type, length) == 0 && !is_unwanted(parameters)) {
            return true;
        }
    }
    return false;
}
