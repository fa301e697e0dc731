/* What lint says, for people and for programs. On the command line alone. */
#include <string.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "policy/lint/lint.h"

static const char *word_of(enum lint_severity severity)
{
    static const char *const words[] = {
        [LINT_ERROR] = "error", [LINT_WARNING] = "warning", [LINT_ADVICE] = "advice"};
    return words[severity];
}

void lint_print_finding(const struct lint_finding *finding, struct buf *ret)
{
    buf_puts(ret, finding->file);
    if (finding->line > 0) {
        buf_printf(ret, ":%u:%u", finding->line, finding->column);
    }
    buf_printf(ret, ": %s%s%s; %s [%s]", finding->field, *finding->field ? ": " : "", finding->message,
               finding->fix, finding->rule->id);
}

static void put_text(struct buf *ret, const char *name, const char *text)
{
    buf_printf(ret, ", \"%s\": ", name);
    if (text) {
        json_write_string(ret, text, strlen(text));
    } else {
        buf_puts(ret, "null");
    }
}

static void put_number(struct buf *ret, const char *name, unsigned number)
{
    if (number > 0) {
        buf_printf(ret, ", \"%s\": %u", name, number);
    } else {
        buf_printf(ret, ", \"%s\": null", name);
    }
}

void lint_print_json(const char *policy, const struct lint_finding *finding, struct buf *ret)
{
    buf_puts(ret, "{\"policy\": ");
    json_write_string(ret, policy, strlen(policy));
    put_text(ret, "file", finding->file);
    put_number(ret, "line", finding->line);
    put_number(ret, "column", finding->column);
    put_text(ret, "rule", finding->rule->id);
    put_text(ret, "severity", word_of(finding->rule->severity));
    put_text(ret, "field", finding->field);
    put_text(ret, "about", finding->about);
    put_text(ret, "message", finding->message);
    put_text(ret, "fix", finding->fix);
    buf_printf(ret, ", \"fixable\": %s}", finding->edit != LINT_EDIT_NONE ? "true" : "false");
}

void lint_print_rules(struct buf *ret)
{
    const struct lint_rule *rule;
    for (size_t i = 0; (rule = lint_rule_row(i)); i++) {
        buf_printf(ret, "%-18s %-8s %s\n", rule->id, word_of(rule->severity), rule->summary);
    }
}
