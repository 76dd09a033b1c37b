#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources of cli/, cuda/, engine/ and datasets/, in parallel.

usage: check_tidy.py BUILD_DIRECTORY [FILE…]    (a directory with compile_commands.json)

With TRAINER_UNITY a library's sources are one unit and looked at as one: reading headers is most of the work. What is
found in a source is the same, as .clang-tidy's filter names sources too. A FILE stands for the unit it is in.

A unit that was clean is not looked at again until it, an own file it includes, its command, .clang-tidy or
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


def sources_of(file):
    """The sources that are compiled with `file`: those that CMake's unity source includes, else itself."""
    if file.parent.name != "Unity":
        return [file]
    return [pathlib.Path(name).resolve() for name in INCLUDE.findall(file.read_text(encoding="utf-8"))]


@functools.lru_cache(maxsize=None)
def own_includes(paths):
    """Paths below ROOT that `paths` include, directly or through others, and themselves."""
    found, open_paths = set(), list(paths)
    while open_paths:
        current = open_paths.pop()
        if current in found:
            continue
        found.add(current)
        for name in INCLUDE.findall((ROOT / current).read_text(encoding="utf-8")):
            if (ROOT / name).is_file():
                open_paths.append(name)
    return sorted(found)


def state_of(paths, command, tool):
    digest = hashlib.sha256(tool)
    # The build directory does not change what is found, so that build directories share the cache.
    digest.update(re.sub(r" -o \S+| -c \S+", " ", command).encode())
    for name in own_includes(paths):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


def check(build, file):
    """What clang-tidy has against `file`, or an empty string."""
    # The flags are the compiler's, of which clang does not know all.
    result = subprocess.run(["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(build),
                             str(file)], capture_output=True, text=True, check=False)
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
        sources = sources_of(file)
        if any(source.suffix != ".cpp" or ROOT not in source.parents for source in sources):
            continue
        paths = tuple(source.relative_to(ROOT).as_posix() for source in sources)
        if any(path.split("/")[0] not in FOLDERS for path in paths) or (only and not only.intersection(sources)):
            continue
        if not only and ONLY_WHEN_NAMED.intersection(paths):
            continue
        state = cache / state_of(paths, entry["command"], tool)
        if not state.exists():
            pending.append((file, state, sum(source.stat().st_size for source in sources)))

    pending.sort(key=lambda unit: -unit[2])  # the long ones first
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = {pool.submit(check, build, file): state for file, state, _ in pending}
        for run in concurrent.futures.as_completed(runs):
            if run.result():
                failed += 1
                print(run.result().replace(f"{ROOT}/", ""), flush=True)
            else:
                runs[run].touch()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
