"""What `trainer export --onnx` writes of every shipped model, and of networks with every layer, is a valid ONNX model, and
onnxruntime finds with it what `trainer eval` finds: the loss of each validation sample, its class and that class's
probability, whatever the size of the batch.

Environment: TRAINER, the binary. Needs onnx and onnxruntime (scripts/python_env.sh); without them it is skipped (77).
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
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing_module:
    interpreters.go_on_in_environment_or_skip(missing_module)

TRAINER = os.environ["TRAINER"]
VALIDATION = 13

IMAGES = {"type": "synthetic", "shape": [32, 32, 3], "classes": 7, "samples": 16, "validation_samples": VALIDATION}
PIXELS = {**IMAGES, "shape": [32, 64, 3], "classes": 3, "target_shape": [32, 64]}
TOKENS = {"type": "tokens", "train": "tokens.bin", "validation": "more.bin", "sequence_length": 9, "classes": 31}
MASKED = {**TOKENS, "mask_token": 30}

# Each of configs/models/, in a small size: the data, and what it is built with.
MODELS = {
    "mlp": [(IMAGES, {"width": 9, "depth": 2, "classes": 7, "dropout": 0.2})],
    "resnet": [(IMAGES, {"depth": 18, "classes": 7, "width": 8}),
               (IMAGES, {"depth": 50, "classes": 7, "width": 4, "stem": "cifar"})],
    "vgg16": [({**IMAGES, "shape": [48, 40, 3]}, {"classes": 7, "width": 4, "hidden": 10})],
    "mobilenetv2": [(IMAGES, {"classes": 7, "width": 8}), (IMAGES, {"classes": 7, "width": 8, "stem": "cifar"})],
    "unet": [(PIXELS, {"classes": 3, "width": 4, "depth": 3}),
             (PIXELS, {"classes": 3, "width": 4, "depth": 2, "up": "bilinear"})],
    "unet_resnet": [(PIXELS, {"classes": 3, "depth": 18, "width": 4}), (PIXELS, {"classes": 3, "depth": 50, "width": 4})],
    "gpt2": [(TOKENS, {"depth": 2, "width": 12, "heads": 3, "vocabulary": 31, "length": 9}),
             (TOKENS, {"depth": 1, "width": 8, "heads": 2, "vocabulary": 31, "length": 20})],
    "llama": [(TOKENS, {"depth": 2, "width": 24, "hidden": 20, "heads": 4, "kv_heads": 2, "vocabulary": 31}),
              (TOKENS, {"depth": 1, "width": 16, "hidden": 20, "heads": 4, "kv_heads": 1, "vocabulary": 31, "tied": False,
                        "rotary_factor": 8, "rotary_base": 100})],
    "qwen3": [(TOKENS, {"depth": 2, "width": 12, "hidden": 20, "heads": 4, "kv_heads": 2, "head_width": 6,
                        "vocabulary": 31})],
    "bert": [(MASKED, {"depth": 2, "width": 12, "heads": 3, "vocabulary": 31, "length": 12})],
    "vit": [(IMAGES, {"depth": 2, "width": 12, "heads": 3, "patch": 8, "image": 32, "classes": 7})],
}

# What those do not have.
LAYERS = {
    "images": (IMAGES, [
        {"pad": {"size": [1, 2, 0, 3], "mode": "reflect"}}, {"conv2d": {"out": 8, "kernel": [3, 2], "padding": [2, 1],
                                                                        "dilation": 2, "groups": 1}},
        {"batchnorm2d": {"affine": False}}, {"leaky_relu": {"slope": 0.1}},
        {"avgpool2d": {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}},
        {"conv2d": {"out": 8, "kernel": 3, "groups": 4, "bias": False}}, {"groupnorm": {"groups": 2}}, "silu",
        {"pad": {"size": 1, "mode": "replicate"}},
        {"avgpool2d": {"kernel": 2, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}},
        {"instancenorm2d": {"affine": True}}, {"prelu": {"num": 8}},
        {"conv_transpose2d": {"out": 6, "kernel": 3, "stride": 2, "padding": 1, "output_padding": 1, "groups": 2}}, "gelu",
        {"maxpool2d": {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}},
        {"upsample": {"size": [7, 5], "mode": "bilinear"}}, "hardswish", {"upsample": {"scale": 2}}, "hardsigmoid",
        {"upsample": {"size": [11, 12], "mode": "bilinear", "align_corners": True}},
        {"upsample": {"size": [5, 7], "mode": "nearest"}}, {"layernorm": {}}, "relu6",
        {"pad": {"size": [0, 1, 1, 0], "mode": "zeros", "value": 0.5}}, {"adaptive_avgpool2d": {"size": [4, 3]}},
        {"conv2d": {"out": 4, "kernel": 1, "name": "whole"}}, {"global_avgpool": {"name": "gate"}}, "sigmoid",
        {"linear": {"out": 4, "name": "open"}}, {"multiply": {"from": ["whole", "open"], "name": "gated"}},
        {"concat": {"from": ["whole", "gated"]}}, {"slice": {"first": 3, "size": 5}}, "tanh",
        {"layernorm": {"affine": False}}, "flatten", {"batchnorm1d": {}}, {"prelu": {}}, {"rmsnorm": {"affine": False}},
        {"linear": {"out": 7, "bias": False}}]),
    "tokens": (TOKENS, [
        {"embedding": {"num": 31, "dim": 12, "name": "tokens"}}, {"batchnorm1d": {}}, {"linear": {"out": 24}},
        {"swiglu": {}}, {"linear": {"out": 16, "name": "q"}},
        {"linear": {"out": 8, "from": "tokens", "name": "kv"}},
        {"attention": {"heads": 4, "kv_heads": 2, "causal": True, "window": 3, "rotary_base": 50,
                       "from": ["q", "kv", "kv"]}},
        {"rmsnorm": {"heads": 4}}, {"linear": {"out": 16, "name": "up"}},
        {"geglu": {"approximate": "tanh", "from": ["up", "q"]}}, {"groupnorm": {"groups": 4}},
        {"gelu": {"approximate": "tanh"}}, {"linear": {"out": 31}}]),
}


def trainer(folder, *words, exit_code=0):
    done = subprocess.run([TRAINER, *map(str, words)], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "2"}, timeout=300)
    if done.returncode != exit_code:
        raise AssertionError(f"trainer {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stdout if exit_code == 0 else done.stderr


def losses_of(logits, targets):
    """The mean cross-entropy of each sample's targets, without those that are below 0, and log-probabilities."""
    logits = logits.astype("f8")
    largest = logits.max(axis=-1, keepdims=True)
    logarithms = logits - largest - np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
    counted = targets >= 0
    own = -np.take_along_axis(logarithms, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    axes = tuple(range(1, targets.ndim))
    return np.where(counted, own, 0).sum(axis=axes) / np.maximum(counted.sum(axis=axes), 1), logarithms


class Onnx(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-onnx-"))
        (self.folder / "models").symlink_to(ROOT / "configs" / "models")
        random = np.random.default_rng(7)
        for name, count in (("tokens", 9 * 16 + 1), ("more", 9 * VALIDATION + 1)):
            random.integers(0, 31, count).astype("<u2").tofile(self.folder / f"{name}.bin")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def exported(self, data, model, *words):
        """A short run's network as ONNX, its samples and what `eval` says of them."""
        config = {"name": "net", "device": {"type": "cpu", "threads": 2}, "data": data, "model": model, "seed": 3,
                  "optimizer": {"type": "adamw", "lr": 0.01}, "train": {"batch_size": 4, "steps": 4}, "output": "run"}
        (self.folder / "net.yaml").write_text(json.dumps(config), encoding="utf-8")
        trainer(self.folder, "run", "net.yaml", "-q")
        told = json.loads(trainer(self.folder, "export", "run", "--onnx", "net.onnx", "--json", *words))
        trainer(self.folder, "data", "net.yaml", "--validation", "--no-sheet", "--npz", "net.npz")
        with np.load(self.folder / "net.npz") as arrays:
            samples, targets = arrays["samples"], arrays["targets"]
        found = json.loads(trainer(self.folder, "eval", "run", "--worst", 1000, "--json"))
        return told, samples, targets, found

    def check(self, data, model):
        told, samples, targets, found = self.exported(data, model)
        path = self.folder / "net.onnx"
        self.assertEqual(told["bytes"], path.stat().st_size)
        onnx.checker.check_model(str(path), full_check=True)
        loaded = onnx.load(str(path))
        self.assertGreaterEqual(loaded.opset_import[0].version, 17)
        self.assertEqual(loaded.graph.output[0].name, "logits")
        self.assertEqual(loaded.graph.input[0].type.tensor_type.shape.dim[0].dim_param, "batch")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        kind = {"tensor(uint8)": "u1", "tensor(float)": "f4", "tensor(int64)": "i8"}[session.get_inputs()[0].type]
        samples = samples.astype(kind)
        logits = session.run(None, {name: samples})[0]
        self.assertEqual(logits.shape[:-1], targets.shape)
        alone = np.concatenate([session.run(None, {name: samples[i:i + 1]})[0] for i in range(len(samples))])
        np.testing.assert_allclose(alone, logits, rtol=1e-4, atol=1e-4)

        losses, logarithms = losses_of(logits, targets)
        worst = sorted(found["worst"], key=lambda sample: sample["index"])
        self.assertEqual([sample["index"] for sample in worst], list(range(len(samples))))
        np.testing.assert_allclose([sample["loss"] for sample in worst], losses, rtol=2e-5, atol=2e-6)
        if targets.ndim == 1:
            self.assertAlmostEqual(found["loss"], losses.mean(), delta=2e-5 * (1 + losses.mean()))
            for sample, row in zip(worst, logarithms):
                # The likeliest class, unless another is as likely within rounding.
                self.assertGreater(row[sample["predicted"]], row.max() - 1e-4)
                self.assertAlmostEqual(sample["probability"], np.exp(row.max()), delta=2e-5)
        self.assertGreater(logits.std(), 1e-3)  # a network that tells samples apart

    def test_every_shipped_model(self):
        self.assertEqual(sorted(MODELS), sorted(path.stem for path in (ROOT / "configs" / "models").glob("*.yaml")))
        for name, cases in MODELS.items():
            for data, values in cases:
                with self.subTest(model=name, **values):
                    shutil.rmtree(self.folder / "run", ignore_errors=True)
                    (self.folder / "net.onnx").unlink(missing_ok=True)
                    self.check(data, {"file": f"models/{name}.yaml", "with": values})

    def test_every_layer(self):
        for name, (data, layers) in LAYERS.items():
            with self.subTest(layers=name):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                (self.folder / "net.onnx").unlink(missing_ok=True)
                self.check(data, {"layers": layers})

    def test_matrices_of_files_that_have_them_the_other_way_round_are_turned(self):
        data, values = MODELS["gpt2"][0]
        self.exported(data, {"file": "models/gpt2.yaml", "with": values})
        trainer(self.folder, "export", "run", "--names", "hub", "-o", "hub.safetensors")
        trainer(self.folder, "export", "net.yaml", "weights={file: hub.safetensors, map: hub}", "--onnx", "hub.onnx")
        own, hub = [{tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(self.folder / name).graph.initializer}
                    for name in ("net.onnx", "hub.onnx")]
        self.assertEqual(own.keys(), hub.keys())
        for name, array in own.items():
            np.testing.assert_array_equal(array, hub[name], name)

    def test_features_are_numbers_in_and_out(self):
        data = {"type": "synthetic", "shape": [5], "target_type": "numeric", "classes": 1, "samples": 16,
                "validation_samples": VALIDATION}
        config = {"data": data, "loss": "mse", "model": {"layers": [{"linear": {"out": 4}}, "tanh", {"linear": {"out": 1}}]},
                  "train": {"batch_size": 4, "steps": 3}, "output": "run"}
        (self.folder / "net.yaml").write_text(json.dumps(config), encoding="utf-8")
        trainer(self.folder, "run", "net.yaml", "-q")
        trainer(self.folder, "export", "run", "--onnx", "net.onnx")
        trainer(self.folder, "data", "net.yaml", "--validation", "--no-sheet", "--npz", "net.npz")
        with np.load(self.folder / "net.npz") as arrays:
            samples = arrays["samples"]
        session = onnxruntime.InferenceSession(str(self.folder / "net.onnx"), providers=["CPUExecutionProvider"])
        numbers = session.run(None, {"input": samples.astype("f4")})[0]
        found = json.loads(trainer(self.folder, "eval", "run", "--worst", 1000, "--json"))
        for sample in found["worst"]:
            self.assertAlmostEqual(sample["predicted"], numbers[sample["index"], 0], places=5)

    def test_what_has_no_form_is_refused_with_its_place(self):
        config = {"data": {**TOKENS, "document_token": 1},
                  "model": {"file": "models/gpt2.yaml", "with": MODELS["gpt2"][0][1]},
                  "train": {"batch_size": 4, "steps": 1}, "output": "run"}
        (self.folder / "net.yaml").write_text(json.dumps(config), encoding="utf-8")
        trainer(self.folder, "run", "net.yaml", "-q")
        said = trainer(self.folder, "export", "run", "--onnx", "net.onnx", exit_code=2)
        self.assertIn("has no form in ONNX", said)
        self.assertFalse((self.folder / "net.onnx").exists())

    def test_an_existing_file_is_replaced_on_demand_alone(self):
        data, values = MODELS["mlp"][0]
        self.exported(data, {"file": "models/mlp.yaml", "with": values})
        self.assertIn("net.onnx", trainer(self.folder, "export", "run", "--onnx", "net.onnx", exit_code=6))
        trainer(self.folder, "export", "run", "--onnx", "net.onnx", "--overwrite", "-q")
        trainer(self.folder, "export", "run", "--onnx", "x.onnx", "--dtype", "f16", exit_code=2)
        trainer(self.folder, "export", "run", exit_code=2)


if __name__ == "__main__":
    unittest.main()
