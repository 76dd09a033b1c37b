#!/usr/bin/env bash
# scripts/sweep_batch_size.sh CONFIG 16 32 64 … [key=value …] [--flag …]: one run a batch size by `trainer sweep`, and a
# table of what each held and how fast it was. Whatever is no number goes to every run, such as train.steps=50 or
# memory.limit=512MiB; `trainer sweep --help` tells the flags. Rows, a plot and the runs are in runs/batch-sizes until the
# next call; with output=DIR in DIR, where the same command goes on with what it has not run yet. A run out of memory is
# a row like any other.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)

usage() { sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then usage; exit $(($# == 0 ? 2 : 0)); fi
config=$1
shift
batch_sizes=()
extra=()
output=(output=runs/batch-sizes --overwrite)
for argument in "$@"; do
  case $argument in
    output=*) output=("$argument") ;;
    '' | *[!0-9]*) extra+=("$argument") ;;
    *) batch_sizes+=("$argument") ;;
  esac
done
((${#batch_sizes[@]})) || { echo "No batch size is given." >&2; usage >&2; exit 2; }

# One value alone would not be swept; a range of one is.
sizes=$(IFS=,; echo "${batch_sizes[*]}")
if ((${#batch_sizes[@]} == 1)); then sizes=$sizes..$sizes:+1; fi
"$scripts/trainer" sweep "$config" "train.batch_size=$sizes" "${output[@]}" "${extra[@]}"
