/* From a request's body to what it says. Runs in the front: small bodies in its loop, large ones in the
 * decoder's thread. (Of what both run at the same time, only cJSON has a variable in common: the place of the
 * last error, which nobody reads.) */
#include "server/jobs/body.h"

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

void body_read(const struct door *door, const char *text, size_t size, const struct server_config *config,
               struct body_reading *ret)
{
    *ret = BODY_READING_NONE;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    if (json_parse(text, size, &doc, &ret->err) < 0) {
        ret->outcome = BODY_NOT_JSON;
    } else if (!door || !door->decode) {
        ret->doc = TAKE_PTR(doc);
    } else if (door->decode(json_root(doc), text, size, config, &ret->execute, &ret->err) < 0) {
        ret->outcome = BODY_REFUSED;
    }
}

void body_clear(struct body_reading *reading)
{
    json_free(TAKE_PTR(reading->doc));
    execute_request_clear(&reading->execute);
}

struct body_reading *body_of(struct request *request)
{
    const struct buf *body = http_body(request->http);
    if (!request->body_is_read) {
        request->body_is_read = true;
        body_read(request->door, body->data ? body->data : "", body->len, request->front->config,
                  &request->body);
    }
    return &request->body;
}
