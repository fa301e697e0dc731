/* What replies a caller takes. Runs in the front, on a header that anybody can send. */
#include "server/accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

bool accept_lists(const char *accept, const char *type)
{
    for (const char *item = accept; item && *item; item += strcspn(item, ",") + (strchr(item, ',') != NULL)) {
        item += strspn(item, " \t");
        size_t length = strcspn(item, ",; \t");
        if (length == strlen(type) && strncasecmp(item, type, length) == 0) {
            return true;
        }
    }
    return false;
}
