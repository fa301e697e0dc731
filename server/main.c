/* The command line: finds the sub-command in a table and runs it.
 *
 * Nothing happens before the command is known, since `immure run` is measured in fractions of a millisecond.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/format/textformat.h"
#include "jail/base/cleanup.h"
#include "server/cli/command.h"

#ifndef IMMURE_COMMIT
#define IMMURE_COMMIT "unknown"
#endif

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static int print_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("immure " IMMURE_VERSION " (" IMMURE_COMMIT ")");
    return EXIT_CODE_OK;
}

static const struct command commands[] = {
    {"serve", cmd_serve, "answer jobs over HTTP, each in a jail of its own"},
    {"run", cmd_run, "run one command in a jail, with this terminal's input and output"},
    {"shell", cmd_shell, "a shell in a jail, at a terminal of its own"},
    {"check", cmd_check, "what this host offers, layer by layer, and what to do about the rest"},
    {"policy", cmd_policy, "list, check and explain policies"},
    {"audit", cmd_audit, "hold an audit log against its own hashes"},
    {"mcp", cmd_mcp, "the Model Context Protocol on standard input and output"},
    {"approve", cmd_approve, "show jobs that wait for an approval, and decide"},
    {"key", cmd_key, "make, list and revoke keys"},
    {"env", cmd_env, "make, list and remove environments of Python's packages"},
    {"image", cmd_image, "import, list and remove images that jobs may run in"},
    {"completions", cmd_completions, "what lets bash, zsh or fish complete all of this"},
    {"version", print_version, "which immure this is"},
};

static void print_help(FILE *to)
{
    fputs("usage: immure COMMAND [OPTION...]\n"
          "\n"
          "Runs programs that nobody has read, once each, in a jail that lives for that one job.\n"
          "\n"
          "commands:\n",
          to);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        fprintf(to, "  %-13s%s\n", commands[i].name, commands[i].summary);
    }
    fputs("\n"
          "`immure COMMAND --help` tells the options of one; `immure --version` the version.\n",
          to);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int no_such_command(const char *name)
{
    const char *names[ARRAY_SIZE(commands)];
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        names[i] = commands[i].name;
    }
    const char *nearest = textformat_did_you_mean(name, names, ARRAY_SIZE(names));
    fprintf(stderr, "immure: no such command: '%s'%s%s%s\n", name, nearest ? "; did you mean '" : "",
            nearest ? nearest : "; `immure --help` lists them", nearest ? "'?" : "");
    return EXIT_CODE_USAGE;
}

/* A closed descriptor 0, 1 or 2 would be handed out again by the next open() and then written to as if it
 * were stderr. */
static bool standard_descriptors_open(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) {
            return false;
        }
    }
    return true;
}

static int dispatch(int argc, char **argv)
{
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (strcmp(name, "help") == 0 && argc == 2)) {
        print_help(stdout);
        return EXIT_CODE_OK;
    }
    if (strcmp(name, "--version") == 0) {
        return print_version(argc, argv);
    }
    bool help = strcmp(name, "help") == 0;
    const struct command *command = find_command(help ? argv[2] : name);
    if (!command) {
        return no_such_command(help ? argv[2] : name);
    }
    if (help) {
        char *help_argv[] = {argv[2], (char[]){"--help"}, NULL};
        return command->run(2, help_argv);
    }
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    if (!standard_descriptors_open()) {
        return EXIT_CODE_FAILED;
    }
    if (argc < 2) {
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    int code = dispatch(argc, argv);
    /* A full disk behind stdout must not look like success. */
    if (fflush(stdout) != 0 && code == EXIT_CODE_OK) {
        perror("immure: standard output");
        return EXIT_CODE_FAILED;
    }
    return code;
}
