#!/usr/bin/env python3
"""scripts/pytorch_saved_tensors.py CONFIG [key=value …]: what PyTorch's autograd keeps from forward to backward.

Counted op by op for the model, the loss and the batch of a trainer config: every op that autograd records keeps the
tensors which its formula in PyTorch's derivatives.yaml reads (tools/autograd/ in its source, torchgen/packaged/autograd/
in its wheel). RULES names them. A storage counts once however many ops read it (a ReLU's result is the next layer's
input); parameters and running statistics count not at all, since they are held anyway. The ops are those that PyTorch
runs on a GPU in f32, images as NCHW, and the bytes are those asked for, unrounded.

--measure counts them a second time, independently: PyTorch itself runs the model on the CPU and hands each tensor that
it saves to torch.autograd.graph.saved_tensors_hooks. It wants the .venv/ of scripts/python_env.sh. Both counts must be
the same; the exit code is 1 where they are not. Where a GPU is present it also measures the peak of a whole step there.
"""
import argparse
import dataclasses
import json
import math
import subprocess
import sys

from trainer_events import ROOT, Trainer, TrainerFailed, field

PYTHON = ROOT / ".venv" / "bin" / "python"


class NotWrittenDown(Exception):
    """A layer or an option that has no rule here."""


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the forward pass. Views of one storage have one number; those of parameters have none."""
    shape: tuple
    storage: int | None
    storage_bytes: int
    needs_gradient: bool


HELD_ANYWAY = Value((), None, 0, True)  # a parameter or a running statistic
ABSENT = None  # an argument that is not given: no bias, no class weights


@dataclasses.dataclass(frozen=True)
class Saved:
    """One storage that is kept, and the op that kept it first. `derivable`: norms, activations, dropout, pooling and sums
    alone make it again from the others, so that keeping it is a choice."""
    path: str
    layer: str
    op: str
    tensor: str
    shape: tuple
    bytes: int
    derivable: bool = False


@dataclasses.dataclass(frozen=True)
class Rule:
    """An op of derivatives.yaml and which of its arguments and results the gradients in question read."""
    op: str
    reads: tuple


# Layer: the op that torch.nn's module runs in training. The line of derivatives.yaml stands behind each.
RULES = {
    # mat1: mm_mat1_backward(grad, mat2, …)  mat2: mm_mat2_backward(grad, mat1, …); mat2 is the weight
    "linear": Rule("addmm", ("mat1", "mat2")),
    # input, weight, bias: convolution_backward_symint(grad, input, weight, bias->sym_sizes(), …)
    "conv2d": Rule("convolution", ("input", "weight")),
    # input, weight, bias: native_batch_norm_backward(grad, input, weight, running_mean, running_var, result1, result2, …);
    # result1 and result2 are the batch's mean and 1 / standard deviation. cuDNN's adds a reserve, which is left out here
    "batchnorm2d": Rule("native_batch_norm", ("input", "weight", "running_mean", "running_var", "result1", "result2")),
    # input, weight, bias: native_group_norm_backward_symint(grad, input, result1, result2, weight, …)
    "groupnorm": Rule("native_group_norm", ("input", "weight", "result1", "result2")),
    # A batch norm over a batch of one, whose channels are those of all samples; its weight is repeated for each.
    "instancenorm2d": Rule("native_batch_norm", ("input", "weight", "running_mean", "running_var", "result1", "result2")),
    # input, weight, bias: native_layer_norm_backward_symint(grad, input, normalized_shape, result1, result2, weight, bias, …)
    "layernorm": Rule("native_layer_norm", ("input", "result1", "result2", "weight", "bias")),
    # self: threshold_backward(grad, result, 0)
    "relu": Rule("relu", ("result",)),
    # self: gelu_backward(grad, self, approximate)
    "gelu": Rule("gelu", ("self",)),
    # self: silu_backward(grad, self)
    "silu": Rule("silu", ("self",)),
    # self: tanh_backward(grad, result)
    "tanh": Rule("tanh", ("result",)),
    # self: hardtanh_backward(grad, self, 0, 6), also of the copy that an in-place one makes of its input
    "relu6": Rule("hardtanh", ("self",)),
    # self: hardswish_backward(grad, self); the others alike
    "hardswish": Rule("hardswish", ("self",)),
    "hardsigmoid": Rule("hardsigmoid", ("self",)),
    "leaky_relu": Rule("leaky_relu", ("self",)),
    # self, weight: _prelu_kernel_backward(grad, self, weight)
    "prelu": Rule("_prelu_kernel", ("self", "weight")),
    # self: sigmoid_backward(grad, result)
    "sigmoid": Rule("sigmoid", ("result",)),
    # input: native_dropout_backward(grad, result1, …); result1 is the mask, one byte an element. (The CPU's dropout
    # multiplies with a mask of floats instead; a GPU's is counted, and measured on the CPU through native_dropout itself.)
    "dropout": Rule("native_dropout", ("result1",)),
    # self: max_pool2d_with_indices_backward(grad, self, …, result1); result1 are the indices, int64
    "maxpool2d": Rule("max_pool2d_with_indices", ("self", "result1")),
    # self: avg_pool2d_backward(grad, self, …)
    "avgpool2d": Rule("avg_pool2d", ("self",)),
    # self: reflection_pad2d_backward_symint(grad, self, padding); replication_pad2d alike
    "pad by itself": Rule("reflection_pad2d", ("self",)),
    # self: mean_backward(grad, self.sym_sizes(), …): adaptive_avg_pool2d to 1×1 runs as a mean, which keeps sizes only
    "global_avgpool": Rule("mean.dim", ()),
    # self: _adaptive_avg_pool2d_backward(grad, self)
    "adaptive_avgpool2d": Rule("_adaptive_avg_pool2d", ("self",)),
    # The same formula as convolutions have: input and weight.
    "conv_transpose2d": Rule("convolution", ("input", "weight")),
    # Of sizes alone: upsample_…_backward(grad, …, self.sym_sizes(), …), cat_tensors_backward(grad, to_args_sizes(…), …),
    # constant_pad_nd_backward(grad, pad)
    "upsample": Rule("upsample_nearest2d", ()),
    "concat": Rule("cat", ()),
    "pad": Rule("constant_pad_nd", ()),
    # self: mul_tensor_backward(grad, other, …), other: mul_tensor_backward(grad, self, …)
    "multiply": Rule("mul.Tensor", ("self", "other")),
    # self, other: grad
    "residual": Rule("add.Tensor", ()),
    # self: _log_softmax_backward_data(grad, result, …)
    "log_softmax": Rule("_log_softmax", ("result",)),
    # self: nll_loss_backward_symint(grad, self, target, weight, …, total_weight)
    "nll_loss": Rule("nll_loss_forward", ("self", "target", "weight", "total_weight")),
    # self: mse_loss_backward(grad, self, target, reduction)
    "mse": Rule("mse_loss", ("self", "target")),
    # self: binary_cross_entropy_with_logits_backward(grad, self, target, weight, pos_weight, reduction)
    "bce_with_logits": Rule("binary_cross_entropy_with_logits", ("self", "target", "weight", "pos_weight")),
}


class Tape:
    """What autograd has saved so far."""

    def __init__(self):
        self.saved = {}  # by storage
        self.outputs = {}  # of layers, by path
        self.sources = []  # by storage: what it is made from without a product; None: from a product, or it is data

    def value(self, shape, needs_gradient, element_bytes=4, made_from=None):
        self.sources.append(None if made_from is None else [source.storage for source in made_from])
        return Value(tuple(shape), len(self.sources) - 1, element_bytes * math.prod(shape), needs_gradient)

    def record(self, path, layer, /, **tensors):
        """One op: `tensors` are its arguments and results by their names in derivatives.yaml."""
        rule = RULES[layer]
        for name in rule.reads:
            value = tensors[name]
            if value is not ABSENT and value.storage is not None:
                self.saved.setdefault(value.storage,
                                      Saved(path, layer, rule.op, name, value.shape, value.storage_bytes))


    def finish(self):
        """Everything that is kept, in order."""
        is_there = []  # by storage, whose sources have smaller numbers: kept, or made from what is
        for storage, sources in enumerate(self.sources):
            derivable = sources is not None and all(is_there[source] for source in sources)
            is_there.append(storage in self.saved or derivable)
            if storage in self.saved:
                self.saved[storage] = dataclasses.replace(self.saved[storage], derivable=derivable)
        return list(self.saved.values())


def pair(value):
    return tuple(value) if isinstance(value, list) else (value, value)


def window_shape(x, arguments, channels):
    if len(x.shape) != 4:
        raise NotWrittenDown(f"an image layer over a value of shape {x.shape}")
    kernel, stride, padding = (pair(arguments[name]) for name in ("kernel", "stride", "padding"))
    dilation = pair(arguments.get("dilation", 1))
    steps = [x.shape[2 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1 for i in (0, 1)]
    size = [steps[i] // stride[i] + 1 for i in (0, 1)]
    if arguments.get("ceil_mode"):  # one more where it begins inside the image or the padding before it
        size = [n + (steps[i] % stride[i] != 0 and n * stride[i] < x.shape[2 + i] + padding[i])
                for i, n in enumerate(size)]
    return (x.shape[0], channels, *size)


def require_features_last(layer, x):
    # Over images trainer's features are the channels; PyTorch's come second and would have to be moved.
    if len(x.shape) == 4:
        raise NotWrittenDown(f"'{layer}' over images")


# Layers that read one tensor: (tape, path, arguments, x) → the output.


def linear(tape, path, arguments, x):
    require_features_last("linear", x)
    y = tape.value((*x.shape[:-1], arguments["out"]), True)
    tape.record(path, "linear", mat1=x, mat2=HELD_ANYWAY)
    return y


def conv2d(tape, path, arguments, x):
    y = tape.value(window_shape(x, arguments, arguments["out"]), True)
    tape.record(path, "conv2d", input=x, weight=HELD_ANYWAY)
    return y


def batchnorm(tape, path, arguments, x):
    needs_gradient = x.needs_gradient or arguments["affine"]
    y = tape.value(x.shape, needs_gradient, made_from=[x])
    if needs_gradient:
        weight = HELD_ANYWAY if arguments["affine"] else ABSENT
        tape.record(path, "batchnorm2d", input=x, weight=weight, running_mean=HELD_ANYWAY, running_var=HELD_ANYWAY,
                    result1=tape.value(x.shape[1:2], False, made_from=[x]),
                    result2=tape.value(x.shape[1:2], False, made_from=[x]))
    return y


def groupnorm(tape, path, arguments, x):
    needs_gradient = x.needs_gradient or arguments["affine"]
    y = tape.value(x.shape, needs_gradient, made_from=[x])
    if needs_gradient:
        statistics = [tape.value((x.shape[0], arguments["groups"]), False, made_from=[x]) for _ in range(2)]
        tape.record(path, "groupnorm", input=x, weight=HELD_ANYWAY if arguments["affine"] else ABSENT,
                    result1=statistics[0], result2=statistics[1])
    return y


def instancenorm2d(tape, path, arguments, x):
    needs_gradient = x.needs_gradient or arguments["affine"]
    y = tape.value(x.shape, needs_gradient, made_from=[x])
    if needs_gradient:
        repeated = (x.shape[0] * x.shape[1],)
        weight = tape.value(repeated, False, made_from=[]) if arguments["affine"] else ABSENT
        tape.record(path, "instancenorm2d", input=x, weight=weight, running_mean=ABSENT, running_var=ABSENT,
                    result1=tape.value(repeated, False, made_from=[x]),
                    result2=tape.value(repeated, False, made_from=[x]))
    return y


def layernorm(tape, path, arguments, x):
    require_features_last("layernorm", x)
    needs_gradient = x.needs_gradient or arguments["affine"]
    y = tape.value(x.shape, needs_gradient, made_from=[x])
    if needs_gradient:
        parameter = HELD_ANYWAY if arguments["affine"] else ABSENT
        tape.record(path, "layernorm", input=x, weight=parameter, bias=parameter,
                    result1=tape.value((*x.shape[:-1], 1), False, made_from=[x]),
                    result2=tape.value((*x.shape[:-1], 1), False, made_from=[x]))
    return y


def activation(layer):
    def apply(tape, path, _, x):
        y = tape.value(x.shape, x.needs_gradient, made_from=[x])
        if x.needs_gradient:
            tape.record(path, layer, self=x, result=y)
        return y
    return apply


def dropout(tape, path, arguments, x):
    if arguments["p"] == 0:
        return x
    mask = tape.value(x.shape, False, element_bytes=1, made_from=[])  # from random numbers that can be drawn again
    y = tape.value(x.shape, x.needs_gradient, made_from=[x])
    if x.needs_gradient:
        tape.record(path, "dropout", result1=mask)
    return y


def maxpool2d(tape, path, arguments, x):
    y = tape.value(window_shape(x, arguments, x.shape[1]), x.needs_gradient, made_from=[x])
    if x.needs_gradient:
        tape.record(path, "maxpool2d", self=x, result1=tape.value(y.shape, False, element_bytes=8, made_from=[x]))
    return y


def avgpool2d(tape, path, arguments, x):
    y = tape.value(window_shape(x, arguments, x.shape[1]), x.needs_gradient, made_from=[x])
    if x.needs_gradient:
        tape.record(path, "avgpool2d", self=x)
    return y


def image_of(x, height, width):
    if len(x.shape) != 4:
        raise NotWrittenDown(f"an image layer over a value of shape {x.shape}")
    return (*x.shape[:2], height, width)


def pad(tape, path, arguments, x):
    size = arguments["size"]
    top, bottom, left, right = ([size] * 4 if not isinstance(size, list) else
                                [size[0], size[0], size[1], size[1]] if len(size) == 2 else size)
    y = tape.value(image_of(x, x.shape[2] + top + bottom, x.shape[3] + left + right), x.needs_gradient, made_from=[x])
    if x.needs_gradient:
        tape.record(path, "pad" if arguments["mode"] == "zeros" else "pad by itself", self=x)
    return y


def global_avgpool(tape, path, _, x):
    y = tape.value(x.shape[:2], x.needs_gradient, made_from=[x])
    tape.record(path, "global_avgpool")
    return y


def flatten(_tape, _path, _arguments, x):
    return dataclasses.replace(x, shape=(x.shape[0], math.prod(x.shape[1:])))  # a view


def residual(tape, path, arguments, x):
    y = sequence(tape, f"{path}.layers.", arguments["layers"], x)
    shortcut = sequence(tape, f"{path}.shortcut.", arguments.get("shortcut") or [], x)
    if y.shape != shortcut.shape:
        raise NotWrittenDown(f"an addition of shapes {y.shape} and {shortcut.shape}")
    tape.record(path, "residual")
    return tape.value(y.shape, y.needs_gradient or shortcut.needs_gradient, made_from=[y, shortcut])


def conv_transpose2d(tape, path, arguments, x):
    kernel, stride, padding, extra, dilation = (
        pair(arguments.get(name, default)) for name, default in
        (("kernel", 1), ("stride", 1), ("padding", 0), ("output_padding", 0), ("dilation", 1)))
    size = [(x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + extra[i] + 1 for i in (0, 1)]
    y = tape.value((x.shape[0], arguments["out"], *size), True)
    tape.record(path, "conv_transpose2d", input=x, weight=HELD_ANYWAY)
    return y


def upsample(tape, path, arguments, x):
    scale = pair(arguments.get("scale") or 1)
    size = pair(arguments["size"]) if arguments.get("size") else [x.shape[2 + i] * scale[i] for i in (0, 1)]
    tape.record(path, "upsample")
    return tape.value((*x.shape[:2], *size), x.needs_gradient, made_from=[x])


def adaptive_avgpool2d(tape, path, arguments, x):
    size = pair(arguments["size"])
    y = tape.value((*x.shape[:2], *size), x.needs_gradient, made_from=[x])
    if size == (1, 1):
        tape.record(path, "global_avgpool")  # the same mean
    elif x.needs_gradient:
        tape.record(path, "adaptive_avgpool2d", self=x)
    return y


def prelu(tape, path, _, x):
    y = tape.value(x.shape, True, made_from=[x])
    tape.record(path, "prelu", self=x, weight=HELD_ANYWAY)
    return y


# Layers that read several: (tape, path, arguments, inputs) → the output.


def add(tape, path, _, inputs):
    tape.record(path, "residual")
    shape = max((value.shape for value in inputs), key=math.prod)
    return tape.value(shape, any(value.needs_gradient for value in inputs), made_from=inputs)


def multiply(tape, path, _, inputs):
    y = inputs[0]
    for value in inputs[1:]:
        tape.record(path, "multiply", self=y if value.needs_gradient else ABSENT,
                    other=value if y.needs_gradient else ABSENT)
        y = tape.value(max(y.shape, value.shape, key=math.prod), y.needs_gradient or value.needs_gradient,
                       made_from=[y, value])
    return y


def concat(tape, path, _, inputs):
    channels = sum(value.shape[1] for value in inputs)
    tape.record(path, "concat")
    return tape.value((inputs[0].shape[0], channels, *inputs[0].shape[2:]),
                      any(value.needs_gradient for value in inputs), made_from=inputs)


def sequential(tape, path, arguments, x):
    return sequence(tape, f"{path}.", arguments["layers"], x)


def repeat(tape, path, arguments, x):
    for index in range(arguments["times"]):
        x = sequence(tape, f"{path}.{index}.", arguments["layers"], x)
    return x


LAYERS = {"linear": linear, "conv2d": conv2d, "batchnorm2d": batchnorm, "batchnorm1d": batchnorm,
          "groupnorm": groupnorm, "instancenorm2d": instancenorm2d, "layernorm": layernorm,
          **{name: activation(name) for name in ("relu", "gelu", "silu", "tanh", "sigmoid", "relu6", "hardswish", "hardsigmoid", "leaky_relu")},
          "dropout": dropout, "maxpool2d": maxpool2d, "avgpool2d": avgpool2d, "global_avgpool": global_avgpool,
          "flatten": flatten, "residual": residual, "sequential": sequential, "repeat": repeat, "prelu": prelu,
          "conv_transpose2d": conv_transpose2d, "upsample": upsample, "adaptive_avgpool2d": adaptive_avgpool2d, "pad": pad}
LAYERS_OF_SEVERAL = {"add": add, "multiply": multiply, "concat": concat}


def kind_and_arguments(layer):
    """A layer of `config show`: its name, or a map of its name to its keys."""
    if isinstance(layer, str):
        return layer, {}
    (kind, arguments), = layer.items()
    return kind, arguments


def find_output(tape, prefix, name):
    """What `from: name` means in the list of layers whose paths begin with `prefix`: the innermost of that name."""
    scope = prefix.removesuffix(".")
    while True:
        path = f"{scope}.{name}" if scope else name
        if path in tape.outputs:
            return tape.outputs[path]
        if not scope:
            raise NotWrittenDown(f"the layer '{name}', which none before it is called")
        scope = scope.rpartition(".")[0]


def sequence(tape, prefix, layers, x):
    tape.outputs[f"{prefix}in"] = x
    for index, layer in enumerate(layers):
        kind, arguments = kind_and_arguments(layer)
        path = f"{prefix}{arguments.get('name', index)}"
        named = arguments.get("from") or []
        inputs = [find_output(tape, prefix, name) for name in ([named] if isinstance(named, str) else named)] or [x]
        if kind in LAYERS_OF_SEVERAL:
            x = LAYERS_OF_SEVERAL[kind](tape, path, arguments, inputs)
        elif kind in LAYERS:
            x = LAYERS[kind](tape, path, arguments, inputs[0])
        else:
            raise NotWrittenDown(f"layer '{kind}'")
        tape.outputs[path] = x
    return x


def record_loss(tape, loss, logits):
    kind = loss["type"]
    if loss.get("label_smoothing", 0) != 0 or loss.get("class_weights"):
        raise NotWrittenDown("a loss with label_smoothing or class_weights")
    if kind == "cross_entropy":
        target = tape.value((logits.shape[0], *logits.shape[2:]), False, element_bytes=8)  # a class each pixel of images
        result = tape.value(logits.shape, True, made_from=[logits])
        tape.record("loss", "log_softmax", result=result)
        tape.record("loss", "nll_loss", self=result, target=target, weight=ABSENT, total_weight=tape.value((), False))
    elif kind == "mse":
        tape.record("loss", "mse", self=logits, target=tape.value(logits.shape, False))
    elif kind == "bce_with_logits":
        tape.record("loss", "bce_with_logits", self=logits, target=tape.value(logits.shape, False), weight=ABSENT,
                    pos_weight=ABSENT)
    else:
        raise NotWrittenDown(f"loss '{kind}'")


def count_saved_tensors(layers, loss, input_shape):
    """Every storage that autograd keeps, in the order of the forward pass. input_shape: (N, C, H, W) or (N, features)."""
    tape = Tape()
    record_loss(tape, loss, sequence(tape, "", layers, tape.value(input_shape, False)))
    return tape.finish()


def describe(trainer, words):
    """What the model of a config is: its layers, loss, optimizer, parameters, and the shape of a batch as NCHW."""
    config, summary = trainer.config(*words), trainer.summary(*words)
    shape = field(summary, "layers")[0]["output"]
    if len(shape) == 4:
        shape = [shape[0], shape[3], shape[1], shape[2]]
    return {"name": config["name"], "layers": config["model"]["layers"], "loss": config["loss"],
            "optimizer": config["optimizer"], "input_shape": shape, "parameters": field(summary, "parameters")}


def saved_tensors_of(description):
    return count_saved_tensors(description["layers"], description["loss"], tuple(description["input_shape"]))


def run_pytorch(descriptions):
    """pytorch_network.py's answers."""
    result = subprocess.run([str(PYTHON), str(ROOT / "scripts" / "pytorch_network.py")], capture_output=True, text=True,
                            input="\n".join(map(json.dumps, descriptions)), check=False)
    if result.returncode != 0:
        raise TrainerFailed("PyTorch did not run the model: " + "\n".join(result.stderr.strip().splitlines()[-2:]))
    return [json.loads(line) for line in result.stdout.splitlines()]


def measure(description):
    """What PyTorch says of the same model, or None where there is no PyTorch."""
    if not PYTHON.exists():
        return None
    answer, = run_pytorch([description])
    if answer["parameters"] != description["parameters"]:
        raise TrainerFailed(f"PyTorch's model has {answer['parameters']} parameters, trainer's {description['parameters']}")
    return answer


def measure_transformer(name, batch):
    """pytorch_transformers.py's answer, or None where there is no PyTorch."""
    if not PYTHON.exists():
        return None
    result = subprocess.run([str(PYTHON), str(ROOT / "scripts" / "pytorch_transformers.py"), name, str(batch)],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TrainerFailed("PyTorch did not run the model: " + "\n".join(result.stderr.strip().splitlines()[-2:]))
    return json.loads(result.stdout.splitlines()[-1])


def print_table(description, saved):
    rows = [(item.path, item.layer, f"{item.op}: {item.tensor}", "×".join(map(str, item.shape)) or "scalar",
             f"{item.bytes:,}") for item in saved]
    rows.insert(0, ("layer", "kind", "op and tensor", "shape", "bytes"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    print(f"{description['name']}: saved for backward, batch of {'×'.join(map(str, description['input_shape']))}")
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths)]
        print("  " + "  ".join(cells + [cell.rjust(width) for cell, width in zip(row[3:], widths[3:])]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="+", metavar="CONFIG [key=value …]")
    parser.add_argument("--measure", action="store_true", help="let PyTorch count as well, and compare")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--trainer", metavar="FILE", help="the program to ask; else scripts/trainer")
    arguments = parser.parse_args()
    try:
        description = describe(Trainer(arguments.trainer), arguments.words)
        saved = saved_tensors_of(description)
        measured = measure(description) if arguments.measure else None
        if arguments.measure and not measured:
            raise TrainerFailed("there is no .venv/ with PyTorch: scripts/python_env.sh makes it")
    except (TrainerFailed, NotWrittenDown) as failure:
        note = "no rule is written down for " if isinstance(failure, NotWrittenDown) else ""
        sys.exit(f"{note}{failure}")
    total = sum(item.bytes for item in saved)
    agrees = not measured or measured["saved_bytes"] == total
    if arguments.json:
        print(json.dumps({"name": description["name"], "saved_bytes": total, "measured": measured,
                          "saved": [dataclasses.asdict(item) for item in saved]}))
    else:
        print_table(description, saved)
        print(f"  {total:,} bytes in {len(saved)} storages")
        if measured:
            print(f"  PyTorch {measured['torch']} saved {measured['saved_bytes']:,} bytes in {measured['num_saved']} "
                  f"storages: {'the same' if agrees else 'NOT the same'}")
            gpu = measured["gpu"]
            print(f"  peak of a step on {gpu['name']}: {gpu['peak_bytes']:,} bytes" if gpu["name"] else
                  f"  peak on a GPU: SKIPPED, {gpu['skipped']}")
    sys.exit(0 if agrees else 1)


if __name__ == "__main__":
    main()
