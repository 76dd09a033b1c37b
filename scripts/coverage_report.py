#!/usr/bin/env python3
"""Prints the lines of each folder that were run, of those that were compiled, and the functions that never were.

usage: coverage_report.py BUILD_DIRECTORY    (with `profile`, as llvm-profdata merges it, beside the programs)
"""
import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "cuda", "datasets", "engine")


def own_path(name):
    """`name` below ROOT where it is a source of trainer itself, else an empty string."""
    path = os.path.relpath(name, ROOT)
    return path if path.split("/")[0] in FOLDERS else ""


def exported(build):
    """What llvm-cov knows of all the programs that were built, as one."""
    programs = [path for path in [build / "trainer", *sorted((build / "tests").glob("test_*"))] if path.is_file()]
    objects = [word for path in programs[1:] for word in ("-object", str(path))]
    result = subprocess.run(["llvm-cov", "export", "-skip-expansions", f"-instr-profile={build / 'profile'}",
                             str(programs[0]), *objects], stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)["data"][0]


def lines_by_folder(files):
    """(run, all) of each folder."""
    counts = collections.defaultdict(lambda: [0, 0])
    for file in files:
        if path := own_path(file["filename"]):
            counts[os.path.dirname(path)][0] += file["summary"]["lines"]["covered"]
            counts[os.path.dirname(path)][1] += file["summary"]["lines"]["count"]
    return dict(sorted(counts.items()))


def never_run(functions):
    """(path, line, name) of the functions of which no instance was run."""
    runs = collections.Counter()
    names = {}
    for function in functions:
        place = (own_path(function["filenames"][0]), function["regions"][0][0])
        if place[0]:
            runs[place] += function["count"]
            names[place] = function["name"].split(":")[-1]  # behind the file's name where it is the file's own
    places = sorted(place for place in names if runs[place] == 0)
    demangled = subprocess.run(["c++filt"], input="\n".join(names[place] for place in places), stdout=subprocess.PIPE,
                               text=True, check=True).stdout.splitlines()
    return [(*place, name) for place, name in zip(places, demangled)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1])
    data = exported(pathlib.Path(sys.argv[1]).resolve())
    folders = lines_by_folder(data["files"])
    folders["all"] = [sum(counts[part] for counts in folders.values()) for part in (0, 1)]
    for folder, (covered, count) in folders.items():
        print(f"{folder:24} {covered:6} of {count:6} lines  {100 * covered / max(count, 1):5.1f} %")
    print("\nNever run:")
    for path, line, name in never_run(data["functions"]):
        print(f"{path}:{line}: {name}")


if __name__ == "__main__":
    main()
