#!/usr/bin/env python3
"""Runs trainer's parallel.tensor and PyTorch's torch.distributed.tensor.parallel over gloo in turn, each rank a process with
one thread and a part of each layer: samples a second and the memory of a rank. Writes scripts/results/tensor_<date>.json, of
other than two ranks tensor_<date>_<N>_ranks.json.

Both cut the same layers: pairs of linear layers, attention by heads, and a GPT's embedding, head and loss by words. The first
losses of both must be those of one process of the same program. Repetitions alternate, every second time in the other order;
ratios are of the runs beside each other, their median shown.
"""
from bench_ranks import (Ranks, Results, TorchRanks, held_by_rank, loss_differences, measure_pairs, parse, ranks_parser,
                         verdict_of)

NETWORKS = ("mlp", "gpt_mini")
# Of each attention, where the ranks do not divide those that the network has; weights are as many.
HEADS = {"gpt_mini": (6, 4)}
SPEED_GOAL, MEMORY_GOAL = 1.0, 1.0


def heads_for(network, num_ranks):
    """None where the network stays as it is."""
    own, others = HEADS.get(network, (0, 0))
    return others if own % num_ranks != 0 else None


class Tensor(Ranks):
    """trainer's."""

    def __init__(self, network, num_ranks, heads=None):
        settings = [f"model.with.heads={heads}"] if heads else []
        super().__init__(network, num_ranks, "none", [*settings, f"parallel.tensor={num_ranks}"])


class TorchTensor(TorchRanks):
    def __init__(self, network, num_ranks, heads=None, options=None):
        settings = [f"--heads={heads}"] if heads else []
        super().__init__(network, num_ranks, "torch", "bench_tensor_torch.py", settings, options)


def measure(network, arguments):
    heads = heads_for(network, arguments.ranks)
    ours, theirs = (kind(network, arguments.ranks, heads) for kind in (Tensor, TorchTensor))
    return {"heads": heads, "options": theirs.options, "loss_difference": loss_differences(ours, theirs, (network, 1, heads)),
            **measure_pairs(network, ours, theirs, arguments)}


def main():
    arguments = parse(ranks_parser(__doc__, NETWORKS), NETWORKS)
    results = Results("tensor", arguments, networks={})
    print(f"{arguments.ranks} ranks of one thread that share layers, trainer over PyTorch (gloo), the median of "
          f"{arguments.repetitions} pairs\nnetwork     speed  memory of a rank, both above import\n"
          f"goal      > {SPEED_GOAL:.2f}  < {MEMORY_GOAL:.2f}", flush=True)
    for network in arguments.networks:
        found = results.told["networks"][network] = measure(network, arguments)
        print(f"{network:<10} {found['speed']:6.2f}  {found['memory_above_import']:.2f}  {f'({held_by_rank(found)})':<21}"
              f"{verdict_of(found, SPEED_GOAL, MEMORY_GOAL)}", flush=True)
        results.write()
    print(f"written to scripts/results/{results.name}")


if __name__ == "__main__":
    main()
