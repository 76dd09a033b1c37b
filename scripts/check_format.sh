#!/usr/bin/env bash
# Fails where clang-format would change a source file; `scripts/check_format.sh --fix` changes it.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
mode=(--dry-run -Werror)
[[ ${1-} != --fix ]] || mode=(-i)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cuh' '*.cu' |
  xargs -0 -r -P "$(nproc)" -n 8 clang-format "${mode[@]}"
