/* The whole numbers of the server's configuration and their ranges. */
#pragma once

#include "config/message/message.h"

#define MS_PER_DAY 86400000ull
#define MIB        (1024ull * 1024)

/* Escaped for JSON, each byte can become six, and a line of the audit log has a limit. */
#define AUDIT_CODE_MAX 16384

/* Every whole number of Server: field, least, most. */
#define NUMBERS(X)                                                                                           \
    X(max_timeout_ms, 1, MS_PER_DAY)                                                                         \
    X(max_concurrent_jobs, 1, 4096)                                                                          \
    X(queue_ms, 0, MS_PER_DAY)                                                                               \
    X(mcp_queue_ms, 0, MS_PER_DAY)                                                                           \
    X(max_queue_ms, 0, MS_PER_DAY)                                                                           \
    X(max_queued_jobs, 0, 65536)                                                                             \
    X(callback_margin_ms, 0, 60000)                                                                          \
    X(max_body_bytes, 1024, 1024 * MIB)                                                                      \
    X(max_header_bytes, 1024, 1 * MIB)                                                                       \
    X(header_timeout_ms, 1, MS_PER_DAY)                                                                      \
    X(request_timeout_ms, 1, MS_PER_DAY)                                                                     \
    X(idle_timeout_ms, 1, MS_PER_DAY)                                                                        \
    X(max_connections, 1, 65536)                                                                             \
    X(max_connections_per_address, 0, 65536)                                                                 \
    X(max_unread_bytes, 1024, 1024 * 1024 * MIB)                                                             \
    X(max_unread_bytes_per_key, 0, 1024 * 1024 * MIB)                                                        \
    X(reply_stall_ms, 1, MS_PER_DAY)                                                                         \
    X(drain_timeout_ms, 0, MS_PER_DAY)                                                                       \
    X(drain_idle_ms, 1, MS_PER_DAY)                                                                          \
    X(front_timeout_ms, 0, MS_PER_DAY)                                                                       \
    X(audit_log_bytes, 0, 1024 * 1024 * MIB)                                                                 \
    X(audit_keep_files, 0, 1000000)                                                                          \
    X(otlp_sample_percent, 0, 100)                                                                           \
    X(audit_keep_days, 0, 36500)                                                                             \
    X(audit_code_bytes, 0, AUDIT_CODE_MAX)                                                                   \
    X(outer_uid_base, 1000, UINT32_MAX - 65536)                                                              \
    X(max_output_bytes, 1, 1024 * MIB)                                                                       \
    X(max_tool_frame_bytes, 1024, 1024 * MIB)                                                                \
    X(max_tool_bytes, 1024, 1ull << 50)                                                                      \
    X(max_tool_calls, 0, UINT32_MAX)                                                                         \
    X(max_tool_calls_in_flight, 1, 1024)                                                                     \
    X(max_result_bytes, 1, 1024 * MIB)                                                                       \
    X(tool_timeout_ms, 1, 120000)                                                                            \
    X(max_tool_answer_bytes, 1024, 1024 * MIB)                                                               \
    X(session_ttl_ms, 1, 366 * MS_PER_DAY)                                                                   \
    X(max_sessions, 0, MSG_SESSIONS_MAX)                                                                     \
    X(max_session_bytes_total, 0, 1ull << 50)                                                                \
    X(session_evict_after_ms, 0, 366 * MS_PER_DAY)                                                           \
    X(session_bytes, 65536, 1024 * 1024 * MIB)                                                               \
    X(session_inodes, 16, 1048576)                                                                           \
    X(session_free_bytes, 0, 1ull << 50)                                                                     \
    X(max_kernels, 0, 512)                                                                                   \
    X(kernel_interrupt_grace_ms, 1, MS_PER_DAY)                                                              \
    X(kernel_idle_cpu_ms, 0, MS_PER_DAY)                                                                     \
    X(kept_job_ttl_ms, 1, 366 * MS_PER_DAY)                                                                  \
    X(max_kept_jobs, 1, 65536)                                                                               \
    X(max_kept_bytes, 1024, 1024 * 1024 * MIB)                                                               \
    X(stream_heartbeat_ms, 1, MS_PER_DAY)                                                                    \
    X(max_egress_bytes, 1024, 1ull << 50)                                                                    \
    X(max_egress_connections, 0, UINT32_MAX)                                                                 \
    X(egress_timeout_ms, 1, MS_PER_DAY)                                                                      \
    X(approval_expiry_ms, 1, 366 * MS_PER_DAY)                                                               \
    X(max_approvals_per_key, 0, MSG_APPROVALS_MAX)                                                           \
    X(max_approvals, 0, MSG_APPROVALS_MAX)                                                                   \
    X(max_approval_job_bytes, 1024, MSG_SUBMISSION_MAX)                                                      \
    X(max_approval_bytes, 1024, 1024 * MIB)                                                                  \
    X(max_approval_wait_ms, 0, MS_PER_DAY)                                                                   \
    X(memory_free_bytes, 0, 1ull << 50)                                                                      \
    X(memory_free_percent, 0, 100)                                                                           \
    X(kernel_memory_percent, 0, 100)                                                                         \
    X(max_templates, 1, 256)                                                                                 \
    X(max_image_templates, 0, 256)                                                                           \
    X(max_image_template_bytes, 0, 1ull << 50)

/* What a key may ask for at most: limit, least, most; 0: no ceiling of its own. The least is the least that a
 * job may have. */
#define KEY_CEILINGS(X)                                                                                      \
    X(timeout_ms, 1, UINT64_MAX)                                                                             \
    X(memory_bytes, MIB, 1ull << 50)                                                                         \
    X(pids, 1, 1ull << 22)                                                                                   \
    X(cpu_percent, 1, 100000)                                                                                \
    X(cpu_ms, 1, 366 * MS_PER_DAY)                                                                           \
    X(scratch_bytes, 4096, 1ull << 50)                                                                       \
    X(output_bytes, 1, 1024 * MIB)
