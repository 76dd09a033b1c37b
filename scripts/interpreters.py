"""Which Python a script goes on with, where this one lacks a module: from the beginning, with the same words."""
import os
import pathlib
import sys

ENVIRONMENT = pathlib.Path(__file__).resolve().parent.parent / ".venv"
SYSTEM = "/usr/bin/python3"
SKIPPED = 77


def go_on_in_environment():
    """As that of scripts/python_env.sh; returns where there is none, or this is it."""
    python = ENVIRONMENT / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        os.execv(python, [str(python), *sys.argv])


def go_on_as_system():
    """As the system's, whose modules Debian's packages are; returns where this is it."""
    if sys.executable != SYSTEM:
        os.execv(SYSTEM, [SYSTEM, *sys.argv])


def go_on_in_environment_or_skip(missing):
    """Of a test: it is skipped where the module that an ImportError names is nowhere."""
    go_on_in_environment()
    print(f"skipped: {missing.name} is not installed; scripts/python_env.sh installs what this needs", file=sys.stderr)
    sys.exit(SKIPPED)
