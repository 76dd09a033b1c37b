"""Runs the trainer binary on a configuration and reads what it wrote. Needs no PyTorch, and NumPy only for tensors."""
import json
import os
import pathlib
import subprocess

DIVERGED, INTERRUPTED = 5, 75


class RunFailed(Exception):
    pass


def config_text(config):
    """A key a line, its value in flow style: JSON is YAML."""
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in config.items())


class Run:
    """What a run has written: its events and its checkpoints."""

    def __init__(self, output, events, exit_code, said):
        self.output = pathlib.Path(output)
        self.events, self.exit_code, self.said = events, exit_code, said

    def of_kind(self, kind):
        return [event for event in self.events if event["event"] == kind]

    @property
    def steps(self):
        return self.of_kind("step")

    @property
    def evaluations(self):
        return self.of_kind("eval")

    def saved_steps(self):
        return sorted(int(path.name[5:]) for path in (self.output / "checkpoints").glob("step-*"))

    def tensors(self, file, step):
        """Those of `model` or `optimizer` behind a step."""
        import safetensors_file
        return safetensors_file.read(self.output / "checkpoints" / f"step-{step:08d}" / f"{file}.safetensors")

    def weights(self, step):
        return self.tensors("model", step)

    def gradients(self, step):
        """Of a run in gradient_probe()'s manner: the gradient of each parameter in that step."""
        suffix = ".momentum"
        return {name[:-len(suffix)]: array for name, array in self.tensors("optimizer", step).items()
                if name.endswith(suffix)}

    def logged(self):
        """The events of events.jsonl, which outlive a kill and a resume."""
        lines = (self.output / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


def gradient_probe(config):
    """The configuration with an optimizer that changes no weight and saves each step's gradient: the momentum of SGD is
    1e-38 · the last one, which is lost in f32 beside any gradient that is worth comparing, + the gradient."""
    return {**config, "optimizer": {"type": "sgd", "lr": 0, "momentum": 1e-38}, "checkpoint": {"every": 1, "keep": 100000}}


class TrainerBinary:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def start(self, folder, config, *words, name="config"):
        """The command of a run of this configuration, written as folder/NAME.yaml; output is folder/NAME."""
        file = folder / f"{name}.yaml"
        config = {"name": name, "device": {"type": "cpu", "threads": 1}, **config, "output": str(folder / name)}
        file.write_text(config_text(config), encoding="utf-8")
        return [str(self.path), "run", str(file), "--json", *[str(word) for word in words]]

    def environment(self):
        return {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}

    def run(self, folder, config, *words, name="config", accept=(0,)):
        command = self.start(folder, config, *words, name=name)
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                env=self.environment(), cwd=folder)
        if result.returncode not in accept:
            said = "\n".join((result.stderr.strip() or result.stdout.strip()).splitlines()[-8:])
            raise RunFailed(f"{' '.join(command)} ended with {result.returncode}:\n{said}")
        events = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        return Run(folder / name, events, result.returncode, result.stderr)

    def prepared(self, folder, config, *words, name="config"):
        """The arrays that `data --npz` writes of the configuration, which is folder/NAME.yaml."""
        import numpy
        (folder / f"{name}.yaml").write_text(config_text(config), encoding="utf-8")
        file = folder / f"{name}.npz"
        code, out, error = self.ask(folder, "data", f"{name}.yaml", "--no-sheet", "--npz", file.name, *words)
        if code != 0:
            raise RunFailed(f"trainer data {' '.join(str(word) for word in words)} ended with {code}:\n{error or out}")
        with numpy.load(file) as arrays:
            return dict(arrays)

    def encoded(self, folder, tokenizer, file, *words):
        """What `tokenizer encode` makes of a file: what it tells, and the header and the ids in llm.c's format."""
        import numpy
        code, out, error = self.ask(folder, "tokenizer", "encode", tokenizer, file, "-o", "tokens.bin", "--format", "llm.c",
                                    "--overwrite", "--json", *words)
        if code != 0 or error:
            raise RunFailed(f"trainer tokenizer encode {tokenizer} {file} ended with {code}:\n{error or out}")
        told = json.loads(out)
        ids = numpy.fromfile(folder / "tokens.bin", f"u{told['bits'] // 8}", offset=1024)
        return {"told": told, "header": numpy.fromfile(folder / "tokens.bin", "i4", 256), "ids": ids}

    def learned(self, folder, files, *words):
        """The tokenizer.json that `tokenizer train` writes, and what it tells."""
        code, out, error = self.ask(folder, "tokenizer", "train", *files, "-o", "ours.json", "--json", *words)
        if code != 0 or error:
            raise RunFailed(f"trainer tokenizer train of {files} ended with {code}:\n{error or out}")
        return {"told": json.loads(out), "file": json.loads((folder / "ours.json").read_text(encoding="utf-8"))}

    def range_test(self, folder, *words):
        """What `lr-find` tells."""
        code, out, error = self.ask(folder, "lr-find", *words, "--json")
        if code != 0 or error:
            raise RunFailed(f"trainer lr-find {' '.join(map(str, words))} ended with {code}:\n{error or out}")
        return json.loads(out)

    def ask(self, folder, *words):
        """(exit code, stdout, stderr) of any command."""
        result = subprocess.run([str(self.path), *[str(word) for word in words]], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, check=False, env=self.environment(), cwd=folder)
        return result.returncode, result.stdout, result.stderr
