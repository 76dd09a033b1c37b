"""Checkpoints that ranks have written together are read by the package safetensors as Hugging Face's shards are, through
their index: the tensors of the checkpoint that rank 0 writes, bit for bit, of whole runs, of averages, 8-bit moments and
stages; and commands of one process find in them what they find in that.

Environment: TRAINER, the binary. Needs safetensors and numpy (scripts/python_env.sh); without them it is skipped (77).
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import interpreters

try:
    import numpy  # noqa: F401, which safetensors reads into
    from safetensors import safe_open
except ImportError as missing_module:
    interpreters.go_on_in_environment_or_skip(missing_module)

TRAINER = str(pathlib.Path(os.environ["TRAINER"]).resolve())
CONFIG = """
name: ranks
device: {type: cpu, threads: 1}
data: {type: digits}
model:
  layers:
    - {conv2d: {out: 6, kernel: 3, padding: 1, name: stem}}
    - {batchnorm2d: {name: norm}}
    - relu
    - flatten
    - {linear: {out: 30, name: hidden}}
    - relu
    - {linear: {out: 10, name: head}}
optimizer: {type: adamw, lr: 1e-3}
train: {batch_size: 50, epochs: null, steps: 20, eval_every: 5}
checkpoint: {every: 5}
"""
STAGES = "stages=[{name: head, freeze: [stem], train: {steps: 6}}, {name: all, train: {steps: 7}}]"
RUNS = {
    "plain": [],
    "averaged": ["average=ema", "average.decay=0.9"],
    "eight_bit": ["memory.moments=8bit", "parallel.shard=optimizer"],
    "scaled": ["train.amp=fp16", "parallel.shard=gradients"],
    "staged": [STAGES, "parallel.shard=parameters"],
}


def tensors_of(checkpoint, stem):
    """By name, as transformers finds them: through the index where there is one."""
    index = checkpoint / f"{stem}.safetensors.index.json"
    if not index.exists():
        with safe_open(checkpoint / f"{stem}.safetensors", framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    described = json.loads(index.read_text(encoding="utf-8"))
    tensors = {}
    for shard in sorted(set(described["weight_map"].values())):
        with safe_open(checkpoint / shard, framework="numpy") as file:
            assert file.metadata() == {"format": "pt"}
            for name in file.keys():
                assert described["weight_map"][name] == shard and name not in tensors
                tensors[name] = file.get_tensor(name)
    assert set(tensors) == set(described["weight_map"])
    assert described["metadata"]["total_size"] == sum(tensor.nbytes for tensor in tensors.values())
    return tensors


class ShardedCheckpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-sharded-"))
        (cls.folder / "ranks.yaml").write_text(CONFIG, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_trainer(self, *words):
        done = subprocess.run([TRAINER, *words], cwd=self.folder, text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, output, num_ranks, *words):
        self.run_trainer("run", "ranks.yaml", "-q", "--ranks", str(num_ranks), f"output={output}", *words)

    def check_same(self, one, other):
        self.assertEqual(sorted(one), sorted(other))
        for name, tensor in one.items():
            self.assertEqual((tensor.dtype, tensor.shape), (other[name].dtype, other[name].shape), name)
            self.assertEqual(tensor.tobytes(), other[name].tobytes(), name)

    def test_their_tensors_are_those_that_rank_0_writes(self):
        for name, words in RUNS.items():
            for num_ranks in (2, 3):
                with self.subTest(run=name, ranks=num_ranks):
                    whole, sharded = f"{name}{num_ranks}w", f"{name}{num_ranks}s"
                    self.train(whole, num_ranks, *words)
                    self.train(sharded, num_ranks, *words, "checkpoint.sharded=true")
                    folders = [self.folder / run / "checkpoints" for run in (whole, sharded)]
                    names = [sorted(path.name for path in folder.iterdir()) for folder in folders]
                    self.assertEqual(names[0], names[1])
                    self.assertIn("best", names[0])
                    for checkpoint in names[0]:
                        shards = sorted(path.name for path in (folders[1] / checkpoint).glob("model-*"))
                        self.assertEqual(shards, [f"model-{i + 1:05}-of-{num_ranks:05}.safetensors"
                                                  for i in range(num_ranks)])
                        for stem in ("model", "optimizer"):
                            self.check_same(tensors_of(folders[0] / checkpoint, stem),
                                            tensors_of(folders[1] / checkpoint, stem))

    def test_commands_of_one_process_read_them(self):
        self.train("whole", 2)
        self.train("sharded", 2, "checkpoint.sharded=true")

        def of_both(command):
            """What a command leaves behind or says of both runs, whose folders it is given."""
            return [command(run) for run in ("whole", "sharded")]

        def evaluate(run):
            told = json.loads(self.run_trainer("eval", run, "--json").splitlines()[-1])
            return {key: told[key] for key in ("loss", "accuracy", "samples")}

        def export(run):
            self.run_trainer("export", run, "-o", f"{run}.safetensors")
            with safe_open(self.folder / f"{run}.safetensors", framework="numpy") as file:
                return {name: file.get_tensor(name) for name in file.keys()}

        def evaluate_weights(run):
            weights = f"{run}/checkpoints/latest"
            return json.loads(self.run_trainer("eval", "ranks.yaml", "--weights", weights, "--json").splitlines()[-1])["loss"]

        def go_on(run):
            shutil.copytree(self.folder / run, self.folder / f"{run}_on", symlinks=True)
            self.run_trainer("run", "ranks.yaml", "-q", "--resume", "train.steps=23", f"output={run}_on")
            return tensors_of(self.folder / f"{run}_on" / "checkpoints" / "latest", "optimizer")

        losses = of_both(evaluate)
        self.assertEqual(losses[0], losses[1])
        exported = of_both(export)
        self.check_same(*exported)
        self.check_same(exported[1], tensors_of(self.folder / "sharded" / "checkpoints" / "best", "model"))
        losses = of_both(evaluate_weights)
        self.assertEqual(losses[0], losses[1])
        self.check_same(*of_both(go_on))
        predictions = []
        for run in ("whole", "sharded"):
            self.run_trainer("export", run, "--to", f"{run}_folder")
            self.run_trainer("export", run, "--onnx", f"{run}.onnx")
            predictions.append((self.folder / f"{run}.onnx").read_bytes())
        self.assertEqual(predictions[0], predictions[1])


if __name__ == "__main__":
    unittest.main()
