/* An import: a text is read into a draft, which is written as a policy and then has to load. Runs in the
 * command line. The texts may come from anybody. */
#include "policy/import/import.h"

#include <errno.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/write.h"
#include "policy/policy.h"

static const struct import_format formats[] = {
    {"nsjail", "nsjail's configuration, or Kafel", import_nsjail},
    {"oci", "the seccomp part of an OCI runtime's config.json", import_oci},
    {"docker", "Docker's profiles", import_oci},
    {"systemd", "service units", import_systemd},
    {"minijail", "minijail's policy files", import_minijail},
};

const struct import_format *import_format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

/* What was written has to be a policy. */
static int check(const struct import_request *request, const struct buf *text, struct err *reterr)
{
    struct policy_spec *spec = NULL;
    struct policy *policy = NULL;
    struct err err = {0};
    int r = policy_spec_decode_text("policy", text->data, text->len, &spec, &err);
    r = r < 0 ? r : policy_compile(spec, &policy, &err);
    policy_free(policy);
    return r < 0 ? err_set(reterr, ERR_CONFIG, 0, request->path, "what it says makes no policy: %.400s",
                           err.text)
                 : 0;
}

int policy_import(const struct import_request *request, struct buf *ret_text, struct buf *ret_notes,
                  struct err *reterr)
{
    CLEANUP(draft_free) struct draft draft = {.request = request};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf notes = BUF_INIT;
    if (memchr(request->text, '\0', request->size)) {
        return err_set(reterr, ERR_CONFIG, 0, request->path, "is no text: it has a NUL in it");
    }
    if (request->size > IMPORT_BYTES_MAX) {
        return err_set(reterr, ERR_CONFIG, 0, request->path, "has more than %u bytes", IMPORT_BYTES_MAX);
    }
    int r = request->format->read(&draft, reterr);
    r = r < 0 ? r : draft_write(&draft, &text, &notes, reterr);
    if (r < 0) {
        return r;
    }
    if (draft.too_many) {
        return err_set(reterr, ERR_CONFIG, 0, request->path, "has more in it than one policy could say");
    }
    if (draft.failed || text.failed || notes.failed) {
        return err_errno(reterr, ENOMEM, "importing a policy");
    }
    r = check(request, &text, reterr);
    if (r < 0) {
        return r;
    }
    buf_append(ret_text, text.data, text.len);
    buf_append(ret_notes, notes.data ? notes.data : "", notes.len);
    return ret_text->failed || ret_notes->failed ? err_errno(reterr, ENOMEM, "importing a policy") : 0;
}
