/* Matching of environment variables against a policy's allow-list. Pure.
 *
 * Everything in a jail is the caller's own program already, so its environment is no way out. But a caller's
 * variable can reach code that is not the caller's: the interpreter's start, the prelude around the script.
 * So those that choose what is loaded or run are kept from a careless "*". */
#include "policy/env.h"

#include <string.h>

#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"

#define NAME_BYTES_MAX 255u

/* Names, or prefixes with a final '*'. */
static const struct {
    const char *pattern, *reason;
} loader_variables[] = {
    {"LD_*", "the dynamic linker loads what it names"},
    {"GLIBC_TUNABLES", "changes the C library's own memory management"},
    {"GCONV_PATH", "the C library loads character set modules from it"},
    {"LOCPATH", "the C library loads locales from it"},
    {"NLSPATH", "the C library opens message catalogues from it"},
    {"MALLOC_*", "changes the C library's own memory management"},
    {"PATH", "decides which programs are run by name"},
    {"IFS", "changes how a shell splits words"},
    {"ENV", "a shell runs the file that it names"},
    {"BASH_ENV", "a shell runs the file that it names"},
    {"BASH_FUNC_*", "defines a shell's functions"},
    {"SHELLOPTS", "changes a shell's options"},
    {"BASHOPTS", "changes a shell's options"},
    {"OPENSSL_*", "libcrypto loads the libraries that it names"},
    {"PYTHONPATH", "Python imports from it before its own library"},
    {"PYTHONHOME", "Python takes its library from it"},
    {"PYTHONSTARTUP", "Python runs the file that it names"},
    {"PYTHONUSERBASE", "Python imports from it"},
    {"PYTHONPYCACHEPREFIX", "Python loads compiled modules from it"},
    {"PYTHONEXECUTABLE", "Python takes it for its own path"},
    {"PYTHONPLATLIBDIR", "Python imports from it"},
    {"PYTHONBREAKPOINT", "Python imports what it names"},
    {"PYTHONINSPECT", "Python waits for input after the script"},
    {"PYTHONCASEOK", "changes what an import finds"},
    {"NODE_OPTIONS", "Node loads what it names"},
    {"NODE_PATH", "Node loads modules from it"},
    {"NODE_COMPILE_CACHE", "Node loads compiled modules from it"},
    {"PERL5LIB", "Perl loads modules from it"},
    {"PERLLIB", "Perl loads modules from it"},
    {"PERL5DB", "Perl runs what it holds"},
    {"PERL5OPT", "Perl loads what it names"},
    {"RUBYLIB", "Ruby loads files from it"},
    {"RUBYOPT", "Ruby loads what it names"},
};

static bool matches(const char *pattern, const char *name)
{
    size_t len = strlen(pattern);
    if (len > 0 && pattern[len - 1] == '*') {
        return strncmp(pattern, name, len - 1) == 0;
    }
    return strcmp(pattern, name) == 0;
}

const char *env_name_problem(const char *name)
{
    if (*name == '\0') {
        return "a variable's name is not empty";
    }
    if (strlen(name) > NAME_BYTES_MAX) {
        return "a variable's name has at most 255 bytes";
    }
    return strchr(name, '=') ? "a variable's name holds no '='" : NULL;
}

const char *env_loader_reason(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(loader_variables); i++) {
        if (matches(loader_variables[i].pattern, name)) {
            return loader_variables[i].reason;
        }
    }
    return NULL;
}

bool env_allowed(const struct policy_spec *spec, const char *name)
{
    bool loader = env_loader_reason(name) != NULL;
    for (size_t i = 0; i < spec->n_env_allow; i++) {
        const char *pattern = spec->env_allow[i];
        if (loader ? strcmp(pattern, name) == 0 : matches(pattern, name)) {
            return true;
        }
    }
    return false;
}
