#!/usr/bin/env bash
# scripts/sweep_batch_size.sh CONFIG 16 32 64 … [key=value …] [--flag …]: one run a batch size by `trainer sweep`, and a
# table of what each held and how fast it was. Whatever is no number goes to every run, such as train.steps=50 or
# memory.limit=512MiB; `trainer sweep --help` tells the flags. With output=DIR the rows, a plot and the runs are kept in
# DIR, and the same command goes on where it stopped. A run out of memory is a row like any other.
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
    output=*) output=$argument ;;
    '' | *[!0-9]*) extra+=("$argument") ;;
    *) batch_sizes+=("$argument") ;;
  esac
done
((${#batch_sizes[@]})) || { echo "No batch size is given." >&2; usage >&2; exit 2; }

if [[ -z $output ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  output="output='$folder'"
fi
# One value alone would not be swept; a range of one is.
sizes=$(IFS=,; echo "${batch_sizes[*]}")
if ((${#batch_sizes[@]} == 1)); then sizes=$sizes..$sizes:+1; fi
"$scripts/trainer" sweep "$config" "train.batch_size=$sizes" "$output" "${extra[@]}"
