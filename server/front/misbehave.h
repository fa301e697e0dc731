/* A front that turns against the warden and the host, on request: in test builds only (make HOOKS=1). */
#pragma once

struct request;

/* POST /misbehave {"how": "fork"}: does it, and answers with the error that it met, if it still can. */
void handle_misbehave(struct request *request);
