/* The option tables of all commands, each in the file of its command: what completions are made from
 * (completions.c). One that is not among them is found by tests/jail/test_completions.py. */
#pragma once

struct option_table;

extern const struct option_table serve_table, run_command_table, shell_command_table, check_table,
    policy_list_table, policy_lint_table, policy_explain_table, policy_show_table, policy_diff_table,
    policy_test_table, policy_learn_table, policy_import_table, env_create_table, env_list_table,
    env_remove_table, audit_verify_table, mcp_table, approve_table, key_add_table, key_list_table,
    key_revoke_table, image_import_table, image_list_table, image_rm_table, completions_table;
