"""Random networks over all layers, as lists of layers of a configuration with the shape behind each. Needs no PyTorch.

Shapes are trainer's, (H, W, C) or (features).
"""
SMOOTH_ACTIVATIONS = ["gelu", "silu", "tanh", "sigmoid", {"gelu": {"approximate": "tanh"}}]
KINKED_ACTIVATIONS = ["relu", "relu", "leaky_relu", {"leaky_relu": {"slope": 0.2}}, "relu6", "hardswish", "hardsigmoid",
                      "prelu", {"prelu": {"init": 0.1}}]
MOST_CHANNELS = 8


def window_out(size, kernel, stride, padding, dilation=1):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def pooled_out(size, kernel, stride, padding, ceil_mode):
    floor = window_out(size, kernel, stride, padding)
    has_rest = ceil_mode and (size + 2 * padding - kernel) % stride != 0
    # The last window begins inside the image or the padding before it.
    return floor + 1 if has_rest and floor * stride < size + padding else floor


def pair(value):
    return list(value) if isinstance(value, (list, tuple)) else [value, value]


def maybe_pair(random, low, high):
    """An integer, or now and then one for each axis."""
    return random.randint(low, high) if random.random() < 0.7 else [random.randint(low, high), random.randint(low, high)]


class NetworkMaker:
    """Draws layers; `seen` collects the kinds and options that were drawn. `smooth`: none with a kink (relu and its like,
    maxpool2d). `smallest_batch`: that training meets; of two rows, the gradient of a batch norm is what rounding leaves
    of 0."""

    def __init__(self, random, smooth=False, smallest_batch=1):
        self.random = random
        self.smooth = smooth
        self.norms_features = smallest_batch >= 4
        self.seen = set()
        self.num_layer_norms = 0

    def note(self, *what):
        self.seen.update(what)

    # -- layers of images -------------------------------------------------------------------------------------------
    def conv2d(self, shape, out=None, same_size=False):
        random = self.random
        height, width, channels = shape
        for _ in range(50):
            groups = random.choice([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
            outputs = out or groups * random.randint(1, max(1, MOST_CHANNELS // groups))
            if outputs % groups:
                continue
            if same_size:
                kernel, stride, dilation = random.choice([1, 3]), 1, 1
                padding = kernel // 2
            else:
                kernel = maybe_pair(random, 1, 4)
                stride, padding = maybe_pair(random, 1, 3), maybe_pair(random, 0, 2)
                dilation = maybe_pair(random, 1, 2) if random.random() < 0.4 else 1
            sizes = [window_out(size, k, s, p, d) for size, k, s, p, d in
                     zip((height, width), pair(kernel), pair(stride), pair(padding), pair(dilation))]
            if min(sizes) < 1:
                continue
            arguments = {"out": outputs, "kernel": kernel}
            if stride != 1:
                arguments["stride"] = stride
                self.note("conv2d stride")
            if padding != 0:
                arguments["padding"] = padding
                self.note("conv2d padding")
            if dilation != 1:
                arguments["dilation"] = dilation
                self.note("conv2d dilation")
            if groups != 1:
                arguments["groups"] = groups
                self.note("conv2d groups")
            if random.random() < 0.4:
                arguments["bias"] = False
                self.note("conv2d without bias")
            self.note("conv2d")
            return {"conv2d": arguments}, [*sizes, outputs]
        return {"conv2d": {"out": out or 4, "kernel": 1}}, [height, width, out or 4]

    def conv_transpose2d(self, shape):
        random = self.random
        for _ in range(50):
            groups = random.choice([g for g in (1, 1, 2, 3) if shape[2] % g == 0])
            outputs = groups * random.randint(1, max(1, MOST_CHANNELS // groups))
            kernel, stride, padding = maybe_pair(random, 1, 4), maybe_pair(random, 1, 2), maybe_pair(random, 0, 2)
            dilation = maybe_pair(random, 1, 2) if random.random() < 0.3 else 1
            more = [random.randint(0, s - 1) for s in pair(stride)]
            sizes = [(size - 1) * s - 2 * p + d * (k - 1) + m + 1 for size, k, s, p, d, m in
                     zip(shape[:2], pair(kernel), pair(stride), pair(padding), pair(dilation), more)]
            if min(sizes) < 1 or max(sizes) > 20:
                continue
            arguments = {"out": outputs, "kernel": kernel}
            for name, value, plain in (("stride", stride, 1), ("padding", padding, 0), ("output_padding", more, [0, 0]),
                                       ("dilation", dilation, 1), ("groups", groups, 1)):
                if value != plain:
                    arguments[name] = value
                    self.note(f"conv_transpose2d {name}")
            if random.random() < 0.4:
                arguments["bias"] = False
                self.note("conv_transpose2d without bias")
            self.note("conv_transpose2d")
            return {"conv_transpose2d": arguments}, [*sizes, outputs]
        return {"conv_transpose2d": {"out": 4, "kernel": 1}}, [*shape[:2], 4]

    def pool(self, shape, kind):
        random = self.random
        for _ in range(50):
            kernel = maybe_pair(random, 1, 3)
            stride = maybe_pair(random, 1, 3)
            padding = [random.randint(0, k // 2) for k in pair(kernel)]
            ceil_mode = random.random() < 0.3
            sizes = [pooled_out(size, k, s, p, ceil_mode) for size, k, s, p in
                     zip(shape[:2], pair(kernel), pair(stride), padding)]
            # PyTorch, too, wants every window to begin inside the image or its padding.
            if min(sizes) < 1:
                continue
            arguments = {"kernel": kernel}
            if random.random() < 0.8:
                arguments["stride"] = stride
                self.note(f"{kind} stride")
            else:
                sizes = [pooled_out(size, k, k, p, ceil_mode) for size, k, p in zip(shape[:2], pair(kernel), padding)]
                if min(sizes) < 1:
                    continue
            if padding != [0, 0]:
                arguments["padding"] = padding
                self.note(f"{kind} padding")
            if ceil_mode:
                arguments["ceil_mode"] = True
                self.note(f"{kind} ceil_mode")
            if kind == "avgpool2d" and random.random() < 0.5:
                arguments["count_include_pad"] = random.random() < 0.5
                self.note("avgpool2d count_include_pad")
            self.note(kind)
            return {kind: arguments}, [*sizes, shape[2]]
        return {kind: {"kernel": 1}}, list(shape)

    def groupnorm(self, shape):
        """Over groups of two values or more."""
        rows = 1
        for size in shape[:-1]:
            rows *= size
        groups = [g for g in range(1, shape[-1] + 1) if shape[-1] % g == 0 and rows * shape[-1] // g >= 3]
        if not groups:
            return self.activation()
        if len(shape) == 3 and groups[-1] == shape[-1] and self.random.random() < 0.4:
            layer = self.norm("instancenorm2d")
            if self.random.random() < 0.5:
                self.note("instancenorm2d with affine")
                layer = {"instancenorm2d": {**(layer if isinstance(layer, dict) else {}).get("instancenorm2d", {}), "affine": True}}
            return layer
        layer = self.norm("groupnorm")
        return {"groupnorm": {"groups": self.random.choice(groups), **(layer if isinstance(layer, dict) else {}).get("groupnorm", {})}}

    def adaptive_avgpool2d(self, shape):
        size = maybe_pair(self.random, 1, 6)
        self.note("adaptive_avgpool2d")
        return {"adaptive_avgpool2d": {"size": size}}, [*pair(size), shape[2]]

    def upsample(self, shape):
        random = self.random
        self.note("upsample")
        arguments = {}
        if random.random() < 0.6:
            arguments["mode"] = random.choice(["nearest", "bilinear"])
            self.note(f"upsample {arguments['mode']}")
        if arguments.get("mode") == "bilinear" and random.random() < 0.4:
            arguments["align_corners"] = True
            self.note("upsample align_corners")
        if max(shape[:2]) <= 6 and random.random() < 0.6:
            scale = maybe_pair(random, 1, 3)
            self.note("upsample scale")
            return {"upsample": {"scale": scale, **arguments}}, [*(s * f for s, f in zip(shape[:2], pair(scale))), shape[2]]
        size = maybe_pair(random, 1, 12)
        self.note("upsample size")
        return {"upsample": {"size": size, **arguments}}, [*pair(size), shape[2]]

    def pad(self, shape):
        random = self.random
        arguments = {}
        if random.random() < 0.7:
            arguments["mode"] = random.choice(["zeros", "reflect", "replicate"])
            self.note(f"pad {arguments['mode']}")
        most = min(2, *(side - 1 for side in shape[:2])) if arguments.get("mode") == "reflect" else 2
        sides = random.choice([1, 2, 4])
        size = [random.randint(0, most) for _ in range(sides)]
        if arguments.get("mode", "zeros") == "zeros" and random.random() < 0.3:
            arguments["value"] = random.choice([0.5, -1.0])
            self.note("pad value")
        self.note("pad")
        top, bottom, left, right = size * 4 if sides == 1 else [size[0], size[0], size[1], size[1]] if sides == 2 else size
        out = [shape[0] + top + bottom, shape[1] + left + right, shape[2]]
        return {"pad": {"size": size[0] if sides == 1 else size, **arguments}}, out

    def norm(self, kind):
        if kind == "layernorm":
            self.num_layer_norms += 1
            kind = ("layernorm", "rmsnorm")[self.num_layer_norms % 2]
        arguments = {}
        if self.random.random() < 0.4:
            arguments["eps"] = self.random.choice([1e-3, 1e-4, 1e-5])
            self.note(f"{kind} eps")
        if kind != "instancenorm2d" and self.random.random() < 0.25:
            arguments["affine"] = False
            self.note(f"{kind} without affine")
        if kind in ("batchnorm1d", "batchnorm2d") and self.random.random() < 0.4:
            arguments["momentum"] = self.random.choice([0.05, 0.2, 0.5, 1.0])
            self.note(f"{kind} momentum")
        self.note(kind)
        return {kind: arguments} if arguments else kind

    def activation(self):
        kinked = not self.smooth and self.random.random() < 0.6
        layer = self.random.choice(KINKED_ACTIVATIONS if kinked else SMOOTH_ACTIVATIONS)
        if isinstance(layer, str):
            self.note(layer)
        else:
            self.note(*(f"{kind} {key}" for kind, arguments in layer.items() for key in arguments))
        return layer

    def activation_of(self, shape, **keys):
        """An activation with further keys, or one learned slope for each channel."""
        layer = self.activation()
        if layer == "prelu" and self.random.random() < 0.5:
            layer = {"prelu": {"num": shape[-1]}}
            self.note("prelu num")
        kind, arguments = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
        return {kind: {**arguments, **keys}} if arguments or keys else kind

    def gelu_formula(self, kind):
        if kind != "geglu" or self.random.random() < 0.5:
            return {}
        self.note("geglu approximate")
        return {"approximate": "tanh"}

    def gated(self, out):
        """A product of twice the features, one half of which gates the other."""
        kind = self.random.choice(["swiglu", "geglu"])
        self.note(f"{kind} of halves")
        formula = self.gelu_formula(kind)
        return [self.linear(2 * out), {kind: formula} if formula else kind]

    def dropout(self):
        self.note("dropout")
        return {"dropout": {"p": 0}}

    def branch(self, shape, out):
        """Layers from `shape` to `out`, both images or both features."""
        random = self.random
        if len(shape) == 1:
            layers = [self.norm("layernorm")] if random.random() < 0.4 and shape[0] > 1 else []
            if self.norms_features and not layers and random.random() < 0.2:
                layers = [self.norm("batchnorm1d")]
            if random.random() < 0.6:
                hidden = random.randint(2, 12)
                layers += self.gated(hidden) if random.random() < 0.3 else [self.linear(hidden), self.activation()]
            return [*layers, self.linear(out[0])]
        layers = []
        if random.random() < 0.5:
            layer, shape = self.conv2d(shape, same_size=True)
            layers += [layer, *([self.norm("batchnorm2d")] if random.random() < 0.6 else []), self.activation()]
        layer, shape = self.conv2d(shape, out=out[2], same_size=True)
        if random.random() < 0.6:
            return [*layers, layer, self.norm("batchnorm2d")]
        return [*layers, layer]

    def linear(self, out):
        self.note("linear")
        if self.random.random() < 0.2:
            self.note("linear without bias")
            return {"linear": {"out": out, "bias": False}}
        return {"linear": {"out": out}}

    def residual(self, shape):
        self.note("residual")
        out = list(shape)
        arguments = {}
        if self.random.random() < 0.4:
            out[-1] = self.random.randint(2, MOST_CHANNELS)
            arguments["shortcut"] = ([self.linear(out[0])] if len(shape) == 1 else
                                     [self.conv2d(shape, out=out[2], same_size=True)[0]])
            self.note("residual with shortcut")
        return {"residual": {"layers": self.branch(shape, out), **arguments}}, out

    def joined(self, shape):
        """Branches that meet again, as one layer, and the shape behind them."""
        random = self.random
        how = random.choice(["add", "multiply", "swiglu", "geglu", "concat", *(["gate"] if len(shape) == 3 else [])])
        out = list(shape)
        if how == "concat":
            out[-1] = random.randint(1, MOST_CHANNELS if len(shape) == 3 else 12)
        layers = [{"sequential": {"layers": self.branch(shape, shape), "name": "a"}}]
        if how == "gate":
            layers += [{"global_avgpool": {"name": "pooled"}}, self.linear(shape[2]),
                       {random.choice(["sigmoid", "tanh"]): {"name": "gate"}},
                       {"multiply": {"from": ["a", "gate"]}}]
            self.note("global_avgpool", "gate")
            return {"sequential": {"layers": layers}}, shape
        # What reads a name stands in the same list or in one inside it.
        inner = [*self.branch(shape, out), self.activation_of(out, name="last")]
        if how == "add" and random.random() < 0.5:
            inner.append({"add": {"from": ["last", "a"]}})
            self.note("from outside")
        layers += [{"sequential": {"layers": inner, "name": "b"}}, self.activation_of(shape, **{"name": "c", "from": "a"})]
        sources = ["b", "c"] if random.random() < 0.5 else ["c", "a", "b"]
        if how in ("multiply", "swiglu", "geglu"):
            sources = ["b", "c"]  # of three the numbers grow
        if how == "add" and random.random() < 0.3:
            sources = ["b.last", "b", "c"]
            self.note("from inside")
        layers.append({how: {"from": sources, **self.gelu_formula(how)}})
        self.note(how, "from")
        if how == "concat":
            width = {"a": shape[-1], "b": out[-1], "c": shape[-1]}
            out[-1] = sum(width[source] for source in sources)
        return {"sequential": {"layers": layers}}, out

    def shared(self, shape):
        """A layer that keeps the shape, and further ones that use its parameters; a convolution may change the size in
        the last of them."""
        random = self.random
        is_image = len(shape) == 3
        width = shape[-1]
        kinds = ["linear", "prelu", *(["layernorm"] if width > 1 else []),
                 *(["conv2d", "conv2d", "batchnorm2d", "conv_transpose2d"] if is_image else
                   ["batchnorm1d"] if self.norms_features else [])]
        kind = random.choice([each for each in kinds if each != "prelu" or not self.smooth])
        arguments = {"linear": {"out": width}, "prelu": {"num": width}}.get(kind, {})
        if kind in ("conv2d", "conv_transpose2d"):
            arguments = {"out": width, "kernel": 3, "padding": 1}
        if kind in ("linear", "conv2d", "conv_transpose2d") and random.random() < 0.4:
            arguments["bias"] = False
        if kind.startswith("batchnorm") and random.random() < 0.4:
            arguments["affine"] = False
        layers = [{kind: {**arguments, "name": "owner"}}]
        out = list(shape)
        for index in range(random.randint(1, 2)):
            again = {**arguments, "share": "owner" if index == 0 or random.random() < 0.5 else f"again{index - 1}"}
            if kind == "conv2d" and out == list(shape) and random.random() < 0.4:
                again.update(stride=2, padding=2, dilation=2)
                out = [*(window_out(size, 3, 2, 2, 2) for size in shape[:2]), width]
                self.note("share conv2d stride")
            layers += [self.activation(), {kind: {**again, "name": f"again{index}"}}]
        self.note("share", f"share {kind}")
        return {"sequential": {"layers": layers}}, out

    def image_layer(self, shape):
        random = self.random
        kind = random.choice(["conv2d", "conv2d", "batchnorm2d", "layernorm", "groupnorm", "activation", "activation", "maxpool2d",
                              "avgpool2d", "adaptive_avgpool2d", "conv_transpose2d", "upsample", "pad", "dropout", "residual",
                              "sequential", "repeat", "joined", "shared"])
        if kind in ("conv2d", "conv_transpose2d", "adaptive_avgpool2d", "upsample", "pad"):
            return getattr(self, kind)(shape)
        if kind in ("maxpool2d", "avgpool2d"):
            return self.pool(shape, "avgpool2d" if self.smooth else kind)
        return self.any_layer(kind, shape)

    def any_layer(self, kind, shape):
        if kind == "layernorm" and shape[-1] == 1:
            # Of one number it is constant: every gradient behind it is 0, and what a device finds instead is the
            # rounding of its own order alone.
            kind = "activation"
        if kind == "groupnorm":
            return self.groupnorm(shape), shape
        if kind in ("batchnorm1d", "batchnorm2d", "layernorm"):
            if kind == "layernorm" and len(shape) == 3:
                self.note("layernorm of images")
            return self.norm(kind), shape
        if kind == "dropout":
            return self.dropout(), shape
        if kind == "residual":
            return self.residual(shape)
        if kind in ("joined", "shared"):
            return getattr(self, kind)(shape)
        if kind == "sequential":
            self.note("sequential")
            return {"sequential": {"layers": [*self.branch(shape, shape), self.activation()]}}, shape
        if kind == "repeat":
            self.note("repeat")
            inner, _ = self.residual_of_same_shape(shape)
            return {"repeat": {"times": self.random.randint(2, 3), "layers": [inner, self.activation()]}}, shape
        return self.activation_of(shape), shape

    def residual_of_same_shape(self, shape):
        if self.random.random() < 0.5:
            return {"sequential": {"layers": self.branch(shape, shape)}}, shape
        self.note("residual")
        return {"residual": {"layers": self.branch(shape, shape)}}, shape

    def vector_layer(self, shape):
        kind = self.random.choice(["linear", "linear", "layernorm", "batchnorm1d", "groupnorm", "activation", "activation", "dropout",
                                   "residual", "sequential", "repeat", "joined", "shared"])
        if kind == "batchnorm1d" and not self.norms_features:
            kind = "activation"
        if kind == "linear":
            out = self.random.randint(2, 16)
            return self.linear(out), [out]
        return self.any_layer(kind, shape)

    def network(self, shape, outputs, least_layers=2, most_layers=9):
        """Layers from samples of `shape` to `outputs` numbers."""
        random = self.random
        layers = []
        if len(shape) == 3:
            # Something to be trained comes first in most networks, pooling or norms of pixels in some.
            for _ in range(random.randint(least_layers, most_layers)):
                layer, shape = self.image_layer(shape)
                layers.append(layer)
            if random.random() < 0.4:
                layers.append("global_avgpool")
                self.note("global_avgpool")
                shape = [shape[2]]
            else:
                layers.append("flatten")
                self.note("flatten")
                shape = [shape[0] * shape[1] * shape[2]]
        for _ in range(random.randint(0 if layers else least_layers, 4)):
            layer, shape = self.vector_layer(shape)
            layers.append(layer)
        layers.append(self.linear(outputs))
        return named(random, layers)


def named(random, layers):
    """Some layers get a name of their own instead of their position."""
    result = []
    for index, layer in enumerate(layers):
        kind, arguments = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
        if random.random() < 0.1:
            layer = {kind: {**arguments, "name": f"{kind}_{index}"}}
        result.append(layer)
    return result


def kinds_in(layers):
    """Every kind of layer in a list and below it."""
    for layer in layers:
        kind, arguments = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
        yield kind
        yield from kinds_in(arguments.get("layers", []))
        yield from kinds_in(arguments.get("shortcut", []))


EVERYTHING = {
    "conv2d", "conv2d stride", "conv2d padding", "conv2d dilation", "conv2d groups", "conv2d without bias",
    "conv_transpose2d", "conv_transpose2d stride", "conv_transpose2d padding", "conv_transpose2d output_padding",
    "conv_transpose2d dilation", "conv_transpose2d groups", "conv_transpose2d without bias",
    "maxpool2d", "maxpool2d stride", "maxpool2d padding", "avgpool2d", "avgpool2d stride", "avgpool2d padding",
    "avgpool2d count_include_pad", "maxpool2d ceil_mode", "avgpool2d ceil_mode", "adaptive_avgpool2d", "upsample",
    "upsample nearest", "upsample bilinear", "upsample align_corners", "upsample scale", "upsample size", "pad",
    "pad zeros", "pad reflect", "pad replicate", "pad value",
    "batchnorm1d", "batchnorm1d momentum", "batchnorm2d", "batchnorm2d eps", "batchnorm2d momentum", "batchnorm2d without affine",
    "groupnorm", "groupnorm eps", "groupnorm without affine", "instancenorm2d", "instancenorm2d eps",
    "instancenorm2d with affine", "layernorm", "layernorm eps", "layernorm without affine", "layernorm of images",
    "rmsnorm", "rmsnorm eps", "rmsnorm without affine", "relu", "gelu", "gelu approximate",
    "silu", "tanh", "sigmoid", "leaky_relu", "leaky_relu slope", "relu6", "hardswish", "hardsigmoid", "prelu", "prelu init",
    "prelu num", "swiglu", "swiglu of halves", "geglu", "geglu of halves", "geglu approximate", "add", "multiply", "concat", "gate", "from", "from outside", "from inside", "share", "share linear", "share conv2d", "share conv2d stride",
    "share conv_transpose2d", "share batchnorm1d", "share batchnorm2d", "share layernorm", "share prelu", "dropout", "residual", "residual with shortcut", "sequential", "repeat", "linear",
    "linear without bias", "global_avgpool", "flatten"}
