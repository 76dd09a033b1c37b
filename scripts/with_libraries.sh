#!/usr/bin/env bash
# scripts/with_libraries.sh PROGRAM [ARGUMENT…]: runs a program of trainer's with the libraries it was carried with, and
# with cuBLAS and cuDNN of Python's packages or of a toolkit. The path is that program's alone: PyTorch beside it loads
# the libraries that it came with.
# scripts/with_libraries.sh --print PROGRAM: only says that path.
set -euo pipefail
prints=false
if [[ ${1-} == --print ]]; then
  prints=true
  shift
fi
[[ $# -gt 0 ]] || { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
program=$(readlink -f "$1")
shift
python=python3
[[ -x $scripts/../.venv/bin/python ]] && python=$scripts/../.venv/bin/python

folders=()
carried=
for folder in "${program%/*}/lib" "${program%/*}/../lib"; do
  if [[ -d $folder/compiler ]]; then
    carried=$(readlink -f "$folder")
    folders+=("$carried")
    break
  fi
done
while IFS= read -r folder; do folders+=("$folder"); done < <("$python" - <<'PYTHON'
import glob, site, sys
for packages in dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path]):
    for folder in sorted(glob.glob(f"{glob.escape(packages)}/nvidia/*/lib")):
        print(folder)
PYTHON
)
for toolkit in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda*; do
  for folder in "$toolkit"/lib64 "$toolkit"/lib "$toolkit"/targets/x86_64-linux/lib; do
    [[ -d $folder && " ${folders[*]-} " != *" $folder "* ]] && folders+=("$folder")
  done
done
join() { local IFS=: && echo "$*"; }
path=$(join "${folders[@]}" ${LD_LIBRARY_PATH:+"$LD_LIBRARY_PATH"})
# The compiler's own libraries only where the machine's are missing or older than those that were built with.
needed=$(for file in "$program" "${program%/*}/libtrainer_cuda.so"; do
  [[ ! -f $file ]] || LD_LIBRARY_PATH=$path ldd "$file" 2>&1 || true
done)
if [[ -n $carried ]] &&
    grep -qE '(libstdc\+\+|libgcc_s|libgomp|GLIBCXX_|CXXABI_|GCC_|GOMP_).*not found' <<<"$needed"; then
  folders=("$carried/compiler" "${folders[@]}")
  path=$carried/compiler:$path
fi
if $prints; then
  join "${folders[@]}"
else
  LD_LIBRARY_PATH=$path exec "$program" "$@"
fi
