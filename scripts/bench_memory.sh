#!/usr/bin/env bash
# scripts/bench_memory.sh [--json FILE] [--gpu PROFILE] [activations|checkpointing|halved|transformers|adamw …]: what trainer holds
# beside what PyTorch keeps for the same model and batch: activations at default settings, with train.checkpointing=auto
# under capacities that leave less and less, a U-Net at half of its peak, and AdamW's bytes a parameter. Prints the ratios and the goals, and keeps the
# figures in scripts/results/memory_<date>.json. Nothing is trained: trainer plans, to the byte, and PyTorch's rules are
# counted (scripts/pytorch_saved_tensors.py) and, on the CPU, measured.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
"$scripts/python_env.sh" >&2
exec python3 "$scripts/bench_memory.py" "$@"
