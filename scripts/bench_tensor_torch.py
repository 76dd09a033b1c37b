#!/usr/bin/env python3
"""One repetition of one network of scripts/bench_tensor.py with PyTorch's torch.distributed.tensor.parallel over gloo, a
process for each rank, started by itself; prints one line of JSON of rank 0, with the most that a rank held.

Of a pair of linear layers the first is a ColwiseParallel, the second a RowwiseParallel; so are attention's, whose rows of
queries, keys and values are put into the order of the ranks' heads. The embedding is a RowwiseParallel, the head that shares
it a ColwiseParallel whose logits stay where they are, and the loss is taken in loss_parallel. All else is whole on each rank,
and as in bench_cpu_torch.py. One rank has the same model as it is.
"""
import contextlib
import sys

import bench_cpu_torch as alone
import torch
import torch.distributed as dist
from bench_ranks_torch import on_ranks, rank_parser, train_and_tell
from pytorch_gpt import GPT
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module


def share_gpt(model, mesh):
    num_ranks = mesh.size()
    for block in model.h:
        rows = block.attn.c_attn.weight.shape[0]
        # Of all queries, then keys, then values: of rank 0's, then of the next.
        order = torch.arange(rows).view(3, num_ranks, -1).transpose(0, 1).flatten()
        with torch.no_grad():
            for parameter in (block.attn.c_attn.weight, block.attn.c_attn.bias):
                parameter.copy_(parameter[order])
        block.attn.heads //= num_ranks
    model = parallelize_module(model, mesh, {
        "wte": RowwiseParallel(input_layouts=Replicate()), "h.*.attn.c_attn": ColwiseParallel(),
        "h.*.attn.c_proj": RowwiseParallel(), "h.*.mlp.0": ColwiseParallel(), "h.*.mlp.2": RowwiseParallel(),
        "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    model.lm_head.weight = model.wte.weight
    return model


def share_linear_layers(model, mesh):
    """In pairs; a last one without a second stays whole."""
    places = [str(place) for place, layer in enumerate(model) if isinstance(layer, nn.Linear)]
    for layer in model:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False  # which autograd refuses behind a layer that is shared
    kinds = (ColwiseParallel, RowwiseParallel)
    return parallelize_module(model, mesh, {place: kinds[number % 2]() for number, place in
                                            enumerate(places[:len(places) // 2 * 2])})


def optimizer_of(model, make_optimizer):
    """Of DTensors and of others in a group each, for no fused kernel takes both."""
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(isinstance(parameter, DTensor), []).append(parameter)
    # PyTorch's fused SGD does not take DTensors.
    fastest = {"foreach": True} if True in groups and make_optimizer.func is torch.optim.SGD else {"fused": True}
    return make_optimizer([{"params": group} for group in groups.values()], **fastest)


def train(arguments, rank):
    imported_bytes = alone.resident_bytes("VmRSS")
    dist.init_process_group("gloo", rank=rank, world_size=arguments.ranks)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    is_gpt = arguments.network in alone.GPTS
    make_training = alone.make_token_training if is_gpt else alone.make_image_training
    model, inputs, targets, batch, make_optimizer = make_training(arguments.network)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    for block in model.h if is_gpt else []:
        block.attn.heads = arguments.heads or block.attn.heads
    loss_of_cut_classes = contextlib.nullcontext
    if arguments.ranks > 1:
        mesh = dist.init_device_mesh("cpu", (arguments.ranks,))
        model = (share_gpt if isinstance(model, GPT) else share_linear_layers)(model, mesh)
        loss_of_cut_classes = loss_parallel if is_gpt else contextlib.nullcontext
    optimizer = optimizer_of(model, make_optimizer)
    criterion = nn.CrossEntropyLoss()

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        with loss_of_cut_classes():
            loss = criterion(model(inputs[index % 4]), targets[index % 4])
            loss.backward()
        optimizer.step()
        return loss.item()  # as a training loop that prints its loss

    train_and_tell(arguments, rank, step, batch, num_parameters, imported_bytes)


def main():
    parser = rank_parser(__doc__)
    parser.add_argument("--heads", type=int, help="of each attention, instead of the network's own")
    return on_ranks(parser.parse_args(), train)


if __name__ == "__main__":
    sys.exit(main())
