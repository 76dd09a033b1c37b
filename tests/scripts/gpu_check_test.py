"""gpu_check.sh without a GPU: its plans over a trainer and tools that only pretend, and over real ones in a bare folder."""
import contextlib
import io
import json
import lzma
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from gpu_check import command, evidence, faults, plans, processes, profiler, ranks, runs, sanitizer, test_cases  # noqa: E402

PRETENDER = textwrap.dedent("""\
    #!{python} -IS
    # Answers as trainer does; what it gets wrong on purpose stands in the file beside it.
    import json, pathlib, sys, time
    wrong = (pathlib.Path(__file__).parent / "wrong").read_text()
    words = sys.argv[1:]
    peaks = dict(peak_requested=10, peak_allocated=512, peak_reserved=2097152)
    if words[0] == "doctor":
        devices = [dict(kind=kind, name="pretended", total=1 << 30) for kind in ("cpu", "cuda")]
        print(json.dumps(dict(event="doctor", devices=devices, cuda=dict(nccl="2.30.7"))))
    elif words[0] == "plan":
        print(json.dumps(dict(event="plan", **peaks)))
    elif "memory.preflight=false" in words:
        print(json.dumps(dict(event="start" if wrong == "oom" else "oom")))
        print("no memory", file=sys.stderr)
        sys.exit(0 if wrong == "exit" else 3)
    else:
        if wrong == "hang": time.sleep(600)
        if wrong == "crash" and "train.amp=bf16" in words: sys.exit(1)
        is_second = any("-1/run" in word for word in words)
        for step in range(20):
            loss = 2.0 / (step + 1)
            if wrong == "losses" and is_second and step == 19: loss += 0.001
            if wrong == "nan" and step == 19: loss = None
            if wrong == "bits" and "memory.allocator=planned" in words: loss += 1e-9
            print(json.dumps(dict(event="step", loss=loss, samples=8, step_seconds=0.5,
                                  memory=dict(device_used=5 << 20, reserved=2 << 20))))
        if wrong == "peaks" and "mnist_cnn" in words[1]: peaks["peak_reserved"] += 1
        print(json.dumps(dict(event="end", peak_used=5 << 20, outside_allocator=dict(bytes=2 << 20, parts=[]), accuracy=0.9,
                              samples_per_second=16, passes=dict(replayed=3, branches=1, obstacle=""), **peaks)))
    """)

# A Catch2 program of two cases with a name that needs quoting.
CASES = textwrap.dedent("""\
    #!/bin/sh
    if [ "$2" = --list-test-names-only ] || [ "$1" = --list-test-names-only ]; then
      echo 'fine, though [it] has commas'
      echo other
      exit 2
    fi
    case $1 in
      'fine\\, though \\[it] has commas') echo "source ${TRAINER_SOURCE_DIR}" ;;
      other) OTHER ;;
      *) echo "No test cases matched '$1'" ;;
    esac
    """)

SANITIZER = textwrap.dedent("""\
    #!/bin/sh
    [ "$1" = --help ] && { echo '  --kernel-name arg'; exit 0; }
    tool=$2
    while [ "${1#/}" = "$1" ]; do shift; done
    [ "$SAYS" != refuses ] || { echo '========= Error: Device not supported. Please refer to the documentation'; exit 1; }
    "$@"
    if [ "$tool" = racecheck ]; then
      echo "========= RACECHECK SUMMARY: ${SAYS:-0} hazards displayed (${SAYS:-0} errors, 3 warnings)"
    else
      echo "========= ERROR SUMMARY: ${SAYS:-0} errors"
    fi
    [ "${SAYS:-0}" = 0 ] || exit 99
    """)

NVIDIA_SMI = textwrap.dedent("""\
    #!/bin/sh
    case $1 in
      *=memory.used) echo 400 ;;
      --query*) echo 'NVIDIA X, 580.1, 143771, 400, 345, 3201, 1980, 3201, 700.00, 9.0, P0' ;;
    esac
    """)

PROFILED = textwrap.dedent("""\
    ==PROF== Connected to process 12
    {"name": "a line of the program itself"}
    "ID","Process ID","Process Name","Kernel Name","Metric Name","Metric Unit","Metric Value"
    "0","12","bench_kernels","add_kernel","dram__bytes.sum.per_second","byte/second","3,900,000,000,000.5"
    "0","12","bench_kernels","add_kernel","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","81.25"
    "0","12","bench_kernels","add_kernel","gpu__time_duration.sum","ns","12,500"
    "1","12","bench_kernels","sum_kernel","dram__bytes.sum.per_second","byte/second","n/a"
    ==PROF== Disconnected from process 12
    """)

BENCH_KERNELS = textwrap.dedent("""\
    #!{python} -IS
    import json, sys
    cases = [dict(name="add.f32", kernel="add", bytes=1 << 27, seconds=1e-4, share_of_copy=0.9),
             dict(name="norm.bf16", kernel="norm|sum_kernel|add_kernel", bytes=1 << 27, seconds=2e-4, share_of_copy=0.4),
             dict(name="norm.bf16#1", kernel="other", bytes=1 << 27, seconds=1e-4, share_of_copy=None)]
    if "--list" in sys.argv:
        for case in cases[:2]: print(case["name"])
    elif "--json" in sys.argv:
        for case in cases: print(json.dumps(case), flush=True)
        if "late" in open(__file__ + ".wrong").read():
            import time
            time.sleep(600)
        open(sys.argv[sys.argv.index("--json") + 1], "w").write(json.dumps(dict(device="x", copy_bytes_per_second=1.0,
                                                                               cases=cases)))
    """)


class PretendedTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tree, self.tools, self.out = (self.folder / name for name in ("tree", "tools", "out"))
        (self.tree / "tests").mkdir(parents=True)
        self.tools.mkdir()
        self.say("")
        self.program(self.tree / "trainer", PRETENDER.format(python=sys.executable))
        self.device_tests("")
        path = mock.patch.dict(os.environ, {"PATH": f"{self.tools}:{os.environ['PATH']}"})
        path.start()
        self.addCleanup(path.stop)

    @staticmethod
    def program(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def device_tests(self, other):
        self.program(self.tree / "tests" / "test_gpu", CASES.replace("OTHER", other or "true"))

    def bench_kernels(self, wrong=""):
        path = self.tree / "tests" / "bench_kernels"
        self.program(path, BENCH_KERNELS.format(python=sys.executable))
        pathlib.Path(f"{path}.wrong").write_text(wrong)

    def say(self, wrong):
        (self.tree / "wrong").write_text(wrong)

    def words(self, plan, *more):
        return [plan, "--build", str(self.tree), "--out", str(self.out), "--rehearse", "short", *more]

    def check(self, plan, *words):
        """(exit code, what is printed, the plan's summary) of the whole script."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            code = command.main(self.words(plan, *words))
        return code, printed.getvalue(), json.loads((self.out / "summary.json").read_text())[plan]

    def parts(self, summary):
        return {row["part"]: row for row in summary["parts"]}

    def statuses(self, summary):
        return {part: row["status"] for part, row in self.parts(summary).items()}

    def archived(self):
        with tarfile.open(self.out / "logs.tar.xz", "r:xz") as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}


class Parts(PretendedTree):
    def test_each_plan_passes_and_few_files_come_back(self):
        for plan, skipped in (("runs", {}), ("faults", {"again", "racecheck", "initcheck", "memcheck", "kernels", "dram"}),
                              ("evidence", {"traces", "bench"})):
            with mock.patch.dict(os.environ, {"CUDA_HOME": str(self.folder)}):
                code, printed, summary = self.check(plan)
            for part, status in self.statuses(summary).items():
                # What has no tool here is skipped; a benchmark may find a PyTorch.
                self.assertIn(status, ("passed", "SKIPPED") if part in skipped or part == "bench" else ("passed",),
                              summary["parts"])
                self.assertRegex(printed, rf"(?m)^{part} +{status}")
            self.assertEqual(code, 0)
        self.assertEqual({path.name for path in self.out.iterdir()} - {"bench.json"},
                         {"summary.json", "results.jsonl", "logs.tar.xz"})
        self.assertEqual(set(json.loads((self.out / "summary.json").read_text())), {"runs", "faults", "evidence"})
        archived = self.archived()
        self.assertIn(b"train.amp=fp16", archived["runs/quickstart.log"])
        self.assertIn("evidence/peaks.log", archived)

    def test_what_goes_wrong_is_a_row_and_the_other_parts_go_on(self):
        for wrong, plan, part, words in (
                ("losses", "evidence", "losses", "apart"), ("nan", "evidence", "losses", "apart"),
                ("peaks", "evidence", "peaks", "apart"), ("exit", "evidence", "oom", "ended with 0"),
                ("oom", "evidence", "oom", "no oom event"), ("crash", "runs", "quickstart", "bf16: trainer run"),
                ("bits", "runs", "quickstart", "planned: other bits"), ("losses", "runs", "quickstart", "")):
            with self.subTest(wrong=wrong, plan=plan):
                self.say(wrong)
                # Two more of the same file as the others, so that what is wrong with one is seen.
                every = [("configs/quickstart.yaml", []), ("configs/mnist_cnn.yaml", [])]
                only = {"evidence": ("losses", "peaks", "oom"), "runs": ("devices", "quickstart")}[plan]
                with mock.patch.object(evidence, "configurations", return_value=every):
                    code, printed, summary = self.check(plan, "--only", *only)
                if not words:  # a thousandth is rounding to this part
                    self.assertEqual(code, 0)
                    continue
                self.assertEqual(self.statuses(summary), {name: "FAILED" if name == part else "passed" for name in only})
                self.assertEqual(code, 1)
                self.assertRegex(printed, rf"(?m)^{part} +FAILED .*{words}")

    def test_on_a_machine_with_a_gpu_every_part_runs_on_it(self):
        self.program(self.tools / "nvidia-smi", NVIDIA_SMI)
        self.program(self.tools / "compute-sanitizer", SANITIZER)
        self.program(self.tools / "ncu", f'#!/bin/sh\ncat "{self.folder}/profiled"\n')
        (self.folder / "profiled").write_text(PROFILED)
        self.bench_kernels()
        for plan, parts in plans.PLANS.items():
            with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()), \
                    mock.patch.object(evidence, "NUM_FORCED_OOMS", 4), \
                    mock.patch.object(evidence, "configurations", return_value=[("configs/quickstart.yaml", [])]):
                code = command.main([plan, "--build", str(self.tree), "--out", str(self.out)])
            self.assertEqual(code, 0, printed.getvalue())
            for part in parts.parts:
                status = "(passed|SKIPPED)" if part in ("bench", "traces") else "passed"
                self.assertRegex(printed.getvalue(), rf"(?m)^{part} +{status}")
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual(summary["evidence"]["gpu"]["name"], "NVIDIA X")
        archived = self.archived()
        for log in ("runs/quickstart.log", "runs/speeds.log", "evidence/peaks.log", "evidence/oom.log"):
            self.assertIn(b"device={type: cuda", archived[log])

    def test_a_test_that_finds_no_gpu_where_there_is_one_fails(self):
        self.program(self.tools / "nvidia-smi", NVIDIA_SMI)
        self.device_tests("echo SKIPPED: no reason")
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
            code = command.main(["runs", "--only", "tests", "--build", str(self.tree), "--out", str(self.out)])
        self.assertEqual(code, 1)
        self.assertRegex(printed.getvalue(), r"tests +FAILED .*1 skipped: no reason")

    def test_without_a_gpu_every_part_is_skipped_with_its_reason_and_nothing_fails(self):
        for plan, parts in plans.PLANS.items():
            with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()), \
                    mock.patch("gpu_check.machine.query_gpu", return_value={}):
                code = command.main([plan, "--build", str(self.tree), "--out", str(self.out)])
            self.assertEqual(code, 0)
            for part in parts.parts:
                self.assertRegex(printed.getvalue(), rf"(?m)^{part} +SKIPPED .*no GPU")

    def test_a_tree_without_a_program_is_skipped(self):
        (self.tree / "trainer").unlink()
        with mock.patch("gpu_check.machine.ROOT", self.tree):
            _, printed, _ = self.check("runs", "--only", "devices")
        self.assertIn("no built trainer", printed)

    def test_the_drivers_count_may_be_off_by_64_mib_and_no_more(self):
        plan = {peak: 2 << 20 for peak in evidence.PEAKS}
        for beyond, status in ((64, "passed"), (65, "FAILED"), (-65, "FAILED")):
            end = {"event": "end", **plan, "outside_allocator": {"bytes": 100 << 20}, "peak_used": (102 + beyond) << 20}
            machine = mock.MagicMock(rehearse=None)
            with mock.patch.object(evidence, "configurations", return_value=[("a", [])]), \
                    mock.patch.object(evidence, "plans_of", return_value=[plan]), \
                    mock.patch.object(evidence, "events_of", return_value=[end]):
                self.assertEqual(evidence.check_peaks(machine, "peaks")[0], status, beyond)

    def test_what_is_loaded_in_the_steps_is_counted_and_64_mib_of_it_allowed(self):
        for growth, status in ((64, "passed"), (65, "FAILED")):
            events = [{"event": "step", "memory": {"device_used": (302 + growth) << 20, "reserved": 2 << 20}},
                      {"event": "end", "outside_allocator": {"bytes": 300 << 20, "parts": []}}]
            machine = mock.MagicMock(rehearse=None)
            machine.pick.side_effect = lambda short, long, real: real
            with mock.patch.object(runs, "events_of", return_value=events) as asked:
                self.assertEqual(runs.check_loading(machine, "loading")[0], status, growth)
            self.assertEqual([call.kwargs["CUDA_MODULE_LOADING"] for call in asked.call_args_list],
                             2 * [None, "LAZY", "EAGER"])

    def test_ranks_share_a_gpu_where_nccl_lets_them_and_hold_what_was_planned(self):
        plan = {peak: 2 << 20 for peak in evidence.PEAKS}
        nccl = {"bytes": 100 << 20, "parts": [{"name": "NCCL", "bytes": 90 << 20}]}
        for version, loss, exact, peak, expected in (
                ("2.30.7", 0.5, 0.5, 2 << 20, "passed"), ("3.0.1", 0.501, 0.5, 2 << 20, "passed"),
                ("2.30.7", 0.6, 0.5, 2 << 20, "FAILED"), ("2.30.7", 0.5, 0.501, 2 << 20, "FAILED"),
                ("2.30.7", 0.5, 0.5, 4 << 20, "FAILED"), ("2.28.9", 0.5, 0.5, 2 << 20, None),
                ("", 0.5, 0.5, 2 << 20, None)):
            machine = mock.MagicMock(rehearse=None)
            machine.pick.side_effect = lambda short, long, real: real
            machine.doctor.return_value = {"cuda": {"nccl": version}}
            machine.events.return_value = [plan]
            step = {"event": "step", "memory": {"device_used": 110 << 20, "reserved": 2 << 20}}
            one = [{**step, "loss": 0.5}]
            end = {"event": "end", **plan, "peak_reserved": peak, "outside_allocator": nccl, "samples_per_second": 1}
            several, deterministic = [{**step, "loss": loss}, end], [{**step, "loss": exact}, end]
            with mock.patch.object(ranks, "events_of", side_effect=[one, several, several, one, deterministic,
                                                                    deterministic]) as asked:
                if expected is None:
                    with self.assertRaisesRegex(ranks.Skipped, "nvidia-nccl-cu13"):
                        ranks.check_ranks(machine, "ranks")
                    continue
                status, text, rows = ranks.check_ranks(machine, "ranks")
            self.assertEqual(status, expected, text)
            self.assertEqual([(row["ranks"], row["deterministic"]) for row in rows],
                             [(2, False), (4, False), (2, True), (4, True)])
            self.assertIn("parallel.deterministic=true", asked.call_args.args)
            self.assertIn("NCCL 90 MiB, 8 more beside the allocator at the end", text)
            self.assertEqual(asked.call_args.kwargs["NCCL_MULTI_RANK_GPU_ENABLE"], "1")

    def test_memory_that_forced_failures_leave_on_the_device_fails(self):
        for after, status in ((464, "passed"), (465, "FAILED"), (None, "FAILED")):
            machine = mock.MagicMock(rehearse=None)
            machine.pick.return_value = 4
            machine.folder.return_value = self.folder
            machine.checked_device.return_value = {"total": 1 << 30}
            with mock.patch.object(evidence, "events_of", return_value=[{"event": "oom"}]), \
                    mock.patch.object(evidence, "used_mib", side_effect=[400, after]):
                self.assertEqual(evidence.check_oom(machine, "oom")[0], status, after)


class Machine(PretendedTree):
    def machine(self):
        output = command.Output(self.out, "runs")
        made = command.Machine(self.tree, "short", output, processes.Processes(output.log))
        self.addCleanup(made.close)
        return made

    def test_a_variable_that_is_to_be_unset_is_not_inherited(self):
        with mock.patch.dict(os.environ, {"CUDA_MODULE_LOADING": "EAGER"}):
            machine = self.machine()
            self.assertEqual(machine.run("printenv", "CUDA_MODULE_LOADING").stdout, "EAGER\n")
            self.assertEqual(machine.run("printenv", "CUDA_MODULE_LOADING", CUDA_MODULE_LOADING=None).code, 1)

    def test_a_pytorch_that_does_not_answer_is_not_taken_for_one_that_is_not_there(self):
        machine = self.machine()
        for code, seconds, told in (("import time; time.sleep(60)", 1, "does not answer: no end within 1 s"),
                                    ("import no_such_module", 30, "not there"), ("print('9.9 of it')", 30, "9.9 of it")):
            with mock.patch.object(runs, "TELL_TORCH", code), mock.patch.object(runs, "TORCH_SECONDS", seconds):
                self.assertEqual(runs.torch_of(machine), told)
        with mock.patch.object(machine, "run", return_value=processes.Finished(None, "", "", 9, "late")), \
                self.assertRaisesRegex(plans.Skipped, "PyTorch does not answer: no end within 9 s"):
            evidence.require_torch(machine)

    def test_what_torch_compile_lacks_is_told(self):
        paths = {"include": str(self.folder)}
        with mock.patch("shutil.which", return_value=None), mock.patch.dict(os.environ, {"CC": ""}), \
                mock.patch("sysconfig.get_paths", return_value=paths):
            _, printed, _ = self.check("runs", "--only", "devices")
            self.assertIn("torch.compile lacks a C compiler and Python.h", printed)
            (self.folder / "Python.h").touch()
            self.assertEqual(runs.what_torch_compile_lacks(), ["a C compiler"])


class Cases(PretendedTree):
    def test_each_case_is_a_process_and_one_that_fails_is_named(self):
        self.device_tests("echo broken; exit 42")
        code, printed, summary = self.check("runs", "--only", "tests")
        self.assertEqual(code, 1)
        self.assertIn("1 of 2 cases pass; 1 failed: other", printed)
        fine, other = self.parts(summary)["tests"]["details"]
        self.assertEqual((fine["outcome"], other["outcome"]), ("passed", "failed"))
        self.assertEqual(other["how"], "ended with 42")
        self.assertIn("broken", other["output"])
        # Sources are found where the scripts stand.
        self.assertIn(f"source {ROOT}".encode(), self.archived()["runs/tests.log"])

    def test_what_failed_is_run_again_by_the_next_plan_also_under_memcheck(self):
        self.device_tests("echo broken; exit 42")
        self.check("runs", "--only", "tests")
        self.program(self.tools / "compute-sanitizer", SANITIZER)
        code, printed, summary = self.check("faults", "--only", "again")
        rows = self.parts(summary)["again"]["details"]
        self.assertEqual([(row["case"], row["under"]) for row in rows],
                         [("other", "CUDA_LAUNCH_BLOCKING"), ("other", "memcheck")])
        self.assertIn("of 1 run alone 1 fail again", printed)
        self.assertEqual(code, 1)
        _, printed, _ = self.check("faults", "--only", "again", "--previous", str(self.folder / "none"))
        self.assertIn("SKIPPED", printed)

    def test_a_name_that_matches_no_case_is_no_test(self):
        machine = mock.Mock()
        machine.run.return_value = processes.Finished(0, "No test cases matched 'x'", "", 0.1)
        row, _ = test_cases.run_case(machine, pathlib.Path("test_gpu"), "x")
        self.assertEqual(row["outcome"], "failed")


class Tools(PretendedTree):
    def test_the_sanitizers_findings_fail_their_part_and_warnings_are_counted(self):
        self.program(self.tools / "compute-sanitizer", SANITIZER)
        for says, status, words in (("0", "passed", "2 of 2 cases clean"), ("5", "FAILED", "2 with errors"),
                                    ("refuses", "SKIPPED", "Device not supported")):
            with mock.patch.dict(os.environ, {"SAYS": says}):
                _, printed, summary = self.check("faults", "--only", "racecheck", "memcheck")
            self.assertEqual(self.statuses(summary), {"racecheck": status, "memcheck": status})
            self.assertIn(words, printed)
        with mock.patch.dict(os.environ, {"SAYS": "0"}):
            _, printed, _ = self.check("faults", "--only", "racecheck")
        self.assertIn("6 warnings", printed)
        self.assertIn(b"--kernel-name kernel_substring=trainer", self.archived()["faults/racecheck.log"])

    def test_a_sanitizer_that_comes_to_no_summary_has_found_nothing(self):
        self.assertIsNone(sanitizer.findings("killed"))
        self.assertEqual(sanitizer.findings("=== ERROR SUMMARY: 12 errors")["errors"], 12)

    def test_kernels_are_timed_and_the_slowest_are_profiled_first(self):
        self.bench_kernels()
        (self.folder / "profiled").write_text(PROFILED)
        self.program(self.tools / "ncu", f'#!/bin/sh\necho "$@" >> "{self.folder}/asked"\ncat "{self.folder}/profiled"\n')
        code, printed, summary = self.check("faults", "--only", "kernels", "dram")
        self.assertEqual((code, self.statuses(summary)), (0, {"kernels": "passed", "dram": "passed"}))
        self.assertIn("of 2 of 64 MiB and more 1 reach 85% of a copy; slowest norm.bf16 40%; faster than "
                      "what is taken: norm.bf16#1 2.00 times", printed)
        self.assertIn("least of peak add.f32 81 %, norm.bf16 81 %", printed)
        rows = self.parts(summary)["dram"]["details"]
        self.assertEqual([row["case"] for row in rows], ["norm.bf16", "add.f32"])
        self.assertEqual(rows[0]["kernels"], [
            {"kernel": "add_kernel", "dram_bytes_per_second": 3.9000000000005e12, "dram_percent_of_peak": 81.25,
             "nanoseconds": 12500.0}, {"kernel": "sum_kernel", "dram_bytes_per_second": None}])
        self.assertIn("--clock-control none", (self.folder / "asked").read_text())
        self.assertIn("faults/kernels.json", self.archived())

    def test_each_kernel_is_profiled_once_before_any_is_twice(self):
        timed = {name: {"kernel": name[0], "share_of_copy": share}
                 for name, share in (("a1", 0.5), ("a2", 0.4), ("b1", 0.9), ("c1", None))}
        self.assertEqual(faults.in_order_of_need(["a1", "a2", "b1", "c1", "d1"], timed), ["a2", "b1", "c1", "d1", "a1"])

    def test_a_profiler_that_cannot_work_is_told(self):
        self.bench_kernels()
        self.program(self.tools / "ncu", "#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM - no permission'; exit 1\n")
        _, printed, _ = self.check("faults", "--only", "dram")
        self.assertRegex(printed, r"dram +SKIPPED .*ERR_NVGPUCTRPERM")
        self.program(self.tools / "ncu", "#!/bin/sh\nexit 1\n")
        code, printed, _ = self.check("faults", "--only", "dram")
        self.assertRegex(printed, r"dram +FAILED .*no kernel in 2: add.f32")
        self.assertEqual((code, profiler.kernels_of("")), (1, []))

    def test_cases_that_were_timed_before_the_time_was_over_are_kept(self):
        self.bench_kernels("late")
        with mock.patch.dict(plans.PLANS["faults"].parts, {"kernels": (2, faults.check_kernels)}):
            _, printed, summary = self.check("faults", "--only", "kernels")
        self.assertRegex(printed, r"kernels +partly")
        self.assertEqual(len(self.parts(summary)["kernels"]["details"]["cases"]), 3)


class Time(PretendedTree):
    def test_a_part_that_hangs_is_killed_with_its_group_and_takes_none_of_the_next(self):
        self.device_tests(f"sleep 600 & echo $! > '{self.folder}/child'; wait")
        with mock.patch.dict(plans.PLANS["runs"].parts, {"tests": (2, plans.PLANS["runs"].parts["tests"][1])}):
            _, _, summary = self.check("runs", "--only", "tests", "devices")
        self.assertEqual(self.statuses(summary), {"tests": "partly", "devices": "passed"})
        self.assertLess(summary["parts"][0]["seconds"], 8)
        child = int((self.folder / "child").read_text())
        self.assertFalse(pathlib.Path(f"/proc/{child}/exe").exists(), "the sleeping child lives on")

    def test_a_killed_check_leaves_what_was_finished(self):
        self.device_tests("sleep 600")
        process = subprocess.Popen([sys.executable, ROOT / "scripts" / "gpu_check", *self.words(
            "runs", "--only", "devices", "tests")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = self.out / "results.jsonl"
        end = time.monotonic() + 30
        while time.monotonic() < end and not (lines.exists() and "fine, though" in lines.read_text()):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(self.statuses(json.loads((self.out / "summary.json").read_text())["runs"]), {"devices": "passed"})
        results = [json.loads(line) for line in lines.read_text().splitlines()]
        self.assertEqual([(row["part"], row.get("case")) for row in results],
                         [("devices", None), ("tests", "fine, though [it] has commas")])
        self.assertIn("runs/devices.log", self.archived())
        self.assertIn("$ ", (self.out / "running.log").read_text())
        self.assertLessEqual(len(list(self.out.iterdir())), 8)

    def test_a_check_that_is_asked_to_end_tells_what_it_has(self):
        self.device_tests(f"echo $$ > '{self.folder}/child'; exec sleep 600")
        process = subprocess.Popen([sys.executable, ROOT / "scripts" / "gpu_check", *self.words(
            "runs", "--only", "devices", "tests")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        end = time.monotonic() + 30
        while time.monotonic() < end and not (self.folder / "child").exists():
            time.sleep(0.05)
        process.terminate()
        printed, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(printed, r"devices +passed[^\n]*\nplan +FAILED .*ended by SIGTERM")

    def test_a_check_that_is_asked_to_end_while_it_describes_the_machine_leaves_nothing_running(self):
        (self.tools / "git").write_text(f"#!/bin/sh\nsleep 600 & echo $! > '{self.folder}/child'; wait\n")
        (self.tools / "git").chmod(0o755)
        with subprocess.Popen([sys.executable, ROOT / "scripts" / "gpu_check", *self.words("runs", "--only", "devices")],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            end = time.monotonic() + 30
            while time.monotonic() < end and not (self.folder / "child").exists():
                time.sleep(0.05)
            time.sleep(0.1)
            process.terminate()
            printed, _ = process.communicate(timeout=30)
        self.assertRegex(printed, r"plan +FAILED .*ended by SIGTERM")
        child = int((self.folder / "child").read_text())
        end = time.monotonic() + 10
        while pathlib.Path(f"/proc/{child}/exe").exists():
            self.assertLess(time.monotonic(), end, "the sleeping child lives on")
            time.sleep(0.05)

    def test_a_process_that_says_too_much_is_ended(self):
        said = []
        with mock.patch.object(processes, "LARGEST_OUTPUT", 1 << 16):
            result = processes.Processes(said.append).run(["yes"], 30, self.folder, dict(os.environ))
        self.assertEqual((result.ended, result.code), ("talkative", None))
        self.assertLess(result.seconds, 20)

    def test_plans_stay_under_their_ceilings_with_time_to_spare(self):
        self.assertEqual({name: plan.ceiling for name, plan in plans.PLANS.items()},
                         {"runs": 7 * 60, "faults": 8 * 60, "evidence": 9 * 60})
        for plan in plans.PLANS.values():
            self.assertLessEqual(sum(seconds for seconds, _ in plan.parts.values()) + plans.RESERVE, plan.ceiling)

    def test_a_plan_that_hangs_in_itself_is_ended_at_its_ceiling(self):
        script = textwrap.dedent(f"""
            import sys, time
            sys.path.insert(0, {str(ROOT / 'scripts')!r})
            from gpu_check import command, plans
            plans.PLANS["runs"].ceiling, plans.RESERVE = 8, 0
            plans.PLANS["runs"].parts["tests"] = (60, lambda machine, part: time.sleep(600))
            command.main({self.words('runs', '--only', 'devices', 'tests')!r})
            """)
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"devices +passed")
        self.assertIn("did not end by itself", result.stdout)


class Files(PretendedTree):
    def test_files_stay_small_enough_to_come_back(self):
        output = command.Output(self.out, "runs")
        output.start({})
        with mock.patch("gpu_check.output.LARGEST_FILE", 1 << 16):
            output.keep("huge", os.urandom(1 << 17))
            output.keep("small", b"kept")
            output.log(b"x" * (3 << 20))
            output.finish({"part": "devices", "status": "passed", "seconds": 1, "text": "", "details": None})
        archived = self.archived()
        self.assertEqual(archived["runs/small"], b"kept")
        self.assertNotIn("runs/huge", archived)
        self.assertLess(len(archived["runs/devices.log"]), (1 << 20) + 100)
        self.assertIn("runs/huge (131072 bytes)", json.loads((self.out / "summary.json").read_text())["runs"]["left_out"])

    def test_what_cannot_be_read_is_kept_and_not_written_over(self):
        self.out.mkdir()
        (self.out / "summary.json").write_text("{ half")
        (self.out / "logs.tar.xz").write_bytes(lzma.compress(b"no archive")[:-9])
        self.check("runs", "--only", "devices")
        self.assertEqual((self.out / "summary.unreadable.json").read_text(), "{ half")
        self.assertTrue((self.out / "logs.unreadable.tar.xz").exists())

    def test_every_family_is_compared_before_any_is_again(self):
        every = list(evidence.configurations(None))
        ordered = evidence.each_once_first(every)
        self.assertCountEqual(map(str, ordered), map(str, every))
        self.assertEqual(ordered, evidence.each_once_first(every))
        families = {word for file, overrides in every for word in (file, *overrides)}
        self.assertEqual({word for file, overrides in ordered[:12] for word in (file, *overrides)}, families)

    def test_a_log_beside_the_archive_moves_into_it(self):
        output = command.Output(self.out, "evidence")
        output.start({})
        log = output.path("bench_peer.log")
        output.keep_log(log)
        log.write_bytes(b"Traceback" + bytes(3 << 20))
        output.keep_log(log)
        output.finish({"part": "bench", "status": "passed", "seconds": 1, "text": "", "details": None})
        self.assertFalse(log.exists())
        self.assertTrue(self.archived()["evidence/bench_peer.log"].startswith(b"Traceback"))
        self.assertLess(len(self.archived()["evidence/bench_peer.log"]), (1 << 20) + 100)

    def test_at_least_forty_different_configurations_are_compared(self):
        every = [(file, tuple(overrides)) for file, overrides in evidence.configurations(None)]
        self.assertEqual(len(set(every)), len(every))
        self.assertGreaterEqual(len(every), 40)


@unittest.skipUnless(os.environ.get("TRAINER_BUILD"), "SKIPPED: TRAINER_BUILD names no build tree")
class Rehearsal(unittest.TestCase):
    def test_all_plans_run_from_a_bare_folder_with_an_empty_environment(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            subprocess.run([ROOT / "scripts" / "pack_gpu_check.sh", "--build", os.environ["TRAINER_BUILD"], "--folder",
                            folder / "bare"], check=True, capture_output=True)
            (folder / "home").mkdir()
            for plan, parts in plans.PLANS.items():
                result = subprocess.run(
                    [folder / "bare" / "scripts" / "gpu_check.sh", plan, "--rehearse", "short", "--out", folder / "out"],
                    cwd="/", env={"PATH": os.environ["PATH"], "HOME": str(folder / "home")}, capture_output=True, text=True,
                    timeout=150, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                for part in parts.parts:
                    self.assertRegex(result.stdout, rf"(?m)^{part} +(passed|SKIPPED)")
            summary = json.loads((folder / "out" / "summary.json").read_text())
            self.assertEqual(set(summary), set(plans.PLANS))
            statuses = {row["part"]: row["status"] for plan in summary.values() for row in plan["parts"]}
            for part in ("devices", "quickstart", "loading", "speeds", "autotune", "losses", "peaks", "oom"):
                self.assertEqual(statuses[part], "passed")
            self.assertIn(str(folder / "bare" / "build" / "carried" / "lib"), summary["runs"]["library_path"])
            self.assertLessEqual(len(list((folder / "out").iterdir())), 8)


if __name__ == "__main__":
    unittest.main()
