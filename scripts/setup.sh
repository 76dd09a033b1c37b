# Sourced by the other scripts: what must be installed, and how a build directory is made and kept current.
# Everything it says goes to stderr, so that a command's stdout stays the command's own.

readonly RUN_PACKAGES="g++ cmake ninja-build libcli11-dev libyaml-cpp-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libdnnl-dev libre2-dev zlib1g-dev libjpeg-dev libspng-dev libwebp-dev libpcre2-dev libutf8proc-dev
  libarchive-dev libjs-dygraphs libncurses-dev"
readonly TEST_PACKAGES="catch2 clang-format clang-tidy git python3 python3-jsonschema openmpi-bin iproute2 jq
  chromium chromium-driver python3-selenium python3-pyte"
readonly FUZZ_PACKAGES="clang libclang-rt-dev libomp-dev"
readonly COVERAGE_PACKAGES="llvm"
# One build serves the fuzzers and the tests under the sanitizers.
readonly FUZZ_CMAKE_ARGUMENTS=(-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -gline-tables-only" -DTRAINER_SANITIZE=address,undefined -DTRAINER_FUZZ=ON)
readonly THREADS_CMAKE_ARGUMENTS=(-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -gline-tables-only" -DTRAINER_SANITIZE=thread)

say() { printf '%s\n' "$*" >&2; }

# check NAME COMMAND…: one that fails does not keep the next from being made; end_of_checks then exits 1.
failed=()
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then say "$name: passed ($((SECONDS - start)) s)"; else
    say "$name: failed ($((SECONDS - start)) s)"
    failed+=("$name")
  fi
}
end_of_checks() {
  ((${#failed[@]})) || return 0
  say "Failed: ${failed[*]}"
  exit 1
}

# require_packages NAME…: installs what Debian's package manager does not list as installed; not root, prints the one
# line that would, and exits 2. Elsewhere CMake names what it misses.
require_packages() {
  command -v dpkg-query >/dev/null 2>&1 || return 0
  local package missing=""
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=" $package"
  done
  [[ -n $missing ]] || return 0
  if [[ $(id -u) != 0 ]]; then
    say "Packages are missing. Install them, then repeat the command:"
    say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing"
    exit 2
  fi
  say "Installing:$missing"
  local log
  log=$(mktemp)
  # shellcheck disable=SC2086  # one word a package
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
      </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    say "apt-get could not install:$missing"
    exit 2
  fi
  rm -f "$log"
}

# require_cudnn_frontend: where there is nvcc, puts the headers of NVIDIA's PyPI package into .cudnn_frontend/, which
# CMake looks for. Where they cannot be had, says so: CMake then builds without CUDA.
readonly CUDNN_FRONTEND=nvidia-cudnn-frontend==1.32.0
require_cudnn_frontend() {
  command -v "${CUDACXX:-nvcc}" >/dev/null 2>&1 || return 0
  local target=$repository/.cudnn_frontend folder
  [[ ! -f $target/include/cudnn_frontend.h ]] || return 0
  folder=$(mktemp -d)
  # Moved into place as a whole, so that what is there is complete.
  if python3 -m pip download --quiet --retries 1 --timeout 10 --no-deps --dest "$folder" "$CUDNN_FRONTEND" </dev/null >"$folder/log" 2>&1 &&
      python3 -m zipfile -e "$folder"/*.whl "$folder/wheel" && [[ -f $folder/wheel/include/cudnn_frontend.h ]]; then
    mkdir -p "$target"
    rm -rf "$target/include.new" "$target/include"
    cp -r "$folder/wheel/include" "$target/include.new"
    mv "$target/include.new" "$target/include"
    say "Unpacked the headers of $CUDNN_FRONTEND into .cudnn_frontend/."
  else
    [[ ! -f $folder/log ]] || tail -n 1 "$folder/log" >&2
    say "Building without CUDA: pip could not get the headers of $CUDNN_FRONTEND. For CUDA run this, then repeat the command:"
    say "  (cd '$repository' && python3 -m pip download --no-deps -d .cudnn_frontend $CUDNN_FRONTEND && python3 -m zipfile -e .cudnn_frontend/*.whl .cudnn_frontend)"
  fi
  rm -rf "$folder"
}

# run_quietly LOG WHAT COMMAND…: appends the output to LOG and shows its end only where the command fails; on a
# terminal a command that draws its own status line (ninja) is left to do so.
run_quietly() {
  local log=$1 what=$2
  shift 2
  if ! "$@" </dev/null >>"$log" 2>&1; then
    tail -n 60 "$log" >&2
    say "$what failed; the whole output is in $log"
    return 1
  fi
}

# configure DIRECTORY CMAKE-ARGUMENT…: one that was made for another place is started afresh.
configure() {
  local directory=$1 cache=$1/CMakeCache.txt launcher=()
  shift
  mkdir -p "$directory"
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$repository" "$cache"; then
    rm -rf "$directory"
    mkdir -p "$directory"
  fi
  if command -v ccache >/dev/null 2>&1; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  : >"$directory/build.log"
  run_quietly "$directory/build.log" "Configuring" \
    cmake -S "$repository" -B "$directory" -G Ninja -DTRAINER_UNITY=ON "${launcher[@]}" "$@"
}

# build DIRECTORY TARGET…
build() {
  local directory=$1
  shift
  if [[ -t 2 ]]; then
    # Warnings are errors, so a build that succeeds leaves nothing but ninja's one status line, wiped here.
    (cd "$directory" && NINJA_STATUS='building %f/%t ' ninja "$@" </dev/null 1>&2) || return 1
    printf '\033[1A\r\033[K' >&2
  else
    run_quietly "$directory/build.log" "Building" ninja -C "$directory" "$@"
  fi
}
