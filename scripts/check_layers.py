#!/usr/bin/env python3
"""Checks what the layout promises and prints file:line for each breach.

A folder includes only folders above it in the table, and itself; only cuda/ and its tests include CUDA headers; own headers are
included from the repository root; source files are snake_case and named for one concept; only cli/terminal/terminal.cpp prints;
nothing stands at the top level but what is agreed.
"""
import argparse
import pathlib
import re
import subprocess
import sys

# From the ground up, as in engine/README.md. Folders of one entry stand beside each other and do not include each other.
LAYERS = [
    ["engine"],
    ["engine/memory"],
    ["engine/config"],
    ["engine/files"],
    ["engine/ops"],
    ["engine/graph"],
    ["engine/device"],
    ["engine/ranks"],
    ["engine/program"],
    ["engine/plan"],
    ["engine/plan/search"],
    ["engine/cpu", "cuda"],
    ["datasets"],
    ["engine/train"],
    ["engine/findings"],
    ["engine/report"],
    ["engine/sweep"],
    ["cli"],
    ["tests"],
]
LEVELS = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}
# Only the command line wires an engine to a device, so what lies between sees Device and not the devices.
DEVICES = {"engine/cpu", "cuda"}
SEES_DEVICES = {"cli", "tests"}
# The tests of cuda/'s own calls into CUDA.
SEES_CUDA = {("tests", "cuda_device"), ("tests", "cudnn"), ("tests", "bench_kernels")}

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "cli", "engine", "cuda", "configs", "datasets", "tests",
             "scripts"}
SOURCES = {".h", ".cpp", ".cuh", ".cu"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|curand|cusparse|cusolver|cufft|cupti|nccl|nvtx|nvml|nvrtc|cub/|thrust/"
                         r"|cooperative_groups|nvToolsExt|device_launch_parameters|vector_types|mma\.h)")
# Note [What reaches a terminal] in cli/terminal/terminal.h. Elsewhere than in cli/ streams are files.
PRINTS = re.compile(r"\bfmt::print\(|\bstd::(cout|cerr|clog|puts|fputs|printf|fprintf|vprintf)\b")
WRITES = re.compile(r"\bstd::(fwrite|fputc|putchar)\(")
FILE_NAME = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")


def folder_of(path):
    """The table's folder that holds a repository path, or None."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    for length in range(len(parts), 0, -1):
        folder = "/".join(parts[:length])
        if folder in LEVELS:
            # A folder of engine/ that the table does not name has no place in it.
            return None if folder == "engine" and len(parts) > 1 else folder
    return None


def may_include(user, used):
    if user == used or user == "tests":
        return True
    if used in DEVICES and user not in SEES_DEVICES:
        return False
    return LEVELS[used] < LEVELS[user]


def breaches_of_file(root, path):
    """(line, message) pairs of one source file; `path` is relative to `root`."""
    stem = path.name.split(".")[0]
    if not FILE_NAME.match(stem):
        yield 1, "file names are snake_case"
    vague = VAGUE.intersection(stem.split("_"))
    if vague:
        yield 1, f"name the file for its one concept, not '{sorted(vague)[0]}'"
    user = folder_of(path.as_posix())
    if user is None:
        yield 1, "this folder is not in the table of layers; add it to scripts/check_layers.py and engine/README.md"
        return
    text = (root / path).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        prints = PRINTS.search(line) or (path.parts[0] == "cli" and WRITES.search(line))
        if prints and user != "tests" and path.as_posix() != "cli/terminal/terminal.cpp":
            yield number, "printing goes through write_text() and write_exactly() of cli/terminal/terminal.h"
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        sees_cuda = user == "cuda" or path.parts[:2] in SEES_CUDA
        if CUDA_HEADER.match(target) and not target.startswith("cuda/") and not sees_cuda:
            yield number, f"only cuda/ and its tests include a CUDA header: {target}"
        if quote != '"':
            continue
        if target.startswith(".") or not (root / target).exists():
            yield number, f"own headers are included by their path from the repository root: {target}"
            continue
        used = folder_of(target)
        if used is None:
            yield number, f"{target} is in no folder of the table of layers"
        elif not may_include(user, used):
            yield number, f"{user}/ does not include {used}/, which is not above it: {target}"


def strangers_at_top_level(root):
    """Paths that git holds, or would take by `git add`, at the top level and that do not belong there; dot files do."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                            capture_output=True, text=True)
    # Outside a repository (an unpacked archive) there is nothing that could be committed.
    tops = {path.split("/")[0] for path in listed.stdout.split("\0") if path}
    return sorted(top for top in tops - TOP_LEVEL if not top.startswith(".") and (root / top).exists())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    count = 0
    for stranger in strangers_at_top_level(root):
        print(f"{stranger}: does not belong at the top level; see TOP_LEVEL in scripts/check_layers.py")
        count += 1
    for top in ("engine", "cuda", "datasets", "cli", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            relative = path.relative_to(root)
            for line, message in breaches_of_file(root, relative):
                print(f"{relative}:{line}: {message}")
                count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
