/* What is wrong with a policy, beyond its schema, told with its place in the file. Runs in the warden and on
 * the command line. Apart from policy_file.c because the schema has a field named errno. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "config/policy/policy_file.h"

int policy_bad(const struct policy_spec *spec, const struct source_position *at, struct err *reterr,
               const char *fmt, ...)
{
    char text[sizeof reterr->text], place[SOURCE_PLACE_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    policy_where(spec, at, place);
    return err_set(reterr, ERR_CONFIG, EINVAL, place, "%s", text);
}

const char *policy_where(const struct policy_spec *spec, const struct source_position *at,
                         char ret[SOURCE_PLACE_TEXT_MAX])
{
    const struct source source = {.name = spec->origin, .files = spec->files, .n_files = spec->n_files};
    return source_where(&source, at ? *at : (struct source_position){0}, ret);
}
