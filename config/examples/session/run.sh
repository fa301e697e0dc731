#!/bin/bash
# Keep files between jobs: jobs with the same session_id share a working directory. A caller can put and fetch files, too.
cd "$(dirname "$0")" && . ../serve.sh
serve

printf '3\n4\n' | curl -sS -u ":$IMMURE_KEY" -T - "$IMMURE_URL/sessions/shop/files/prices.txt"
echo
curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
    '{"session_id": "shop", "code": "total = sum(map(int, open(\"prices.txt\")))\nopen(\"total.txt\", \"w\").write(str(total))"}' |
    jq -c '{status, session, output_files}'
curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
    '{"session_id": "shop", "code": "print(open(\"total.txt\").read())"}' | jq -c '{stdout, session}'
curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/sessions/shop/files/total.txt"
echo
curl -sS -u ":$IMMURE_KEY" -X DELETE -w 'deleted: %{http_code}\n' "$IMMURE_URL/workspace/shop"
