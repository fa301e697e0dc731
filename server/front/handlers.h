/* What the routes do. Each answers its request, now or later. */
#pragma once

#include <stdbool.h>

struct msg_session_query;
struct body_reading;
struct request;

/* What the body says. Answers and returns NULL where it is no JSON, or no request of its door. */
struct body_reading *read_body(struct request *request);

void handle_job_start(struct request *request);
/* The first part of it: answers and returns false where the job is refused before anybody else looks at it.
 */
bool handlers_check_job(struct request *request);
/* The session that the path names, which is its first part behind the route's. Answers and returns false
 * where it is none's name. */
bool handlers_read_session_id(struct request *request, struct msg_session_query *query);
void handle_terminate(struct request *request);
void handle_answers(struct request *request);
void handle_sessions(struct request *request);
void handle_session_end(struct request *request);
void handle_session_files(struct request *request);
void handle_session_file(struct request *request);
void handle_session_file_put(struct request *request);
void handle_session_file_delete(struct request *request);
void handle_session_fork(struct request *request);
void handle_session_diff(struct request *request);
void handle_session_restore(struct request *request);
void handle_approvals(struct request *request);
void handle_approval(struct request *request);
void handle_approval_decision(struct request *request);
void handle_jobs(struct request *request);
void handle_job(struct request *request);
void handle_job_end(struct request *request);
void handle_healthz(struct request *request);
void handle_readyz(struct request *request);
void handle_openapi(struct request *request);
void handle_metrics(struct request *request);
/* server/front/console.c */
void handle_root(struct request *request);
void handle_console(struct request *request);
void handle_console_place(struct request *request);
/* server/front/door_mcp.c */
void handle_mcp(struct request *request);
void handle_mcp_end(struct request *request);
/* server/front/librechat.c */
void handle_librechat_exec(struct request *request);
void handle_librechat_upload(struct request *request);
void handle_librechat_upload_batch(struct request *request);
void handle_librechat_files(struct request *request);
void handle_librechat_file(struct request *request);
void handle_librechat_download(struct request *request);
