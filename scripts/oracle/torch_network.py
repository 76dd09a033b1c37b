"""PyTorch modules for a list of layers as it stands in a configuration, under the names that trainer's files use.

A layer is a name, {name: arguments} or (name, arguments). Images are N, C, H, W here, as PyTorch wants them; what trainer
says of "the last dimension" of an image is its channels.
"""
import torch
from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu6": nn.ReLU6,
               "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid}


class Layers(nn.Module):
    """Layers one after the other, which may take what an earlier one gave, of this list or of one around it.

    `sources`: by layer the names it takes; None: the layer before it. Values stand in `scopes`, a mapping for each list
    from the outermost to this one.
    """

    def __init__(self):
        super().__init__()
        self.sources = {}

    def add(self, name, child, sources):
        self.add_module(name, child)
        self.sources[name] = sources

    def forward(self, x, scopes=()):
        return self.run(x, scopes)[0]

    def run(self, x, scopes):
        values = {} if scopes else {"input": x}
        for name, child in self.named_children():
            scopes_here = (*scopes, values)
            sources = self.sources[name]
            inputs = [x] if sources is None else [find(scopes_here, source) for source in sources]
            if isinstance(child, (Layers, Residual)):
                x, inner = child.run(inputs[0], scopes_here)
                values.update({f"{name}.{path}": value for path, value in inner.items()})
            else:
                x = child(*inputs)
            values[name] = x
        return x, values


class Residual(nn.Module):
    def __init__(self, layers, shortcut):
        super().__init__()
        self.layers = layers
        self.shortcut = shortcut

    def run(self, x, scopes):
        y, of_layers = self.layers.run(x, scopes)
        shortcut, of_shortcut = self.shortcut.run(x, scopes)
        values = {f"layers.{path}": value for path, value in of_layers.items()}
        values.update({f"shortcut.{path}": value for path, value in of_shortcut.items()})
        return y + shortcut, values


class Add(nn.Module):
    def forward(self, *terms):
        return sum(terms[1:], terms[0])


class Multiply(nn.Module):
    """Of images (N, C) and (N, C, 1, 1) gate every pixel."""

    def forward(self, *factors):
        product = factors[0]
        for factor in factors[1:]:
            product = product * (factor[:, :, None, None] if factor.dim() < product.dim() else factor)
        return product


class Concat(nn.Module):
    def forward(self, *parts):
        return torch.cat(parts, dim=1)


JOINING = {"add": Add, "multiply": Multiply, "concat": Concat}


class Shared(nn.Module):
    """Calls another layer's module, which alone has the parameters and running statistics; a convolution by `own`'s
    stride, padding and the like."""

    def __init__(self, owner, own):
        super().__init__()
        self.unregistered = owner, own

    def forward(self, x):
        owner, own = self.unregistered
        if isinstance(own, nn.Conv2d):
            return own._conv_forward(x, owner.weight, owner.bias)
        return owner(x)


class Scope(dict):
    """The shapes of a list's layers by name or path, and the module that they are in."""

    def __init__(self, module):
        super().__init__()
        self.module = module


class Attention(nn.Module):
    """Of one input with queries, keys and values side by side, or of three; pixels are positions."""

    def __init__(self, heads, kv_heads=None, causal=False, window=None, rotary_base=None, dropout=0.0, **stretch):
        super().__init__()
        if dropout:
            raise ValueError("its masks are trainer's own")
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.causal, self.window, self.rotary_base, self.stretch = causal, window, rotary_base, stretch

    def forward(self, *inputs):
        size = inputs[0].shape[2:]
        inputs = [x.flatten(2).transpose(1, 2) for x in inputs]
        if len(inputs) == 1:
            width = inputs[0].shape[-1] // (self.heads + 2 * self.kv_heads)
            inputs = inputs[0].split([self.heads * width, self.kv_heads * width, self.kv_heads * width], dim=-1)
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x, heads in
                   zip(inputs, (self.heads, self.kv_heads, self.kv_heads)))
        if self.rotary_base:
            q, k = self.rotated(q), self.rotated(k)
        k, v = (x.repeat_interleave(self.heads // self.kv_heads, dim=1) for x in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(q.shape[-2]))
        return y.transpose(1, 2).flatten(-2).transpose(1, 2).unflatten(2, size)

    def mask(self, positions):
        if not self.causal:
            return None
        distance = torch.arange(positions)[:, None] - torch.arange(positions)
        return (distance >= 0) & (distance < (self.window or positions))

    def rotated(self, x):
        half = x.shape[-1] // 2
        frequencies = 1.0 / self.rotary_base ** (torch.arange(half, dtype=x.dtype) / half)
        if self.stretch:
            frequencies = self.stretched(frequencies, **self.stretch)
        angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * angles.cos() + turned * angles.sin()


    @staticmethod
    def stretched(frequencies, rotary_factor, rotary_low_freq_factor=1.0, rotary_high_freq_factor=4.0,
                  rotary_original_length=8192):
        """As transformers' rope type llama3, by wavelengths."""
        wavelengths = 2 * torch.pi / frequencies
        smooth = ((rotary_original_length / wavelengths - rotary_low_freq_factor) /
                  (rotary_high_freq_factor - rotary_low_freq_factor))
        between = (1 - smooth) * frequencies / rotary_factor + smooth * frequencies
        slow = torch.where(wavelengths > rotary_original_length / rotary_low_freq_factor, frequencies / rotary_factor, between)
        return torch.where(wavelengths < rotary_original_length / rotary_high_freq_factor, frequencies, slow)


class GlobalAveragePool(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


def make_pad(size, mode="zeros", value=0.0):
    top, bottom, left, right = ([size] * 4 if not isinstance(size, list) else
                                [size[0], size[0], size[1], size[1]] if len(size) == 2 else size)
    sides = (left, right, top, bottom)
    if mode == "zeros":
        return nn.ConstantPad2d(sides, value)
    return nn.ReflectionPad2d(sides) if mode == "reflect" else nn.ReplicationPad2d(sides)


class Gated(nn.Module):
    """f(gate) · up, of halves of the channels (dimension 1) or of two inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        gate, up = inputs if len(inputs) == 2 else inputs[0].chunk(2, dim=1)
        return self.function(gate) * up


class ChannelLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class OfHeads:
    """Before a norm: over the channels (dimension 1) of each of `heads` groups, with one scale for all."""

    def __init__(self, channels, heads=1, **options):
        super().__init__(channels // heads, **options)
        self.heads = heads

    def forward(self, x):
        return super().forward(x.movedim(1, -1).unflatten(-1, (self.heads, -1))).flatten(-2).movedim(-1, 1)


class ChannelLayerNorm(OfHeads, nn.LayerNorm):
    pass


class ChannelRMSNorm(OfHeads, nn.RMSNorm):
    pass


def kind_and_arguments(layer):
    if isinstance(layer, str):
        return layer, {}
    if isinstance(layer, dict):
        return next(iter(layer.items()))
    return layer


def find(scopes, name):
    """What a name stands for: in the innermost list that has it."""
    return next(scope[name] for scope in reversed(scopes) if name in scope)


def sequence(layers, shape, scopes=()):
    """The module of a list of layers, the shape behind it, and those of all layers in it by path; children bear the
    layer's name or index."""
    module = Layers()
    shapes = Scope(module)
    if not scopes:
        shapes["input"] = shape
    for index, layer in enumerate(layers):
        kind, arguments = kind_and_arguments(layer)
        arguments = dict(arguments)
        name = arguments.pop("name", str(index))
        sources = arguments.pop("from", None)
        if isinstance(sources, str):
            sources = [sources]
        share = arguments.pop("share", None)
        scopes_here = (*scopes, shapes)
        inputs = [shape] if sources is None else [find(scopes_here, source) for source in sources]
        child, shape, inner = make_layer(kind, arguments, inputs, scopes_here)
        if share is not None:
            owner = next(scope.module for scope in reversed(scopes_here) if share in scope).get_submodule(share)
            child = Shared(owner.unregistered[0] if isinstance(owner, Shared) else owner, child)
        shapes[name] = shape
        shapes.update({f"{name}.{path}": value for path, value in inner.items()})
        module.add(name, child, sources)
    return module, shape, shapes


def make_layer(kind, arguments, inputs, scopes):
    """The module of one layer over inputs of these shapes, features or (C, H, W), the shape of its output, and those of
    the layers in it."""
    if kind != "prelu":
        arguments.pop("init", None)  # PyTorch's modules know no other start than their own
    shape = inputs[0]
    is_image = len(shape) == 3
    if kind == "residual":
        layers, out, of_layers = sequence(arguments["layers"], shape, scopes)
        shortcut, _, of_shortcut = sequence(arguments.get("shortcut", []), shape, scopes)
        inner = {f"layers.{path}": value for path, value in of_layers.items()}
        inner.update({f"shortcut.{path}": value for path, value in of_shortcut.items()})
        return Residual(layers, shortcut), out, inner
    if kind == "sequential":
        return sequence(arguments["layers"], shape, scopes)
    if kind == "repeat":
        return sequence([("sequential", {"layers": arguments["layers"]})] * arguments["times"], shape, scopes)
    if kind == "linear":
        module = (ChannelLinear if is_image else nn.Linear)(shape[0], arguments.pop("out"), **arguments)
    elif kind == "layernorm":
        options = {"eps": arguments.get("eps", 1e-5), "elementwise_affine": arguments.get("affine", True)}
        module = ChannelLayerNorm(shape[0], arguments.get("heads", 1), **options)
    elif kind == "rmsnorm":
        options = {"eps": arguments.get("eps", 2.0**-23), "elementwise_affine": arguments.get("affine", True)}
        module = ChannelRMSNorm(shape[0], arguments.get("heads", 1), **options)
    elif kind == "conv2d":
        module = nn.Conv2d(shape[0], arguments.pop("out"), arguments.pop("kernel"), **arguments)
    elif kind == "conv_transpose2d":
        module = nn.ConvTranspose2d(shape[0], arguments.pop("out"), arguments.pop("kernel"), **arguments)
    elif kind in ("batchnorm1d", "batchnorm2d"):
        module = (nn.BatchNorm1d if kind == "batchnorm1d" else nn.BatchNorm2d)(shape[0], **arguments)
    elif kind == "groupnorm":
        module = nn.GroupNorm(arguments.pop("groups"), shape[0], **arguments)
    elif kind == "instancenorm2d":
        module = nn.InstanceNorm2d(shape[0], **arguments)
    elif kind == "maxpool2d":
        module = nn.MaxPool2d(arguments.pop("kernel", 2), **arguments)
    elif kind == "avgpool2d":
        module = nn.AvgPool2d(arguments.pop("kernel", 2), **arguments)
    elif kind == "adaptive_avgpool2d":
        module = nn.AdaptiveAvgPool2d(arguments["size"])
    elif kind == "upsample":
        options = {"align_corners": arguments.get("align_corners", False)} if arguments.get("mode") == "bilinear" else {}
        # Of several axes PyTorch wants a tuple of floats or integers.
        size, scale = ((tuple(value) if isinstance(value, list) else value) for value in
                       (arguments.get("size"), arguments.get("scale")))
        module = nn.Upsample(size=size, scale_factor=scale, mode=arguments.get("mode", "nearest"), **options)
    elif kind == "pad":
        module = make_pad(**arguments)
    elif kind == "global_avgpool":
        module = GlobalAveragePool()
    elif kind == "flatten":
        module = nn.Flatten()
    elif kind == "dropout":
        module = nn.Dropout(arguments.get("p", 0.5))
    elif kind == "gelu":
        module = nn.GELU(**arguments)
    elif kind in ("swiglu", "geglu"):
        module = Gated(nn.SiLU() if kind == "swiglu" else nn.GELU(**arguments))
    elif kind == "leaky_relu":
        module = nn.LeakyReLU(arguments.get("slope", 0.01))
    elif kind == "prelu":
        module = nn.PReLU(arguments.get("num", 1), arguments.get("init", 0.25))
    elif kind == "attention":
        module = Attention(**arguments)
    elif kind in JOINING:
        module = JOINING[kind]()
    else:
        module = ACTIVATIONS[kind]()
    return module, tuple(module.eval()(*(torch.zeros(1, *each) for each in inputs)).shape[1:]), {}


def torch_shape(shape):
    """Of a sample, as trainer writes it (H, W, C) and as PyTorch's modules want it."""
    return (shape[2], shape[0], shape[1]) if len(shape) == 3 else tuple(shape)


def build(layers, shape):
    """The model over samples of `shape`, as a configuration writes it."""
    return sequence(layers, torch_shape(shape))[0]
