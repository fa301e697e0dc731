#!/bin/bash
# Run one command in a jail, without a server: it sees the file that is named, and leaves what --out names.
cd "$(dirname "$0")" && . ../serve.sh
cp count.py "$work/" && cd "$work"
export SANDBOX_EXECUTOR_CGROUP=${SANDBOX_EXECUTOR_CGROUP:-BEST_EFFORT}

echo 'to be or not to be' | immure run --memory 256MiB --out '*.txt' python3 count.py
cat words.txt
