#!/bin/bash
# Keep variables between jobs, as a notebook does: under the policy python-kernel a session has one interpreter that lives on.
cd "$(dirname "$0")" && . ../serve.sh
serve

for code in 'numbers = [3, 4]' 'numbers.append(5)' 'sum(numbers)'; do
    jq -n --arg code "$code" '{session_id: "notebook", policy: "python-kernel", $code}' |
        curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json @- |
        jq -c '{status, kernel, value: .results[0].data["text/plain"]}'
done
curl -sS -u ":$IMMURE_KEY" -X DELETE -w 'deleted: %{http_code}\n' "$IMMURE_URL/workspace/notebook"
