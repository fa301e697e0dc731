/* The sub-commands of `immure`, and what they share: exit codes and the one way to report a failure. */
#pragma once

struct err;

/* Exit codes of every command; `immure run` has the program's own besides. */
enum {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_LAUNCHER =
        125, /* `immure run`: the jail could not be built, no instruction of the program ran */
};

/* Each takes its own name as argv[0] and returns the exit code of the process. */
int cmd_serve(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_completions(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_approve(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_env(int argc, char **argv);

/* Verbs of `immure policy`, likewise. */
int policy_diff_main(int argc, char **argv);
int policy_import_main(int argc, char **argv);
int policy_learn_main(int argc, char **argv);
int policy_lint_main(int argc, char **argv);
int policy_test_main(int argc, char **argv);

/* Writes "immure COMMAND: SENTENCE" to stderr and returns `code`. */
int command_fail(const char *command, const struct err *err, int code);
/* For a command whose actions have names, when argv[1] is none of them: writes `usage` to stdout where it was
 * asked for (--help, -h), else to stderr. Returns the exit code. */
int command_usage(int argc, char **argv, const char *usage);
