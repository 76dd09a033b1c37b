"""torchvision's own transforms (torchvision.transforms.v2), made of what a configuration says, that draw the numbers they
are given: torch's random functions are replaced while they run, so what is drawn, in which order and from which
distribution stays theirs."""
import contextlib
import warnings
from unittest import mock

import torch
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

OUTSIDE = 0  # of masks, whose classes count from 1 while they are transformed


@contextlib.contextmanager
def drawing_from(numbers):
    """torch.rand, randint, randperm and Tensor.uniform_ of one number give the next of `numbers`, in double precision."""
    def one(value, size):
        shape = torch.Size(size)
        assert shape.numel() == 1, f"several numbers at once: {shape}"
        return torch.full(shape, value, dtype=torch.float64)

    def randint(low, high, size):
        return one(low + numbers.below(high - low), size).long()
    replaced = {"rand": lambda *size: one(numbers.unit(), size), "randint": randint,
                "randperm": lambda count: torch.tensor(numbers.permutation(count))}
    with contextlib.ExitStack() as stack:
        for name, function in replaced.items():
            stack.enter_context(mock.patch.object(torch, name, function))
        stack.enter_context(mock.patch.object(torch.Tensor, "uniform_", lambda tensor, low, high: one(
            numbers.between(float(low), float(high)), tensor.shape)))
        yield


class ErasingOfMasks(v2.RandomErasing):
    """What is erased is nothing in a mask, too; torchvision passes masks through."""

    def transform(self, inpt, params):
        if not isinstance(inpt, tv_tensors.Mask):
            return super().transform(inpt, params)
        if params["v"] is None:
            return inpt
        erased = inpt.clone()
        erased[..., params["i"]:params["i"] + params["h"], params["j"]:params["j"] + params["w"]] = OUTSIDE
        return tv_tensors.Mask(erased)


def in_f64(transform):
    """Its ratio's logarithm not rounded to single precision."""
    transform._log_ratio = torch.log(torch.tensor(transform.ratio, dtype=torch.float64))
    return transform


def sides(value):
    """torchvision's left, top, right, bottom."""
    top, bottom, left, right = [value] * 4 if isinstance(value, int) else value if len(value) == 4 else [
        value[0], value[0], value[1], value[1]]
    return [left, top, right, bottom]


def random_crop(size, padding=0, pad_if_needed=False, padding_mode="constant", fill=0):
    return v2.RandomCrop(size, padding=sides(padding), pad_if_needed=pad_if_needed, padding_mode=padding_mode,
                         fill=fills(fill))


def fills(fill):
    return {tv_tensors.Image: fill, tv_tensors.Mask: OUTSIDE}


def mode_of(keys, default):
    return InterpolationMode(keys.pop("interpolation", default))


def torchvision_of(step):
    """Of {kind: {key: value}}, or a kind alone."""
    kind, keys = (step, {}) if isinstance(step, str) else next((kind, dict(keys)) for kind, keys in step.items())
    if kind == "resize":
        return v2.Resize(keys.pop("size"), mode_of(keys, "bilinear"), antialias=True)
    if kind == "center_crop":
        return v2.CenterCrop(keys["size"])
    if kind == "random_crop":
        return random_crop(**keys)
    if kind == "random_resized_crop":
        return in_f64(v2.RandomResizedCrop(interpolation=mode_of(keys, "bilinear"), antialias=True, **keys))
    if kind == "flip":
        p = keys.get("p", 0.5)
        return v2.RandomVerticalFlip(p) if keys.get("direction") == "vertical" else v2.RandomHorizontalFlip(p)
    if kind == "rotate":
        return v2.RandomRotation(keys["degrees"], mode_of(keys, "nearest"), fill=fills(keys.get("fill", 0)))
    if kind == "color_jitter":
        return v2.ColorJitter(**keys)
    if kind == "random_erasing":
        return in_f64(ErasingOfMasks(p=keys.get("p", 0.5), scale=keys.get("scale", (0.02, 0.33)),
                                     ratio=keys.get("ratio", (0.3, 3.3)), value=keys.get("fill", 0)))
    if kind == "to_grey":
        return v2.Grayscale(keys.get("channels", 1)) if keys.get("p", 1) == 1 else v2.RandomGrayscale(keys["p"])
    raise ValueError(f"no transform {kind}")


def transformed(steps, numbers, image, mask=None):
    """(image, mask) behind the steps: u8 (H, W, C), and (H, W) of classes, −1 where it shows nothing; masks likewise."""
    sample = [tv_tensors.Image(torch.from_numpy(image.copy()).permute(2, 0, 1))]
    if mask is not None:
        sample.append(tv_tensors.Mask(torch.from_numpy(mask + 1).to(torch.uint8)))
    with drawing_from(numbers), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps:
            sample = torchvision_of(step)(sample)
    result = sample[0].permute(1, 2, 0).contiguous().numpy()
    return result, None if mask is None else sample[1].numpy().astype("int64") - 1
