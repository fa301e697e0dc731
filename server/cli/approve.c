/* `immure approve`: what waits for an approval, shown to somebody who then decides. Speaks HTTP to a server
 * that runs. Whatever it prints of a job has gone through shown_text.c: a program must not be able to talk
 * to the approver's terminal. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/message/approval.h"
#include "config/server/environment.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/cli/command.h"
#include "server/cli/http_ask.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/cli/shown_text.h"
#include "server/host/listen.h"

#define KEY_FILE_BYTES_MAX 4096
#define ANSWER_BYTES       512

struct approve_options {
    const char *connect, *key_file, *reason;
    bool yes, reject;
};

static const struct option_row approve_rows[] = {
    {"--connect", "ADDRESS", "the server: HOST:PORT, [HOST]:PORT or unix:/path (default: 127.0.0.1:9099)",
     OPTION_TEXT, offsetof(struct approve_options, connect)},
    {"--key-file", "FILE", "a file with the approver's key; default: $SANDBOX_EXECUTOR_SERVICE_API_KEY",
     OPTION_TEXT, offsetof(struct approve_options, key_file)},
    {"--yes", NULL, "approve the job ID without asking", OPTION_SWITCH,
     offsetof(struct approve_options, yes)},
    {"--reject", NULL, "reject the job ID without asking", OPTION_SWITCH,
     offsetof(struct approve_options, reject)},
    {"--reason", "TEXT", "why, for its caller and the audit log", OPTION_TEXT,
     offsetof(struct approve_options, reason)},
};

const struct option_table approve_table = {
    .command = "approve",
    .examples = "immure approve\n"
                "immure approve 5b1f --reject --reason \"too broad\"\n",
    .synopsis = "[ID] [OPTION...]",
    .about =
        "Shows the jobs that wait for an approval, or the job ID, with their code, and asks about each on a "
        "terminal. Elsewhere it only lists them, or shows the one. The key must be an approver's.",
    .footer = "Exit code: 0, 1 if the server cannot be asked or has refused, 2 for wrong usage.",
    .rows = approve_rows,
    .n_rows = ARRAY_SIZE(approve_rows),
};

struct approver {
    const struct approve_options *options;
    struct listen_address server;
    char *key;
};

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

/* ---- The server ---- */

static int ask(const struct approver *approver, const char *method, const char *path, const struct buf *body,
               struct json_doc **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    const struct http_question question = {
        .server = &approver->server, .key = approver->key, .method = method, .path = path, .body = body};
    unsigned status = 0;
    int r = http_ask(&question, &status, &reply, reterr);
    r = r < 0 ? r : json_parse(reply.data ? reply.data : "", reply.len, &doc, reterr);
    if (r < 0) {
        return r;
    }
    if (status != 200) {
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        const char *text = json_string(json_get(json_root(doc), "error"));
        shown_text_put(text ? text : "", &why);
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "the server answered %u: %.400s", status,
                       why.data ? why.data : "");
    }
    *ret = TAKE_PTR(doc);
    return 0;
}

static int ask_about(const struct approver *approver, const char *method, const char *id,
                     const struct buf *body, struct json_doc **ret, struct err *reterr)
{
    char path[APPROVAL_ID_BYTES + 16];
    if (!id || !approval_id_is_valid(id)) {
        return err_set(reterr, ERR_INVALID, EINVAL, "ID", "is not the name of an approval");
    }
    snprintf(path, sizeof path, "/approvals/%s", id);
    return ask(approver, method, path, body, ret, reterr);
}

static int decide(const struct approver *approver, const char *id, bool approve, const char *reason,
                  struct err *reterr)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    buf_printf(&body, "{\"decision\": \"%s\"", approve ? "approve" : "reject");
    if (reason && *reason) {
        buf_puts(&body, ", \"reason\": ");
        json_write_string(&body, reason, strlen(reason));
    }
    buf_puts(&body, "}");
    int r = body.failed ? err_errno(reterr, ENOMEM, "deciding")
                        : ask_about(approver, "POST", id, &body, &doc, reterr);
    if (r == 0) {
        printf("%s: %s\n", id, approve ? "approved" : "rejected");
    }
    return r;
}

/* ---- What is shown ---- */

static void put_member(struct buf *ret, const char *title, const struct json *object, const char *name)
{
    const char *text = json_string(json_get(object, name));
    if (text && *text) {
        buf_printf(ret, "%-10s ", title);
        shown_text_put_folded(text, ret);
        buf_putc(ret, '\n');
    }
}

static void put_facts(struct buf *ret, const struct json *approval)
{
    static const char *const members[][2] = {
        {"approval", "approval_id"},
        {"status", "status"},
        {"key", "key"},
        {"team", "team"},
        {"policy", "policy"},
        {"runtime", "runtime"},
        {"submitted", "created_at"},
        {"until", "expires_at"},
        {"execution", "execution_id"},
        {"code", "sha256"},
        {"job", "job_sha256"},
        {"decided by", "decided_by"},
        {"reason", "reason"},
        {"outcome", "outcome"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        put_member(ret, members[i][0], approval, members[i][1]);
    }
}

static void put_content(struct buf *ret, const char *title, const char *name, const char *text, size_t size)
{
    buf_printf(ret, "---- %s", title);
    shown_text_put_folded(name, ret);
    buf_printf(ret, " (%zu bytes)\n", size);
    shown_text_put_lines(text, size, ret);
}

static void put_files(struct buf *ret, const struct json *files)
{
    for (const struct json *file = json_first(files); file; file = json_next(file)) {
        const char *name = json_string(json_get(file, "name"));
        const struct json *data = json_get(file, "data");
        CLEANUP(buf_free) struct buf content = BUF_INIT;
        if (json_type_of(data) == JSON_STRING) {
            base64_decode(json_string(data), json_string_length(data), &content);
        }
        put_content(ret, "file ", name ? name : "", content.data ? content.data : "", content.len);
    }
}

static void put_list(struct buf *ret, const char *title, const struct json *texts)
{
    for (const struct json *text = json_first(texts); text; text = json_next(text)) {
        buf_printf(ret, "%-10s ", title);
        shown_text_put_folded(json_string(text) ? json_string(text) : "", ret);
        buf_putc(ret, '\n');
    }
}

static void put_env(struct buf *ret, const struct json *variables)
{
    for (const struct json *variable = json_first(variables); variable; variable = json_next(variable)) {
        const char *name = json_string(json_get(variable, "name"));
        const char *value = json_string(json_get(variable, "value"));
        CLEANUP(buf_free) struct buf both = BUF_INIT;
        buf_printf(&both, "%s=%s", name ? name : "", value ? value : "");
        buf_printf(ret, "%-10s ", "variable");
        shown_text_put_folded(both.data ? both.data : "", ret);
        buf_putc(ret, '\n');
    }
}

static void put_limits(struct buf *ret, const struct json *limits)
{
    for (const struct json *limit = json_first(limits); limit; limit = json_next(limit)) {
        uint64_t value;
        if (json_u64(limit, &value)) {
            buf_printf(ret, "%-10s ", "limit");
            shown_text_put_folded(json_key(limit), ret);
            buf_printf(ret, " %llu\n", (unsigned long long)value);
        }
    }
}

static void put_one(struct buf *ret, const struct json *approval)
{
    const struct json *job = json_get(approval, "job"), *code = json_get(approval, "code"),
                      *input = json_get(job, "stdin");
    put_facts(ret, approval);
    put_member(ret, "session", job, "session_id");
    put_member(ret, "image", job, "image");
    put_member(ret, "callback", job, "callback_url");
    put_list(ret, "argument", json_get(job, "args"));
    put_env(ret, json_get(job, "env"));
    put_list(ret, "output", json_get(job, "outputs"));
    put_limits(ret, json_get(job, "limits"));
    put_files(ret, json_get(job, "files"));
    if (json_string_length(input) > 0) {
        put_content(ret, "stdin", "", json_string(input), json_string_length(input));
    }
    put_content(ret, json_bool(json_get(approval, "code_truncated")) ? "code, its beginning alone" : "code",
                "", json_string(code) ? json_string(code) : "", json_string_length(code));
}

static int print(const struct buf *text, struct err *reterr)
{
    if (text->failed) {
        return err_errno(reterr, ENOMEM, "showing a job");
    }
    fwrite(text->data, 1, text->len, stdout);
    fflush(stdout);
    return 0;
}

/* ---- Asking the person ---- */

/* The next line that is typed, without its line feed. False: there is none. The rest of a line that is too
 * long must not answer the next question. */
static bool read_answer(const char *question, char ret[ANSWER_BYTES])
{
    for (;;) {
        printf("%s", question);
        fflush(stdout);
        if (!fgets(ret, ANSWER_BYTES, stdin)) {
            return false;
        }
        char *end = strchr(ret, '\n');
        if (end) {
            *end = '\0';
            return true;
        }
        int rest = 0;
        while ((rest = getchar()) != '\n') {
            if (rest == EOF) {
                return false;
            }
        }
        puts("That is too long.");
    }
}

/* 1: no more questions. */
static int ask_person(const struct approver *approver, const char *id, struct err *reterr)
{
    char answer[ANSWER_BYTES], reason[ANSWER_BYTES] = "";
    for (;;) {
        /* What was typed before the job was to be seen is no answer about it. */
        tcflush(STDIN_FILENO, TCIFLUSH);
        if (!read_answer("Approve it? [yes, no, skip, quit] ", answer) || strcmp(answer, "quit") == 0) {
            return 1;
        }
        bool yes = strcmp(answer, "yes") == 0, no = strcmp(answer, "no") == 0;
        if (strcmp(answer, "skip") == 0) {
            return 0;
        }
        if (no && !approver->options->reason && !read_answer("Why? (may be empty) ", reason)) {
            return 1;
        }
        if (yes || no) {
            return decide(approver, id, yes, approver->options->reason ? approver->options->reason : reason,
                          reterr);
        }
    }
}

/* Shows it, and asks where somebody could answer. */
static int show(const struct approver *approver, const char *id, struct err *reterr)
{
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = ask_about(approver, "GET", id, NULL, &doc, reterr);
    if (r < 0) {
        return r;
    }
    put_one(&text, json_root(doc));
    r = print(&text, reterr);
    const char *status = json_string(json_get(json_root(doc), "status"));
    bool pending = status && strcmp(status, "pending") == 0;
    return r < 0 || !pending || !isatty(STDIN_FILENO) ? r : ask_person(approver, id, reterr);
}

static int show_all(const struct approver *approver, struct err *reterr)
{
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    int r = ask(approver, "GET", "/approvals", NULL, &doc, reterr);
    const struct json *approvals = r < 0 ? NULL : json_get(json_root(doc), "approvals");
    if (r == 0 && json_count(approvals) == 0) {
        puts("nothing waits for an approval");
    }
    for (const struct json *one = json_first(approvals); one && r == 0; one = json_next(one)) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct err err = {0};
        if (isatty(STDIN_FILENO)) {
            r = show(approver, json_string(json_get(one, "approval_id")), &err);
            if (r < 0) { /* somebody else was faster, or it has expired */
                command_fail("approve", &err, 0);
                r = err.kind == ERR_DENIED ? 0
                                           : err_set(reterr, err.kind, err.code, err.item, "%s", err.text);
            }
        } else {
            put_facts(&text, one);
            buf_putc(&text, '\n');
            r = print(&text, reterr);
        }
    }
    return r > 0 ? 0 : r;
}

/* ---- All of it ---- */

static int read_key(const struct approve_options *options, char **ret, struct err *reterr)
{
    if (!options->key_file) {
        return environment_key(environ, ret, reterr);
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, options->key_file, KEY_FILE_BYTES_MAX, &text);
    if (r < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return err_set(reterr, ERR_CONFIG, -r, options->key_file, "%s",
                       io_path_error(options->key_file, -r, why));
    }
    while (text.len > 0 && strchr("\r\n", text.data[text.len - 1])) {
        text.data[--text.len] = '\0';
    }
    *ret = buf_steal(&text);
    return *ret ? 0 : err_errno(reterr, ENOMEM, "reading the key");
}

static int run(struct approver *approver, const char *id, struct err *reterr)
{
    const struct approve_options *options = approver->options;
    int r = read_key(options, &approver->key, reterr);
    if (r < 0) {
        return r;
    }
    if (options->yes || options->reject) {
        return decide(approver, id, options->yes, options->reason, reterr);
    }
    r = id ? show(approver, id, reterr) : show_all(approver, reterr);
    return r > 0 ? 0 : r;
}

static int check_usage(const struct approve_options *options, int n, struct err *reterr)
{
    if (n > 1) {
        return err_set(reterr, ERR_INVALID, 0, "ID", "one job at a time");
    }
    if (options->yes && options->reject) {
        return err_set(reterr, ERR_INVALID, 0, "--reject", "does not go with --yes");
    }
    return (options->yes || options->reject) && n == 0
               ? err_set(reterr, ERR_INVALID, 0, "ID", "which job? `immure approve` lists them")
               : 0;
}

int cmd_approve(int argc, char **argv)
{
    struct approve_options options = {.connect = "127.0.0.1:9099"};
    struct approver approver = {.options = &options};
    struct err err = {0};
    int n;
    int r = options_parse(&approve_table, argc, argv, &options, &n, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&approve_table, stdout);
        return EXIT_CODE_OK;
    }
    r = r < 0 ? r : check_usage(&options, n, &err);
    r = r < 0 ? r : listen_parse(options.connect, &approver.server, &err);
    if (r < 0) {
        return command_fail("approve", &err, EXIT_CODE_USAGE);
    }
    setvbuf(stdin, NULL, _IONBF, 0); /* so that what is typed too early is nowhere but in the terminal */
    r = run(&approver, n > 0 ? argv[1] : NULL, &err);
    if (approver.key) {
        explicit_bzero(approver.key, strlen(approver.key));
        free(approver.key);
    }
    return r < 0 ? command_fail("approve", &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}
