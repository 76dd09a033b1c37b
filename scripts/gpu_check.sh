#!/usr/bin/env bash
# scripts/gpu_check.sh PLAN [--out DIR] [--build DIR] [--only PART …] [--previous SUMMARY] [--rehearse [short]]: what only a
# machine with a GPU can show, in three plans that are each run alone:
#   runs      does it run? Devices, quickstart in every mode, the device's tests, first speeds. Under 7 minutes.
#   faults    what is wrong and slow? Failed cases again (--previous: summary.json of `runs`), compute-sanitizer, the time
#             and the DRAM share of each kernel, autotuning. Under 8 minutes.
#   evidence  losses against the CPU, plan against measured peak, forced out-of-memories, ranks that share the GPU (where
#             NCCL is 2.30 or newer), the benchmark, traces of PyTorch's allocator. Under 9 minutes.
# Needs a built tree, or what scripts/pack_gpu_check.sh has packed, and python3. DIR (default build/gpu_check) holds at any
# moment what was finished by then, in at most eight files; the table comes last. --rehearse puts the CPU in the GPU's
# place. Without a GPU the parts say SKIPPED.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
python=python3
[[ -x $scripts/../.venv/bin/python ]] && python=$scripts/../.venv/bin/python
exec "$python" "$scripts/gpu_check" "$@"
