/* Copies of sessions as JSON. Runs in the front. Which sessions there are is not known here. */
#include "server/doors/branch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/unknown_name.h"

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

/* The only member that the body may have. */
static int read_member(const struct json *root, const char *name, const struct json **ret, struct err *reterr)
{
    if (json_type_of(root) != JSON_OBJECT) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the body must be an object");
    }
    int r = known_members(root, "field", "", &name, 1, ret, reterr);
    return r < 0 || *ret ? r : bad(reterr, name, "is required");
}

static int read_name(const struct json *value, const char *field, struct msg_session_query *ret,
                     struct err *reterr)
{
    const char *name = json_string(value);
    if (!name || !session_id_is_valid(name)) {
        return bad(reterr, field, SESSION_ID_RULE);
    }
    for (size_t i = 0; i < ret->n_others; i++) {
        if (strcmp(ret->others[i].session_id, name) == 0) {
            return bad(reterr, field, "the name is there twice");
        }
    }
    memcpy(ret->others[ret->n_others++].session_id, name, strlen(name) + 1);
    return 0;
}

int fork_decode(const struct json *root, struct msg_session_query *ret, struct err *reterr)
{
    const struct json *to = NULL;
    int r = read_member(root, "to", &to, reterr);
    if (r < 0) {
        return r;
    }
    size_t n = json_count(to), i = 0;
    if (json_type_of(to) != JSON_ARRAY || n == 0 || n > SESSION_OTHERS_MAX) {
        return bad(reterr, "to", "must be an array of 1 to 16 session ids");
    }
    for (const struct json *at = json_first(to); at && r == 0; at = json_next(at)) {
        char field[32];
        snprintf(field, sizeof field, "to[%zu]", i++);
        r = read_name(at, field, ret, reterr);
    }
    return r;
}

int restore_decode(const struct json *root, struct msg_session_query *ret, struct err *reterr)
{
    const struct json *from = NULL;
    int r = read_member(root, "from", &from, reterr);
    return r < 0 ? r : read_name(from, "from", ret, reterr);
}
