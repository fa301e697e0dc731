/* Why a caller ends a job: text from a query or a body. Runs in the front. */
#include "server/jobs/reason.h"

#include <string.h>

#include "config/format/hex_digit.h"
#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/http/http.h"
#include "server/jobs/body.h"
#include "server/jobs/request.h"

bool reason_decode_percent(const char *text, size_t length, bool plus_is_blank, char *ret, size_t size)
{
    size_t n = 0;
    const char *end = text + length;
    for (; text < end && n + 1 < size; text++) {
        char c = *text == '+' && plus_is_blank ? ' ' : *text;
        if (c == '%') {
            int high = end - text > 2 ? hex_digit(text[1]) : -1, low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0 || high + low == 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            text += 2;
        }
        ret[n++] = c;
    }
    ret[n] = '\0';
    return text == end;
}

/* {"reason": "..."} */
static bool read_reason_body(struct request *request, char ret[REASON_BYTES])
{
    const struct body_reading *body = body_of(request);
    const struct json *root = body->doc ? json_root(body->doc) : NULL;
    const struct json *reason = json_get(root, "reason");
    if (json_type_of(root) != JSON_OBJECT || json_count(root) != (reason ? 1 : 0)) {
        return false;
    }
    if (!json_given(reason)) {
        return true;
    }
    if (json_type_of(reason) != JSON_STRING || json_string_length(reason) > REASON_BYTES - 1) {
        return false;
    }
    memcpy(ret, json_string(reason), json_string_length(reason) + 1);
    return true;
}

bool reason_read(struct request *request, char ret[REASON_BYTES])
{
    const struct buf *body = http_body(request->http);
    const char *argument = http_argument(request->http, "reason");
    ret[0] = '\0';
    bool valid = body->len > 0 ? !argument && read_reason_body(request, ret)
                               : !argument || reason_decode_percent(argument, strlen(argument), true, ret,
                                                                    REASON_BYTES);
    if (!valid) {
        request_refuse(
            request, ERROR_BAD_FIELD,
            "reason: must be a string of at most 512 bytes, in the query or alone in the body's object",
            "reason");
    }
    return valid;
}
