/* What another front asks about jobs that go on here. Runs in the front that was replaced, which answers as
 * if the request had come to it. The warden says for which key. */
#include "server/front/relayed.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/answers.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/relays.h"

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

static int answer_calls(const struct front *front, const struct key_config *key, const char *execution_id,
                        int fd, struct buf *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    CLEANUP(freep) struct answer *answers = NULL;
    size_t n;
    int r = fd < 0 ? err_set(reterr, ERR_BUSY, EMFILE, NULL, "server busy: no descriptor is free")
                   : relay_read(fd, &text, reterr);
    r = r < 0 ? r : json_parse(text.data ? text.data : "", text.len, &doc, reterr);
    r = r < 0 ? r : answers_decode(json_root(doc), &answers, &n, reterr);
    return r < 0 ? r
                 : dispatch_answer(front->dispatch, key, execution_id, text.data, answers, n, ret, reterr);
}

/* The key of that name is still the one that was shown. */
static bool is_ours(const struct server_config *config, const struct msg_relay *relay,
                    const struct key_config **ret)
{
    static const unsigned char none[SHA256_BYTES];
    *ret = server_config_key(config, relay->key);
    return *ret ? secure_equal((*ret)->sha256, relay->key_sha256, sizeof relay->key_sha256)
                : config->open && memcmp(relay->key_sha256, none, sizeof none) == 0;
}

static int handle(const struct front *front, const struct msg_relay *relay, int fd, struct buf *ret,
                  struct err *reterr)
{
    struct dispatch *dispatch = front->dispatch;
    const struct key_config *key;
    bool known = false;
    if (!is_ours(front->config, relay, &key)) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such job runs");
    }
    if (relay->what == RELAY_ANSWERS) {
        return answer_calls(front, key, relay->about, fd, ret, reterr);
    }
    if (relay->what == RELAY_TERMINATE) {
        known = dispatch_end_runs(dispatch, key, relay->about, *relay->reason ? relay->reason : NULL);
    } else {
        known = dispatch_write_calls(dispatch, key, relay->about, ret);
    }
    return known ? 0 : err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such job runs");
}

int relayed_ask(const struct front *front, const struct msg_relay *relay, int fd)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT;
    struct msg_relay_answer answer = {.id = relay->id};
    struct err err = {0};
    int r = handle(front, relay, fd, &body, &err);
    if (r == 0 && body.len > RELAY_BODY_MAX) {
        r = err_set(&err, ERR_TOO_LARGE, EFBIG, NULL, "the reply is too large to be passed on");
    }
    if (r < 0) {
        buf_free(&body);
        body = BUF_INIT;
        answer.kind = err.kind;
        memcpy(answer.item, err.item, sizeof answer.item);
        memcpy(answer.text, err.text, sizeof answer.text);
    }
    return relays_reply(front->relays, &answer, &body);
}
