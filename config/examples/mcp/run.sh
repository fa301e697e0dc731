#!/bin/bash
# Give a host of the Model Context Protocol the tool execute_code. The recipe does with each configuration what its host does.
# Where they belong: claude_desktop_config.json; .mcp.json; .cursor/mcp.json; .vscode/mcp.json; ~/.codex/config.toml
cd "$(dirname "$0")" && . ../serve.sh
serve

# A host that starts its servers itself speaks to them on standard input and output.
mapfile -t command < <(jq -r '.mcpServers.immure | .command, .args[]' claude-desktop.json)
SANDBOX_EXECUTOR_CGROUP=$(jq -r .mcpServers.immure.env.SANDBOX_EXECUTOR_CGROUP claude-desktop.json) \
    "${command[@]}" <session.jsonl 2>"$work/mcp-log" | jq -j 'select(.id == 2) | "claude-desktop.json: \(.result.content[0].text)"'

# The others call a server that runs. Its address stands in the configuration; here it is that of the recipe's server.
for host in claude-code.json cursor.json vscode.json codex.toml; do
    url=$(grep -o 'http://[^"]*' "$host")
    sed -n 3p session.jsonl | curl -sS -H "Authorization: Bearer $IMMURE_KEY" -H 'Accept: application/json, text/event-stream' \
        "${url/http:\/\/127.0.0.1:9099/$IMMURE_URL}" --json @- | jq -j --arg host "$host" '"\($host): \(.result.content[0].text)"'
done
