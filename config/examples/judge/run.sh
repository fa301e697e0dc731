#!/bin/bash
# Judge a solution in C++: compile it once, run it on each test with limits of CPU time and memory, and compare.
# Needs: g++ of Debian.
cd "$(dirname "$0")" && . ../serve.sh
serve server.textproto

# A script of the shell; what it leaves in the session is there for the next one.
shell()
{
    jq -n "{session_id: \"sum\", language: \"bash\"} + $1" | curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json @-
}

curl -sS -u ":$IMMURE_KEY" -T sum.cpp "$IMMURE_URL/sessions/sum/files/sum.cpp" >"$work/put"
shell '{policy: "compiler", code: "g++ -static -o sum sum.cpp"}' | jq -r '"compiled: \(.status)\(.stderr)"'
while read -r input answer; do
    shell "{code: \"./sum\", stdin: \"$input\", limits: {cpu_ms: 1000, memory_bytes: 67108864}}" |
        jq -r --arg answer "$answer" 'if .signal == "SIGXCPU" then "too slow" elif .oom then "too much memory"
            elif .status != "success" then .status elif .stdout == $answer + "\n" then "accepted" else "wrong answer" end'
done <<'TESTS'
10 55
100000 5000050000
1000000000000 500000000000500000000000
TESTS
