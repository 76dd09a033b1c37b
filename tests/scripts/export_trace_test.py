"""What `trainer export-trace` writes: its pickles hold plain values alone, and replayed by what is in them they hold, block
by block, what `plan --json` tells; its traces are JSON whose slices nest and whose counters are the plan's timeline.

Environment: TRAINER, the binary.
"""
import collections
import gzip
import io
import json
import os
import pathlib
import pickle
import pickletools
import shutil
import subprocess
import tempfile
import unittest

TRAINER = os.environ["TRAINER"]
# What PyTorch's memory_viz page reads of the pickle module's language (torch/utils/viz/MemoryViz.js).
PAGE_READS = {"APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPUT", "BINUNICODE", "EMPTY_DICT",
              "EMPTY_LIST", "EMPTY_TUPLE", "LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK", "NEWFALSE", "NEWTRUE", "NONE",
              "PROTO", "SETITEMS", "STOP", "TUPLE2"}
MOST_AT_ONCE = 1000

HOSTILE = "a\"b'<i>&\\ é\U0001f600;{}"
CONFIG = {
    "name": HOSTILE,
    "device": {"type": "cpu", "threads": 2},
    "memory": {"limit": "1GiB"},
    "data": {"type": "synthetic", "shape": [16, 16, 3], "classes": 10, "samples": 72, "validation_samples": 32},
    "model": {
        "blocks": {"twice": {"layers": [{"conv2d": {"out": 24, "kernel": 3, "padding": 1}}, "batchnorm2d", "relu"]}},
        "layers": ["twice", {"twice": {"name": "second"}}, "flatten", {"linear": {"out": 10}}]},
    "optimizer": {"type": "adam", "lr": 0.001},
    "train": {"batch_size": 24, "epochs": 2},
    "checkpoint": {"every": 3},
    "output": "run",
}
CASES = {
    "as it is": [],
    "accumulating": ["train.batch_size=12", "train.accumulation_steps=2"],
    "planned": ["memory.allocator=planned"],
    "expandable": ["memory.expandable_segments=true"],
    "checkpointing": ["train.checkpointing=sqrt"],
    "evaluating": ["train.batch_size=1", "train.eval_batch_size=32"],
    "a GPU": ["train.amp=bf16", "--gpu", "rtx3060-12gb"],
    "the second rank": ["parallel={data: 2, shard: optimizer}", "--rank", "1"],
}


class PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"a plain pickle imports {module}.{name}")


def loaded(path):
    return PlainUnpickler(io.BytesIO(path.read_bytes())).load()


class Held:
    """Pieces of memory, none over another."""

    def __init__(self):
        self.pieces, self.sum, self.most = {}, 0, 0

    def add(self, begin, size):
        assert size > 0 and begin not in self.pieces, (begin, size)
        self.pieces[begin] = size
        self.sum += size
        self.most = max(self.most, self.sum)

    def remove(self, begin, size):
        assert self.pieces.pop(begin) == size, (begin, size)
        self.sum -= size

    def check_apart(self):
        end = 0
        for begin in sorted(self.pieces):
            assert begin >= end, f"{begin} lies over what ends at {end}"
            end = begin + self.pieces[begin]

    def holds(self, begin, size):
        """Whether pieces that follow each other without a gap have everything."""
        end = begin + size
        for piece in sorted(self.pieces):
            if piece <= begin < piece + self.pieces[piece]:
                begin = piece + self.pieces[piece]
        return begin >= end


def trainer(folder, *words, exit_code=0):
    done = subprocess.run([TRAINER, *map(str, words)], cwd=folder, capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "2"})
    if done.returncode != exit_code:
        raise AssertionError(f"trainer {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stdout if exit_code == 0 else done.stderr + done.stdout


class ExportTrace(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-trace-"))
        (self.folder / "net.yaml").write_text(json.dumps(CONFIG, indent=1, ensure_ascii=False), encoding="utf-8")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def plan(self, *words, exit_code=0):
        words = [word for word in words if word not in ("--rank", "1")]
        done = subprocess.run([TRAINER, "plan", "net.yaml", *words, "--json"], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=300)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return json.loads(done.stdout)

    def export(self, *words, of="net.yaml"):
        told = json.loads(trainer(self.folder, "export-trace", of, *words, "--pytorch", "t.pickle", "--perfetto", "t.json",
                                  "--overwrite", "--json"))
        self.assertEqual(told["pytorch"]["bytes"], (self.folder / "t.pickle").stat().st_size)
        self.assertEqual(told["perfetto"]["bytes"], (self.folder / "t.json").stat().st_size)
        return told, loaded(self.folder / "t.pickle"), json.loads((self.folder / "t.json").read_text(encoding="utf-8"))

    def replay(self, snapshot):
        """Blocks and segments at the end of the trace; every block lies in segments and over no other."""
        blocks, requested, segments, categories = Held(), Held(), Held(), collections.Counter()
        trace, = snapshot["device_traces"]
        last_time, freed = 0, None
        for entry in trace:
            self.assertGreaterEqual(entry["time_us"], last_time)
            last_time = entry["time_us"]
            action = entry["action"]
            if freed is not None:
                self.assertEqual((action, entry["addr"], entry["size"]), ("free_completed", *freed))
                freed = None
            if action == "alloc":
                blocks.add(entry["addr"], entry["size"])
                requested.add(entry["addr"], entry["requested_size"])
                self.assertTrue(segments.holds(entry["addr"], entry["size"]))
                self.assertLessEqual(entry["requested_size"], entry["size"])
                self.assertTrue(all(set(frame) == {"name", "filename", "line"} for frame in entry["frames"]))
                categories[entry["category"]] += 1
            elif action == "free_requested":
                freed = entry["addr"], entry["size"]
            elif action == "free_completed":
                blocks.remove(entry["addr"], entry["size"])
                requested.remove(entry["addr"], entry["requested_size"])
            elif action in ("segment_alloc", "segment_map"):
                segments.add(entry["addr"], entry["size"])
            elif action in ("segment_free", "segment_unmap"):
                segments.remove(entry["addr"], entry["size"])
                self.assertFalse(any(begin <= address < begin + size for address in blocks.pieces
                                     for begin, size in [(entry["addr"], entry["size"])]))
            elif action == "snapshot":
                self.assertIs(entry, trace[-1])
                self.assertEqual(entry["size"], blocks.sum)
                self.assertEqual(entry["category"], "unknown")
            else:
                self.assertEqual(action, "oom")
            if action in ("alloc", "segment_alloc", "segment_map"):
                blocks.check_apart()
                segments.check_apart()
        self.assertGreater(len(categories), 3)
        return blocks, requested, segments

    def check_state(self, snapshot, blocks, segments):
        """`segments` tell what the trace has left."""
        left = {}
        for segment in snapshot["segments"]:
            place = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], place)
                place += block["size"]
                if block["state"] == "active_allocated":
                    left[block["address"]] = block["size"]
                    self.assertTrue(block["frames"])
                else:
                    self.assertEqual(block["state"], "inactive")
            self.assertEqual(place, segment["address"] + segment["total_size"])
            self.assertEqual(segment["allocated_size"],
                             sum(block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"))
        self.assertEqual(left, blocks.pieces)
        self.assertEqual(sum(segment["total_size"] for segment in snapshot["segments"]), segments.sum)

    def test_a_snapshot_replayed_holds_what_the_plan_tells(self):
        for name, words in CASES.items():
            with self.subTest(name):
                told, snapshot, _ = self.export(*words)
                plan = self.plan(*words)
                blocks, requested, segments = self.replay(snapshot)
                self.check_state(snapshot, blocks, segments)
                step = next(step for step in plan["steps"]
                            if step["evaluation"] == told["plans"][0]["evaluation"]
                            and step["first_step"] <= told["plans"][0]["step"] < step["first_step"] + step["count"])
                ranks = plan.get("ranks")
                if ranks is None:
                    self.assertEqual(plan["peak"]["step"], told["plans"][0]["step"])
                    self.assertEqual(blocks.most, plan["peak_allocated"])
                    self.assertEqual(requested.most, step["peak_requested"])
                    self.assertEqual(segments.most, step["peak_reserved"])
                    self.assertEqual(blocks.sum, step["allocated"])
                    self.assertEqual(segments.sum, step["reserved"])
                else:
                    second = next(plan for plan in ranks["plans"]
                                  if (1 - plan["first_rank"]) % plan["stride"] == 0 and
                                  plan["first_rank"] <= 1 < plan["first_rank"] + plan["num_ranks"] * plan["stride"])
                    self.assertEqual(blocks.most, second["peak_allocated"])
                    self.assertEqual(segments.most, second["peak_reserved"])
                self.assertEqual(told["plans"][0]["peak_allocated"], blocks.most)

    def test_a_pickle_is_in_what_the_page_reads(self):
        self.export("train.batch_size=1", "train.accumulation_steps=24")
        pending = []
        count = 0
        for operation, _, _ in pickletools.genops((self.folder / "t.pickle").read_bytes()):
            self.assertIn(operation.name, PAGE_READS)
            count += 1
            if operation.name == "MARK":
                pending.append(0)
            elif operation.name in ("APPENDS", "SETITEMS"):
                self.assertLessEqual(pending.pop(), MOST_AT_ONCE)
            elif operation.name in ("EMPTY_DICT", "EMPTY_LIST") and pending:
                pending[-1] += 1
        self.assertGreater(count, 5000)
        self.assertGreater(len(loaded(self.folder / "t.pickle")["device_traces"][0]), MOST_AT_ONCE)

    def test_stacks_name_buffer_op_layer_and_phase_at_their_lines(self):
        _, snapshot, _ = self.export()
        lines = (self.folder / "net.yaml").read_text(encoding="utf-8").splitlines()
        self.assertEqual(snapshot["trainer"]["name"], HOSTILE)
        for entry in snapshot["device_traces"][0]:
            if entry["action"] != "alloc" or not entry["frames"][0]["name"].startswith("second."):
                continue
            names = [frame["name"] for frame in entry["frames"]]
            self.assertIn(f"({entry['category']})", names[0])
            self.assertTrue(any(name.startswith("second.") and name.endswith(")") for name in names[1:]), names)
            self.assertRegex(names[-1], "^(forward|backward|update|recompute), step 1$|^held since loading$")
            place = entry["frames"][0]
            self.assertEqual(place["filename"], "net.yaml")
            self.assertRegex(lines[place["line"] - 1], "conv2d|batchnorm2d|relu")
            used = next(frame for frame in entry["frames"] if frame["name"] == "used here")
            self.assertIn("twice", lines[used["line"] - 1])
            if names[-1].startswith("backward"):
                break
        else:
            self.fail("no buffer of the second block in the backward pass")

    def test_a_plan_that_does_not_fit_ends_where_memory_runs_out(self):
        told, snapshot, trace = self.export("memory.limit=3MiB")
        self.assertFalse(told["plans"][0]["fits"])
        blocks, _, segments = self.replay(snapshot)
        self.check_state(snapshot, blocks, segments)
        self.assertLessEqual(segments.most, 3 << 20)
        failure, end = snapshot["device_traces"][0][-2:]
        self.assertEqual((failure["action"], end["action"]), ("oom", "snapshot"))
        self.assertEqual(failure["device_free"], (3 << 20) - segments.sum)
        self.assertNotIn("addr", failure)
        self.assertTrue(any(event["name"] == "exceeds the capacity" for event in trace["traceEvents"]))
        said = trainer(self.folder, "export-trace", "net.yaml", "memory.limit=3MiB", "--pytorch", "u.pickle")
        self.assertIn("where memory runs out", said)
        told, snapshot, _ = self.export("memory.limit=3MiB", "memory.allocator=planned")
        blocks, _, _ = self.replay(snapshot)
        self.assertEqual(blocks.most, self.plan("memory.limit=3MiB", "memory.allocator=planned", exit_code=4)["peak_allocated"])

    def slices(self, trace, pid, tid=1):
        """Of one row, each with its depth; they nest."""
        found, open_ends = [], []
        events = [event for event in trace["traceEvents"] if event["ph"] == "X" and (event["pid"], event["tid"]) == (pid, tid)]
        for event in sorted(events, key=lambda event: event["ts"]):
            begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            while open_ends and open_ends[-1] <= begin and not (begin == end == open_ends[-1]):
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1], event)
            found.append((len(open_ends), event["name"], begin, end, event.get("args", {})))
            open_ends.append(end)
        return found

    def test_a_trace_nests_and_counts_as_the_plan(self):
        for name in ("as it is", "accumulating", "expandable", "evaluating", "checkpointing"):
            with self.subTest(name):
                told, _, trace = self.export(*CASES[name])
                plan = self.plan(*CASES[name])
                slices = self.slices(trace, 1)
                self.assertEqual({depth for depth, *_ in slices}, {0, 1, 2})
                phases = [name for depth, name, *_ in slices if depth == 0]
                self.assertLessEqual(set(phases), {"forward", "backward", "recompute", "update", "eval", "load"})
                ops = [(begin, end) for depth, _, begin, end, _ in slices if depth == 2]
                self.assertEqual(len(ops), told["plans"][0]["ops"])
                self.assertTrue(all(end > begin for begin, end in ops))
                self.assertTrue(all(before[1] == after[0] for before, after in zip(ops, ops[1:])))
                counted = [event for event in trace["traceEvents"] if event["ph"] == "C"]
                allocated = [event["args"]["bytes"] for event in counted if event["name"] == "allocated"]
                by_category = [event["args"] for event in counted if event["name"] == "allocated by category"]
                self.assertEqual(allocated[1:], [point["allocated"] for point in plan["timeline"]])
                for event, point in zip(by_category[1:], plan["timeline"]):
                    self.assertEqual({key: value for key, value in event.items() if value},
                                     {key: value for key, value in point["by_category"].items() if value})
                self.assertEqual(max(allocated), plan["peak_allocated"])
                self.assertEqual(max(event["args"]["bytes"] for event in counted if event["name"] == "reserved"),
                                 plan["peak_reserved"])
                self.assertEqual({event["args"]["bytes"] for event in counted if event["name"] == "capacity"},
                                 {plan["capacity"]})
                self.check_lives(trace, plan)

    def check_lives(self, trace, plan):
        """Spans of one id nest in each other, and their bytes at the peak are the plan's."""
        rows = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] in "be":
                rows[event["pid"], event["id2"]["local"]].append(event)
        moments = collections.Counter()
        for events in rows.values():
            open_spans = []
            self.assertEqual(events, sorted(events, key=lambda event: event["ts"]))
            for event in events:
                if event["ph"] == "b":
                    open_spans.append(event)
                    self.assertLessEqual(len(open_spans), 2)
                else:
                    begun = open_spans.pop()
                    self.assertEqual(begun["name"], event["name"])
                    if open_spans:
                        moments[begun["ts"]] += begun["args"]["bytes"]
                        moments[event["ts"]] -= begun["args"]["bytes"]
            self.assertEqual(open_spans, [])
        held, most = 0, 0
        for moment in sorted(moments):
            held += moments[moment]
            most = max(most, held)
        # What is freed and allocated between two ops is at one moment here.
        self.assertLessEqual(most, plan["peak_allocated"])
        self.assertGreater(most, 0.9 * plan["peak_allocated"])

    def test_only_the_largest_buffers_where_that_is_asked(self):
        _, _, trace = self.export("--buffers", "3")
        lives = [event for event in trace["traceEvents"] if event["ph"] == "b" and "args" in event]
        _, _, everything = self.export()
        every = [event for event in everything["traceEvents"] if event["ph"] == "b" and "args" in event]
        sizes = sorted((event["args"]["bytes"] for event in every), reverse=True)
        self.assertEqual(sorted((event["args"]["bytes"] for event in lives), reverse=True), sizes[:3])

    def test_a_run_is_planned_again_and_shown_as_it_was_measured(self):
        trainer(self.folder, "run", "net.yaml", "-q")
        told, snapshot, trace = self.export(of="run")
        self.assertEqual(told["run_steps"], 6)
        plan = self.plan()
        self.assertEqual(snapshot["trainer"]["peak_allocated"], plan["peak_allocated"])
        self.assertTrue(snapshot["trainer"]["config"].endswith("run/config.yaml"))
        events = [json.loads(line) for line in (self.folder / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        evaluations = [event for event in events if event["event"] == "eval"]
        slices = self.slices(trace, 1)
        measured = [(begin, end, args) for depth, name, begin, end, args in slices if name.startswith("step ")]
        self.assertEqual([args["step"] for *_, args in measured], [step["step"] for step in steps])
        for (begin, end, args), step in zip(measured, steps):
            self.assertAlmostEqual((end - begin) / 1e9, step["step_seconds"], delta=2e-9)
            self.assertEqual(args["loss"], step["loss"])
            self.assertEqual(args["peak allocated"], step["memory"]["peak_allocated"])
        self.assertEqual(sum(name == "evaluation" for _, name, *_ in slices), len(evaluations))
        self.assertEqual([name for depth, name, *_ in slices if depth == 0], ["stage train"])
        self.assertEqual([name for depth, name, *_ in slices if depth == 1], ["epoch 1", "epoch 2"])
        happened = [event["name"] for event in trace["traceEvents"] if event["ph"] == "i" and event["pid"] == 1]
        self.assertEqual(happened.count("checkpoint"), sum(event["event"] == "checkpoint" for event in events))
        self.assertIn("end: done", happened)
        losses = [event["args"]["loss"] for event in trace["traceEvents"] if event["ph"] == "C" and event["name"] == "loss"]
        self.assertEqual(losses, [step["loss"] for step in steps])
        for own in ("run/config.yaml", "run/events.jsonl"):
            refused = trainer(self.folder, "export-trace", "run", "--perfetto", own, "--overwrite", exit_code=6)
            self.assertIn("is read by this command", refused)
        # The plan begins where the run has the step that it is of.
        step = next(at for at in measured if at[2]["step"] == told["plans"][0]["step"])
        self.assertEqual(min(begin for _, _, begin, *_ in self.slices(trace, 2)), step[0])
        names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
        self.assertTrue(all(HOSTILE in name for name in names), names)

    def test_a_compressed_trace_is_the_same(self):
        _, _, trace = self.export()
        trainer(self.folder, "export-trace", "net.yaml", "--perfetto", "u.json.gz", "-q")
        self.assertEqual(json.loads(gzip.decompress((self.folder / "u.json.gz").read_bytes())), trace)

    def test_stages_are_shown_one_beside_the_other(self):
        stages = "stages=[{name: head, train.epochs: 1}, {name: everything, train.batch_size: 8}]"
        trainer(self.folder, "export-trace", "net.yaml", stages, "--perfetto", "s.json", "-q")
        trace = json.loads((self.folder / "s.json").read_text(encoding="utf-8"))
        names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
        self.assertEqual(len(names), 2)
        self.assertIn("stage everything", names[1])
        refused = trainer(self.folder, "export-trace", "net.yaml", stages, "--pytorch", "s.pickle", exit_code=2)
        self.assertIn("--stage says which, one of head, everything", refused)
        trainer(self.folder, "export-trace", "net.yaml", stages, "--pytorch", "s.pickle", "--stage", "head", "-q")
        self.assertEqual(loaded(self.folder / "s.pickle")["trainer"]["stage"], "head")

    def test_what_a_run_measured_is_written_where_it_cannot_be_planned(self):
        trainer(self.folder, "run", "net.yaml", "-q")
        text = (self.folder / "run" / "events.jsonl").read_text(encoding="utf-8")
        start, rest = text.split("\n", 1)
        start = json.loads(start)
        start["config"]["data"] = {"type": "cifar10", "root": "not here"}
        (self.folder / "moved").mkdir()
        (self.folder / "moved" / "events.jsonl").write_text(json.dumps(start) + "\n" + rest, encoding="utf-8")
        told = json.loads(trainer(self.folder, "export-trace", "moved", "--perfetto", "m.json", "--json"))
        self.assertEqual((told["plans"], told["run_steps"]), ([], 6))
        self.assertIn("not here", told["problem"])
        self.assertIn("not here", trainer(self.folder, "export-trace", "moved", "--pytorch", "m.pickle", exit_code=6))
        self.assertFalse((self.folder / "m.pickle").exists())

    def test_wrong_words_are_refused(self):
        for words, code, said in [
                (["net.yaml"], 2, "--pytorch FILE or --perfetto FILE"),
                (["net.yaml", "--pytorch", "x", "--perfetto", "./x"], 2, "give each its own"),
                (["net.yaml", "--pytorch", "x", "--buffers", "3"], 2, "--buffers is of --perfetto"),
                (["nothing.yaml", "--pytorch", "x"], 2, "nothing.yaml"),
                (["net.yaml", "--pytorch", "x", "--rank", "1"], 2, "there is no rank 1"),
                (["net.yaml", "--pytorch", "x", "--rank", "-1"], 2, "--rank"),
                (["net.yaml", "--pytorch", "x", "--gpu", "h100*2"], 2, "a trace is of one rank"),
                (["net.yaml", "--pytorch", "x", "--gpu", "h100,t4"], 2, "h100,t4"),
                (["net.yaml", "--pytorch", "x", "--capacity", "much"], 2, "is not a size"),
                (["net.yaml", "--pytorch", "x", "--stage", "none"], 2, "none"),
                (["net.yaml", "--pytorch", "net.yaml", "--overwrite"], 6, "is read by this command"),
                (["net.yaml", "--pytorch", "no folder/x"], 6, "cannot write"),
                ([".", "--pytorch", "x"], 6, "holds no run")]:
            with self.subTest(words=words):
                self.assertIn(said, trainer(self.folder, "export-trace", *words, exit_code=code))
        self.assertFalse((self.folder / "x").exists())
        self.export()
        self.assertIn("--overwrite", trainer(self.folder, "export-trace", "net.yaml", "--pytorch", "t.pickle", exit_code=6))


if __name__ == "__main__":
    unittest.main()
