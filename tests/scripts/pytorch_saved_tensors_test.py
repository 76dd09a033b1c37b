"""pytorch_saved_tensors.py: its rules against sums by hand, PyTorch's own table of formulas, and PyTorch itself.

The last two want the .venv/ of scripts/python_env.sh, and are skipped without it."""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import pytorch_saved_tensors as rules  # noqa: E402

CROSS_ENTROPY = {"type": "cross_entropy", "label_smoothing": 0}


def conv(out, kernel=3, stride=1, padding=1, dilation=1, groups=1, bias=True):
    return {"conv2d": {"out": out, "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation,
                       "groups": groups, "bias": bias}}


def dense(out, bias=True):
    return {"linear": {"out": out, "bias": bias}}


def batch_norm(affine=True):
    return {"batchnorm2d": {"eps": 1e-5, "momentum": 0.1, "affine": affine}}


def layer_norm(affine=True):
    return {"layernorm": {"eps": 1e-5, "affine": affine}}


def saved_bytes(layers, shape, loss="cross_entropy"):
    return sum(item.bytes for item in rules.count_saved_tensors(layers, {"type": loss}, shape))


def cross_entropy_bytes(samples, classes):
    """Log-probabilities, int64 targets, and the sum of the weights."""
    return 4 * samples * classes + 8 * samples + 4


class SumsByHand(unittest.TestCase):
    def test_a_storage_that_two_ops_read_counts_once(self):
        # The first input, and each ReLU's result, which is the next layer's input as well.
        self.assertEqual(saved_bytes([dense(11), "relu", dense(7), "relu", dense(3)], (5, 13)),
                         4 * 5 * (13 + 11 + 7) + cross_entropy_bytes(5, 3))

    def test_gelu_keeps_its_input_and_the_next_layer_its_output(self):
        self.assertEqual(saved_bytes([dense(11), {"gelu": {"approximate": "none"}}, dense(3)], (5, 13)),
                         4 * 5 * (13 + 11 + 11) + cross_entropy_bytes(5, 3))

    def test_layer_norm_keeps_its_input_and_two_numbers_a_row(self):
        self.assertEqual(saved_bytes([dense(11), layer_norm(), dense(3)], (5, 13)),
                         4 * 5 * (13 + 11 + 2 + 11) + cross_entropy_bytes(5, 3))

    def test_what_cheap_ops_make_from_the_rest_is_told_apart(self):
        block = {"residual": {"layers": [layer_norm(), dense(11), "relu"]}}
        saved = rules.count_saved_tensors([dense(11), block, {"dropout": {"p": 0.5}}, dense(7), "tanh"], {"type": "mse"}, (5, 13))
        self.assertEqual(
            [(item.op, item.tensor, item.derivable) for item in saved],
            [("addmm", "mat1", False), ("native_layer_norm", "input", False), ("native_layer_norm", "result1", True),
             ("native_layer_norm", "result2", True),
             ("addmm", "mat1", True),  # the norm's output, from its input
             ("relu", "result", False),  # of a product that is not kept
             ("native_dropout", "result1", True),  # drawn again
             ("addmm", "mat1", True),  # through the sum of two kept values
             ("tanh", "result", False), ("mse_loss", "target", False)])

    def test_max_pooling_keeps_eight_bytes_a_window(self):
        self.assertEqual(saved_bytes([conv(2), "relu", {"maxpool2d": {"kernel": 2, "stride": 2, "padding": 0}}, "flatten",
                                      dense(3)], (5, 1, 6, 4)),
                         4 * 5 * 24 + 4 * 5 * 48 + (8 + 4) * 5 * 12 + cross_entropy_bytes(5, 3))

    def test_an_op_over_data_without_parameters_is_not_recorded(self):
        self.assertEqual(saved_bytes(["relu", {"dropout": {"p": 0.5}}, dense(3)], (5, 13)),
                         4 * 5 * 13 + cross_entropy_bytes(5, 3))

    def test_a_residual_addition_keeps_nothing(self):
        block = {"residual": {"layers": [dense(13), "relu"]}}
        # The block's input, and the ReLU's result; the sum is the next layer's input.
        self.assertEqual(saved_bytes([block, dense(3)], (5, 13)), 4 * 5 * 3 * 13 + cross_entropy_bytes(5, 3))

    def test_repeat_makes_copies_that_keep_their_own(self):
        self.assertEqual(saved_bytes([{"repeat": {"times": 3, "layers": [dense(13), "tanh"]}}, dense(3)], (5, 13)),
                         4 * 5 * 4 * 13 + cross_entropy_bytes(5, 3))

    def test_what_has_no_rule_is_refused(self):
        for layers, shape in (([{"attention": {}}], (5, 13)), ([layer_norm(), conv(2)], (5, 3, 4, 4)),
                              ([{"maxpool2d": {"kernel": 2, "stride": 2, "padding": 0}}], (5, 13))):
            with self.assertRaises(rules.NotWrittenDown):
                saved_bytes(layers, shape)
        with self.assertRaises(rules.NotWrittenDown):
            rules.count_saved_tensors([dense(3)], {"type": "cross_entropy", "label_smoothing": 0.1}, (5, 13))


def torch_file(name):
    """A file of the wheel in .venv/, or None."""
    if not rules.PYTHON.exists():
        return None
    result = subprocess.run([str(rules.PYTHON), "-c", "import torchgen; print(torchgen.__path__[0])"], capture_output=True,
                            text=True, check=False)
    path = pathlib.Path(result.stdout.strip()) / name
    return path if result.returncode == 0 and path.is_file() else None


def tensors_read(entry):
    """Which arguments and results the gradients of an entry of derivatives.yaml read; sizes alone are not read."""
    signature, *lines = entry.splitlines()
    arguments, returned = re.match(r"- name: [\w.]+\((.*)\) -> (.*)", signature).groups()
    names = re.findall(r"Tensor(?:\([a-z]!\))?\?? (\w+)", arguments)
    results = [part.split()[-1] if " " in part.strip() else f"result{index}"
               for index, part in enumerate(returned.strip("()").split(","))]
    names += ["result"] if results == ["result0"] else results
    formulas = dict(re.match(r"  ([\w, ]+): (.*)", line).groups() for line in lines if re.match(r"  [\w, ]+: ", line))
    read = set()
    for inputs, formula in formulas.items():
        # Targets need no gradient, and the lines of results are of the forward mode.
        if inputs == "target" or inputs.startswith("result") or inputs == "output":
            continue
        read |= {name for name in names
                 if re.search(rf"\b{name}\b(?!(\.|->)(sym_\w+|layout|scalar_type)\()", formula)}
    return read


class PyTorchsOwnTable(unittest.TestCase):
    def test_every_rule_names_the_tensors_that_the_formula_reads(self):
        path = torch_file("packaged/autograd/derivatives.yaml")
        if path is None:
            self.skipTest("SKIPPED: no wheel of PyTorch in .venv/")
        entries = re.split(r"\n(?=- name: )", path.read_text(encoding="utf-8"))
        for layer, rule in rules.RULES.items():
            with self.subTest(layer):
                entry, = [entry for entry in entries if entry.startswith(f"- name: {rule.op}(")]
                self.assertEqual(set(rule.reads), tensors_read(entry))


# Together every layer, both places of a norm's parameters, odd sizes, and one sample.
NETWORKS = {
    "everything on images": ([
        conv(6, kernel=[3, 2], stride=[2, 1], padding=[1, 0], bias=False), batch_norm(), "relu",
        {"residual": {"layers": [conv(6), batch_norm(affine=False), "silu"], "shortcut": [conv(6, kernel=1, padding=0)]}},
        conv(12, groups=3, dilation=2, padding=2), "tanh",
        {"maxpool2d": {"kernel": 3, "stride": 2, "padding": 1}},
        {"avgpool2d": {"kernel": 2, "stride": 1, "padding": 0, "count_include_pad": True}},
        {"dropout": {"p": 0.25}}, {"repeat": {"times": 2, "layers": [conv(12), "sigmoid"]}}, "global_avgpool",
        {"sequential": {"layers": [dense(7), {"gelu": {"approximate": "tanh"}}], "name": "head"}}, dense(3)],
        (5, 3, 13, 11), "cross_entropy"),
    "everything on features": ([
        {"dropout": {"p": 0.5}}, layer_norm(), dense(17), layer_norm(affine=False), {"gelu": {"approximate": "none"}},
        {"residual": {"layers": [layer_norm(), dense(31, bias=False), "relu", dense(17)]}}, "relu", {"dropout": {"p": 0}},
        dense(3)], (7, 13), "cross_entropy"),
    "group norms": ([
        conv(6), {"groupnorm": {"groups": 3, "eps": 1e-5, "affine": True}}, "relu", conv(8),
        {"instancenorm2d": {"eps": 1e-5, "affine": True}}, "silu", {"instancenorm2d": {"eps": 1e-5, "affine": False}},
        conv(4), {"groupnorm": {"groups": 2, "eps": 1e-5, "affine": False}}, "flatten", dense(12),
        {"batchnorm1d": {"eps": 1e-5, "momentum": 0.1, "affine": True}}, "relu", dense(3)], (5, 3, 7, 5), "cross_entropy"),
    "named values": ([
        {"conv2d": {**conv(6)["conv2d"], "name": "stem"}}, "relu6",
        {"sequential": {"name": "down", "layers": [
            {"maxpool2d": {"kernel": 2, "stride": 2, "padding": 0}}, {"conv2d": {**conv(6)["conv2d"], "name": "deep"}},
            "hardswish", {"upsample": {"scale": 2, "mode": "bilinear", "align_corners": False, "name": "up"}}]}},
        {"concat": {"from": ["down.up", "stem"], "name": "both"}}, conv(8), {"leaky_relu": {"slope": 0.1}},
        {"conv_transpose2d": {"out": 6, "kernel": 2, "stride": 2, "name": "large"}}, {"prelu": {"num": 6, "init": 0.25}},
        {"adaptive_avgpool2d": {"size": 1}}, conv(6, kernel=1, padding=0), {"hardsigmoid": {"name": "gate"}},
        {"multiply": {"from": ["large", "gate"], "name": "gated"}}, {"add": {"from": ["gated", "large"]}},
        {"adaptive_avgpool2d": {"size": [3, 2]}}, "flatten", dense(3)], (2, 3, 8, 6), "cross_entropy"),
    "images of other sizes": ([
        conv(4), {"maxpool2d": {"kernel": 2, "stride": 2, "padding": 0, "ceil_mode": True}}, conv(5),
        {"upsample": {"scale": 2, "mode": "nearest", "align_corners": False}}, conv(4),
        {"upsample": {"size": [9, 7], "mode": "bilinear", "align_corners": True}},
        {"conv_transpose2d": {"out": 3, "kernel": 2, "stride": [2, 1], "padding": 0, "output_padding": [1, 0], "dilation": 1,
                              "groups": 1, "bias": True}}, "relu",
        {"pad": {"size": 1, "mode": "zeros", "value": 0.5}}, conv(4), {"pad": {"size": [1, 2], "mode": "reflect", "value": 0}},
        conv(4), {"adaptive_avgpool2d": {"size": [3, 2]}}, conv(3), {"adaptive_avgpool2d": {"size": 1}}, "flatten",
        dense(3)], (3, 2, 9, 11), "cross_entropy"),
    "a class a pixel, the input of a list": ([
        conv(4), {"sequential": {"name": "unit", "layers": [
            {"conv2d": {**conv(4)["conv2d"], "name": "main"}}, "relu", {"sequential": {"name": "gated", "layers": [
                conv(4), {"add": {"from": ["main", "in"]}}]}}, {"add": {"from": ["gated", "in"]}}]}}, "relu6",
        conv(3, kernel=1, padding=0)], (3, 2, 5, 7), "cross_entropy"),
    "flatten first": (["flatten", dense(5), "sigmoid", dense(2)], (1, 1, 3, 3), "mse"),
    "norm first": ([batch_norm(), {"avgpool2d": {"kernel": 2, "stride": 2, "padding": 0, "count_include_pad": True}},
                    "flatten", dense(1)], (2, 3, 4, 4), "bce_with_logits"),
}


class PyTorchItself(unittest.TestCase):
    def test_autograd_saves_as_many_bytes_in_as_many_storages(self):
        if torch_file("__init__.py") is None:
            self.skipTest("SKIPPED: no PyTorch in .venv/")
        descriptions = [{"layers": layers, "loss": {"type": loss}, "optimizer": {"type": "sgd"}, "input_shape": shape}
                        for layers, shape, loss in NETWORKS.values()]
        answers = rules.run_pytorch(descriptions)
        self.assertEqual(len(answers), len(NETWORKS))
        for (name, (layers, shape, loss)), answer in zip(NETWORKS.items(), answers):
            with self.subTest(name):
                saved = rules.count_saved_tensors(layers, {"type": loss}, shape)
                self.assertEqual((answer["saved_bytes"], answer["num_saved"]),
                                 (sum(item.bytes for item in saved), len(saved)))


if __name__ == "__main__":
    unittest.main()
