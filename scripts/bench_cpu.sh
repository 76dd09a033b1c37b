#!/usr/bin/env bash
# scripts/bench_cpu.sh [--repetitions N] [--seconds S] [--busy N | --against BINARY [--keep FILE]] [NETWORK…]: trainer
# against PyTorch on the CPU, two threads each, alternating. Prints samples/s, peak resident memory, their ratios and the
# goals, and keeps the figures in scripts/results/cpu_<date>.json. Networks: mlp, cnn, resnet18, resnet50_64, unet_128, gpt_mini
# and gpt2_124m, of configs/bench/. All take three quarters of an hour; leave the machine alone meanwhile.
#   --busy N          both beside N processes that keep a core busy each, and trainer without them: kept in
#                     scripts/results/cpu_busy<N>_<date>.json
#   --against BINARY  another build of trainer in PyTorch's place, to see whether this one has become slower: prints the
#                     ratio of the speeds by the median of pairs and by the best; kept only in FILE of --keep, which is in
#                     scripts/results/ if it names no folder
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
if [[ ${1-} == -h || ${1-} == --help ]]; then
  exec python3 "$scripts/bench_cpu.py" --help
fi
[[ " $* " == *" --against"* ]] || "$scripts/python_env.sh" >&2
"$scripts/trainer" --version >&2
exec python3 "$scripts/bench_cpu.py" "$@"
