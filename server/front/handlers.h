/* What the routes do. Each answers its request, now or later. */
#pragma once

struct request;

void handle_job_start(struct request *request);
void handle_terminate(struct request *request);
void handle_sessions(struct request *request);
void handle_session_end(struct request *request);
void handle_session_files(struct request *request);
void handle_session_file(struct request *request);
void handle_session_file_put(struct request *request);
void handle_session_file_delete(struct request *request);
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
/* server/front/door_mcp.c */
void handle_mcp(struct request *request);
void handle_mcp_end(struct request *request);
