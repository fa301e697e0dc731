#!/bin/bash
# Start a job, go on with other things, and cancel it. (A caller who waits cancels by hanging up.)
cd "$(dirname "$0")" && . ../serve.sh
serve

job=$(curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute?wait=false" --json \
    '{"code": "import time\nprint(\"begun\")\ntime.sleep(60)", "timeout": 60}' | jq -r .job_id)
curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/jobs/$job" | jq -r .status
curl -sS -u ":$IMMURE_KEY" -X DELETE "$IMMURE_URL/jobs/$job?reason=no+longer+needed"
while curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/jobs/$job" >"$work/job" && [[ $(jq -r .status "$work/job") = running ]]; do
    sleep 0.1
done
jq -c '{status, why: .reply.error_message}' "$work/job"
