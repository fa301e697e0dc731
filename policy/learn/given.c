/* The environment of a program that is watched. Runs in the command line. */
#include "policy/learn/given.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define JAIL_PATH "/usr/bin:/bin"

static bool is_name_of(const char *variable, const char *name, size_t length)
{
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/* In the place of the one of that name, if there is one; `own` stays with it. */
static int set(struct learn_given *given, bool own, const char *name, size_t length, const char *value,
               struct err *reterr)
{
    char *text;
    size_t at = 0, own_at = 0;
    while (at < given->n_env && !is_name_of(given->env[at], name, length)) {
        at++;
    }
    if (at == GIVEN_ENV_MAX || asprintf(&text, "%.*s=%s", (int)length, name, value) < 0) {
        return err_set(reterr, ERR_INVALID, E2BIG, "--env", "more than %u variables", GIVEN_ENV_MAX);
    }
    while (own_at < given->n_own && (at == given->n_env || given->own[own_at] != given->env[at])) {
        own_at++;
    }
    free(given->env[at]);
    given->env[at] = text;
    given->n_env += at == given->n_env;
    if (own || own_at < given->n_own) {
        given->own[own_at] = text;
        given->n_own += own_at == given->n_own;
    }
    return 0;
}

static bool is_program(const char *directory, size_t length, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, directory, name);
    return n > 0 && n < PATH_MAX && stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The directory of `list` that has the program; NULL: none has. */
static const char *search(const char *list, const char *name, size_t *ret_length)
{
    for (; *list; list += *ret_length + (list[*ret_length] == ':')) {
        *ret_length = strcspn(list, ":");
        if (*ret_length > 0 && is_program(list, *ret_length, name)) {
            return list;
        }
    }
    return NULL;
}

/* A jail's PATH; and if the program lies elsewhere, that directory too. */
static int set_path(struct learn_given *given, const char *program, struct err *reterr)
{
    const char *callers = getenv("PATH");
    size_t length = 0;
    if (strchr(program, '/') && access(program, X_OK) < 0) {
        return err_set(reterr, ERR_INVALID, errno, program, "cannot be run: %s", strerror(errno));
    }
    if (strchr(program, '/') || search(JAIL_PATH, program, &length)) {
        return set(given, false, "PATH", 4, JAIL_PATH, reterr);
    }
    const char *directory = search(callers ? callers : "", program, &length);
    if (!directory) {
        return err_set(reterr, ERR_INVALID, ENOENT, program, "no such program");
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s:%s", (int)length, directory, JAIL_PATH);
    return set(given, true, "PATH", 4, path, reterr);
}

/* One that a comment can have, and a policy. */
static bool is_name(const char *name, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return length > 0 && strspn(name, letters) >= length && !(*name >= '0' && *name <= '9');
}

static int set_chosen(struct learn_given *given, const char *text, struct err *reterr)
{
    size_t length = strcspn(text, "=");
    const char *value = text[length] ? text + length + 1 : getenv(text);
    if (!is_name(text, length)) {
        return err_set(reterr, ERR_INVALID, EINVAL, "--env",
                       "a name has letters, digits and '_', and begins with no digit");
    }
    if (!value) {
        return err_set(reterr, ERR_INVALID, EINVAL, "--env",
                       "'%s' is not NAME=VALUE, nor a variable that is set", text);
    }
    return set(given, true, text, length, value, reterr);
}

/* Every session of a terminal has these; a final '*': names that begin so. */
static bool is_usual(const char *name)
{
    static const char *const usual[] = {
        "PATH",    "HOME",  "USER",   "LOGNAME",   "LANG",      "LC_*",    "LANGUAGE",  "SHELL",
        "SHLVL",   "PWD",   "OLDPWD", "TERM",      "TERM_*",    "_",       "MAIL",      "HOSTNAME",
        "DISPLAY", "XDG_*", "SSH_*",  "DBUS_*",    "LS_COLORS", "COLUMNS", "LINES",     "EDITOR",
        "PAGER",   "LESS*", "SUDO_*", "COLORTERM", "WAYLAND_*", "TMPDIR",  "SANDBOX_*", "IMMURE_*",
    };
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
        size_t length = strlen(usual[i]);
        bool begins = usual[i][length - 1] == '*';
        if (begins ? strncmp(name, usual[i], length - 1) == 0 : strcmp(name, usual[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Their names alone: what they hold may be a secret. */
static void find_left_out(struct learn_given *given)
{
    for (char **variable = environ; *variable && given->n_left_out < GIVEN_LEFT_OUT_MAX; variable++) {
        size_t length = strcspn(*variable, "=");
        bool is_set = !is_name(*variable, length);
        for (size_t i = 0; i < given->n_env; i++) {
            is_set |= is_name_of(given->env[i], *variable, length);
        }
        char *name = is_set ? NULL : strndup(*variable, length);
        if (!name || is_usual(name)) {
            free(name);
        } else {
            given->left_out[given->n_left_out++] = name;
        }
    }
}

int learn_given_make(const char *program, const char *const *chosen, size_t n_chosen, struct learn_given *ret,
                     struct err *reterr)
{
    char cwd[PATH_MAX];
    int r = set_path(ret, program, reterr);
    if (r < 0 || !getcwd(cwd, sizeof cwd)) {
        return r < 0 ? r : err_errno(reterr, errno, "finding the working directory");
    }
    const char *const usual[][2] = {
        {"HOME", cwd}, {"USER", "immure"}, {"LOGNAME", "immure"}, {"LANG", "C.UTF-8"}};
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(usual); i++) {
        r = set(ret, false, usual[i][0], strlen(usual[i][0]), usual[i][1], reterr);
    }
    for (size_t i = 0; r == 0 && i < n_chosen; i++) {
        r = set_chosen(ret, chosen[i], reterr);
    }
    find_left_out(ret);
    return r;
}

void learn_given_clear(struct learn_given *given)
{
    for (size_t i = 0; i < given->n_env; i++) {
        free(given->env[i]);
    }
    for (size_t i = 0; i < given->n_left_out; i++) {
        free(given->left_out[i]);
    }
    *given = (struct learn_given){0};
}
