"""Training as a configuration describes it, by PyTorch: what the parts of the suite compare trainer with."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import torch_network


def random_weights(model, generator, gain=1.5):
    """Uniform(±gain/√fan_in); norms and running statistics off their 1 and 0, so that a swapped pair shows."""
    arrays, bound = {}, 1.0
    for name, tensor in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        values = generator.random(tuple(tensor.shape)) * 2 - 1
        if name.endswith("running_var"):
            values = 1 + 0.5 * values
        elif name.endswith("running_mean"):
            values = 0.3 * values
        elif name.endswith(".weight") and tensor.ndim > 1:
            bound = gain / math.sqrt(tensor[0].numel())
            values = bound * values
        elif name.endswith(".weight"):
            values = 1 + 0.4 * values
        else:
            values = bound * values
        arrays[name] = values.astype(np.float32)
    return arrays


def model_of(layers, shape, weights, dtype):
    """In `dtype` with the given arrays in the place of all parameters and running statistics."""
    model = torch_network.build(layers, shape)
    state = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise ValueError(f"weights that PyTorch's model lacks: {unexpected}, and that the file lacks: {missing}")
    return model.to(dtype)


def loss_of(options, outputs, targets, reduction="mean"):
    kind = options.get("type", "cross_entropy")
    if kind == "mse":
        return F.mse_loss(outputs, targets.to(outputs.dtype), reduction=reduction)
    if kind == "l1":
        return F.l1_loss(outputs, targets.to(outputs.dtype), reduction=reduction)
    if kind == "smooth_l1":
        return F.smooth_l1_loss(outputs, targets.to(outputs.dtype), reduction=reduction, beta=options.get("beta", 1.0))
    if kind == "bce_with_logits":
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction=reduction)
    weights = options.get("class_weights")
    weights = None if weights is None else torch.tensor(weights, dtype=outputs.dtype)
    return F.cross_entropy(outputs, targets.long(), weight=weights, label_smoothing=options.get("label_smoothing", 0.0),
                           reduction=reduction)


def loss_weight(options, targets):
    """What the mean divides by: samples, their classes' weights, or numbers."""
    if options.get("type", "cross_entropy") == "cross_entropy" and options.get("class_weights"):
        return torch.tensor(options["class_weights"], dtype=torch.float64)[targets.long()].sum().item()
    return float(targets.numel())


def updates_of(num_samples, batch_size, accumulation=1, drop_last=False):
    """For each update of an epoch its micro-batches as (begin, end); none reaches over the end of the epoch."""
    batches = [(begin, min(begin + batch_size, num_samples)) for begin in range(0, num_samples, batch_size)]
    if drop_last and len(batches) > 1 and batches[-1][1] - batches[-1][0] < batch_size:
        batches.pop()
    return [batches[first:first + accumulation] for first in range(0, len(batches), accumulation)]


def accumulate(model, loss_options, inputs, targets, update):
    """Adds the gradients of the mean loss over all samples of the update; returns that loss."""
    whole = sum(loss_weight(loss_options, targets[begin:end]) for begin, end in update)
    total = 0.0
    for begin, end in update:
        loss = loss_of(loss_options, model(inputs[begin:end]), targets[begin:end], reduction="mean")
        share = loss_weight(loss_options, targets[begin:end]) / whole
        (loss * share).backward()
        total += loss.item() * share
    return total


def torch_inputs(samples, dtype):
    """Normalised images (N, H, W, C) or features (N, F) as PyTorch's modules want them."""
    tensor = torch.from_numpy(np.ascontiguousarray(samples)).to(dtype)
    return tensor.permute(0, 3, 1, 2).contiguous() if tensor.ndim == 4 else tensor


def make_optimizer(options, model):
    """torch.optim's, with the weight decay where trainer has it: not on norms and biases unless told so."""
    options = dict(options)
    kind, decay = options.pop("type", "sgd"), options.pop("weight_decay", None)
    if decay is None:
        decay = 0.01 if kind == "adamw" else 0.0
    decay_all = options.pop("decay_norms_and_biases", False)
    options.setdefault("lr", 0.01 if kind == "sgd" else 0.001)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    kept = [p for p in model.parameters() if not (p.ndim > 1 or decay_all)]
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1 or decay_all], "weight_decay": decay},
              {"params": kept, "weight_decay": 0.0}]
    maker = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return maker([group for group in groups if group["params"]], foreach=False, **options)


def state_arrays(model):
    return {name: tensor.detach().double().numpy().copy() for name, tensor in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def clip(model, limit):
    return nn.utils.clip_grad_norm_(model.parameters(), limit if limit else math.inf, foreach=False).item()


def ranks(logits, targets, margin):
    """(fewest, most) logits above that of the target, where `margin` may go either way."""
    own = logits.gather(1, targets.long()[:, None])
    others = torch.ones_like(logits, dtype=torch.bool).scatter(1, targets.long()[:, None], False)
    return ((logits > own + margin) & others).sum(1), ((logits > own - margin) & others).sum(1)


def counted(loss_options, outputs, targets):
    """{metric: (lowest, highest)} that evaluation may find: an interval only where numbers tie within rounding."""
    margin = 1e-5 * outputs.abs().max().item()
    kind = loss_options.get("type", "cross_entropy")
    if kind in ("mse", "l1", "smooth_l1"):
        errors, centred = outputs - targets, targets - targets.mean()
        mae, r2 = errors.abs().mean().item(), 1 - (errors.square().sum() / centred.square().sum()).item()
        return {"mae": (mae * (1 - 1e-5), mae * (1 + 1e-5)), "r2": (r2 - 1e-5 * (1 + abs(r2)), r2 + 1e-5 * (1 + abs(r2)))}
    if kind == "bce_with_logits":
        sure = ((outputs > 0) == (targets > 0.5)) & (outputs.abs() > margin)
        possible = sure | (outputs.abs() <= margin)
        return {"accuracy": (sure.double().mean().item(), possible.double().mean().item())}
    fewest, most = ranks(outputs, targets, margin)
    metrics = {"accuracy": ((most < 1).double().mean().item(), (fewest < 1).double().mean().item())}
    if outputs.shape[1] > 5:
        metrics["top5"] = ((most < 5).double().mean().item(), (fewest < 5).double().mean().item())
    return metrics
