"""PyTorch's own reader of memory snapshots (torch/cuda/_memory_viz.py) takes what `trainer export-trace --pytorch` writes,
and its sums are those of `trainer plan --json`.

Environment: TRAINER, the binary. Needs PyTorch (scripts/python_env.sh); without it it is skipped (77).
"""
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import interpreters

try:
    from torch.cuda import _memory_viz
except ImportError as missing_module:
    interpreters.go_on_in_environment_or_skip(missing_module)

CASES = {"as it is": [], "planned": ["memory.allocator=planned"], "expandable": ["memory.expandable_segments=true"],
         "too large": ["memory.limit=4MiB"], "larger": ["train.batch_size=512"]}


def as_they_are(lines):
    """In the place of what draws flame graphs, by a script that it downloads."""
    return lines


class MemoryViz(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="trainer-viz-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def call(self, *words, codes=(0,)):
        done = subprocess.run([os.environ["TRAINER"], *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
        self.assertIn(done.returncode, codes, done.stderr)
        return done.stdout

    def snapshot(self, name):
        path = self.path("s.pickle")
        self.call("export-trace", "configs/quickstart.yaml", *CASES[name], "--pytorch", path, "--overwrite", "-q")
        with open(path, "rb") as file:
            return pickle.load(file)

    def test_every_reading_of_it(self):
        for name, words in CASES.items():
            with self.subTest(name):
                snapshot = self.snapshot(name)
                plan = json.loads(self.call("plan", "configs/quickstart.yaml", *words, "--json", codes=(0, 4)))
                reserved = sum(segment["total_size"] for segment in snapshot["segments"])
                allocated = sum(segment["allocated_size"] for segment in snapshot["segments"])
                for read in (_memory_viz.segments, _memory_viz.memory):
                    lines = read(snapshot, format_flamegraph=as_they_are).splitlines()
                    sizes = [(line.split(";")[2 if read is _memory_viz.segments else 1], int(line.rsplit(" ", 1)[1]))
                             for line in lines]
                    self.assertEqual(sum(size for _, size in sizes), reserved)
                    self.assertEqual(sum(size for state, size in sizes if state == "active_allocated"), allocated)
                    self.assertTrue(any("quickstart.yaml" in line and "weight (parameter)" in line for line in lines))
                self.assertIn("total_reserved", _memory_viz.segsum(snapshot))
                told = _memory_viz.trace(snapshot)
                self.assertEqual(told.count("raise OutOfMemoryError"), 0 if plan["fits"] else 1)
                entries = snapshot["device_traces"][0]
                self.assertEqual(len(re.findall(r"^# free completed", told, re.MULTILINE)),
                                 sum(entry["action"] == "free_completed" for entry in entries))
                held = highest = 0
                for entry in entries:
                    held += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0) * entry["size"]
                    highest = max(highest, held)
                self.assertEqual(held, allocated)
                if plan["fits"]:
                    self.assertEqual(highest, plan["peak_allocated"])
                for draw in (_memory_viz.trace_plot, _memory_viz.segment_plot):
                    self.assertIn("snapshot.pickle", draw(snapshot))

    def test_two_of_them_are_compared(self):
        small, large = self.snapshot("as it is"), self.snapshot("larger")
        lines = _memory_viz.compare(small["segments"], large["segments"], format_flamegraph=as_they_are)
        self.assertIn("only_after", lines)
        self.assertEqual(_memory_viz.compare(small["segments"], small["segments"], format_flamegraph=as_they_are), "")

    def test_it_is_read_from_the_command_line(self):
        self.snapshot("as it is")
        for words in (["trace"], ["stats"], ["trace_plot", "-o", self.path("o.html")],
                      ["segment_plot", "-o", self.path("s.html")]):
            done = subprocess.run([sys.executable, "-m", "torch.cuda._memory_viz", words[0], self.path("s.pickle"), *words[1:]],
                                  capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(os.path.getsize(self.path("o.html")), 1000)


if __name__ == "__main__":
    unittest.main()
