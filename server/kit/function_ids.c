/* The ids of a request's functions. Runs in the front. Sorted once, so that a call is looked up in little
 * time however many there are; their number is bounded, and so is the time to sort them. */
#include "server/kit/function_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "jail/base/err.h"

static int add(struct function_ids *ids, const char *id, struct err *reterr)
{
    if (ids->n == FUNCTION_IDS_MAX) {
        return err_set(reterr, ERR_INVALID, EINVAL, "options", "options: must hold at most %u functions",
                       FUNCTION_IDS_MAX);
    }
    if ((ids->n & (ids->n - 1)) == 0) { /* full: its room is a power of two */
        char **more = reallocarray(ids->ids, ids->n ? 2 * ids->n : 1, sizeof *more);
        if (!more) {
            return err_errno(reterr, ENOMEM, "reading a request");
        }
        ids->ids = more;
    }
    ids->ids[ids->n] = strdup(id);
    if (!ids->ids[ids->n]) {
        return err_errno(reterr, ENOMEM, "reading a request");
    }
    ids->n++;
    return 0;
}

int function_ids_collect(struct function_ids *ids, const struct json *value, struct err *reterr)
{
    enum json_type type = json_type_of(value);
    if (type != JSON_ARRAY && type != JSON_OBJECT) {
        return 0;
    }
    const char *named = type == JSON_OBJECT ? json_string(json_get(value, "$type")) : NULL;
    if (named && (strcmp(named, "function") == 0 || strcmp(named, "promise") == 0)) {
        return add(ids, json_string(json_get(value, "id")), reterr);
    }
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        int r = function_ids_collect(ids, member, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void function_ids_seal(struct function_ids *ids)
{
    if (ids->n > 0) {
        qsort(ids->ids, ids->n, sizeof *ids->ids, compare);
    }
}

bool function_ids_has(const struct function_ids *ids, const char *id)
{
    return ids->n > 0 && bsearch(&id, ids->ids, ids->n, sizeof *ids->ids, compare);
}

void function_ids_clear(struct function_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        free(ids->ids[i]);
    }
    free(ids->ids);
    *ids = (struct function_ids){0};
}
