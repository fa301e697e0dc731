/* What lies beside a session's workspace on disk. Runs in the warden, which alone writes there; read all the
 * same as if anybody had. */
#include "config/message/stored_session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/message/session.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

int stored_session_write(const struct stored_session *session, struct buf *ret)
{
    char hex[SHA256_HEX];
    sha256_to_hex(session->owner, hex);
    buf_puts(ret, "session_id: \"");
    for (const char *c = session->id; *c; c++) {
        buf_printf(ret, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c); /* there are no controls */
    }
    return buf_printf(ret, "\"\nkey_sha256: \"%s\"\ncreated_ms: %" PRIu64 "\n", hex, session->created_ms);
}

static void message_freep(Immure__StoredSession **message)
{
    immure__stored_session__free_unpacked(*message, NULL);
}

int stored_session_read(const char *file, const char *text, size_t size, struct stored_session *ret,
                        struct err *reterr)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED(file);
    CLEANUP(message_freep) Immure__StoredSession *message = NULL;
    ProtobufCMessage *parsed;
    int r = protofile_decode(&immure__stored_session__descriptor, &source, text, size, &parsed, reterr);
    if (r < 0) {
        return r;
    }
    message = (Immure__StoredSession *)parsed;
    struct stored_session session = {.created_ms = message->created_ms};
    if (!session_id_is_valid(message->session_id)) {
        return source_fail(&source, "session_id", reterr, "is no name of a session");
    }
    if (sha256_from_hex(message->key_sha256, session.owner) < 0) {
        return source_fail(&source, "key_sha256", reterr, "must be %d hexadecimal digits", SHA256_HEX - 1);
    }
    memcpy(session.id, message->session_id, strlen(message->session_id) + 1);
    *ret = session;
    return 0;
}
