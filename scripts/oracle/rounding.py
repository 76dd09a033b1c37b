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
                module.register_forward_hook(lambda _module, _inputs, out: self.of_output(out))

    def of_output(self, out):
        """What is no tensor holds those of modules inside, which have their noise."""
        return _Noise.apply(out, self) if isinstance(out, torch.Tensor) else out

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


class _OtherSide(torch.autograd.Function):
    """A ReLU that takes what is within KINK_MARGIN of its kinks for what lies beyond them."""

    @staticmethod
    def forward(ctx, x, kinks):
        margin = KINK_MARGIN * x.abs().max()
        slope = (x > kinks[0]).to(x.dtype) if len(kinks) == 1 else ((x > kinks[0]) & (x < kinks[1])).to(x.dtype)
        for kink in kinks:
            slope = torch.where((x - kink).abs() < margin, 1 - slope, slope)
        ctx.save_for_backward(slope)
        return x.clamp(kinks[0], kinks[1] if len(kinks) > 1 else None)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


def windows_of(module, x, fill):
    """(N, C, height, width, elements) of a max-pooling."""
    def two(value):
        return value if isinstance(value, (list, tuple)) else (value, value)
    kernel, stride, padding = two(module.kernel_size), two(module.stride), two(module.padding)
    padded = nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]), value=fill)
    return padded.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1]).flatten(4)


def _pool_by_second(module, x):
    """A max-pooling that takes the second largest where it is within KINK_MARGIN of the largest and not equal to it."""
    values, which = windows_of(module, x, float("-inf")).topk(2, dim=-1)
    distances = (values[..., 0] - values[..., 1]).detach()
    is_near = (distances > 0) & (distances < KINK_MARGIN * x.detach().abs().max())
    places = torch.arange(x.shape[2] * x.shape[3], dtype=x.dtype).reshape(1, 1, x.shape[2], x.shape[3])
    places = windows_of(module, places, -1.0).long().expand(*which.shape[:-1], -1).gather(-1, which)
    chosen = torch.where(is_near, places[..., 1], places[..., 0])
    return x.flatten(2).gather(2, chosen.flatten(2)).reshape(chosen.shape)


class OtherSides:
    """In the place of a Noise: no rounding, but each ReLU, ReLU6 and max-pooling whose input is so near to a kink that f32
    may see it from the other side does. What that does to gradients, few draws of noise find."""

    def attach(self, model):
        for module in model.modules():
            if isinstance(module, (nn.ReLU, nn.ReLU6)):
                module.forward = lambda x, kinks=KINKS[type(module)]: _OtherSide.apply(x, kinks)
            elif isinstance(module, nn.MaxPool2d):
                module.forward = lambda x, module=module: _pool_by_second(module, x)

    def of_input(self, x):
        return x

    def of_tensors(self, model):
        pass


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
        windows = windows_of(module, x, float("-inf"))
        if windows.shape[-1] > 1:
            largest = windows.topk(2, dim=-1).values
            self.look((largest[..., 0] - largest[..., 1]).nan_to_num(0, 0, 0), x)


class Reference:
    """The exact numbers of a computation and how far a good f32 may be from them.

    `compute(dtype, noise)` gives {name: array of f64}; `noise` is None, a Noise or OtherSides. `unit` is half the distance of two
    numbers around 1 in the type that is rounded to; in another than f32, PyTorch's own runs in it are `others`. `also`: noises beside those that are drawn.
    """

    def __init__(self, compute, seed, unit=UNIT, others=None, factor=FACTOR, floor=FLOOR, num_noisy=NUM_NOISY,
                 quantum=0.0, also=()):
        self.exact = compute(torch.float64, None)
        spread = dict.fromkeys(self.exact, 0.0)
        # One after another, and none of them kept: a large network's gradients in f64 are gigabytes.
        if others is None:
            self._widen(spread, compute(torch.float32, None))
        for other in others or []:
            self._widen(spread, other)
        for noise in [*also, *(Noise(seed * 1000 + draw, unit, quantum) for draw in range(num_noisy))]:
            self._widen(spread, compute(torch.float64, noise))
        self.allowed = {}
        for name, value in self.exact.items():
            self.allowed[name] = factor * spread[name] + floor * unit * float(np.max(np.abs(value), initial=0)) + 1e-37
            if "gradient" in name:
                self.allowed[name] += floor * quantum

    def _widen(self, spread, other):
        for name, value in self.exact.items():
            spread[name] = max(spread[name], float(np.max(np.abs(other[name] - value), initial=0)))

    def compare(self, findings, measured):
        """`measured` has a number or an array for each name, or lacks it, which is a failure."""
        for name, value in self.exact.items():
            one = measured.get(name)
            findings.close(name, None if one is None else np.asarray(one, np.float64).reshape(np.shape(one)), value,
                           self.allowed[name])
