#!/usr/bin/env python3
"""One repetition of one network of scripts/bench_pipeline.py with PyTorch's torch.distributed.pipelining over gloo, a
process for each rank, started by itself; prints one line of JSON of rank 0, with the most that a rank held.

A rank makes only its own layers, each from a seed of its own, so that one rank without a pipeline, which takes the same
micro-batches, has the same model. An embedding that the head shares is held by the first and the last rank, which add up its
gradients. The first rank has the inputs, the last one the targets; all else is as in bench_cpu_torch.py.
"""
import sys

import bench_cpu_torch as alone
import torch
import torch.distributed as dist
from bench_ranks_torch import on_ranks, rank_parser, train_and_tell
from pytorch_gpt import GPT
from torch import nn
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                          ScheduleInterleavedZeroBubble)
from torch.distributed.pipelining.schedules import PipelineScheduleMulti

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B,
             "zero_bubble": ScheduleInterleavedZeroBubble}


class Embeddings(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.wte, self.wpe = model.wte, model.wpe

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))


class Head(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.ln_f, self.lm_head = model.ln_f, model.lm_head

    def forward(self, x):
        return self.lm_head(self.ln_f(x)).flatten(0, 1)


class Border(nn.Module):
    """gloo sends and receives only what is contiguous, forward and back."""

    def forward(self, x):
        if x.requires_grad:
            x.register_hook(torch.Tensor.contiguous)
        return x.contiguous()


def part_of(model, begin, end):
    """Layers `begin` … `end` - 1 of a Sequential; of a GPT blocks, with what is in front of and behind all of them. `model`
    is on the meta device, the part is not."""
    layers = model.h if isinstance(model, GPT) else model
    end = len(layers) if end is None else end
    chosen = dict(zip(range(begin, end), layers[begin:end]))
    if isinstance(model, GPT):
        ends = {-1: Embeddings(model)} if begin == 0 else {}
        chosen = {**ends, **chosen, **({end: Head(model)} if end == len(layers) else {})}
    for seed, layer in chosen.items():
        fill(layer, 1000 + seed, isinstance(model, GPT))
    return nn.Sequential(*([Border()] if begin > 0 else []), *chosen.values(), *([Border()] if end < len(layers) else []))


def fill(layer, seed, of_gpt):
    layer.to_empty(device="cpu")
    torch.manual_seed(seed)
    for module in layer.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    if of_gpt:  # as it begins by itself
        for parameter in layer.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)


def tie(parts):
    """What an embedding and the head share, where `parts` have one of them or both; else None."""
    layers = [layer for part in parts for layer in part]
    owners = [layer.wte if isinstance(layer, Embeddings) else layer.lm_head
              for layer in layers if isinstance(layer, (Embeddings, Head))]
    for owner in owners:
        torch.manual_seed(999)
        nn.init.normal_(owner.weight, std=0.02)
        owner.weight = owners[0].weight
    return owners[0].weight if owners else None


def micro_batches(described, num_classes, seed, arguments):
    """Of each of the batches that meta tensors describe."""
    torch.manual_seed(seed)
    batches = [torch.randn(x.shape) if x.is_floating_point() else torch.randint(0, num_classes, x.shape) for x in described]
    if arguments.channels_last and batches[0].dim() == 4:
        batches = [x.contiguous(memory_format=torch.channels_last) for x in batches]
    return [x.chunk(arguments.micro_batches) for x in batches]


def make_alone(part, inputs, targets, loss_of):
    def step(index):
        losses = []
        for x, y in zip(inputs[index % 4], targets[index % 4]):
            loss = loss_of(part(x), y)
            loss.backward()
            losses.append(loss.detach())
        return losses

    return step


def make_pipeline(parts, inputs, targets, loss_of, arguments, rank):
    stages = [PipelineStage(part, rank + place * arguments.ranks, arguments.ranks * len(parts), torch.device("cpu"))
              for place, part in enumerate(parts)]
    kind = SCHEDULES[arguments.schedule]
    schedule = kind(stages if issubclass(kind, PipelineScheduleMulti) else stages[0], arguments.micro_batches, loss_of,
                    scale_grads=False)

    def step(index):
        losses = []
        schedule.step(arg_mbs=[(x,) for x in inputs[index % 4]] if inputs else None,
                      target_mbs=list(targets[index % 4]) if targets else None,
                      losses=losses if targets else None, return_outputs=False)
        return losses

    return step


def train(arguments, rank):
    num_ranks, is_gpt = arguments.ranks, arguments.network in alone.GPTS
    with torch.device("meta"):
        make_training = alone.make_token_training if is_gpt else alone.make_image_training
        model, inputs, targets, batch, make_optimizer = make_training(arguments.network)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    imported_bytes = alone.resident_bytes("VmRSS")
    dist.init_process_group("gloo", rank=rank, world_size=num_ranks)
    ends = dist.new_group([0, num_ranks - 1]) if is_gpt and num_ranks > 1 else None
    torch.set_num_threads(1)
    num_classes = alone.GPTS[arguments.network][2] if is_gpt else alone.NETWORKS[arguments.network][3]
    inputs = micro_batches(inputs, num_classes, 1, arguments) if rank == 0 else None
    targets = micro_batches(targets, num_classes, 2, arguments) if rank == num_ranks - 1 else None
    begins = [0, *arguments.cut]
    parts = [part_of(model, begin, end) for begin, end in list(zip(begins, [*begins[1:], None]))[rank::num_ranks]]
    tied = tie(parts)
    if arguments.channels_last:
        parts = [part.to(memory_format=torch.channels_last) for part in parts]
    optimizer = make_optimizer(nn.ModuleList(parts).parameters(), fused=True)
    criterion = nn.CrossEntropyLoss()

    def loss_of(output, target):
        return criterion(output, target) / arguments.micro_batches  # which spares the schedule to scale all gradients

    compute = (make_alone(parts[0], inputs, targets, loss_of) if num_ranks == 1 else
               make_pipeline(parts, inputs, targets, loss_of, arguments, rank))

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        told = sum(loss.item() for loss in compute(index))  # as a training loop that prints its loss, on the last rank
        if ends is not None and tied is not None:
            dist.all_reduce(tied.grad, group=ends)
        optimizer.step()
        return told

    # Rank 0 is the first that begins a step and the last that ends it.
    train_and_tell(arguments, rank, step, batch, num_parameters, imported_bytes, losses_of=num_ranks - 1)


def main():
    parser = rank_parser(__doc__)
    parser.add_argument("--schedule", choices=[*SCHEDULES], default="1f1b")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--cut", type=int, nargs="*", default=[],
                        help="layers, or blocks of a GPT, at which the parts behind the first begin; one rank has none")
    return on_ranks(parser.parse_args(), train)


if __name__ == "__main__":
    sys.exit(main())
