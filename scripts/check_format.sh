#!/usr/bin/env bash
# Fails where clang-format would change a source file; `scripts/check_format.sh --fix` changes it.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
mode=(--dry-run -Werror)
[[ ${1-} != --fix ]] || mode=(-i)
find cli engine cuda datasets tests -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print0 |
  xargs -0 -r -P "$(nproc)" -n 8 clang-format "${mode[@]}"
