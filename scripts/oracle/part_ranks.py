"""Runs of several ranks against what PyTorch's DistributedDataParallel does, computed in f64 in one process: each rank a
model of its own over its part of every batch, batch norms by that part, the gradients of all added up, and the running
statistics of rank 0 where a model is evaluated, averaged and saved. With `parallel.sync_batchnorm` they are held against
one model over whole batches, as SyncBatchNorm makes of them; with `parallel.deterministic` against as many models as a batch
has parts, whatever the number of ranks. Ranks that share a model (`parallel.shard`) are held against
the same: what they hold parts of is one model, one optimizer and one average."""
import copy

import numpy as np
import torch

import part_averages
import part_optimizers
import rounding
import safetensors_file
import training

RANKS = [2, 3, 4]
SHARDS = ["parameters", "optimizer", "gradients", "none"]
MODES = ["by rank", "sync_batchnorm", "deterministic"]


def part_of(begin, end, num_ranks, rank):
    """A rank's samples of [begin, end): as numpy.array_split cuts."""
    part = np.array_split(np.arange(begin, end), num_ranks)[rank]
    return (int(part[0]), int(part[-1]) + 1) if len(part) else (begin, begin)


class Twin(part_averages.Twin):
    def __init__(self, layers, data, loss, weights, sets, updates, optimizer, average, epochs, clip_norm, num_ranks):
        super().__init__(layers, data, loss, weights, sets, updates, optimizer, average, epochs)
        self.clip_norm, self.num_ranks = clip_norm, num_ranks

    def add_gradients(self, model, inputs, targets, update, rank):
        """Of the mean over all samples of the update, what this rank adds; its share of the loss."""
        whole = sum(training.loss_weight(self.loss, targets[begin:end]) for begin, end in update)
        total = 0.0
        for begin, end in update:
            first, last = part_of(begin, end, self.num_ranks, rank)
            if first == last:
                continue
            loss = training.loss_of(self.loss, model(inputs[first:last]), targets[first:last], reduction="mean")
            share = training.loss_weight(self.loss, targets[first:last]) / whole
            (loss * share).backward()
            total += loss.item() * share
        return total

    def compute(self, dtype, noise):
        first = training.model_of(self.layers, self.data["shape"], self.weights, dtype)
        models = [first] + [copy.deepcopy(first) for _ in range(1, self.num_ranks)]
        for model in models:
            if noise:
                noise.attach(model)
        averaged, counts = None, ()
        updates = self.updates * self.epochs
        if self.average:
            averaged = self.averaged_model(dtype, noise)
            counts = part_averages.counts_of(self.average, len(updates), len(self.updates))
        optimizer = training.make_optimizer(self.optimizer, first)
        inputs, targets = self.tensors("train", dtype, noise)
        found = {}
        for step, update in enumerate(updates, 1):
            loss = 0.0
            for rank, model in enumerate(models):
                model.train()
                model.zero_grad(set_to_none=True)
                loss += self.add_gradients(model, inputs, targets, update, rank)
            found[f"step {step} loss"] = np.array(loss)
            with torch.no_grad():
                for name, parameter in first.named_parameters():
                    grads = [dict(model.named_parameters())[name].grad for model in models]
                    parameter.grad = sum(grad for grad in grads if grad is not None)
            if self.clip_norm:
                training.clip(first, self.clip_norm)
            optimizer.step()
            if noise:
                noise.of_tensors(first)
            with torch.no_grad():
                for model in models[1:]:
                    for own, other in zip(first.parameters(), model.parameters()):
                        other.copy_(own)
            if step in counts:
                averaged.update_parameters(first)
            shown = averaged.module if averaged and averaged.n_averaged > 0 else first
            for name, array in training.state_arrays(shown).items():
                found[f"step {step} {name}"] = array
            if step % len(self.updates) == 0:
                found[f"evaluation after step {step}"] = self.evaluate(shown, dtype, noise)
        if averaged:
            for name, array in training.state_arrays(first).items():
                found[f"{name}.unaveraged"] = array
        found.update(part_optimizers.state_of(optimizer, first))
        return found


def run(case):
    random = case.random
    num_ranks, shard = RANKS[case.index % len(RANKS)], SHARDS[case.index % len(SHARDS)]  # each with each in twelve
    images = random.random() < 0.7
    data, layers, loss, section, sets, accumulation, updates = part_optimizers.draw_smooth_case(case, images)
    optimizer = part_optimizers.draw_optimizer(random, random.choice(part_optimizers.KINDS))
    clip_norm, epochs = random.choice([0, 0.5]), random.choice([1, 2])
    average = part_averages.draw_average(random, random.choice(["ema", "swa"])) if random.random() < 0.4 else None
    memory = random.choice([{}, {"allocator": "planned"}])
    mode = MODES[case.index // (len(RANKS) * len(SHARDS)) % len(MODES)]
    models, parallel = num_ranks, {}  # as many models as there are parts with statistics of their own
    if mode == "sync_batchnorm":
        models, parallel = 1, {"sync_batchnorm": True}
    elif mode == "deterministic":
        models = min(4, 1 << data["batch"].bit_length() - 1)
        num_ranks = min({2: 2, 3: 1, 4: 4}[num_ranks], models)
        parallel = {"deterministic": True, "parts": models}
    model = training.torch_network.build(layers, data["shape"])
    weights = training.random_weights(model, np.random.default_rng(case.number))
    twin = Twin(layers, data, loss, weights, sets, updates, optimizer, average, epochs, clip_norm,
                models)
    case.title = (f"{num_ranks} ranks, shard {shard}, {mode}, {optimizer['type']}, "
                  f"clip_norm {clip_norm}, {average or 'no average'}, images {images}, accumulation {accumulation}")
    case.seen = {f"{num_ranks} ranks", f"shard {shard}", f"images {images}", optimizer["type"],
                 mode, f"accumulation {accumulation}", "clipping" if clip_norm else "no clipping",
                 average["type"] if average else "no average"}
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = {"data": section, "model": {"layers": layers}, "loss": loss, "optimizer": optimizer, "memory": memory,
              "train": {"batch_size": data["batch"], "log_every": 1, "accumulation_steps": accumulation, "epochs": epochs,
                        "clip_norm": clip_norm},
              "parallel": {"data": num_ranks, "shard": shard, **parallel},
              "checkpoint": {"every": 1, "keep": 100000}}
    if average:
        config["average"] = average
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="network")
    num_steps = len(updates) * epochs
    found = {f"step {event['step']} loss": event["loss"] for event in run_.steps}
    found.update({f"evaluation after step {event['step']}": event["loss"] for event in run_.evaluations})
    for step in range(1, num_steps + 1):
        found.update({f"step {step} {name}": array for name, array in run_.weights(step).items()})
    found.update(run_.tensors("optimizer", num_steps))
    rounding.Reference(twin.compute, case.number).compare(case.findings, found)


def num_cases(options):
    return 4 if options.short else 36


def everything(options):
    drawn = {*(f"{num} ranks" for num in RANKS), *(f"shard {shard}" for shard in SHARDS)}
    return drawn if options.short else {*drawn, "images True", "images False", "sgd", "adam", "adamw", "clipping",
                                        "no clipping", "accumulation 1", "accumulation 2", "ema", "swa", "no average",
                                        *MODES}
