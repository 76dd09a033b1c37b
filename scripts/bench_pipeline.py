#!/usr/bin/env python3
"""Runs trainer's pipelines and those of PyTorch's torch.distributed.pipelining over gloo in turn, each rank a process with
one thread and a part of the layers: samples a second and the memory of a rank, by schedule. Writes
scripts/results/pipeline_<date>.json, of other than two ranks pipeline_<date>_<N>_ranks.json.

Both cut a network at the same layers and take the same micro-batches, PyTorch in its own schedule of the same kind: GPipe,
1F1B, Interleaved1F1B, and for zero_bubble InterleavedZeroBubble with one stage a rank, which is ZB1P of the same paper. The
first losses of both must be those of one process of the same program that takes the same micro-batches. Repetitions
alternate, every second time in the other order; ratios are of the runs beside each other, their median shown. The bubble is
predicted, not measured.
"""
import bench_cpu
from bench_ranks import (Ranks, Results, TorchRanks, held_by_rank, loss_differences, measure_pairs, parse, ranks_parser,
                         verdict_of)

# By the number of parts, where those behind the first begin: layers in PyTorch's list, or blocks of a GPT; and what trainer
# calls the layer at a place.
CUTS = {"mlp": ({2: (3,), 3: (3, 5)}, str),
        "gpt_mini": ({2: (3,), 3: (2, 4), 4: (1, 3, 5), 6: (1, 2, 3, 4, 5)}, "h.{}".format),
        "resnet18": ({2: (7,), 3: (6, 9), 4: (5, 7, 9)}, lambda place: str(2 * place - 3))}  # a block and its ReLU are two
CHUNKS = 2  # parts of a rank, where they are interleaved
# In how many pieces a schedule divides what a rank does for a micro-batch, where it waits for single ones: zero_bubble in
# the forward pass, gradients of inputs and of weights, as if they took alike.
PIECES = {"gpipe": 1, "1f1b": 1, "interleaved": CHUNKS, "zero_bubble": 3}
SPEED_GOAL, MEMORY_GOAL = 1.0, 1.0


class Pipeline(Ranks):
    """trainer's; of one rank the same micro-batches in one process."""

    def __init__(self, network, num_ranks, micro_batches, schedule="1f1b", cut=()):
        settings = [f"parallel.micro_batches={micro_batches}"]
        if num_ranks > 1:
            names = ", ".join(CUTS[network][1](place) for place in cut)
            settings += [f"parallel.pipeline={num_ranks}", f"parallel.schedule={schedule}", f"parallel.chunks={CHUNKS}",
                         f"parallel.cut=[{names}]"]
        super().__init__(network, num_ranks, "none", settings)


class TorchPipeline(TorchRanks):
    def __init__(self, network, num_ranks, micro_batches, schedule="1f1b", cut=(), options=None):
        settings = [f"--micro-batches={micro_batches}", f"--schedule={schedule}", "--cut", *map(str, cut)]
        super().__init__(network, num_ranks, "torch", "bench_pipeline_torch.py", settings, options)


def predicted_bubble(schedule, num_ranks, micro_batches):
    """The share of a step in which a rank waits, where all parts take alike, messages nothing and updates nothing."""
    waits = num_ranks - 1
    return waits / (PIECES[schedule] * micro_batches + waits)


def measure(network, schedule, cut, arguments):
    layout = (network, arguments.ranks, arguments.micro_batches, schedule, cut)
    ours, theirs = Pipeline(*layout), TorchPipeline(*layout)
    return {"options": theirs.options, "cut": [CUTS[network][1](place) for place in cut],
            "predicted_bubble": predicted_bubble(schedule, arguments.ranks, arguments.micro_batches),
            "loss_difference": loss_differences(ours, theirs, (network, 1, arguments.micro_batches)),
            **measure_pairs(f"{network}, {schedule}", ours, theirs, arguments)}


def print_found(network, schedule, found):
    print(f"{network:<10}{schedule:<13}{found['speed']:5.2f}    {found['memory_above_import']:.2f}  "
          f"{f'({held_by_rank(found)})':<21}{found['predicted_bubble']:11.1%}  "
          f"{verdict_of(found, SPEED_GOAL, MEMORY_GOAL)}", flush=True)


def main():
    parser = ranks_parser(__doc__, CUTS)
    parser.add_argument("--micro-batches", type=int, default=8, help="of each batch; its size must be a multiple")
    parser.add_argument("--schedule", choices=list(PIECES), action="append", help="also several; default: all")
    arguments = parse(parser, CUTS)
    for network in arguments.networks:
        if bench_cpu.NETWORKS[network][0] % arguments.micro_batches != 0:
            parser.error(f"the batch of {network} has {bench_cpu.NETWORKS[network][0]} samples, which are not cut evenly")
    results = Results("pipeline", arguments, micro_batches=arguments.micro_batches, networks={})
    print(f"A pipeline of {arguments.ranks} ranks of one thread, {arguments.micro_batches} micro-batches, trainer over "
          f"PyTorch (gloo), the median of {arguments.repetitions} pairs\n"
          "network   schedule     speed  memory of a rank, both above import  predicted bubble\n"
          f"goal                  > {SPEED_GOAL:.2f}  < {MEMORY_GOAL:.2f}", flush=True)
    for network in arguments.networks:
        for schedule in arguments.schedule or PIECES:
            num_parts = arguments.ranks * (CHUNKS if schedule == "interleaved" else 1)
            cut = CUTS[network][0].get(num_parts)
            if cut is None:
                print(f"{network:<10}{schedule:<13}has no {num_parts} parts that take about alike", flush=True)
                continue
            found = measure(network, schedule, cut, arguments)
            print_found(network, schedule, found)
            results.told["networks"].setdefault(network, {})[schedule] = found
            results.write()
    print(f"written to scripts/results/{results.name}")


if __name__ == "__main__":
    main()
