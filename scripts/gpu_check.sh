#!/usr/bin/env bash
# scripts/gpu_check.sh [--out DIR] [--build DIR] [--only PART …] [--rehearse]: everything that only a machine with a GPU
# can show, in under nine minutes: the tests, memcheck, losses of CPU and CUDA, planned and measured memory, forced
# out-of-memory, the benchmark, traces of PyTorch's allocator. Needs the built tree (or an installed one), CUDA's
# libraries and python3. Prints a table and writes one JSON file to DIR (default scripts/results).
# --rehearse does it with the CPU in the GPU's place. Without a GPU the parts say SKIPPED.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
python=python3
[[ -x $scripts/../.venv/bin/python ]] && python=$scripts/../.venv/bin/python

# The libraries of CUDA and cuDNN: of a toolkit, and of Python's packages.
libraries=()
for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib64 /usr/local/cuda*/lib64; do
  [[ -d $folder ]] && libraries+=("$folder")
done
while IFS= read -r folder; do libraries+=("$folder"); done < <("$python" - <<'PYTHON'
import glob, site, sys
for packages in dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path]):
    for folder in sorted(glob.glob(f"{glob.escape(packages)}/nvidia/*/lib")):
        print(folder)
PYTHON
)
if ((${#libraries[@]})); then
  joined=$(IFS=:; echo "${libraries[*]}")
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$joined
fi
exec "$python" "$scripts/gpu_check.py" "$@"
