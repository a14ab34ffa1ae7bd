#!/usr/bin/env bash
# Start a daemon in a data folder of its own, let it look for duplicate files, and stop it again.
# Usage: scripts/run.sh [FOLDER]        (make run DIR=FOLDER)
set -euo pipefail

project=$(cd "$(dirname "$0")/.." && pwd)
aios="$project/.venv/bin/aios"
data="$project/.aios-run"
ready_tries_max=600

folder=${1:-}
if [ -z "$folder" ]; then
    folder="${HOME:-}/Documents"
    [ -d "$folder" ] || folder=$project
fi
[ -d "$folder" ] || { echo "no such folder: $folder" >&2; exit 2; }
folder=$(cd "$folder" && pwd)
wanted=("root=$folder")
if [ "$folder" = "$project" ]; then
    # What make has made here is nobody's to tidy up.
    wanted+=('exclude=.*')
fi

mkdir -p "$data"
log="$data/serve.log"
: >"$log"

daemon=
stop() {
    [ -n "$daemon" ] || return 0
    kill -TERM "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    daemon=
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Daemon and client each in a process group of its own: Ctrl-C reaches the client alone (not even make), the daemon is stopped by us.
set -m
"$aios" serve --data "$data" --port 0 >>"$log" 2>&1 </dev/null &
daemon=$!

url=
for ((try = 0; try < ready_tries_max; try++)); do
    url=$(grep -Eom1 'https?://(127\.0\.0\.1|\[::1\]|localhost):[0-9]+' "$log" || true)
    [ -z "$url" ] || break
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.1
done
if [ -z "$url" ]; then
    echo "the daemon did not start; its words:" >&2
    cat "$log" >&2
    exit 1
fi

AIOS_URL=$url
AIOS_TOKEN=$(cat "$data/token")
export AIOS_URL AIOS_TOKEN

echo "The daemon listens at $url, its data is in ${data#"$project"/}; looking for duplicates in $folder"
code=0
# A client that Ctrl-Z stopped would look as if it had ended.
trap '' TSTP
if [ -t 0 ] && [ -t 1 ]; then
    "$aios" run system.files.find_duplicates "${wanted[@]}" || code=$?
else
    # Nobody is there to answer: it reports, and removes nothing.
    "$aios" run --no-input system.files.find_duplicates "${wanted[@]}" remove=never || code=$?
fi
stop
echo "The daemon has stopped. Its tasks are kept; to have them again: .venv/bin/aios serve --data ${data#"$project"/}" >&2
exit "$code"
