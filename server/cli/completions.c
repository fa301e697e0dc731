/* `immure completions bash|zsh|fish`: what a shell needs to complete commands, verbs, options, names of
 * policies and files, made from the option tables. Runs in the process of the command line.
 *
 * Each shell is given the same rows: words typed so far, and what may follow. The texts are ours; nothing of
 * a caller's is in them. */
#include <stdio.h>
#include <string.h>

#include "config/shipped.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"

const struct option_table completions_table = {
    .command = "completions",
    .synopsis = "bash|zsh|fish",
    .about = "Prints what lets that shell complete commands, options, names of policies and files.",
    .footer = "Exit code: 0, 2 wrong usage.",
    .examples = "immure completions bash > ~/.local/share/bash-completion/completions/immure\n"
                "immure completions zsh > ~/.zfunc/_immure\n"
                "immure completions fish > ~/.config/fish/completions/immure.fish\n",
};

static const struct option_table *const tables[] = {
    &serve_table,        &run_command_table,   &shell_command_table,  &check_table,
    &policy_list_table,  &policy_lint_table,   &policy_explain_table, &policy_show_table,
    &audit_verify_table, &mcp_table,           &approve_table,        &key_add_table,
    &key_list_table,     &key_revoke_table,    &image_import_table,   &image_list_table,
    &image_rm_table,     &completions_table,   &policy_diff_table,    &policy_test_table,
    &policy_learn_table, &policy_import_table, &env_create_table,     &env_list_table,
    &env_remove_table,
};

/* What the value of an option, or an argument, can be: told from what the help calls it. */
enum follows { ANYTHING, FILES, POLICIES, MODES, SHELLS, NONE_ALONE, COMMANDS };

static enum follows follows_of(const char *shown)
{
    static const struct {
        const char *part;
        enum follows follows;
    } rows[] = {{"COMMAND", COMMANDS}, {"NAME|FILE", POLICIES}, {"MODE", MODES}, {"bash|zsh", SHELLS},
                {"FILE", FILES},       {"PATH", FILES},         {"DIR", FILES},  {"none", NONE_ALONE}};
    for (size_t i = 0; shown && i < ARRAY_SIZE(rows); i++) {
        if (strstr(shown, rows[i].part)) {
            return rows[i].follows;
        }
    }
    return ANYTHING;
}

/* The words of a closed set, with a blank before each. */
static void print_words(enum follows follows)
{
    static const char *const words[] = {[MODES] = " required best-effort",
                                        [SHELLS] = " bash zsh fish",
                                        [NONE_ALONE] = " none",
                                        [COMMANDS] = ""};
    for (const struct shipped_file *file = shipped_policies(); follows == POLICIES && file->name; file++) {
        printf(" %s", file->name);
    }
    if (words[follows]) {
        fputs(words[follows], stdout);
    }
}

static void print_option_names(const struct option_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        printf("%s ", table->rows[i].name);
    }
    fputs("--help", stdout);
}

/* The first word of each command, or, with `command`, the verbs of that one, each once. */
static void print_names(const char *command)
{
    size_t length = command ? strlen(command) : 0;
    const char *last = "";
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const char *name = tables[i]->command;
        if (command && (strncmp(name, command, length) != 0 || name[length] != ' ')) {
            continue;
        }
        name += command ? length + 1 : 0;
        size_t size = strcspn(name, " ");
        if (strlen(last) < size || strncmp(name, last, size) != 0 || (last[size] && last[size] != ' ')) {
            printf("%.*s ", (int)size, name);
        }
        last = name;
    }
}

/* ---- bash, and zsh by the same function ---- */

/* The options that take a value, as a pattern of `case`, each kind on its own. */
static void print_value_cases(const struct option_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        if (row->value) {
            printf("    '%s %s') kind=%d candidates='", table->command, row->name,
                   (int)follows_of(row->value));
            print_words(follows_of(row->value));
            fputs("' ;;\n", stdout);
        }
    }
}

/* Sets `kind` and `candidates` for what follows an option, and `options`, `kind` and `candidates` for a
 * command. */
static void print_shell_tables(void)
{
    fputs("_immure_value() {\n  kind= candidates=\n  case \"$1\" in\n", stdout);
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        print_value_cases(tables[i]);
    }
    fputs("  esac\n}\n_immure_command() {\n  options= kind= candidates= verbs=\n  case \"$1\" in\n", stdout);
    const char *last = "";
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const struct option_table *table = tables[i];
        const char *blank = strchr(table->command, ' ');
        size_t length = blank ? (size_t)(blank - table->command) : 0;
        if (blank && (strncmp(last, table->command, length) != 0 || last[length] != ' ')) {
            char command[32];
            snprintf(command, sizeof command, "%.*s", (int)length, table->command);
            printf("    '%s') verbs='", command);
            print_names(command);
            fputs("' ;;\n", stdout);
        }
        printf("    '%s') kind=%d options='", table->command, (int)follows_of(table->synopsis));
        print_option_names(table);
        fputs("' candidates='", stdout);
        print_words(follows_of(table->synopsis));
        fputs("' ;;\n", stdout);
        last = table->command;
    }
    fputs("  esac\n}\n", stdout);
}

/* Walks over the words before the cursor (`typed`), as the parser of options does, and leaves in `candidates`
 * what may come next, and in `kind` whether files or commands may. */
static void print_shell_walk(void)
{
    fputs("_immure_next() {\n"
          "  local command= options= verbs= word state=command ends=\n"
          "  kind= candidates='",
          stdout);
    print_names(NULL);
    printf("help version --help --version'\n"
           "  for word in \"${typed[@]}\"; do\n"
           "    case $state in\n"
           "      command)\n"
           "        [ \"$word\" = help ] && continue\n"
           "        command=$word; _immure_command \"$command\"\n"
           "        state=arguments; [ -n \"$verbs\" ] && state=verb ;;\n"
           "      verb) command=\"$command $word\"; _immure_command \"$command\"; state=arguments ;;\n"
           "      value) _immure_command \"$command\"; state=arguments ;;\n"
           "      arguments)\n"
           "        case $word in\n"
           "          --) options= ; [ \"$kind\" = %d ] && ends=1 ;;\n"
           "          --*=*) ;;\n"
           "          --*) _immure_value \"$command $word\"; [ -n \"$kind\" ] && state=value || "
           "_immure_command \"$command\" ;;\n"
           "          *) [ \"$kind\" = %d ] && state=program ;;\n"
           "        esac ;;\n"
           "    esac\n"
           "  done\n"
           "  case $state in\n"
           "    verb) kind= candidates=$verbs ;;\n"
           "    program) kind=%d candidates= ;;\n"
           "    arguments) candidates=\"$candidates $options\" ;;\n"
           "  esac\n"
           "  [ -n \"$ends\" ] && candidates=\n"
           "  return 0\n"
           "}\n",
           (int)COMMANDS, (int)COMMANDS, (int)FILES);
}

static void print_bash(void)
{
    print_shell_tables();
    print_shell_walk();
    printf("_immure() {\n"
           "  local cur=${COMP_WORDS[COMP_CWORD]} kind candidates\n"
           "  local typed=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
           "  _immure_next\n"
           "  COMPREPLY=($(compgen -W \"$candidates\" -- \"$cur\"))\n"
           "  case $kind in\n"
           "    %d|%d) COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
           "    %d) COMPREPLY+=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n"
           "  esac\n"
           "}\n"
           "complete -o filenames -F _immure immure\n",
           (int)FILES, (int)POLICIES, (int)COMMANDS);
}

static void print_zsh(void)
{
    puts("#compdef immure");
    print_shell_tables();
    print_shell_walk();
    printf("_immure() {\n"
           "  local kind candidates\n"
           "  local -a typed\n"
           "  typed=(\"${(@)words[2,CURRENT-1]}\")\n"
           "  _immure_next\n"
           "  compadd -- ${=candidates}\n"
           "  case $kind in\n"
           "    %d|%d) _files ;;\n"
           "    %d) _command_names -e; _files ;;\n"
           "  esac\n"
           "}\n"
           "compdef _immure immure 2>/dev/null || true\n",
           (int)FILES, (int)POLICIES, (int)COMMANDS);
}

/* ---- fish ---- */

/* In single quotes, where fish knows no escape but of these two. */
static void print_fish_text(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
    putchar('\'');
}

static void print_fish_condition(const struct option_table *table)
{
    const char *blank = strchr(table->command, ' ');
    int length = blank ? (int)(blank - table->command) : (int)strlen(table->command);
    printf("complete -c immure -n '__fish_seen_subcommand_from %.*s", length, table->command);
    if (blank) {
        printf("; and __fish_seen_subcommand_from%s", blank);
    }
    putchar('\'');
}

static void print_fish_words(enum follows follows)
{
    fputs(" -a '", stdout);
    print_words(follows);
    putchar('\'');
}

static void print_fish_table(const struct option_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        enum follows follows = follows_of(row->value);
        print_fish_condition(table);
        printf(" -l %s -d ", row->name + 2);
        print_fish_text(row->help);
        if (row->value) {
            fputs(follows == FILES ? " -rF" : follows == POLICIES ? " -rF" : " -x", stdout);
            print_fish_words(follows);
        }
        putchar('\n');
    }
    enum follows follows = follows_of(table->synopsis);
    print_fish_condition(table);
    print_fish_words(follows);
    puts(follows == FILES || follows == POLICIES ? " -F"
         : follows == COMMANDS                   ? " -F -a '(__fish_complete_command)'"
                                                 : "");
    print_fish_condition(table);
    puts(" -l help -d 'print its options'");
}

static void print_fish(void)
{
    fputs("complete -c immure -f\ncomplete -c immure -n __fish_use_subcommand -a '", stdout);
    print_names(NULL);
    puts("version help'");
    const char *last = "";
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const char *blank = strchr(tables[i]->command, ' ');
        int length = blank ? (int)(blank - tables[i]->command) : 0;
        if (blank && strncmp(last, tables[i]->command, (size_t)length + 1) != 0) {
            char command[32];
            snprintf(command, sizeof command, "%.*s", length, tables[i]->command);
            printf(
                "complete -c immure -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from ",
                command);
            print_names(command);
            fputs("' -a '", stdout);
            print_names(command);
            puts("'");
        }
        print_fish_table(tables[i]);
        last = tables[i]->command;
    }
}

int cmd_completions(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&completions_table, argc, argv, NULL, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&completions_table, stdout);
        return EXIT_CODE_OK;
    }
    for (size_t i = 0; r == 0 && n_arguments == 1 && i < ARRAY_SIZE(shells); i++) {
        if (strcmp(argv[1], shells[i].name) == 0) {
            shells[i].print();
            return EXIT_CODE_OK;
        }
    }
    if (r == 0) {
        err_set(&err, ERR_INVALID, 0, NULL, "for which shell? `immure completions bash`, zsh or fish");
    }
    return command_fail("completions", &err, EXIT_CODE_USAGE);
}
