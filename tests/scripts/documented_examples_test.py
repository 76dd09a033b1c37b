"""Runs every example of the documentation, and holds what trainer prints against what the page shows.

An example is a fenced block whose first line is `$ scripts/trainer …`. A line of `…` stands for any lines. What plans
print is compared to the letter. What ran tells of the machine too: there the words of three in four lines must be found.
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
PAGES = ("README.md", "configs/README.md", "configs/PLANNING.md", "configs/OUT_OF_MEMORY.md", "configs/SCALING.md",
         "cli/README.md")
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


def lines_of_words(text):
    """Lines without the processor's name, and without numbers and their units."""
    text = re.sub(r" on cpu \(.*, \d+ threads?\)", " on cpu", text)
    text = re.sub(r"[-+]?\d[\d,.e-]*( ?(B|KiB|MiB|GiB|s|ms|%))?(?!\w)", "#", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip() not in ("", "…")]


def is_measured(words):
    return words[0] in ("run", "sweep")


@functools.lru_cache(maxsize=None)
def printed_by(words):
    """Exit code, and both streams together."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "configs").symlink_to(ROOT / "configs")
        (pathlib.Path(folder) / "typo.yaml").write_text(TYPO, encoding="utf-8")
        environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": folder, "OMP_NUM_THREADS": "2"}
        # Called as the page calls it, as scripts/trainer does.
        result = subprocess.run(["scripts/trainer", *words], executable=os.environ["TRAINER"], cwd=folder,
                                env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return result.returncode, result.stdout


class DocumentedExamples(unittest.TestCase):
    def check(self, page, words, shown):
        exit_code, text = printed_by(words)
        self.assertIn(exit_code, (0, 2, 3, 4), text)
        command = f"{page}: trainer {' '.join(words)}"
        if is_measured(words):
            lines, printed = lines_of_words(shown), set(lines_of_words(text))
            missing = [line for line in lines if line not in printed]
            self.assertLess(len(missing), len(lines) / 4, f"{command} prints none of {missing}\nbut\n{text}")
            return
        position = 0
        for part in re.split(r"^\s*…\n", shown, flags=re.MULTILINE):
            found = text.find(part, position)
            self.assertGreaterEqual(found, 0, f"{command} does not print\n{part}\nbut\n{text}")
            position = found + len(part)

    def test_pages_have_examples(self):
        self.assertGreaterEqual(len(examples()), 8)

    def test_every_example_prints_what_is_shown(self):
        for page, words, shown in examples():
            with self.subTest(page=page, command=" ".join(words)):
                self.check(page, words, shown)


if __name__ == "__main__":
    unittest.main()
