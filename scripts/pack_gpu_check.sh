#!/usr/bin/env bash
# scripts/pack_gpu_check.sh [--build DIR] [--out FILE] [--folder DIR] [--rehearse]: one compressed archive with all that
# scripts/gpu_check.sh needs on a machine that has a driver, cuBLAS, cuDNN (of Python's packages or a toolkit) and python3,
# and no compiler: trainer, its module and the tests of the device, stripped, with the libraries that a machine may lack,
# scripts, configs, and the files that tests read. There (without xz: python3 -m tarfile -e gpu_check.tar.xz):
#   tar xf gpu_check.tar.xz && gpu_check/scripts/gpu_check.sh runs --out DIR
#   --build DIR   the build tree (build/release)
#   --out FILE    the archive (build/gpu_check.tar.xz); at most 45 MiB
#   --folder DIR  leaves what would be packed in that folder and packs nothing
#   --rehearse    then unpacks it elsewhere and runs all three plans there, with the CPU in the GPU's place and an empty
#                 environment, and says how long they took
set -euo pipefail
root=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd -P)
build=$root/build/release out=$root/build/gpu_check.tar.xz folder= rehearses=false
while (($#)); do
  case $1 in
    --build | --out | --folder) [[ $# -gt 1 ]] || { echo "$1 needs a value" >&2; exit 2; } ;;&
    --build) build=$(cd "$2" && pwd -P); shift 2 ;;
    --out) out=$2; shift 2 ;;
    --folder) folder=$2; shift 2 ;;
    --rehearse) rehearses=true; shift ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) echo "unknown argument $1; --help tells them" >&2 && exit 2 ;;
  esac
done
readonly LARGEST=$((45 * 1024 * 1024))
readonly TESTS=(test_cuda_device test_gpu bench_kernels)
# What glibc and the driver bring, and what NVIDIA's packages do.
readonly THERE='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so|libcuda\.so|libcu|libnv)'
# What a compiler brings: taken only where the machine's are missing or older (scripts/with_libraries.sh).
readonly COMPILERS='^lib(stdc\+\+|gcc_s|gomp)\.so'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/gpu_check
programs=$tree/build/carried
mkdir -p "$programs/tests" "$programs/lib/compiler"

carry() {  # carry FILE FOLDER: stripped, and its libraries
  [[ -f $1 ]] || { echo "$1 is not built" >&2; return 1; }
  strip --strip-unneeded -o "$2/${1##*/}" "$1"
  chmod +x "$2/${1##*/}"
  local name path
  while read -r name path; do
    [[ $name =~ $THERE ]] && continue
    [[ $path == /* ]] || { echo "$1 needs $name, which is not found" >&2; return 1; }
    local target=$programs/lib
    [[ ! $name =~ $COMPILERS ]] || target+=/compiler
    cp -Lu "$path" "$target/$name"
  done < <(ldd "$1" | sed -nE 's/^\s*(\S+) => (\S+).*/\1 \2/p')
}
carry "$build/trainer" "$programs"
carry_built() {  # carry_built FILE FOLDER: where a build without CUDA, or without tests, has it
  if [[ -f $1 ]]; then carry "$@"; else echo "without ${1##*/}: it is not built" >&2; fi
}
carry_built "$build/libtrainer_cuda.so" "$programs"
carry_built "$build/libtrainer_driver_stub.so" "$programs"
for name in "${TESTS[@]}"; do carry_built "$build/tests/$name" "$programs/tests"; done

cp -r "$root/configs" "$tree/"
cp -r "$root/scripts" "$tree/"
rm -rf "$tree/scripts/results"
mkdir -p "$tree/tests"
cp -r "$root/tests/golden" "$tree/tests/"
find "$tree" -name __pycache__ -prune -exec rm -rf {} +
git -C "$root" rev-parse HEAD >"$tree/commit" 2>/dev/null || echo unknown >"$tree/commit"
cat >"$tree/trainer" <<'WRAPPER'
#!/bin/sh
# trainer, with its libraries.
here=$(dirname "$(readlink -f "$0")")
exec "$here/scripts/with_libraries.sh" "$here/build/carried/trainer" "$@"
WRAPPER
chmod +x "$tree/trainer"

if [[ -n $folder ]]; then
  mkdir -p "$folder"
  cp -r "$tree/." "$folder/"
  exit 0
fi
mkdir -p "$(dirname "$out")"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - gpu_check | xz -T0 -3 >"$out"
size=$(stat -c %s "$out")
(cd "$tree" && find . -type f -printf '%s %P\n' | sort -rn | head -n 14 | awk '{printf "  %9d %s\n", $1, $2}')
echo "$out: $((size / 1024)) KiB of at most 45 MiB; unpacked $(du -sm "$tree" | cut -f1) MiB"
if ((size > LARGEST)); then
  echo "the archive is larger than 45 MiB" >&2
  exit 1
fi

$rehearses || exit 0
mkdir "$work/elsewhere" "$work/home"
tar -C "$work/elsewhere" -xf "$out"
rm -rf "$tree"
status=0
for plan in runs faults evidence; do
  begin=$SECONDS
  env -i PATH="$PATH" HOME="$work/home" bash -c 'cd / && "$@"' _ "$work/elsewhere/gpu_check/scripts/gpu_check.sh" "$plan" \
    --rehearse --out "$work/out" 2>"$work/progress" || { status=1; tail -n 20 "$work/progress" >&2; }
  echo "rehearsal of $plan: $((SECONDS - begin)) s"
done
find "$work/out" -type f -printf '  %s %P\n'
exit "$status"
