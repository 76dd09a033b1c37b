"""How far f32 may be from the exact numbers, measured on PyTorch's side.

The same computation is made in f64; in f32; and several times in f64 where each layer's output, each gradient that
comes back to it, the input and the weights carry noise of one rounding to f32, relative 2⁻²⁴. How far these end from
the exact numbers is what rounding does to this network, whatever its condition. A trainer may be off by FACTOR times
the largest of them (its sums have another order) and by FLOOR roundings of the tensor's largest number.
"""
import numpy as np
import torch
from torch import nn

UNIT = 2.0**-24
FACTOR = 32
FLOOR = 8
NUM_NOISY = 4
# What is nearer to a kink than this share of the largest number may be on the other side of it in f32.
KINK_MARGIN = 3e-6
# Where the slopes of activations jump.
KINKS = {nn.ReLU: (0,), nn.LeakyReLU: (0,), nn.PReLU: (0,), nn.ReLU6: (0, 6), nn.Hardswish: (-3, 3), nn.Hardsigmoid: (-3, 3)}


class _Noise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, noise):
        ctx.noise = noise
        return x * (1 + noise.unit * noise.uniform(x))

    @staticmethod
    def backward(ctx, gradient):
        noise = ctx.noise
        return gradient * (1 + noise.unit * noise.uniform(gradient)) + noise.quantum * noise.uniform(gradient), None


class _ChannelNoise(torch.autograd.Function):
    """One rounding of each channel's mean magnitude, the same for all of the channel: a mean that is rounded moves all
    that it is subtracted from by as much."""

    @staticmethod
    def forward(ctx, x, noise):
        ctx.noise = noise
        return noise.of_channels(x)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.noise.of_channels(gradient), None


class Noise:
    """Roundings of one seed, in the place of those that f32, or the type of `unit`, would make. `quantum`: what gradients
    are rounded by however small they are, half the distance of the type's smallest numbers."""

    def __init__(self, seed, unit=UNIT, quantum=0.0):
        self.generator = torch.Generator().manual_seed(seed)
        self.unit, self.quantum = unit, quantum

    def uniform(self, like):
        """In −1 … 1."""
        return 2 * torch.rand(like.shape, generator=self.generator, dtype=like.dtype) - 1

    def attach(self, model):
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.register_forward_pre_hook(lambda _module, inputs: (_ChannelNoise.apply(inputs[0], self),))
            if not isinstance(module, nn.Sequential):
                module.register_forward_hook(lambda _module, _inputs, out: _Noise.apply(out, self))

    def of_channels(self, x):
        mean = x.abs().mean(dim=[axis for axis in range(x.dim()) if axis != 1], keepdim=True)
        return x + self.unit * mean * self.uniform(mean)

    def of_input(self, x):
        """Absolute, as normalising leaves it: what was subtracted has been as large as the largest."""
        return x + self.unit * x.abs().max() * self.uniform(x)

    def of_tensors(self, model):
        with torch.no_grad():
            for tensor in [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.is_floating_point())]:
                tensor *= 1 + self.unit * self.uniform(tensor)


class KinkWatch:
    """Whether an activation or a maximum was so near to a kink that f32 may see it from the other side."""

    def __init__(self, model):
        self.smallest = float("inf")
        for module in model.modules():
            for kink in KINKS.get(type(module), ()):
                module.register_forward_hook(
                    lambda _module, inputs, _out, kink=kink: self.look((inputs[0].detach() - kink).abs(), inputs[0]))
            if isinstance(module, nn.MaxPool2d):
                module.register_forward_hook(lambda module, inputs, _out: self.look_at_windows(module, inputs[0].detach()))

    @property
    def near(self):
        return self.smallest < KINK_MARGIN

    def look(self, distances, x):
        """Exact zeros are no danger: f32 finds them too."""
        positive = distances[distances > 0]
        if positive.numel():
            self.smallest = min(self.smallest, float(positive.min() / x.detach().abs().max().clamp_min(1e-30)))

    def look_at_windows(self, module, x):
        def two(value):
            return value if isinstance(value, (list, tuple)) else (value, value)
        kernel, stride, padding = two(module.kernel_size), two(module.stride), two(module.padding)
        padded = nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]), value=float("-inf"))
        windows = padded.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1]).flatten(4)
        if windows.shape[-1] > 1:
            largest = windows.topk(2, dim=-1).values
            self.look((largest[..., 0] - largest[..., 1]).nan_to_num(0, 0, 0), x)


class Reference:
    """The exact numbers of a computation and how far a good f32 may be from them.

    `compute(dtype, noise)` gives {name: array of f64}; `noise` is None or a Noise. `unit` is half the distance of two
    numbers around 1 in the type that is rounded to; in another than f32, PyTorch's own runs in it are `others`.
    """

    def __init__(self, compute, seed, unit=UNIT, others=None, factor=FACTOR, floor=FLOOR, num_noisy=NUM_NOISY,
                 quantum=0.0):
        self.exact = compute(torch.float64, None)
        others = [compute(torch.float32, None)] if others is None else others
        others += [compute(torch.float64, Noise(seed * 1000 + draw, unit, quantum)) for draw in range(num_noisy)]
        self.allowed = {}
        for name, value in self.exact.items():
            spread = max(float(np.max(np.abs(other[name] - value), initial=0)) for other in others)
            self.allowed[name] = factor * spread + floor * unit * float(np.max(np.abs(value), initial=0)) + 1e-37
            if "gradient" in name:
                self.allowed[name] += floor * quantum

    def compare(self, findings, measured):
        """`measured` has a number or an array for each name, or lacks it, which is a failure."""
        for name, value in self.exact.items():
            one = measured.get(name)
            findings.close(name, None if one is None else np.asarray(one, np.float64).reshape(np.shape(one)), value,
                           self.allowed[name])
