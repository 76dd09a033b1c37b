#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources of cli/, cuda/, engine/ and datasets/, in parallel.

usage: check_tidy.py BUILD_DIRECTORY [FILE…]    (a directory with compile_commands.json)

A file that was clean is not looked at again until it, an own header it includes, its command, .clang-tidy or
clang-tidy itself changes: build/tidy_cache/ holds one empty file for each such state.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "cuda", "engine", "datasets")
# Reading the headers of cuDNN's frontend takes clang-tidy minutes; name the file on the command line to check it.
ONLY_WHEN_NAMED = {"cuda/library/cudnn_plans.cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@functools.lru_cache(maxsize=None)
def own_includes(path):
    """Paths below ROOT that `path` includes, directly or through others, and itself."""
    found, open_paths = set(), [path]
    while open_paths:
        current = open_paths.pop()
        if current in found:
            continue
        found.add(current)
        for name in INCLUDE.findall((ROOT / current).read_text(encoding="utf-8")):
            if (ROOT / name).is_file():
                open_paths.append(name)
    return sorted(found)


def state_of(path, command, tool):
    digest = hashlib.sha256(tool)
    # The build directory does not change what is found, so that build directories share the cache.
    digest.update(re.sub(r" -o \S+| -c ", " ", command).encode())
    for name in own_includes(path):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


def check(build, path):
    """What clang-tidy has against `path`, or an empty string."""
    # The flags are the compiler's, of which clang does not know all.
    result = subprocess.run(["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(build),
                             str(ROOT / path)], capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stdout or result.stderr


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.split("\n\n")[1])
    build = pathlib.Path(sys.argv[1]).resolve()
    only = {pathlib.Path(name).resolve() for name in sys.argv[2:]}
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    tool = version + (ROOT / ".clang-tidy").read_bytes()
    cache = ROOT / "build" / "tidy_cache"
    cache.mkdir(parents=True, exist_ok=True)

    pending = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.Path(entry["file"]).resolve()
        if file.suffix != ".cpp" or ROOT not in file.parents or file.relative_to(ROOT).parts[0] not in FOLDERS or (only and file not in only):
            continue
        path = file.relative_to(ROOT).as_posix()
        if path in ONLY_WHEN_NAMED and not only:
            continue
        state = cache / state_of(path, entry["command"], tool)
        if not state.exists():
            pending.append((path, state))

    pending.sort(key=lambda item: -(ROOT / item[0]).stat().st_size)  # the long ones first
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = {pool.submit(check, build, path): state for path, state in pending}
        for run in concurrent.futures.as_completed(runs):
            if run.result():
                failed += 1
                print(run.result().replace(f"{ROOT}/", ""), flush=True)
            else:
                runs[run].touch()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
