#!/usr/bin/env bash
# scripts/sweep_batch_size.sh CONFIG 16 32 64 … [key=value …] [--flag …]: one `trainer run` a batch size, and a table of
# what each held and how fast it was. Whatever is no number goes to every run, such as train.steps=50 or
# memory.limit=512MiB; with output=DIR the runs are kept, in DIR/batch-16 and so on. A run that ends out of memory
# (exit status 3) is a line of the table like any other.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then usage; exit $(($# == 0 ? 2 : 0)); fi
config=$1
shift
batch_sizes=()
extra=()
output=""
for argument in "$@"; do
  case $argument in
    *[!0-9]*) if [[ $argument == output=* ]]; then output=${argument#output=}; else extra+=("$argument"); fi ;;
    *) batch_sizes+=("$argument") ;;
  esac
done
((${#batch_sizes[@]})) || { echo "No batch size is given." >&2; usage >&2; exit 2; }

# shellcheck source=scripts/setup.sh
source "$scripts/setup.sh"
require_packages python3
"$scripts/trainer" --version >/dev/null  # builds where that is due, and tells so

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Reads the events of one run and prints its line: the peaks of the whole run, and the speed without the first step.
print_line=$(cat <<'PYTHON'
import json
import sys

batch, status = sys.argv[1:]
steps = []
for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:
        continue
    if event.get("event") == "step":
        steps.append(event)


def peak(key):
    if not steps:
        return "-"
    size, units = max(step["memory"][key] for step in steps), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.2f} {units[0]}"


timed = steps[1:] or steps
seconds = sum(step["step_seconds"] for step in timed)
speed = f"{sum(step['samples'] for step in timed) / seconds:.1f}" if seconds > 0 else "-"
meaning = {"0": "done", "3": "out of memory"}.get(status, "failed")
print(f"{batch:>10}  {peak('peak_allocated'):>14}  {peak('peak_reserved'):>14}  {speed:>10}  {status} {meaning}")
PYTHON
)

result=0
printf '%10s  %14s  %14s  %10s  %s\n' "batch size" "peak allocated" "peak reserved" "samples/s" "exit status"
for batch in "${batch_sizes[@]}"; do
  status=0
  "$scripts/trainer" run "$config" "train.batch_size=$batch" --json "output=${output:-$folder}/batch-$batch" "${extra[@]}" \
    >"$folder/events" 2>"$folder/errors" || status=$?
  python3 -c "$print_line" "$batch" "$status" <"$folder/events"
  rm -rf "$folder/batch-$batch"
  if ((status != 0 && status != 3)); then
    head -n 20 "$folder/errors" >&2
    result=$status
    # Usage, data and device errors, and an interruption, would only come again.
    if ((status == 2 || status >= 6)); then break; fi
  fi
done
exit "$result"
