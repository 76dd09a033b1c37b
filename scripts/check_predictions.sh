#!/usr/bin/env bash
# scripts/check_predictions.sh [--json]: whether the cost model knows this machine. Measures its rates (trainer bench),
# writes down what it predicts for a step of the networks of configs/bench/, times them, and prints both and their
# ratio. Exits 1 where one is off by more than 25 %. None of these networks is among those that rates are learned from.
# Leave the machine alone meanwhile; it takes about two minutes.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
"${TRAINER:-$scripts/trainer}" --version >&2
exec python3 "$scripts/check_predictions.py" "$@"
