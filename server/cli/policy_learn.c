/* `immure policy learn`: runs a trusted program, writes the policy that it needs, and tries it under that.
 *
 * The first runs are the caller's own program with the caller's own rights, watched by policy/learn; the last
 * one is `immure run` in a child of ours, so that what is tried is what will be used. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/learn/given.h"
#include "policy/learn/learn.h"
#include "policy/learn/observed.h"
#include "policy/learn/record.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/host/interpreter.h"

#define COMMAND       "policy learn"
#define PARENTS_MAX   8u
#define INPUT_MAX     (UINT64_C(64) << 20)
#define REPORT_MAX    (1u << 20)
#define CGROUP_OPTION "SANDBOX_EXECUTOR_CGROUP"

struct learn_options {
    struct option_list use, env;
    uint64_t runs;
    const char *output, *cgroup;
    bool force;
};

static const struct option_row learn_rows[] = {
    {"--use", "NAME",
     "what the policy begins with, a shipped policy or part; may be given again; default: what leaves least "
     "to add",
     OPTION_LIST, offsetof(struct learn_options, use)},
    {"--runs", "N", "watch so many runs, one after the other, for one policy; default: 1", OPTION_NUMBER,
     offsetof(struct learn_options, runs)},
    {"-o", "FILE", "where the policy goes, NAME.textproto; default: standard output", OPTION_TEXT,
     offsetof(struct learn_options, output)},
    {"--force", NULL, "replace FILE where it is there already", OPTION_SWITCH,
     offsetof(struct learn_options, force)},
    {"--env", "NAME[=VALUE]",
     "a variable for the program, which the policy then sets; without a value: the caller's", OPTION_LIST,
     offsetof(struct learn_options, env)},
    {"--cgroup", "MODE",
     "for the run in a jail, as `immure run` has it; default: $" CGROUP_OPTION ", else best-effort",
     OPTION_TEXT, offsetof(struct learn_options, cgroup)},
};

const struct option_table policy_learn_table = {
    .examples = "immure policy learn -o judge.textproto -- ./judge\n",
    .command = COMMAND,
    .synopsis = "[OPTION...] -- COMMAND [ARGUMENT...]",
    .about = "Runs a program that you trust, watches its system calls, and writes a short policy for it. "
             "Then it runs once more, in a jail under that policy, and must end with the same exit code, "
             "with no call denied that it did not make before.",
    .footer =
        "The program runs with your rights, in your working directory; it has the variables of a jail "
        "(HOME is the\nworking directory), and its output goes to standard error.\n"
        "Exit code: 0 learned and tried, 1 it does not work under the policy, or an error, 2 wrong usage.",
    .rows = learn_rows,
    .n_rows = ARRAY_SIZE(learn_rows),
    .stop_at_argument = true,
};

struct learn {
    struct learn_options options;
    char **argv;          /* ends with NULL */
    int stdin_fd, status; /* as of waitpid() */
    struct observed observed;
    struct learn_given given;
    struct learn_parent parents[PARENTS_MAX];
    struct runtime_config interpreters[PARENTS_MAX];
    size_t n_parents, chosen;
    struct buf use, text, explanation; /* why it does not pass */
    char name[256];                    /* of the policy */
    bool tried, passed;
};

static void learn_free(struct learn *learn)
{
    learn_given_clear(&learn->given);
    for (size_t i = 0; i < learn->n_parents; i++) {
        policy_free(learn->parents[i].policy);
        runtime_config_forget(&learn->interpreters[i]);
    }
    observed_clear(&learn->observed);
    buf_free(&learn->use);
    buf_free(&learn->text);
    buf_free(&learn->explanation);
    fd_closep(&learn->stdin_fd);
}

/* ---- What the program gets ---- */

/* What is piped in is read once, and every run has it from the beginning. */
static int take_stdin(struct learn *learn, struct err *reterr)
{
    struct stat st;
    if (fstat(STDIN_FILENO, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode))) {
        learn->stdin_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        learn->stdin_fd = learn->stdin_fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : learn->stdin_fd;
        return learn->stdin_fd < 0 ? err_errno(reterr, errno, "opening /dev/null") : 0;
    }
    CLEANUP(buf_free) struct buf input = BUF_INIT;
    int r = io_read_fd(STDIN_FILENO, INPUT_MAX, &input);
    r = r < 0 ? r : io_memfd("input", input.data ? input.data : "", input.len, &learn->stdin_fd);
    return r < 0 ? err_errno(reterr, -r, "reading the program's standard input") : 0;
}

static void rewind_stdin(const struct learn *learn)
{
    lseek(learn->stdin_fd, 0, SEEK_SET); /* of a terminal there is no beginning */
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- Watching, and choosing ---- */

static int watch(struct learn *learn, struct err *reterr)
{
    const struct record_options record = {.argv = learn->argv,
                                          .env = learn->given.env,
                                          .stdin_fd = learn->stdin_fd,
                                          .stdout_fd = STDERR_FILENO};
    for (uint64_t i = 0; i < learn->options.runs && !learn->observed.interrupted; i++) {
        rewind_stdin(learn);
        int r = record_run(&record, &learn->observed, &learn->status, reterr);
        if (r < 0) {
            return r;
        }
    }
    if (learn->observed.unreadable && learn->observed.n_paths == 0) {
        return err_set(reterr, ERR_HOST, EPERM, NULL,
                       "this host lets nobody read the memory of a program: no paths could be learned");
    }
    learn_find_secrets(&learn->observed);
    observed_sort(&learn->observed);
    return 0;
}

static int add_parent(struct learn *learn, const char *use, struct err *reterr)
{
    struct learn_parent *parent = &learn->parents[learn->n_parents];
    parent->use = use;
    int r = learn_parent_make(use, &parent->policy, reterr);
    if (r == 0) {
        interpreter_show(parent->policy, &learn->interpreters[learn->n_parents++]);
    }
    return r;
}

/* Before the program runs, so that a mistake in a name costs nothing. */
static int make_parents(struct learn *learn, struct err *reterr)
{
    int r = 0;
    const char *candidate;
    for (size_t i = 0; i < learn->options.use.n; i++) {
        const char *name = learn->options.use.items[i];
        if (*name == '\0' || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] != '\0') {
            return err_set(reterr, ERR_INVALID, EINVAL, "--use", "not the name of a policy ([a-z0-9_-]+)");
        }
        buf_printf(&learn->use, "%s\"%s\"", i ? ", " : "", name);
    }
    if (learn->use.len > 0) {
        return add_parent(learn, learn->use.data, reterr);
    }
    for (size_t i = 0; r == 0 && i < PARENTS_MAX && (candidate = learn_candidate(i)); i++) {
        r = add_parent(learn, candidate, reterr);
    }
    return r;
}

static int choose_parent(struct learn *learn, struct err *reterr)
{
    return learn->use.len > 0
               ? 0
               : learn_choose(&learn->observed, learn->parents, learn->n_parents, &learn->chosen, reterr);
}

/* ---- The policy ---- */

/* Of the file, or else of the program, in letters that a policy's name may have. */
static void choose_name(struct learn *learn)
{
    const char *from = learn->options.output ? learn->options.output : learn->argv[0];
    const char *slash = strrchr(from, '/');
    char quoted[sizeof learn->name + 2];
    size_t n = 0;
    for (from = slash ? slash + 1 : from; *from && *from != '.' && n < 64; from++) {
        char c = (char)(*from >= 'A' && *from <= 'Z' ? *from + 32 : *from);
        bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        learn->name[n++] = fits ? c : '-';
    }
    snprintf(learn->name + n, sizeof learn->name - n, "%s", n ? "" : "learned");
    snprintf(quoted, sizeof quoted, "\"%s\"", learn->name);
    if (strstr(learn->parents[learn->chosen].use, quoted)) {
        snprintf(learn->name + n, sizeof learn->name - n, "-learned");
    }
}

/* The directory that it goes to. */
static void directory_of(const char *path, char ret[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(ret, PATH_MAX, "%.*s", slash ? (int)(slash - path + 1) : 2, slash ? path : "./");
}

/* Before the program runs: nobody's file is lost, and no run is for nothing. */
static int check_output(const struct learn_options *options, struct err *reterr)
{
    char directory[PATH_MAX];
    struct stat st;
    if (!options->output) {
        return 0;
    }
    directory_of(options->output, directory);
    bool is_there = lstat(options->output, &st) == 0;
    if (is_there && !(options->force && S_ISREG(st.st_mode))) {
        return err_set(reterr, ERR_INVALID, EEXIST, options->output,
                       S_ISREG(st.st_mode) ? "is there already; --force replaces it" : "is no regular file");
    }
    return access(directory, W_OK) < 0 ? err_set(reterr, ERR_INVALID, errno, options->output,
                                                 "cannot be written: %s", strerror(errno))
                                       : 0;
}

/* As a whole or not at all. */
static int write_file(const struct learn *learn, struct err *reterr)
{
    char directory[PATH_MAX], made[PATH_MAX + 32];
    const char *path = learn->options.output;
    directory_of(path, directory);
    snprintf(made, sizeof made, "%s.immure-learn-XXXXXX", directory);
    CLEANUP(fd_closep) int fd = mkostemp(made, O_CLOEXEC);
    int r = fd < 0 ? -errno : io_write_full(fd, learn->text.data, learn->text.len);
    r = r < 0 ? r : fchmod(fd, 0644) < 0 ? -errno : 0;
    unsigned how = learn->options.force ? 0 : RENAME_NOREPLACE;
    r = r < 0 ? r : renameat2(AT_FDCWD, made, AT_FDCWD, path, how) < 0 ? -errno : 0;
    if (r < 0 && fd >= 0) {
        unlink(made);
    }
    return r < 0 ? err_set(reterr, ERR_INVALID, -r, path, "cannot be written: %s", strerror(-r)) : 0;
}

/* What was tried uses what is shipped; a file beside the policy would come before that. */
static int check_beside(const struct learn *learn, struct err *reterr)
{
    char path[PATH_MAX];
    struct policy_spec *kept = NULL, *tried = NULL;
    snprintf(path, sizeof path, "%s%s", strchr(learn->options.output, '/') ? "" : "./",
             learn->options.output);
    int r = policy_spec_load(path, &kept, reterr);
    r = r < 0 ? r : policy_spec_decode_text(learn->name, learn->text.data, learn->text.len, &tried, reterr);
    if (r == 0 && strcmp(kept->sha256, tried->sha256) != 0) {
        r = err_set(reterr, ERR_INVALID, EINVAL, path,
                    "a file beside it comes before the shipped one of that name, which was tried");
    }
    policy_spec_free(kept);
    policy_spec_free(tried);
    return r;
}

static bool names_cwd(const struct learn *learn)
{
    for (char *const *word = learn->argv; *word; word++) {
        if (strstr(*word, learn->observed.cwd)) {
            return true;
        }
    }
    return false;
}

static int write_policy(struct learn *learn, struct err *reterr)
{
    choose_name(learn);
    const struct learn_about about = {.name = learn->name,
                                      .program = learn->argv[0],
                                      .runs = learn->options.runs,
                                      .names_cwd = names_cwd(learn),
                                      .env = learn->given.own,
                                      .left_out = learn->given.left_out};
    return learn_write(&learn->observed, &learn->parents[learn->chosen], &about, &learn->text, reterr);
}

/* ---- The run in a jail ---- */

struct trial {
    const char **argv; /* as long as the command's, and the files' */
    size_t argc, size;
    char policy[64], report[64];
    int policy_fd, report_fd, exit_code;
};

static void trial_close(struct trial *trial)
{
    free(trial->argv);
    fd_closep(&trial->policy_fd);
    fd_closep(&trial->report_fd);
}

static int add_argument(struct trial *trial, const char *text, struct err *reterr)
{
    if (trial->argc + 1 >= trial->size) {
        size_t size = 2 * trial->size + 64;
        const char **argv = realloc(trial->argv, size * sizeof *argv);
        if (!argv) {
            return err_errno(reterr, ENOMEM, "trying the policy");
        }
        trial->argv = argv;
        trial->size = size;
    }
    trial->argv[trial->argc++] = text;
    trial->argv[trial->argc] = NULL;
    return 0;
}

/* `files` is cut up, and has to live as long as the trial. */
static int add_files(struct trial *trial, struct buf *files, struct err *reterr)
{
    size_t n = 0;
    int r = 0;
    char *rest = NULL;
    for (char *line = files->data ? strtok_r(files->data, "\n", &rest) : NULL; r == 0 && line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (++n > OPTION_LIST_MAX) {
            return err_set(
                reterr, ERR_INVALID, E2BIG, NULL,
                "the program read more than %d files of the working directory: too many to be given; "
                "mount them and try the policy with `immure run`",
                OPTION_LIST_MAX);
        }
        r = add_argument(trial, "--file", reterr);
        r = r < 0 ? r : add_argument(trial, line, reterr);
    }
    return r;
}

/* Named by its descriptor, so that no file of a directory that others write to lies beside the policy. */
static int make_file(const char *name, const struct buf *text, int *ret_fd, char ret_path[64],
                     struct err *reterr)
{
    int r = io_memfd(name, text->len ? text->data : "", text->len, ret_fd);
    snprintf(ret_path, 64, "/proc/self/fd/%d", *ret_fd);
    return r < 0 ? err_errno(reterr, -r, "trying the policy") : 0;
}

static int make_trial(const struct learn *learn, struct trial *trial, struct buf *files, struct err *reterr)
{
    const char *mode = learn->options.cgroup ? learn->options.cgroup : getenv(CGROUP_OPTION);
    int r = make_file("policy", &learn->text, &trial->policy_fd, trial->policy, reterr);
    r = r < 0 ? r : make_file("report", &BUF_INIT, &trial->report_fd, trial->report, reterr);
    const char *const head[] = {
        "run",      "--policy",   trial->policy, "--cgroup", mode && *mode ? mode : "best-effort",
        "--report", trial->report};
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(head); i++) {
        r = add_argument(trial, head[i], reterr);
    }
    learn_files(&learn->observed, files);
    r = r < 0 ? r : add_files(trial, files, reterr);
    r = r < 0 ? r : add_argument(trial, "--", reterr);
    for (char **word = learn->argv; r == 0 && *word; word++) {
        r = add_argument(trial, *word, reterr);
    }
    return r;
}

static int run_trial(const struct learn *learn, struct trial *trial, struct err *reterr)
{
    rewind_stdin(learn);
    fflush(NULL);
    /* Ctrl-C is for the program; the policy is written all the same. */
    void (*before)(int) = signal(SIGINT, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, before);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        bool ready = dup2(learn->stdin_fd, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
        _exit(ready ? cmd_run((int)trial->argc, (char **)(uintptr_t)trial->argv) : EXIT_CODE_LAUNCHER);
    }
    int status = 0;
    pid_t ended;
    do {
        ended = child < 0 ? -1 : waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR && child > 0);
    signal(SIGINT, before);
    if (ended < 0) {
        return err_errno(reterr, errno, "trying the policy");
    }
    trial->exit_code = exit_code(status);
    return 0;
}

/* Appends "memfd_create 2, ptrace 1". */
static void put_denied(const struct json *denied, struct buf *ret)
{
    for (const struct json *call = json_first(denied); call; call = json_next(call)) {
        const char *name = json_string(json_get(call, "name"));
        uint64_t count = 0;
        json_u64(json_get(call, "count"), &count);
        buf_printf(ret, "%s%s %" PRIu64, ret->len ? ", " : "", name ? name : "?", count);
    }
}

/* A call that the program did not make before: it went another way. NULL: there is none. */
static const char *new_call(const struct observed *observed, const struct json *denied)
{
    for (const struct json *call = json_first(denied); call; call = json_next(call)) {
        const char *name = json_string(json_get(call, "name"));
        if (name && !learn_saw(observed, name)) {
            return name;
        }
    }
    return NULL;
}

/* Whether the jail's own report says that the run ended as the one before; else the explanation says what is
 * different. */
static bool judge(struct learn *learn, const struct trial *trial)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT, denied = BUF_INIT;
    struct json_doc *doc = NULL;
    struct buf *ret = &learn->explanation;
    lseek(trial->report_fd, 0, SEEK_SET);
    bool told = io_read_fd(trial->report_fd, REPORT_MAX, &text) >= 0 && text.len > 0 &&
                json_parse(text.data, text.len, &doc, NULL) == 0;
    const struct json *root = told ? json_root(doc) : NULL, *calls = json_get(root, "denied_syscalls");
    const char *status = json_string(json_get(root, "status")), *new = new_call(&learn->observed, calls);
    int before = exit_code(learn->status);
    bool started = status && strcmp(status, "setup_error") != 0,
         killed = json_string(json_get(root, "signal")) != NULL,
         same = trial->exit_code == before && killed == (bool)WIFSIGNALED(learn->status);
    put_denied(calls, &denied);
    if (!started) {
        buf_puts(ret, "immure " COMMAND ": under the policy no program could be started\n");
    } else if (!same) {
        buf_printf(ret,
                   "immure " COMMAND ": under the policy it ended with exit code %d%s, before with %d%s\n",
                   trial->exit_code, killed ? " (a signal)" : "", before,
                   WIFSIGNALED(learn->status) ? " (a signal)" : "");
    } else if (new) {
        buf_printf(ret, "immure " COMMAND ": under the policy it made another call than before: %s\n", new);
    } else if (before != 0) {
        fprintf(stderr,
                "immure " COMMAND ": it ended with exit code %d both times; its output says whether for the "
                "same reason\n",
                before);
    }
    if (denied.len > 0) {
        buf_printf(ret, "immure " COMMAND ": denied system calls: %s\n", denied.data);
    }
    if (strstr(learn->text.data, "\n# Not given:\n") ||
        strstr(learn->text.data, "\n# System calls that were made and are not given:\n")) {
        buf_puts(ret, "immure " COMMAND ": the end of the policy says what was not given, and why\n");
    }
    json_free(doc);
    return started && same && !new;
}

static int try_policy(struct learn *learn, struct err *reterr)
{
    struct trial trial = {.policy_fd = -1, .report_fd = -1};
    CLEANUP(buf_free) struct buf files = BUF_INIT;
    int r = make_trial(learn, &trial, &files, reterr);
    r = r < 0 ? r : run_trial(learn, &trial, reterr);
    learn->tried = r == 0;
    learn->passed = r == 0 && judge(learn, &trial);
    trial_close(&trial);
    return r;
}

/* Once more, with what the program only looked at; if that does not help either, the first policy stays. */
static int try_with_more(struct learn *learn, struct err *reterr)
{
    struct buf before = learn->text, why = learn->explanation;
    learn->text = learn->explanation = BUF_INIT;
    bool more = observed_promote(&learn->observed) > 0;
    int r = more ? write_policy(learn, reterr) : 0;
    more = more && r == 0 && strcmp(before.data, learn->text.data) != 0;
    r = more ? try_policy(learn, reterr) : r;
    if (learn->passed) {
        fprintf(stderr,
                "immure " COMMAND ": it needs files that it only looks at: the policy has them now\n");
        buf_free(&before);
        buf_free(&why);
        return r;
    }
    buf_free(&learn->text);
    buf_free(&learn->explanation);
    learn->text = before;
    learn->explanation = why;
    return r;
}

static int learn_policy(struct learn *learn, struct err *reterr)
{
    const struct option_list *env = &learn->options.env;
    int r = check_output(&learn->options, reterr);
    r = r < 0 ? r : learn_given_make(learn->argv[0], env->items, env->n, &learn->given, reterr);
    r = r < 0 ? r : make_parents(learn, reterr);
    r = r < 0 ? r : take_stdin(learn, reterr);
    r = r < 0 ? r : watch(learn, reterr);
    r = r < 0 ? r : choose_parent(learn, reterr);
    return r < 0 ? r : write_policy(learn, reterr);
}

/* What was learned is there whatever comes of trying it. */
static int keep(const struct learn *learn, struct err *reterr)
{
    if (!learn->options.output) {
        bool written =
            fwrite(learn->text.data, 1, learn->text.len, stdout) == learn->text.len && fflush(stdout) == 0;
        return written ? 0 : err_errno(reterr, errno, "writing the policy");
    }
    int r = write_file(learn, reterr);
    return r < 0 ? r : check_beside(learn, reterr);
}

/* The exit code. `r`: what trying it has come to. */
static int conclude(const struct learn *learn, int r, struct err *err)
{
    struct err kept = {0};
    if (r < 0) {
        command_fail(COMMAND, err, EXIT_CODE_FAILED);
    }
    if (!learn->tried) {
        fprintf(stderr, "immure " COMMAND ": the policy has not been tried%s\n",
                learn->observed.interrupted ? ", since it was interrupted" : "");
    }
    if (!learn->passed) {
        fputs(learn->explanation.data ? learn->explanation.data : "", stderr);
    }
    if (keep(learn, &kept) < 0) {
        return command_fail(COMMAND, &kept, EXIT_CODE_FAILED);
    }
    return learn->passed ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

int policy_learn_main(int argc, char **argv)
{
    CLEANUP(learn_free) struct learn learn = {.stdin_fd = -1};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_learn_table, argc, argv, &learn.options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_learn_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments == 0) {
        r = err_set(&err, ERR_INVALID, 0, NULL,
                    "which program? `immure policy learn -- COMMAND [ARGUMENT...]`");
    }
    if (r < 0) {
        return command_fail(COMMAND, &err, EXIT_CODE_USAGE);
    }
    argv[n_arguments + 1] = NULL;
    learn.argv = argv + 1;
    learn.options.runs = learn.options.runs ? learn.options.runs : 1;
    r = learn_policy(&learn, &err);
    if (r < 0) {
        return command_fail(COMMAND, &err, EXIT_CODE_FAILED);
    }
    if (!learn.observed.interrupted) {
        r = try_policy(&learn, &err);
        r = r == 0 && !learn.passed ? try_with_more(&learn, &err) : r;
    }
    return conclude(&learn, r, &err);
}
