#!/usr/bin/env python3
"""One repetition of one network of scripts/bench_ranks.py in PyTorch over gloo, a process for each rank, started by itself;
prints one line of JSON of rank 0, with the most that a rank held.

--shard none is DistributedDataParallel, `optimizer` that with a ZeroRedundancyOptimizer, `parameters` FSDP2: each block, and
each layer outside of blocks, is a unit of fully_shard, whose weights are freed behind its forward pass.
Each rank takes its part of the batch of configs/bench/*.yaml, as trainer's do; all else is as in bench_cpu_torch.py.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import bench_cpu_torch as alone
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_replicated(model, make_optimizer):
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model, make_optimizer(model.parameters(), fused=True)


def make_zero(model, make_optimizer):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=make_optimizer.func, fused=True,
                                          **make_optimizer.keywords)


def make_fully_sharded(model, make_optimizer):
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    units = model.h if hasattr(model, "h") else [layer for layer in model if next(layer.parameters(), None) is not None]
    for unit in [*units, model]:
        fully_shard(unit, mesh=mesh, reshard_after_forward=True)
    # PyTorch's fused SGD does not take what FSDP2 makes of parameters.
    fastest = {"foreach": True} if make_optimizer.func is torch.optim.SGD else {"fused": True}
    return model, make_optimizer(model.parameters(), **fastest)


SHARDS = {"none": make_replicated, "optimizer": make_zero, "parameters": make_fully_sharded}


def import_all_of(shard):
    """What counts as imported."""
    if shard == "optimizer":
        import torch.distributed.optim  # noqa: F401
    elif shard == "parameters":
        import torch.distributed.fsdp  # noqa: F401


def train(arguments, rank):
    import_all_of(arguments.shard)
    imported_bytes = alone.resident_bytes("VmRSS")
    dist.init_process_group("gloo", rank=rank, world_size=arguments.ranks)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make_training = alone.make_token_training if arguments.network in alone.GPTS else alone.make_image_training
    model, inputs, targets, batch, make_optimizer = make_training(arguments.network)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    own = batch // arguments.ranks
    rows = targets[0].shape[0] // batch  # of a sample
    inputs = [x[rank * own:(rank + 1) * own].contiguous() for x in inputs]
    targets = [y[rank * own * rows:(rank + 1) * own * rows].contiguous() for y in targets]
    if arguments.channels_last:
        if arguments.shard != "parameters":  # FSDP2 takes only weights as they are; inputs decide how layers compute
            model = model.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
    model, optimizer = SHARDS[arguments.shard](model, make_optimizer)
    criterion = nn.CrossEntropyLoss()

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(inputs[index % 4]), targets[index % 4])
        loss.backward()
        optimizer.step()
        return loss.item()  # as a training loop that prints its loss

    train_and_tell(arguments, rank, step, own * arguments.ranks, num_parameters, imported_bytes)


def train_and_tell(arguments, rank, step, batch, num_parameters, imported_bytes, losses_of=0):
    """Takes steps, each of which returns its loss, until the time is up; rank 0 prints what was measured, and the first
    losses of rank `losses_of`. Ends the process."""
    step_seconds, losses = [], torch.zeros(arguments.warmup_steps, dtype=torch.float64)
    for index in range(arguments.warmup_steps):
        losses[index] = step(index)
    begin = time.perf_counter()
    for index in range(arguments.warmup_steps, 1 << 30):
        start = time.perf_counter()
        step(index)
        end = time.perf_counter()
        step_seconds.append(end - start)
        if len(step_seconds) % 3 == 0:  # all ranks stop behind the same step
            goes_on = torch.tensor([end - begin < arguments.seconds], dtype=torch.float32)
            dist.broadcast(goes_on, 0)
            if goes_on.item() == 0:
                break
    held = torch.tensor([alone.resident_bytes("VmHWM"), imported_bytes], dtype=torch.float64)
    above = torch.tensor([held[0] - held[1]], dtype=torch.float64)
    dist.all_reduce(above, dist.ReduceOp.MAX)
    dist.all_reduce(held, dist.ReduceOp.MAX)
    dist.broadcast(losses, losses_of)
    if rank == 0:
        print(json.dumps({"samples_per_second": batch * len(step_seconds) / sum(step_seconds),
                          "step_seconds": sum(step_seconds) / len(step_seconds), "best_step_seconds": min(step_seconds),
                          "peak_bytes": held[0].item(), "above_import_bytes": above.item(),
                          "parameters": num_parameters, "losses": losses.tolist()}), flush=True)
    dist.barrier()
    os._exit(0)  # threads of gloo that PyTorch leaves may abort a process that ends the usual way


def on_ranks(arguments, train):
    """Trains where this is a rank; else starts them all."""
    if "RANK" in os.environ:
        return train(arguments, int(os.environ["RANK"]))
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(arguments.port), "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**environment, "RANK": str(rank)})
             for rank in range(arguments.ranks)]
    codes = [rank.wait() for rank in ranks]
    return max(codes, key=abs)


def rank_parser(documentation):
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("network", choices=[*alone.NETWORKS, *alone.GPTS])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup-steps", type=int, default=5, help="steps whose losses are printed, not their times")
    return parser


def main():
    parser = rank_parser(__doc__)
    parser.add_argument("--shard", choices=[*SHARDS], default="none")
    return on_ranks(parser.parse_args(), train)


if __name__ == "__main__":
    sys.exit(main())
