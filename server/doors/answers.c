/* Answers to tool calls as JSON. Runs in the front. Which calls there are is not known here. */
#include "server/doors/answers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/unknown_name.h"
#include "server/kit/json_out.h"

enum member { MEMBER_ID, MEMBER_DATA, MEMBER_ERROR, MEMBERS };
static const char *const names[MEMBERS] = {"id", "data", "error"};

static int bad(struct err *reterr, size_t index, const char *member, const char *why)
{
    char field[64];
    snprintf(field, sizeof field, "[%zu]%s%s", index, *member ? "." : "", member);
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

static int decode(const struct json *item, size_t index, struct answer *ret, struct err *reterr)
{
    const struct json *members[MEMBERS];
    char prefix[64];
    snprintf(prefix, sizeof prefix, "[%zu].", index);
    if (json_type_of(item) != JSON_OBJECT) {
        return bad(reterr, index, "", "must be an object");
    }
    int r = known_members(item, "field", prefix, names, MEMBERS, members, reterr);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        if (members[i] && json_type_of(members[i]) != JSON_STRING) {
            return bad(reterr, index, names[i], "must be a string");
        }
    }
    if (json_string_length(members[MEMBER_ID]) == 0) {
        return bad(reterr, index, "id", "is required: the `id` of the call");
    }
    if (!members[MEMBER_DATA] == !members[MEMBER_ERROR]) {
        return bad(reterr, index, "", "must have either `data` or `error`");
    }
    bool failed = !members[MEMBER_DATA];
    *ret = (struct answer){json_string(members[MEMBER_ID]), failed,
                           members[failed ? MEMBER_ERROR : MEMBER_DATA]};
    return 0;
}

int answers_decode(const struct json *root, struct answer **ret, size_t *ret_n, struct err *reterr)
{
    size_t n = json_count(root), i = 0;
    if (json_type_of(root) != JSON_ARRAY) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the body must be an array of answers, not %s",
                       json_type_to_string(json_type_of(root)));
    }
    if (n > ANSWERS_MAX) {
        return err_set(reterr, ERR_INVALID, E2BIG, NULL, "the body must have at most %u answers, not %zu",
                       ANSWERS_MAX, n);
    }
    CLEANUP(freep) struct answer *answers = calloc(n + 1, sizeof *answers);
    if (!answers) {
        return err_errno(reterr, ENOMEM, "reading answers");
    }
    for (const struct json *item = json_first(root); item; item = json_next(item), i++) {
        int r = decode(item, i, &answers[i], reterr);
        if (r < 0) {
            return r;
        }
    }
    *ret = TAKE_PTR(answers);
    *ret_n = n;
    return 0;
}

void answer_write_refused(const char *id, struct buf *ret)
{
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "id", id);
    json_out_text(ret, "error", "no call with this id waits: it was answered, or has ended");
    buf_putc(ret, '}');
}
