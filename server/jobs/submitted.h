/* struct submission, a job that waits for approval: from the request that asks for it, and back. */
#pragma once

struct err;
struct execute_request;
struct request;
struct server_config;
struct submission;

/* A sealed file for the warden, which takes nothing that could still change. ERR_TOO_LARGE, ERR_BUSY,
 * ERR_INVALID. */
int submitted_pack(const struct request *request, const struct execute_request *execute, int *ret_fd,
                   struct err *reterr);
int submitted_read(int fd, struct submission *ret, struct err *reterr);
/* The request as its door had made it. `ret` is the caller's to clear, on failure too. */
int submitted_unpack(const struct server_config *config, struct submission *submission,
                     struct execute_request *ret, struct err *reterr);
