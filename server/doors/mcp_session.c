/* Session ids that prove themselves. Runs in the front.
 *
 * A front is replaced at every reload, and after a crash; sessions must outlive it, since clients take an
 * unknown one for the end of everything. So an id is a random half and a half that is derived from it and the
 * hash of the caller's key: any front can tell whether it was issued to that key. It carries no right at all:
 * every request still shows its key. */
#include "server/doors/mcp_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "server/callers/auth.h"

#define HALF_DIGITS ((MCP_SESSION_BYTES - 1) / 2)
#define ENDED_MAX   1024

struct mcp_sessions {
    size_t n, next; /* of a ring */
    char ended[ENDED_MAX][MCP_SESSION_BYTES];
};

struct mcp_sessions *mcp_sessions_new(void)
{
    return calloc(1, sizeof(struct mcp_sessions));
}

void mcp_sessions_free(struct mcp_sessions *sessions)
{
    free(sessions);
}

/* The second half, of which the first is at `id`. */
static void derive(const struct caller *caller, const char *id, char ret[HALF_DIGITS + 1])
{
    struct {
        char purpose[16], half[HALF_DIGITS];
        unsigned char key[KEY_HASH_BYTES];
    } input = {.purpose = "immure mcp 1"};
    char hex[SHA256_HEX];
    memcpy(input.half, id, HALF_DIGITS);
    if (caller->key) {
        memcpy(input.key, caller->key->sha256, sizeof input.key);
    }
    sha256_hex_of(&input, sizeof input, hex);
    memcpy(ret, hex, HALF_DIGITS);
    ret[HALF_DIGITS] = '\0';
}

void mcp_session_issue(const struct caller *caller, char ret[MCP_SESSION_BYTES])
{
    unsigned char random[HALF_DIGITS / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        abort(); /* which getrandom(2) rules out; see ident.c */
    }
    for (size_t i = 0; i < sizeof random; i++) {
        sprintf(ret + 2 * i, "%02x", random[i]);
    }
    derive(caller, ret, ret + HALF_DIGITS);
}

bool mcp_session_is_valid(const struct mcp_sessions *sessions, const struct caller *caller, const char *id)
{
    char half[HALF_DIGITS + 1];
    if (strlen(id) != MCP_SESSION_BYTES - 1 || strspn(id, "0123456789abcdef") != MCP_SESSION_BYTES - 1) {
        return false;
    }
    for (size_t i = 0; i < sessions->n; i++) {
        if (strcmp(sessions->ended[i], id) == 0) {
            return false;
        }
    }
    derive(caller, id, half);
    return secure_equal(half, id + HALF_DIGITS, HALF_DIGITS);
}

void mcp_session_end(struct mcp_sessions *sessions, const char *id)
{
    snprintf(sessions->ended[sessions->next], MCP_SESSION_BYTES, "%s", id);
    sessions->next = (sessions->next + 1) % ENDED_MAX;
    sessions->n += sessions->n < ENDED_MAX;
}
