/* Environment variables: which of them a request may set, and what a program gets. Pure.
 *
 * Everything in a jail is the caller's own program already, so its environment is no way out. But a caller's
 * variable can reach code that is not the caller's: the interpreter's start, the prelude around the script.
 * So those that choose what is loaded or run are kept from a careless "*". */
#include "policy/env.h"

#include <errno.h>
#include <string.h>

#include "config/message/job.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/policy.h"

#define NAME_BYTES_MAX 255u

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define PROXY_URL       "http://127.0.0.1:" TEXT(JAIL_EGRESS_PORT)

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

/* `name` may be that of NAME=VALUE. */
static bool is_name(const char *known, const char *name)
{
    size_t len = strcspn(name, "=");
    return strncmp(known, name, len) == 0 && known[len] == '\0';
}

static const struct job_env *find_env(const struct job *job, const char *name)
{
    for (size_t i = 0; i < job->n_env; i++) {
        if (is_name(job->env[i].name, name)) {
            return &job->env[i];
        }
    }
    return NULL;
}

static bool policy_sets(const struct policy_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_env; i++) {
        if (is_name(spec->env[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void put_variable(struct buf *ret, const char *name, const char *value, uint32_t *count)
{
    buf_puts(ret, name);
    buf_putc(ret, '=');
    buf_append(ret, value, strlen(value) + 1);
    (*count)++;
}

/* How HTTP clients find the proxy of a policy that names hosts: curl and Python by the small letters, others
 * by the capitals, Node from 24 on where it is told to look. */
static const char *const proxy_variables[] = {
    "HTTP_PROXY=" PROXY_URL,  "http_proxy=" PROXY_URL,        "HTTPS_PROXY=" PROXY_URL,
    "https_proxy=" PROXY_URL, "NO_PROXY=localhost,127.0.0.1", "no_proxy=localhost,127.0.0.1",
    "NODE_USE_ENV_PROXY=1",
};

/* One that gives way to the policy's and the job's. An image's name what is in the image, like the
 * interpreter that reads them: they are not held against what requests may set. */
static void put_beneath(struct buf *ret, const char *variable, const struct policy_spec *spec,
                        const struct job *job, uint32_t *count)
{
    if (!policy_sets(spec, variable) && !find_env(job, variable)) {
        buf_append(ret, variable, strlen(variable) + 1);
        (*count)++;
    }
}

int env_add(struct jail_plan *plan, const struct policy_spec *spec, const struct policy_program *program,
            const struct job *job, struct jail_step *exec, struct err *reterr)
{
    const struct policy_image *image = program->image;
    CLEANUP(buf_free) struct buf run = BUF_INIT;
    uint32_t count = 0;
    for (size_t i = 0; image && i < image->n_env; i++) {
        put_beneath(&run, image->env[i], spec, job, &count);
    }
    for (size_t i = 0; program->proxy && spec->n_egress > 0 && i < ARRAY_SIZE(proxy_variables); i++) {
        put_beneath(&run, proxy_variables[i], spec, job, &count);
    }
    for (size_t i = 0; i < spec->n_env; i++) {
        const struct job_env *own = find_env(job, spec->env[i].name);
        put_variable(&run, spec->env[i].name, own ? own->value : spec->env[i].value, &count);
    }
    for (size_t i = 0; i < job->n_env; i++) {
        if (!policy_sets(spec, job->env[i].name)) {
            put_variable(&run, job->env[i].name, job->env[i].value, &count);
        }
        if (strlen(job->env[i].name) + strlen(job->env[i].value) + 1 > STRING_BYTES_MAX) {
            return err_set(reterr, ERR_INVALID, E2BIG, "env", "must be at most %u bytes each",
                           STRING_BYTES_MAX);
        }
    }
    /* For the prelude. In a kernel they are always shown. */
    if (job->results && (spec->state != POLICY_STATE_KERNEL || !job->session_id)) {
        put_variable(&run, "IMMURE_RESULTS", "1", &count);
    }
    if (run.failed) {
        return err_errno(reterr, ENOMEM, "building the plan");
    }
    if (run.len > STRINGS_BYTES_MAX) {
        return err_set(reterr, ERR_INVALID, E2BIG, "env", "must be at most %u bytes in all",
                       STRINGS_BYTES_MAX);
    }
    exec->exec.envp = jail_plan_bytes(plan, run.data, run.len, 1);
    exec->exec.envc = count;
    return 0;
}
