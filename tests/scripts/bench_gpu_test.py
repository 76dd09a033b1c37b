"""bench_gpu.py without a GPU and without PyTorch: what it makes of its figures, and what becomes of what goes wrong, over
a trainer and a PyTorch that only pretend."""
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import bench_gpu  # noqa: E402
import bench_gpu_report  # noqa: E402
from bench_gpu_networks import figures_of, write_data  # noqa: E402
from bench_peer import Peer, PeerLost, Refused  # noqa: E402
from child_process import Failed, run_process  # noqa: E402

# Both write what they run to the file `calls` beside them. A step takes 5 ms, of PyTorch 10.
TRAINER = textwrap.dedent("""\
    #!{python} -IS
    import json, pathlib, sys
    here = pathlib.Path(__file__).parent
    words = sys.argv[1:]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if words[0] == "doctor":
        gpu = "gpu" in (here / "wrong").read_text()
        print('{{"devices":[{{"kind":"cuda"}}]}}' if gpu else '{{"devices":[]}}')
    elif words[0] == "plan":
        ops = [dict(flops=1e6, input_bytes=100, output_bytes=50, calls=2), dict(flops=0, input_bytes=1e6, output_bytes=0, calls=1)]
        print(json.dumps(dict(event="plan", step_flops=2e6, peak_reserved=7, ops=ops)))
    else:
        output, steps = pathlib.Path(given["output"]), int(given["train.steps"])
        output.mkdir(parents=True)
        if steps == 0:
            (output / "checkpoints" / "step-00000000").mkdir(parents=True)
            (output / "checkpoints" / "step-00000000" / "model.safetensors").write_bytes(b"first")
            sys.exit(0)
        assert pathlib.Path(words[words.index("--weights") + 1]).read_bytes() == b"first"
        amp = given["train.amp"]
        precision = amp if amp != "off" else "tf32" if "tf32: true" in given["device"] else "f32"
        with (here / "calls").open("a") as file: file.write(f"trainer {{precision}} {{steps - 20}}\\n")
        lines = [dict(event="start", parameters=10)]
        lines += [dict(event="step", loss=2 - step / 100, step_seconds=0.005, samples=4) for step in range(steps)]
        lines += [dict(event="end", peak_reserved=300 << 20, peak_allocated=200 << 20, peak_used=900 << 20, passes=dict(total=steps),
                       outside_allocator=dict(parts=[dict(name="other processes and the driver", bytes=100 << 20)]))]
        (output / "events.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
    """)
PEER = textwrap.dedent("""\
    import json, os, pathlib, sys, time
    sys.path.insert(0, {scripts!r})
    from bench_peer import Broken, serve, with_trouble
    here = pathlib.Path(__file__).parent
    print("a library says something", flush=True)  # not an answer

    def answer(request):
        wrong = json.loads((here / "wrong").read_text())
        if request["do"] == "open":
            time.sleep(wrong.get("slow_open", 0))
            return dict(torch="pretended", device=request["device"])
        if request["do"] == "ceilings":
            return dict(flops_per_second=dict(f32=1e9, bf16=1e10), bytes_per_second=1e9, node_seconds=1e-3, device="pretended")
        with (here / "calls").open("a") as file: file.write(f"{{request['mode']}} {{request['precision']}} {{request['do']}}\\n")
        if request["do"] == "prepare":
            off = wrong.get("losses") == request["mode"]
            time.sleep(wrong.get("slow", 0))
            return dict(losses=[2 - step / 100 + (step == 19 and off) for step in range(request["compared"])], parameters=10,
                        step_seconds=0.01, memory=dict(reserved=1000 << 20, reserved_steady=600 << 20, driver=1600 << 20))
        if wrong.get("dies") == request["mode"]: os._exit(7)
        if wrong.get("breaks") == request["mode"]: raise Broken("an illegal access")
        if wrong.get("waits") == request["mode"]: time.sleep(1000)
        time.sleep(wrong.get("slow_runs", 0))
        return dict(step_seconds=0.01, samples_per_second=400.0)

    serve(with_trouble(answer))
    """)


class Pretended(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trainer, self.peer = self.folder / "trainer", self.folder / "peer.py"
        self.trainer.write_text(TRAINER.format(python=sys.executable))
        self.trainer.chmod(0o755)
        self.peer.write_text(PEER.format(scripts=str(SCRIPTS)))
        self.result = self.folder / "result.json"
        self.wrong()

    def wrong(self, **what):
        (self.folder / "wrong").write_text(json.dumps(what))

    def words(self, *words):
        return ["bench_gpu.py", "--rehearse", "--trainer", str(self.trainer), "--peer", sys.executable, str(self.peer),
                "--json", str(self.result), "--peer-log", str(self.folder / "peer.log"), "--precisions", "f32", "bf16",
                *words, "--", "mlp_small"]

    def bench(self, *words):
        """(exit code, what is printed, the figures of the network) of the whole script."""
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", self.words(*words)), contextlib.redirect_stdout(printed), \
                mock.patch.object(bench_gpu, "HANG_SECONDS", 0.5), mock.patch.dict(os.environ):
            code = bench_gpu.main()
        return code, printed.getvalue(), json.loads(self.result.read_text())["networks"]["mlp_small"]

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def test_modes_that_fail_or_hang_cost_themselves_and_all_others_are_timed(self):
        code, printed, entry = self.bench()
        self.assertEqual(code, 0, printed)
        for precision, results in entry["precisions"].items():
            self.assertEqual(list(results), ["trainer", "eager", "compile", "fails", "hangs"])
            self.assertIn("as it was asked to", results["fails"]["failed"])
            self.assertIn("no answer within", results["hangs"]["failed"])
            for mode in ("trainer", "eager", "compile"):
                self.assertEqual(len(results[mode]["runs"]), 2, (precision, mode))
                self.assertNotIn("failed", results[mode])
        self.assertEqual(entry["peer"]["torch"], "pretended")

    def test_repetitions_alternate_and_what_was_lost_is_prepared_again(self):
        self.bench("--modes", "eager", "hangs", "--precisions", "f32")
        self.assertEqual(self.calls(), ["trainer f32 5", "eager f32 prepare",  # the process is lost to the mode that hangs
                                        "trainer f32 10", "eager f32 prepare", "eager f32 run",
                                        "trainer f32 10", "eager f32 run"])

    def test_speed_and_memory_are_told_beside_the_fastest_mode_of_the_same_precision(self):
        _, printed, entry = self.bench("--modes", "eager", "compile graphs")
        ratios = entry["ratios"]["by_precision"]["bf16"]
        self.assertAlmostEqual(ratios["eager"]["speed"], 2)
        self.assertAlmostEqual(ratios["compiled with graphs"]["speed"], 2)
        self.assertNotIn("compiled", ratios)
        self.assertAlmostEqual(ratios["memory"]["reserved_steady"], 0.5)
        self.assertAlmostEqual(ratios["memory"]["reserved"], 0.3)
        # Less those that were there before: the driver counts all.
        self.assertAlmostEqual(ratios["memory"]["driver"], 0.5)
        self.assertRegex(printed, r"f32: speed over compiled with graphs 2\.00×, goal 3\.0×: not met")
        self.assertRegex(printed, r"reserved memory beside the fastest mode 0\.50×, goal 0\.6×: met")

    def test_on_a_gpu_all_modes_are_timed_beside_the_ceilings_of_the_same_run(self):
        self.wrong(gpu=True)
        words = [word for word in self.words("--repetitions", "1", "--seconds", "0.05") if word != "--rehearse"]
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(printed):
            code = bench_gpu.main()
        self.assertEqual(code, 0, printed.getvalue())
        figures = json.loads(self.result.read_text())
        self.assertEqual(figures["ceilings"]["device"], "pretended")
        entry = figures["networks"]["mlp_small"]
        self.assertEqual(list(entry["precisions"]["bf16"]), ["trainer", *bench_gpu.MODES])
        self.assertEqual(entry["peer"]["device"], "cuda")
        # 2 MFLOP at 1 and 10 GFLOP/s, 1,000,300 bytes at 1 GB/s, three calls of a millisecond; two of them take 1 ms by
        # FLOPs in f32, the third 1 ms by its bytes.
        self.assertRegex(printed.getvalue(), "f32: .* 2000 µs by flops, 1000 µs by bytes, 3000 µs by calls, 3000 µs by")
        self.assertRegex(printed.getvalue(), "bf16: .* 200 µs by flops, 1000 µs by bytes")

    def test_a_mode_that_trains_otherwise_is_a_failure_and_meets_no_goal_but_is_timed(self):
        self.wrong(losses="compile graphs")
        code, printed, entry = self.bench("--modes", "eager", "compile graphs")
        self.assertEqual(code, 1)
        other = entry["precisions"]["f32"]["compile graphs"]
        self.assertIn("losses differ from trainer's", other["differs"])
        self.assertEqual(len(other["runs"]), 2)
        self.assertNotIn("differs", entry["precisions"]["f32"]["eager"])
        self.assertRegex(printed, "compile graphs .* trains otherwise")
        self.assertRegex(printed, r"f32: speed over compiled with graphs 2\.00×, goal 3\.0×: not known")

    def test_a_mode_that_dies_in_a_repetition_does_not_take_the_others_with_it(self):
        self.wrong(dies="eager")
        code, _, entry = self.bench("--modes", "eager", "compile")
        self.assertEqual(code, 1)
        self.assertIn("ended with 7", entry["precisions"]["f32"]["eager"]["failed"])
        self.assertEqual(len(entry["precisions"]["f32"]["compile"]["runs"]), 2)

    def test_after_a_fault_that_stays_the_others_go_on_in_another_process(self):
        self.wrong(breaks="eager")
        code, _, entry = self.bench("--modes", "eager", "compile", "--precisions", "f32")
        self.assertEqual(code, 1)
        self.assertIn("an illegal access", entry["precisions"]["f32"]["eager"]["failed"])
        self.assertEqual(len(entry["precisions"]["f32"]["compile"]["runs"]), 2)
        self.assertEqual(self.calls().count("compile f32 prepare"), 2)

    def test_what_the_other_side_says_is_kept(self):
        self.bench("--modes", "eager")
        self.assertIn("a library says something", (self.folder / "peer.log").read_text())

    def test_what_comes_before_the_first_timing_is_not_paid_by_the_networks_share(self):
        self.wrong(slow_open=2)
        shares = []

        def share(seconds):
            shares.append(seconds)
            return Share(seconds)

        Share = bench_gpu.Share
        with mock.patch.object(bench_gpu, "Share", share):
            self.bench("--modes", "eager", "--budget", "100", "--repetitions", "1")
        self.assertEqual(len(shares), 1)
        self.assertLess(shares[0], 98)

    def test_a_process_that_is_not_there_leaves_trainers_figures(self):
        self.peer.write_text("raise SystemExit('No module named torch')")
        code, printed, entry = self.bench("--modes", "eager")
        self.assertEqual(code, 1)
        self.assertIn("No module named torch", printed)
        self.assertEqual(len(entry["precisions"]["bf16"]["trainer"]["runs"]), 2)

    def test_short_of_time_repetitions_are_left_out_before_modes(self):
        self.wrong(slow_runs=1.5)
        begin = time.monotonic()
        code, printed, entry = self.bench("--modes", "eager", "compile", "--budget", "9", "--repetitions", "2")
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(code, 0, printed)
        counts = {mode: len(result["runs"]) for mode, result in entry["precisions"]["f32"].items()}
        self.assertEqual(set(counts.values()), {1}, printed)
        self.assertRegex(printed, "1 of 2 repetitions: another takes about")

    def test_with_no_time_at_all_the_last_modes_are_dropped_and_it_is_said(self):
        self.wrong(slow=3)  # four of them take as long as all has
        code, printed, entry = self.bench("--modes", "eager", "compile", "--budget", "12")
        self.assertEqual(code, 0)
        self.assertIn("no time for it", entry["precisions"]["bf16"]["compile"]["dropped"])
        self.assertGreaterEqual(len(entry["precisions"]["f32"]["eager"]["runs"]), 1)
        self.assertRegex(printed, r"compile, bf16: dropped")

    def test_what_is_known_when_it_is_killed_is_in_the_file_and_nothing_is_left_running(self):
        self.wrong(waits="compile")
        with subprocess.Popen([sys.executable, str(SCRIPTS / "bench_gpu.py"), *self.words("--modes", "eager", "compile")[1:]],
                              stdout=subprocess.DEVNULL, start_new_session=True) as process:
            deadline = time.monotonic() + 60
            while "compile f32 run" not in (self.calls() if (self.folder / "calls").exists() else []):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
        entry = json.loads(self.result.read_text())["networks"]["mlp_small"]
        self.assertEqual(len(entry["precisions"]["f32"]["eager"]["runs"]), 1)
        deadline = time.monotonic() + 10
        while self.peer_runs():
            self.assertLess(time.monotonic(), deadline, "the other side lives on")
            time.sleep(0.05)

    def peer_runs(self):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.peer).encode() in path.read_bytes():
                    return True
        return False

    def test_without_a_gpu_it_is_skipped(self):
        words = [word for word in self.words() if word != "--rehearse"]
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(printed):
            self.assertEqual(bench_gpu.main(), 0)
        self.assertRegex(printed.getvalue(), "SKIPPED: trainer has no CUDA device")
        self.assertFalse(self.result.exists())


    def test_without_pytorch_there_is_nothing_to_rehearse_with(self):
        words = ["bench_gpu.py", "--rehearse", "--trainer", str(self.trainer), "--json", str(self.result)]
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(printed), mock.patch.dict(os.environ), \
                mock.patch("importlib.util.find_spec", return_value=None):
            self.assertEqual(bench_gpu.main(), 0)
        self.assertRegex(printed.getvalue(), "SKIPPED: .* no PyTorch")


class Figures(unittest.TestCase):
    def test_the_median_of_the_repetitions_counts_and_their_spread_is_told(self):
        runs = [{"samples_per_second": speed, "step_seconds": 1 / speed} for speed in (90.0, 100.0, 120.0)]
        self.assertEqual(bench_gpu_report.speed_of({"runs": runs}),
                         {"median": 100.0, "least": 90.0, "most": 120.0, "spread": 0.3, "step_seconds": 0.01})
        self.assertIsNone(bench_gpu_report.speed_of({"runs": []}))

    def test_a_step_is_bound_by_the_longest_of_each_call(self):
        plan = {"step_flops": 300, "peak_reserved": 1,
                "ops": [{"flops": 100, "input_bytes": 4, "output_bytes": 6, "calls": 3.0},
                        {"flops": 0, "input_bytes": 500, "output_bytes": 500, "calls": 1.0}]}
        ceilings = {"flops_per_second": {"bf16": 10.0}, "bytes_per_second": 100.0, "node_seconds": 0.25}
        bounds = bench_gpu_report.bounds_of(bench_gpu_report.summary_of(plan), ceilings, "bf16")
        self.assertEqual(bounds, {"flops": 30.0, "bytes": 10.3, "calls": 1.0, "together": 40.0})

    def test_a_run_that_does_not_tell_every_step_gives_no_figures(self):
        steps = [{"event": "step", "loss": 1.0, "step_seconds": 0.1, "samples": 4}] * 24
        end = {"event": "end", "outside_allocator": {}, "peak_reserved": 1, "peak_allocated": 1, "peak_used": 1, "passes": {}}
        start = {"event": "start", "parameters": 1}
        self.assertAlmostEqual(figures_of([start, *steps, end], 24)["samples_per_second"], 40)
        for events in ([start, *steps[1:], end], [start, *steps]):
            with self.assertRaises(Failed):
                figures_of(events, 24)

    def test_both_sides_get_the_same_pixels(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            network = {"shape": (3, 32, 32), "num_batches": 2}
            write_data(folder, network, 3)
            pixels, targets = (folder / "images.u8").read_bytes(), (folder / "targets.u8").read_bytes()
            records = b"".join((folder / f"data_batch_{number}.bin").read_bytes() for number in range(1, 6))
            self.assertEqual(len(targets), 6)
            for i in range(6):
                record = records[i * 3073:(i + 1) * 3073]
                self.assertEqual((record[0], record[1:]), (targets[i], pixels[i * 3072:(i + 1) * 3072]))


class Processes(unittest.TestCase):
    def test_a_run_that_takes_too_long_is_ended_with_all_that_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            command = ["bash", "-c", f"sleep 1000 & echo $! > {folder}/child; wait"]
            with self.assertRaisesRegex(Failed, "no end within"):
                run_process(command, 1, folder)
            child = int(pathlib.Path(folder, "child").read_text())
            deadline = time.monotonic() + 10
            while pathlib.Path(f"/proc/{child}/stat").exists() and \
                    pathlib.Path(f"/proc/{child}/stat").read_text().split()[2] != "Z":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)

    def test_a_process_that_ended_is_started_again_by_the_next_question(self):
        program = textwrap.dedent(f"""\
            import sys; sys.path.insert(0, {str(SCRIPTS)!r})
            from bench_peer import serve
            def answer(request):
                if request["n"] == 0: sys.exit("good bye")
                return {{"half": 12 / (request["n"] - 1)}}
            serve(answer)
            """)
        with tempfile.TemporaryDirectory() as folder:
            peer = Peer([sys.executable, "-c", program], f"{folder}/log")
            self.addCleanup(peer.end)
            self.assertEqual(peer.ask({"n": 3}, 30), {"half": 6})
            with self.assertRaisesRegex(Refused, "ZeroDivisionError"):
                peer.ask({"n": 1}, 30)
            self.assertEqual(peer.generation, 0)
            with self.assertRaisesRegex(PeerLost, "good bye"):
                peer.ask({"n": 0}, 30)
            self.assertEqual(peer.ask({"n": 5}, 30), {"half": 3})
            self.assertEqual(peer.generation, 1)


if __name__ == "__main__":
    unittest.main()
