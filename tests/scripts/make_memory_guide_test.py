"""make_memory_guide.py over a trainer that only pretends, and what configs/MEMORY.md shows over the real one."""
import io
import os
import pathlib
import re
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import make_memory_guide as guide  # noqa: E402
from trainer_events import Trainer, TrainerFailed  # noqa: E402

PRETENDER = textwrap.dedent("""\
    #!{python} -IS
    # Plans and runs as trainer does: sqrt halves the activations and takes half as long again; offload wants a GPU.
    import json, sys
    words = sys.argv[1:]
    MIB = 1 << 20
    if any("budget" in word for word in words) and "{wrong}" == "budget": sys.exit(2)
    if "memory.moments=8bit" in words and "{wrong}" == "refuse":
        print("'memory.moments' is not known", file=sys.stderr)
        sys.exit(2)
    sqrt = "train.checkpointing=sqrt" in words
    if words[0] == "fit":
        # The smallest GPU trains nothing, the others twice as much with sqrt as without.
        value = 0 if "rtx4090" in words else 2000 if sqrt else 1000
        print(json.dumps(dict(event="fit", maximum=dict(key=words[-2], value=value or None))))
        sys.exit(0 if value else 4)
    if words[0] == "plan":
        activation = (20 if sqrt else 40) * MIB
        held = dict(parameter=4 * MIB, gradient=4 * MIB, optimizer_state=8 * MIB, activation=activation, input=MIB,
                    workspace=MIB // 2, temporary=0, communication=0, frozen=0)
        print(json.dumps(dict(event="plan", fits=True, batch_size=64, peak_allocated=sum(held.values()),
                              peak_reserved=90 * MIB, by_category=held, category_peaks=held)))
    else:
        steps = next(int(word.split("=")[1]) for word in words if word.startswith("train.steps="))
        for step in range(steps):
            # The first steps are slow, and would misjudge the rest.
            print(json.dumps(dict(event="step", step_seconds=9.0 if step < 2 else 0.3 if sqrt else 0.2)))
        print(json.dumps(dict(event="end")))
    """)


def outside_blocks(page):
    return re.sub(r"(<!-- (\w+): begin -->\n).*?(<!-- \2: end -->)", r"\1\3", page, flags=re.DOTALL)


class PretendedTrainer(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(sys, "stderr", io.StringIO())
        patch.start()
        self.addCleanup(patch.stop)

    def make(self, wrong=""):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "trainer"
        path.write_text(PRETENDER.format(python=sys.executable, wrong=wrong))
        path.chmod(0o755)
        return Trainer(path)

    def cells(self, block, title):
        line, = [line for line in block.splitlines() if line.startswith(f"| {title} |")]
        return [cell.strip() for cell in line.strip("|").split("|")]

    def test_a_row_shows_the_peak_its_categories_what_is_reserved_and_the_time(self):
        blocks, figures = guide.make_blocks(self.make(), rounds=1, seconds=0.1)
        self.assertEqual(self.cells(blocks["mlp"], "checkpointing, √n"),
                         ["checkpointing, √n", "`train.checkpointing=sqrt`", "37.5 (65%)", "4.0", "4.0", "8.0", "20.0", "0",
                          "1.5", "90.0", "1.50×"])
        self.assertEqual(self.cells(blocks["mlp"], "everything off")[1], " ".join(f"`{word}`" for word in guide.OFF))
        self.assertEqual(self.cells(blocks["mlp"], "**the default**: both")[1], "")
        self.assertEqual(set(figures), {*guide.MODELS, "wide_head"})

    def test_overrides_that_depend_on_the_model_are_worked_out_from_its_plan(self):
        blocks, _ = guide.make_blocks(self.make(), rounds=0, seconds=0)
        self.assertIn("`train.batch_size=16` `train.accumulation_steps=4`", blocks["cnn"])
        self.assertIn("`train.checkpointing={budget: 37MiB}`", blocks["cnn"])  # 57.5 less half of 40
        self.assertNotIn("step time", blocks["cnn"], "no times were asked for")

    def test_a_technique_that_trainer_refuses_is_told_with_its_words(self):
        with self.assertRaisesRegex(TrainerFailed, r"(?s)memory.moments=8bit.*is not known"):
            guide.make_blocks(self.make("refuse"), rounds=0, seconds=0)

    def test_a_budget_that_no_step_meets_is_a_row_that_says_so(self):
        blocks, figures = guide.make_blocks(self.make("budget"), rounds=0, seconds=0)
        cells = self.cells(blocks["mlp"], "checkpointing, less half the activations")
        self.assertEqual((cells[2], cells[-1]), ("cannot be: no step holds so little", ""))
        self.assertIn(None, [figure["peak_allocated"] for figure in figures["mlp"]])

    def test_the_page_keeps_its_text_and_gets_its_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "MEMORY.md"
            page.write_text(guide.GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
            words = ["make_memory_guide.py", "--rounds", "0", "--trainer", str(self.make().binary)]
            with mock.patch.object(guide, "GUIDE", page), mock.patch.object(sys, "argv", words):
                guide.main()
                first = page.read_text(encoding="utf-8")
                guide.main()
            self.assertEqual(page.read_text(encoding="utf-8"), first)
            self.assertEqual(outside_blocks(first), outside_blocks(guide.GUIDE.read_text(encoding="utf-8")))
            self.assertIn("40.0", first)

    def test_limits_are_those_that_fit_finds_on_each_gpu(self):
        lines = guide.limits_table(self.make()).splitlines()
        self.assertEqual(len(lines), 2 + len(guide.LIMITED) * len(guide.LIMITED_BY))
        self.assertIn("| GPT-2, 124M | `train.amp=bf16` | — | — | 1,000 | 1,000 | 1,000 | 1,000 |", lines)
        self.assertIn("| ViT-B, 224×224 | **together** |  | — |  | 2,000 |  | 2,000 |", lines)

    def test_limits_are_renewed_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "MEMORY.md"
            before = guide.GUIDE.read_text(encoding="utf-8")
            page.write_text(before, encoding="utf-8")
            words = ["make_memory_guide.py", "--limits", "--trainer", str(self.make().binary)]
            with mock.patch.object(guide, "GUIDE", page), mock.patch.object(sys, "argv", words):
                guide.main()
            after = page.read_text(encoding="utf-8")
        limits = re.compile(r"<!-- limits: begin -->.*<!-- limits: end -->", re.DOTALL)
        self.assertEqual(limits.sub("", after), limits.sub("", before))
        self.assertIn("| Llama, 1B | **together** | — | — | 2,000 |", after)

    def test_a_page_without_the_block_is_refused(self):
        with self.assertRaises(TrainerFailed):
            guide.replace_block("no marks", "mlp", "table")


class RealTrainer(unittest.TestCase):
    def test_every_row_of_the_guide_is_a_run_that_trainer_takes_and_that_fits(self):
        binary = os.environ.get("TRAINER_BINARY")
        if not binary:
            self.skipTest("SKIPPED: TRAINER_BINARY names no trainer")
        blocks, figures = guide.make_blocks(Trainer(binary), rounds=0, seconds=0)
        for model in guide.MODELS:
            self.assertEqual(len(figures[model]), len(guide.TECHNIQUES))
            off, together = (figures[model][index]["peak_allocated"] for index in (0, -1))
            self.assertLess(together, off, model)
        # What the page says of overrides is what the script plans.
        page = guide.GUIDE.read_text(encoding="utf-8")
        for name, block in blocks.items():
            for line in block.splitlines():
                title = line.split("|")[1] if line.startswith("| ") else ""
                self.assertIn(title, page, f"{name}: scripts/make_memory_guide.py would write a page with other rows")


if __name__ == "__main__":
    unittest.main()
