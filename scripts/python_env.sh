#!/usr/bin/env bash
# scripts/python_env.sh: the Python with PyTorch that the oracle (scripts/oracle/) and the benchmark compare with.
# Makes the ignored .venv/ with the newest PyTorch that pip installs (a few GiB: PyPI's wheel for Linux brings CUDA's
# libraries, and does not import without them); where that fails, with Debian's python3-torch over OpenBLAS. pandas,
# torchvision, safetensors, tokenizers, tiktoken, transformers, onnx, onnxruntime, tensorboard, prometheus_client and
# mlflow-skinny, for the oracle alone, are added to an environment that lacks them.
# Prints what is used; .venv/bin/python runs it. Delete .venv/ to make it anew.
set -euo pipefail
repository=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd -P)
cd "$repository"
# shellcheck source=scripts/setup.sh
source scripts/setup.sh

works() { [[ -x .venv/bin/python ]] && .venv/bin/python -c 'import torch, numpy; torch.ones(2, 2) @ torch.ones(2, 2)' 2>/dev/null; }

mkdir -p build
log=$repository/build/python_env.log
: >"$log"
if ! works; then
  # python3-dev: torch.compile builds against Python's headers.
  require_packages python3 python3-venv python3-dev g++
  rm -rf .venv
  say "Installing PyTorch into .venv/ (log in build/python_env.log)."
  if ! { python3 -m venv .venv && .venv/bin/pip install torch numpy; } </dev/null >>"$log" 2>&1 || ! works; then
    tail -n 3 "$log" >&2
    say "pip cannot install PyTorch here; taking Debian's python3-torch."
    require_packages python3-torch python3-numpy libopenblas0
    rm -rf .venv
    /usr/bin/python3 -m venv --system-site-packages .venv >>"$log" 2>&1
  fi
  works || { say "PyTorch does not import; see build/python_env.log."; exit 1; }
fi
if ! .venv/bin/python -c 'import pandas' 2>/dev/null; then
  .venv/bin/python -m pip install pandas </dev/null >>"$log" 2>&1 || require_packages python3-pandas
fi
# torchvision goes with one PyTorch; where none does, the oracle leaves that part out and says so.
if ! .venv/bin/python -c 'import torchvision, safetensors' 2>/dev/null; then
  version=$(.venv/bin/python -c 'import torch; print(torch.__version__.split("+")[0])')
  .venv/bin/python -m pip install "torch==$version" torchvision safetensors </dev/null >>"$log" 2>&1 ||
    say "pip has no torchvision for PyTorch $version; its networks are not compared."
fi
if ! .venv/bin/python -c 'import tokenizers, tiktoken' 2>/dev/null; then
  .venv/bin/python -m pip install tokenizers tiktoken </dev/null >>"$log" 2>&1 ||
    say "pip has no tokenizers or tiktoken; tokenizers are not compared."
fi
if ! .venv/bin/python -c 'import transformers' 2>/dev/null; then
  .venv/bin/python -m pip install transformers </dev/null >>"$log" 2>&1 ||
    say "pip has no transformers; GPT-2 and Llama are not compared."
fi
if ! .venv/bin/python -c 'import onnx, onnxruntime' 2>/dev/null; then
  .venv/bin/python -m pip install onnx onnxruntime </dev/null >>"$log" 2>&1 ||
    say "pip has no onnx or onnxruntime; exported models are not tried with them."
fi
if ! .venv/bin/python -c 'import tensorboard, prometheus_client, mlflow' 2>/dev/null; then
  .venv/bin/python -m pip install tensorboard prometheus_client mlflow-skinny </dev/null >>"$log" 2>&1 ||
    say "pip has no tensorboard, prometheus_client or mlflow-skinny; what logging writes is not read by them."
fi
.venv/bin/python - <<'PYTHON'
import platform, torch
origin = "Debian's python3-torch" if torch.__file__.startswith("/usr/lib/") else "PyPI"
print(f"PyTorch {torch.__version__} from {origin}, Python {platform.python_version()}, "
      f"CPU capability {torch.backends.cpu.get_cpu_capability()}")
PYTHON
