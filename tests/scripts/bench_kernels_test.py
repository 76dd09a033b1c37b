"""bench_kernels on a machine without a GPU: what it lists is every kernel of cuda/kernels, and what it cannot do it says."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "cuda" / "kernels"


def bench(*words):
    # A GPU that is there is not asked.
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="")
    return subprocess.run([os.environ["BENCH_KERNELS"], *words], capture_output=True, text=True, env=environment)


def kernels_of_sources():
    names = set()
    for path in sorted(KERNELS.glob("*.cu")) + sorted(KERNELS.glob("*.cuh")):
        for head in re.findall(r"__global__[^{]*", path.read_text()):
            names.add(re.search(r"(\w+)\s*\((?!tile|combined)", re.sub(r"__launch_bounds__\([^)]*\)", "", head))[1])
    return names


class Listed(unittest.TestCase):
    def test_every_kernel_has_a_case(self):
        pairs = [line.split() for line in bench("--list-kernels").stdout.splitlines()]
        self.assertEqual(kernels_of_sources(), {kernel for kernel, _ in pairs})
        self.assertLessEqual({case for _, case in pairs}, set(bench("--list").stdout.split()))

    def test_names_differ(self):
        names = bench("--list").stdout.splitlines()
        self.assertGreater(len(names), 100)
        self.assertEqual(len(names), len(set(names)))


class WithoutGpu(unittest.TestCase):
    def test_says_so_and_ends_well(self):
        with tempfile.TemporaryDirectory() as folder:
            done = bench("--json", folder + "/kernels.json")
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertRegex(done.stdout, "^SKIPPED: ")
            self.assertEqual([], os.listdir(folder))

    def test_refuses_a_case_that_does_not_exist(self):
        done = bench("--once", "no_such_case")
        self.assertEqual(1, done.returncode)
        self.assertIn("no_such_case", done.stderr)


if __name__ == "__main__":
    unittest.main()
