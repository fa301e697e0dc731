#!/bin/bash
# Use numpy from a virtual environment.
# Needs: python3-numpy of Debian. To let pip fetch it: immure env create numpy --pip requirements.txt
cd "$(dirname "$0")" && . ../serve.sh
immure env create numpy --debian python3-numpy --directory "$work" >"$work/made"
sed "s|/var/lib/immure/environments|$work|" server.textproto >"$work/server.textproto"
serve "$work/server.textproto"

curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
    '{"language": "numpy", "code": "import numpy\nprint(numpy.linalg.solve([[3, 1], [1, 2]], [9, 8]))"}' | jq -j .stdout
