/* Approvals: the body of a decision, a submission and the rows that the warden tells. The first byte says
 * which: 'd', 's', anything else. What is accepted is what an honest peer would have written, byte for byte,
 * and a submission's files lie within its input. */
#include <errno.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/approval.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/approval.h"
#include "tests/fuzz/fuzz.h"

static void require_json(const struct buf *written)
{
    struct json_doc *doc = NULL;
    REQUIRE(!written->failed && json_parse(written->data, written->len, &doc, NULL) == 0);
    REQUIRE(json_type_of(json_root(doc)) == JSON_OBJECT);
    json_free(doc);
}

static void decision(const uint8_t *data, size_t size)
{
    struct json_doc *doc = NULL;
    struct err err = {0};
    bool approve = false;
    char reason[APPROVAL_REASON_BYTES];
    int r = json_parse((const char *)data, size, &doc, &err);
    if (r < 0) {
        fuzz_require_json_refusal((struct expected_refusal){r, &err, data, size});
        return;
    }
    r = approval_decision_decode(json_root(doc), &approve, reason, &err);
    if (r < 0) {
        REQUIRE(err.kind == ERR_INVALID && err.text[0] != '\0');
    } else {
        const char *word = json_string(json_get(json_root(doc), "decision"));
        REQUIRE(strcmp(word, approve ? "approve" : "reject") == 0);
        REQUIRE(strlen(reason) < sizeof reason);
    }
    json_free(doc);
}

static void submission(const uint8_t *data, size_t size)
{
    CLEANUP(submission_clear) struct submission submission = {0};
    CLEANUP(buf_free) struct buf again = BUF_INIT, written = BUF_INIT;
    struct err err = {0};
    if (submission_decode(data, size, &submission, &err) < 0) {
        REQUIRE(err.kind == ERR_INVALID && err.text[0] != '\0' && !submission.job);
        return;
    }
    const struct job *job = submission.job;
    REQUIRE(job->id == 0 && job->code_size > 0 && job->code_size <= submission.input_size);
    for (size_t i = 0; i < job->n_files; i++) {
        REQUIRE(job->files[i].offset >= job->code_size);
        REQUIRE(job->files[i].offset + job->files[i].size <= submission.input_size);
    }
    REQUIRE(submission_encode(&submission, &again) == 0);
    REQUIRE(again.len == size && memcmp(again.data, data, size) == 0);
    const struct approval approval = {.state = APPROVAL_PENDING};
    approval_write_one(&approval, &submission, &written);
    require_json(&written);
}

static void rows(const uint8_t *data, size_t size)
{
    CLEANUP(approval_rows_clear) struct approval_rows rows = {0};
    CLEANUP(buf_free) struct buf again = BUF_INIT, written = BUF_INIT;
    struct err err = {0};
    if (approval_rows_decode(data, size, &rows, &err) < 0) {
        REQUIRE(err.kind == ERR_INVALID && err.text[0] != '\0' && !rows.rows);
        return;
    }
    for (size_t i = 0; i < rows.n; i++) {
        REQUIRE(approval_id_is_valid(rows.rows[i].id) && rows.rows[i].state < APPROVAL_STATE_COUNT);
        REQUIRE(rows.rows[i].code_size <= sizeof rows.rows[i].code);
    }
    REQUIRE(approval_rows_encode(&rows, &again) == 0);
    REQUIRE(again.len == size && (size == 0 || memcmp(again.data, data, size) == 0));
    approval_write_list(&rows, &written);
    require_json(&written);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    switch (data[0]) {
    case 'd':
        decision(data + 1, size - 1);
        break;
    case 's':
        submission(data + 1, size - 1);
        break;
    default:
        rows(data + 1, size - 1);
    }
}
