"""Runs every example of the documentation, and holds what trainer prints against what the page shows.

An example is a fenced block whose first line is `$ scripts/trainer …`. A line of `…` stands for any lines. What plans
print is compared to the letter; of what ran, numbers and line breaks depend on the machine, and words are compared.
Environment: TRAINER, the binary.
"""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "configs/README.md", "configs/PLANNING.md", "configs/OUT_OF_MEMORY.md", "cli/README.md")
BLOCK = re.compile(r"^```\n\$ scripts/trainer (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What `trainer check` is shown with.
TYPO = """data: {type: digits}
model:
  layers:
    - conv2d: {out: 8, kernel: 3}
    - conv2d: {out: 16, kernel: 3, pading: 1}
    - relu
    - flaten
    - linear: {out: 10}
train: {batch_size: 010, epochs: many}
"""


def examples():
    return [(page, tuple(shlex.split(words)), text)
            for page in PAGES for words, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


def words_of(text):
    """Without numbers, their units, and where lines break."""
    text = re.sub(r" on cpu \([^)]*\)", " on cpu", text)
    text = re.sub(r"[-+]?\d[\d,.e-]*( ?(B|KiB|MiB|GiB|s|ms|%))?(?!\w)", "#", text)
    return re.sub(r"\s+", " ", text)


def is_measured(words):
    return words[0] in ("run", "sweep")


@functools.lru_cache(maxsize=None)
def printed_by(words):
    """Exit code, and both streams together."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "configs").symlink_to(ROOT / "configs")
        (pathlib.Path(folder) / "typo.yaml").write_text(TYPO, encoding="utf-8")
        environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": folder, "OMP_NUM_THREADS": "2"}
        result = subprocess.run([os.environ["TRAINER"], *words], cwd=folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return result.returncode, result.stdout


class DocumentedExamples(unittest.TestCase):
    def check(self, page, words, shown):
        exit_code, text = printed_by(words)
        self.assertIn(exit_code, (0, 2, 3, 4), text)
        normal = words_of if is_measured(words) else str
        printed, position = normal(text), 0
        for part in re.split(r"^\s*…\n", shown, flags=re.MULTILINE):
            part = normal(part).strip(" ") if is_measured(words) else part
            found = printed.find(part, position)
            self.assertGreaterEqual(found, 0, f"{page}: trainer {' '.join(words)} does not print\n{part}\nbut\n{printed}")
            position = found + len(part)

    def test_pages_have_examples(self):
        self.assertGreaterEqual(len(examples()), 8)

    def test_every_example_prints_what_is_shown(self):
        for page, words, shown in examples():
            with self.subTest(page=page, command=" ".join(words)):
                self.check(page, words, shown)


if __name__ == "__main__":
    unittest.main()
