/* The inputs to begin with that only the program itself can write, because they change with its structs:
 * plans, and what front and warden say to each other. Writes one file each below DIRECTORY/TARGET. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/message/approval.h"
#include "config/message/job.h"
#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/child/message.h"
#include "jail/plan/plan.h"
#include "jail/plan/template_plan.h"
#include "jail/plan/zygote_message.h"
#include "policy/policy.h"
#include "server/run/settings.h"

static char python[] = "python", sha256[] = "00", id[] = "id-1", path[] = "a/b.txt", name[] = "openat";

static void die(const char *what, const char *why) __attribute__((noreturn));
static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* Frees the content. */
static void write_seed(const char *directory, const char *target, const char *file, struct buf *content)
{
    char where[4096];
    snprintf(where, sizeof where, "%s/%s", directory, target);
    mkdir(where, 0777);
    snprintf(where, sizeof where, "%s/%s/%s", directory, target, file);
    CLEANUP(fd_closep) int fd = open(where, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : io_write_full(fd, content->data, content->len);
    if (r < 0 || content->failed) {
        die(where, strerror(-r));
    }
    buf_free(content);
}

/* As tests/fuzz/datagrams.h has them. */
static void put_datagram(struct buf *ret, const void *data, size_t size, size_t n_fds)
{
    buf_putc(ret, (char)n_fds);
    buf_putc(ret, (char)size);
    buf_putc(ret, (char)(size >> 8));
    buf_append(ret, data, size);
}

static void put_message(struct buf *ret, const struct msg *msg, size_t n_fds)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct err err = {0};
    if (msg_encode(msg, &packed, &err) < 0) {
        die(msg_type_to_string(msg->type), err.text);
    }
    put_datagram(ret, packed.data, packed.len, n_fds);
}

static void put_said(struct buf *ret, enum child_message_kind kind, bool is_alone, size_t n_fds)
{
    struct child_message message;
    memset(&message, 0, sizeof message);
    message.kind = kind;
    message.is_alone = is_alone;
    message.time_ns = 1;
    put_datagram(ret, &message, sizeof message, n_fds);
}

/* The lives of a jail: cloned, from a template, one that failed, and a kernel's with two programs. */
static void write_jails(const char *directory)
{
    struct buf cloned = BUF_INIT, parked = BUF_INIT, failed = BUF_INIT, kernel = BUF_INIT;
    put_said(&cloned, CHILD_STARTED, false, 0);
    put_said(&cloned, CHILD_DENIED, false, 1);
    put_said(&cloned, CHILD_ENDED, false, 0);
    put_said(&cloned, CHILD_ENDED, true, 0);
    put_said(&parked, CHILD_CLONED, false, 1);
    put_said(&parked, CHILD_PARKED, false, 0);
    put_said(&parked, CHILD_STARTED, false, 4); /* the hand-over comes before */
    put_said(&parked, CHILD_ENDED, true, 0);
    put_said(&failed, CHILD_LOOPBACK, false, 0);
    put_said(&failed, CHILD_FAILED, false, 0);
    put_said(&kernel, CHILD_CLONED, false, 5);
    put_said(&kernel, CHILD_PARKED, false, 0);
    put_said(&kernel, CHILD_STARTED, false, 4);
    put_said(&kernel, CHILD_DENIED, false, 5); /* interrupted before */
    put_said(&kernel, CHILD_PARKED, false, 0);
    put_said(&kernel, CHILD_STARTED, false, 4);
    put_said(&kernel, CHILD_PARKED, false, 0);
    put_said(&kernel, CHILD_ENDED, true, 0);
    write_seed(directory, "jail", "kernel", &kernel);
    write_seed(directory, "jail", "cloned", &cloned);
    write_seed(directory, "jail", "parked", &parked);
    write_seed(directory, "jail", "failed", &failed);
}

#define APPROVAL_ID "00000000-0000-4000-8000-000000000000"

/* What the target takes is told by the first byte: see fuzz_approval.c. */
static void write_approvals(const char *directory, struct job *job)
{
    static char input[] = "print(123)hello", code[] = "print";
    struct submission submission = {.job = job,
                                    .input = input,
                                    .input_size = sizeof input - 1,
                                    .stdin_data = code,
                                    .stdin_size = 5,
                                    .request_id = id};
    struct approval approval = {.id = APPROVAL_ID, .state = APPROVAL_PENDING, .code = "c", .code_size = 1};
    char *const hashes[] = {approval.policy_sha256, approval.code_sha256, approval.submission_sha256};
    for (size_t i = 0; i < ARRAY_SIZE(hashes); i++) {
        memset(hashes[i], 'a', SHA256_HEX - 1);
    }
    struct buf decision = BUF_INIT, packed = BUF_INIT, rows = BUF_INIT;
    buf_puts(&decision, "d{\"decision\":\"approve\",\"reason\":\"r\"}");
    buf_putc(&packed, 's');
    buf_putc(&rows, 'r');
    submission_encode(&submission, &packed);
    approval_rows_encode(&(struct approval_rows){.rows = &approval, .n = 1}, &rows);
    write_seed(directory, "approval", "decision", &decision);
    write_seed(directory, "approval", "submission", &packed);
    write_seed(directory, "approval", "rows", &rows);
}

static void write_to_warden(const char *directory)
{
    struct job_file file = {.path = path, .offset = 10, .size = 5};
    struct job_env env = {.name = name, .value = sha256};
    char *args[] = {id, sha256}, *outputs[] = {path};
    struct job job = {.id = 7,
                      .runtime = python,
                      .policy = python,
                      .execution_id = id,
                      .key = python,
                      .code_size = 10,
                      .files = &file,
                      .n_files = 1,
                      .args = args,
                      .n_args = 2,
                      .env = &env,
                      .n_env = 1,
                      .outputs = outputs,
                      .n_outputs = 1,
                      .image = python,
                      .limits = {.memory_bytes = 1 << 20, .timeout_ms = 1000}};
    struct buf all = BUF_INIT;
    put_message(&all, &(struct msg){.type = MSG_HELLO}, 0);
    put_message(&all, &(struct msg){.type = MSG_JOB, .job = &job}, MSG_JOB_FDS);
    put_message(&all, &(struct msg){.type = MSG_CANCEL, .cancel = {.id = 7}}, 0);
    put_message(&all,
                &(struct msg){.type = MSG_OUTPUTS, .outputs = {.id = 7, .paths = outputs, .n_paths = 1}}, 0);
    put_message(&all, &(struct msg){.type = MSG_PONG, .pong = {.number = 1}}, 0);
    put_message(&all, &(struct msg){.type = MSG_SUBMIT, .submit = {.id = 8}}, 1);
    put_message(&all, &(struct msg){.type = MSG_APPROVAL_QUERY, .approval_query = {.id = 9}}, 0);
    put_message(&all,
                &(struct msg){.type = MSG_APPROVAL_QUERY,
                              .approval_query = {.id = 9,
                                                 .what = APPROVAL_DECIDE,
                                                 .key = "k",
                                                 .approval_id = APPROVAL_ID,
                                                 .approve = true,
                                                 .reason = "r"}},
                0);
    put_message(&all, &(struct msg){.type = MSG_RUN, .run = {.id = 10, .approval_id = APPROVAL_ID}},
                MSG_RUN_FDS);
    write_seed(directory, "to_warden", "job", &all);
    write_approvals(directory, &job);
}

static void write_to_front(const char *directory)
{
    struct job_denied denied = {.name = name, .count = 3};
    struct job_output_file files[] = {{.path = path, .size = 5, .fd = 0, .asked = true, .written = true},
                                      {.path = id, .size = 6, .fd = -1, .written = true}};
    struct msg done = {.type = MSG_DONE,
                       .done = {.id = 7,
                                .status = JOB_EXECUTION_ERROR,
                                .exit_code = 139,
                                .signal = SIGSEGV,
                                .has_cpu = true,
                                .cpu_ns = 5,
                                .kernel = JOB_KERNEL_NEW,
                                .denied = &denied,
                                .n_denied = 1,
                                .files = files,
                                .n_files = 2,
                                .policy = python,
                                .policy_sha256 = sha256,
                                .error_text = id}};
    struct msg state = {.type = MSG_STATE,
                        .state = {.ready = true, .why = "", .degraded = "memory", .n_warm = 1}};
    struct msg refused = {.type = MSG_REFUSED,
                          .refused = {.id = 7, .kind = ERR_BUSY, .text = "busy", .retry_after_ms = 100}};
    struct buf all = BUF_INIT;
    snprintf(state.state.warm[0].runtime, sizeof state.state.warm[0].runtime, "%s", python);
    put_message(&all, &(struct msg){.type = MSG_CONFIG, .config = {.audit = true}}, 2);
    put_message(&all, &state, 0);
    put_message(&all, &(struct msg){.type = MSG_CALLERS}, 1);
    put_message(&all, &refused, 0);
    put_message(&all, &done, 1);
    put_message(&all, &(struct msg){.type = MSG_PING, .ping = {.number = 1}}, 0);
    put_message(&all, &(struct msg){.type = MSG_APPROVAL_ANSWER, .approval_answer = {.id = 8}}, 2);
    put_message(&all,
                &(struct msg){.type = MSG_APPROVAL_CHANGED,
                              .approval_changed = {.approval_id = APPROVAL_ID, .state = APPROVAL_DONE}},
                0);
    put_message(&all, &(struct msg){.type = MSG_APPROVAL_RUN, .approval_run = {.approval_id = APPROVAL_ID}},
                1);
    write_seed(directory, "to_front", "all", &all);
}

static void write_plan(const char *directory, const char *file, const struct jail_plan *plan)
{
    struct buf encoded = BUF_INIT;
    if (jail_plan_encode(plan, &encoded) < 0) {
        die(file, strerror(ENOMEM));
    }
    write_seed(directory, "plan", file, &encoded);
}

static void write_zygote(const char *directory, const char *file, enum zygote_kind kind,
                         const struct jail_plan *plan)
{
    struct buf message = BUF_INIT;
    struct zygote_header header;
    memset(&header, 0, sizeof header);
    header.kind = kind;
    buf_append(&message, &header, sizeof header);
    if (jail_plan_encode(plan, &message) < 0) {
        die(file, strerror(ENOMEM));
    }
    write_seed(directory, "zygote", file, &message);
}

static void write_plans(const char *directory, const struct server_config *config,
                        const struct policy *policy)
{
    const struct policy_ceilings ceilings = {.default_timeout_ms = 1000, .max_timeout_ms = 2000};
    const struct job job = {.id = 1, .code_size = 10};
    const struct policy_program program = {.runtime = &config->runtimes[0]};
    const struct policy_image image = {.name = python, .digest = ""};
    const struct policy_program in_image = {.runtime = &config->runtimes[0], .image = &image};
    char *const argv[] = {python, NULL};
    struct jail_plan *plan, *template, *run, *on_image;
    struct err err = {0};
    if (policy_build_plan(policy, &ceilings, &job, &program, &plan, &err) < 0 ||
        jail_plan_for_template(plan, 4096, 0, argv, false, 65534, false, &template, &err) < 0 ||
        jail_plan_for_run(plan, &run, &err) < 0 ||
        policy_build_plan(policy, &ceilings, &job, &in_image, &on_image, &err) < 0) {
        die(policy_name(policy), err.text);
    }
    write_plan(directory, "exec", plan);
    write_plan(directory, "image", on_image);
    write_plan(directory, "template", template);
    write_plan(directory, "run", run);
    write_zygote(directory, "park", ZYGOTE_PARK, run);
    write_zygote(directory, "run", ZYGOTE_RUN, run);
    jail_plan_free(plan);
    jail_plan_free(template);
    jail_plan_free(run);
    jail_plan_free(on_image);
}

int main(int argc, char **argv)
{
    static char local[] = "SANDBOX_EXECUTOR_ENV=test";
    static char *const env[] = {local, NULL};
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    struct buf packed = BUF_INIT;
    struct err err = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    if (settings_load(NULL, env, NULL, &settings, &err) < 0 ||
        server_config_encode(settings->config, &packed, &err) < 0) {
        die("the shipped configuration", err.text);
    }
    write_seed(argv[1], "server_packed", "shipped", &packed);
    write_to_warden(argv[1]);
    write_to_front(argv[1]);
    write_jails(argv[1]);
    write_plans(argv[1], settings->config, policy_set_find(settings->policies, python));
    return 0;
}
