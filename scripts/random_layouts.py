"""Random small trainings and layouts of the ranks that share them, as configurations: perceptrons with gates, small
ResNets, U-Nets and GPTs, and networks of the oracle's layers, on synthetic data. A case follows from its seed and its
number alone.
"""
import dataclasses
import json
import pathlib
import random as random_numbers
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "oracle"))
from random_networks import NetworkMaker, kinds_in  # noqa: E402

MOST_RANKS = 8
SHARDS = ("none", "optimizer", "gradients", "parameters")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")
TOLERANCES = {"off": 2e-5, "fp16": 5e-3, "bf16": 3e-2}  # of losses, by train.amp
SYNCHRONISED, EIGHT_BIT = 1e-4, 2e-3  # batch norms over ranks, moments of 8 bits
# What goes with no layout of its kind, and the kind.
IMPOSSIBLE = (("ranks", {"memory": {"update": "in_backward"}}),
              ("ranks", {"memory": {"on_oom": "adapt"}}),
              ("ranks", {"train": {"batch_size": "auto"}}),
              ("pipeline", {"parallel": {"deterministic": True}}),
              ("pipeline", {"parallel": {"cut": ["no_such_layer"]}}),
              ("pipeline", {"parallel": {"schedule": "interleaved", "chunks": 64}}),
              ("tensor", {"parallel": {"deterministic": True}}),
              ("tensor", {"parallel": {"tensor": 31, "data": 1, "pipeline": 1}}),  # which divides no size here
              ("tensor", {"device": {"autotune": True}}),
              ("data", {"train": {"batch_size": 1}}),
              ("data and norms", {"parallel": {"sync_batchnorm": True, "micro_batches": 2}}))


def has_batch_norms(layers):
    return any(kind.startswith("batchnorm") for kind in kinds_in(layers))


@dataclasses.dataclass
class Case:
    """A training and its layout. `limit`: capacity as a share of what its ranks hold, or None."""
    seed: int
    number: int
    family: str
    config: dict
    limit: float | None
    must_be_refused: bool

    def __post_init__(self):
        parallel = self.config["parallel"]
        self.data, self.pipeline, self.tensor = (parallel.get(key, 1) for key in ("data", "pipeline", "tensor"))
        self.num_ranks = self.data * self.pipeline * self.tensor
        self.has_batch_norms = has_batch_norms(self.config["model"]["layers"])
        self.shares_weights = '"share"' in json.dumps(self.config["model"]["layers"])

    @property
    def layout(self):
        """`data × tensor`, say: how ranks share the training."""
        return " × ".join(key for key in ("data", "tensor", "pipeline") if getattr(self, key) > 1)

    @property
    def tags(self):
        """What --without takes."""
        parallel, train, memory = (self.config[key] for key in ("parallel", "train", "memory"))
        chosen = {self.family, *self.layout.split(" × "), train["amp"], self.config["optimizer"]["type"],
                  self.config["loss"]}
        chosen |= {parallel[key] for key in ("shard", "schedule") if key in parallel}
        chosen |= {name for name, there in (("tied", self.shares_weights), ("batchnorm", self.has_batch_norms),
                                            ("limit", self.limit), ("refused", self.must_be_refused)) if there}
        chosen |= {key for section in (parallel, memory, train) for key in section}
        return chosen | {key for key in ("average", "freeze", "schedule") if key in self.config}

    @property
    def title(self):
        """In one line."""
        sections = {key: self.config[key] for key in ("parallel", "train", "memory") if self.config[key]}
        return f"{self.family}, " + ", ".join(f"{key} {json.dumps(value)}" for key, value in sections.items())

    def one_process(self):
        """The configuration of one process that takes the same micro-batches."""
        parallel = self.config["parallel"]
        micro_batches = parallel.get("micro_batches", 0) or (4 * self.pipeline if self.pipeline > 1 else 0)
        return {**self.config, "parallel": {"micro_batches": micro_batches} if micro_batches else {}}

    def compares_losses(self):
        """Whether one process has the same losses: batch norms and dice go by a rank's part."""
        if self.data == 1:
            return True
        shares_norms = self.config["parallel"].get("sync_batchnorm", False)
        return self.config["loss"] != "dice" and (shares_norms or not self.has_batch_norms)

    def has_same_bits(self):
        """As one process: stages alone in f32, without weights that two of them use, and without values that three may
        read. In 16 bits gradients of what two stages read are rounded before they are added."""
        is_exact = self.config["train"]["amp"] == "off" and not self.shares_weights
        parallel = self.config["parallel"]
        is_interleaved = parallel.get("schedule") == "interleaved"
        num_parts = self.pipeline * (parallel.get("chunks", 2) if is_interleaved else 1)
        model = json.dumps(self.config["model"])
        has_skips = any(f'"{word}"' in model for word in ("residual", "concat", "from"))
        return self.data == 1 and self.tensor == 1 and is_exact and (num_parts <= 2 or not has_skips)

    def tolerance(self):
        allowed = TOLERANCES[self.config["train"]["amp"]]
        if self.has_batch_norms and self.data > 1:
            allowed = max(5 * allowed, SYNCHRONISED)
        return max(allowed, EIGHT_BIT) if "moments" in self.config["memory"] else allowed


class NetworkDraw:
    """Draws networks whose sizes are multiples of `step`, `factor` times as large as small ones."""

    def __init__(self, random, step, factor):
        self.random, self.step, self.factor = random, step, factor

    def size(self, least, most):
        return self.step * self.random.randint(-(-least // self.step), most // self.step) * self.factor

    def one_of(self, *choices):
        return self.random.choice(choices)

    def activation(self):
        return self.one_of("relu", "gelu", "silu", "tanh")

    def feed_forward(self, width, norm):
        """A residual block of features: a pair, a gated unit or a product of two."""
        hidden = self.size(8, 24)
        kind = self.one_of("pair", "gated", "product", "three")
        if kind == "pair":
            layers = [{"linear": {"out": hidden}}, self.activation(), {"linear": {"out": width}}]
        elif kind == "gated":
            layers = [{"linear": {"out": 2 * hidden}}, self.one_of("swiglu", "geglu"),
                      {"linear": {"out": width, "bias": False}}]
        elif kind == "product":
            layers = [{"linear": {"out": hidden, "name": "up", "from": "normed"}},
                      {"linear": {"out": hidden, "name": "gate", "from": "normed", "bias": False}},
                      {self.one_of("sigmoid", "silu"): {"name": "opened"}}, {"multiply": {"from": ["up", "opened"]}},
                      {"linear": {"out": width}}]
            return {"residual": {"layers": [{norm: {"name": "normed"}}, *layers]}}
        else:
            layers = [{"linear": {"out": hidden}}, self.activation(), {"linear": {"out": self.size(8, 16)}},
                      self.activation(), {"linear": {"out": width}}]
        return {"residual": {"layers": [*([norm] if self.random.random() < 0.7 else []), *layers]}}

    def mlp(self):
        width = self.size(8, 16)
        layers = [{"linear": {"out": width}}, self.activation()]
        for _ in range(self.random.randint(1, 4)):
            layers.append(self.feed_forward(width, self.one_of("layernorm", "rmsnorm")))
            if self.random.random() < 0.3:
                width = self.size(8, 16)
                layers += [{"linear": {"out": width}}, self.activation()]
        data = {"type": "synthetic", "shape": [self.random.randint(3, 12)]}
        if self.random.random() < 0.2:
            return {**data, "target_type": "numeric"}, [*layers, {"linear": {"out": 1}}], "mse"
        classes = self.one_of(3, 4, 10, 1030)
        return {**data, "classes": classes}, [*layers, {"linear": {"out": classes}}], "cross_entropy"

    def norm(self, width):
        if self.is_normed_by_batch:
            return "batchnorm2d"
        return {"groupnorm": {"groups": self.one_of(1, 2 if width % 2 == 0 else 1)}}

    def conv(self, width, **more):
        return {"conv2d": {"out": width, "kernel": 3, "padding": 1, "bias": self.random.random() < 0.5, **more}}

    def resnet(self):
        self.is_normed_by_batch = self.random.random() < 0.5
        width = self.size(4, 8)
        layers = [self.conv(width), self.norm(width), "relu"]
        for _ in range(self.random.randint(1, 4)):
            stride, out = self.one_of((1, width), (2, self.size(4, 12)))
            shortcut = {"shortcut": [{"conv2d": {"out": out, "kernel": 1, "stride": stride}}, self.norm(out)]}
            layers.append({"residual": {"layers": [self.conv(out, stride=stride), self.norm(out), "relu",
                                                   self.conv(out), self.norm(out)],
                                        **(shortcut if stride > 1 else {})}})
            layers.append("relu")
            width = out
        layers.append(self.one_of("global_avgpool", "flatten"))
        if self.random.random() < 0.7:
            layers += [{"linear": {"out": self.size(8, 24)}}, self.activation()]
        classes = self.one_of(3, 10)
        side = self.one_of(7, 8, 12)
        data = {"type": "synthetic", "shape": [side, side, self.one_of(1, 3)], "classes": classes}
        return data, [*layers, {"linear": {"out": classes}}], "cross_entropy"

    def unet(self):
        self.is_normed_by_batch = self.random.random() < 0.4
        width, depth, classes = self.size(4, 8), self.one_of(1, 2), self.one_of(2, 3)
        layers = []

        def double(out, name):
            layers.append({"sequential": {"name": name, "layers": [self.conv(out), self.norm(out), "relu",
                                                                   self.conv(out), "relu"]}})
        for level in range(depth):
            double(width * 2**level, f"down{level}")
            layers.append({"maxpool2d": {"kernel": 2}})
        double(width * 2**depth, "bottom")
        for level in reversed(range(depth)):
            larger = self.one_of({"conv_transpose2d": {"out": width * 2**level, "kernel": 2, "stride": 2}},
                                 {"upsample": {"scale": 2, "mode": self.one_of("bilinear", "nearest")}})
            kind, arguments = next(iter(larger.items()))
            layers.append({kind: {**arguments, "name": f"larger{level}"}})
            layers.append({"concat": {"from": [f"down{level}", f"larger{level}"]}})
            double(width * 2**level, f"up{level}")
        side = self.one_of(8, 12)
        data = {"type": "synthetic", "shape": [side, side, 2], "classes": classes, "target_shape": [side, side]}
        head = {"conv2d": {"out": classes, "kernel": 1, "name": "head"}}
        return data, [*layers, head], self.one_of("cross_entropy", "dice")

    def gpt(self):
        heads, kv_heads = self.one_of((4, 4), (4, 2), (8, 4), (2, 2)) if self.step > 1 else self.one_of((3, 3), (2, 1))
        head_width = self.one_of(2, 4) * self.factor
        width = heads * head_width
        vocabulary = self.one_of(24, 23, 64, 1030)
        length = self.one_of(5, 6, 16)
        rotary = self.random.random() < 0.4
        layers = [{"embedding": {"num": vocabulary, "dim": width, "name": "wte"}}]
        if not rotary:
            layers.append({"position_embedding": {"length": length}})
        attention = {"heads": heads, "causal": True, **({"kv_heads": kv_heads} if kv_heads != heads else {}),
                     **({"rotary_base": 10000} if rotary else {})}
        norm = self.one_of("layernorm", "rmsnorm")
        for _ in range(self.random.randint(1, 4)):
            if self.random.random() < 0.5:
                mixed = [{"linear": {"out": (heads + 2 * kv_heads) * head_width}}, {"attention": attention}]
            else:
                mixed = [{"linear": {"out": count * head_width, "name": name, "from": "normed"}}
                         for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))]
                mixed.append({"attention": {**attention, "from": ["q", "k", "v"]}})
            layers.append({"residual": {"layers": [{norm: {"name": "normed"}}, *mixed, {"linear": {"out": width}}]}})
            layers.append(self.feed_forward(width, norm))
        is_tied = self.random.random() < 0.5
        tied = {"bias": False, "share": "wte"} if is_tied else {"bias": self.random.random() < 0.5}
        data = {"type": "synthetic", "sequence_length": length, "classes": vocabulary}
        if self.random.random() < 0.2:
            data["document_token"] = 3
        return data, [*layers, norm, {"linear": {"out": vocabulary, **tied}}], "cross_entropy"

    def drawn(self):
        shape = self.one_of([8, 8, 3], [7, 6, 2], [9])
        classes = self.one_of(3, 10)
        layers = NetworkMaker(self.random, smooth=True, smallest_batch=4).network(shape, classes)
        return {"type": "synthetic", "shape": shape, "classes": classes}, layers, "cross_entropy"


FAMILIES = ("mlp", "resnet", "unet", "gpt", "drawn")
CUT_FAMILIES = ("mlp", "mlp", "resnet", "gpt", "gpt", "gpt", "drawn")  # of which most have layers that ranks can share


def draw_ranks(random):
    """How many ranks share batches, the list of layers, and each layer."""
    while True:
        ranks = random.choice((1, 1, 2, 2, 3, 4)), random.choice((1, 1, 2, 2, 3, 4)), random.choice((1, 1, 2, 2, 4))
        if 1 < ranks[0] * ranks[1] * ranks[2] <= MOST_RANKS:
            return ranks


def maybe(random, probability, key, *choices):
    return {key: random.choice(choices)} if random.random() < probability else {}


def begins_of_parts(layers):
    """Paths of layers behind the first that compute something."""
    return [arguments.get("name", str(place)) for place, layer in enumerate(layers)
            if place > 0 and isinstance(layer, dict) for arguments in layer.values()]


def draw_parallel(random, data, pipeline, tensor, layers):
    parallel = {key: value for key, value in (("data", data), ("pipeline", pipeline), ("tensor", tensor)) if value > 1}
    if data > 1:
        parallel |= maybe(random, 0.7, "shard", *SHARDS)
    if pipeline > 1:
        parallel |= {"schedule": random.choice(SCHEDULES)} | maybe(random, 0.8, "micro_batches", 1, 2, 3, 4, 6)
        if parallel["schedule"] == "interleaved":
            parallel |= maybe(random, 0.4, "chunks", 2, 3)
        num_cuts = pipeline * (parallel.get("chunks", 2) if parallel["schedule"] == "interleaved" else 1) - 1
        begins = begins_of_parts(layers)
        if random.random() < 0.2 and num_cuts <= len(begins):
            parallel["cut"] = sorted(random.sample(begins, num_cuts), key=begins.index)
    else:
        parallel |= maybe(random, 0.2, "micro_batches", 2, 3)
        if has_batch_norms(layers) and data > 1 and "micro_batches" not in parallel:
            parallel |= maybe(random, 0.6, "sync_batchnorm", True)
    parallel |= maybe(random, 0.25, "overlap", False) | maybe(random, 0.4, "bucket_size", "4KiB", "64KiB")
    if parallel.get("shard") == "parameters":
        parallel |= maybe(random, 0.4, "prefetch", 2, 3)
    return parallel


def draw_memory(random, amp, optimizer, tensor, has_head):
    """`has_head`: a linear layer in front of cross entropy."""
    memory = maybe(random, 0.7, "allocator", "caching", "planned")
    if memory.get("allocator") == "caching":
        memory |= maybe(random, 0.15, "expandable_segments", True)
    if amp != "off":
        memory |= maybe(random, 0.25, "gradients", "16bit")
    if optimizer != "sgd" and tensor == 1:
        memory |= maybe(random, 0.12, "moments", "8bit")
    return memory | (maybe(random, 0.1, "in_place", False) | maybe(random, 0.15, "recompute_cheap", False)
                     | maybe(random, 0.1, "offload", ["*"])
                     | maybe(random, 0.2 if has_head else 0, "chunked_loss", 0, 2)
                     | maybe(random, 0.3, "preflight", False))


def draw_training(random, data, parallel):
    """`train`, and how many samples there are: batches that ranks do not divide evenly, and smaller last ones."""
    is_any = random.random() < 0.7
    batch = random.randint(data, 20) if is_any else data * parallel.get("micro_batches", 4) * random.randint(1, 2)
    accumulation = random.choice((1, 1, 1, 2, 3))
    train = {"batch_size": batch, "accumulation_steps": accumulation, "log_every": 1,
             "amp": random.choice(("off", "off", "off", "bf16", "fp16")),
             **maybe(random, 0.5, "checkpointing", "sqrt", {"every": 1}, {"every": 2}, "auto", {"layers": ["*"]}),
             **maybe(random, 0.35, "clip_norm", 0.1, 1), **maybe(random, 0.3, "eval_batch_size", 1, 3, 7)}
    if train["amp"] == "fp16":
        train["loss_scale"] = {"initial": random.choice((64, 1024))}
    train |= random.choice(({"epochs": 1}, {"steps": random.randint(2, 4)}, {"steps": 3, "eval_every": 2}))
    samples = batch * accumulation * random.randint(1, 2) + random.choice((0, 1, random.randint(0, batch - 1)))
    return train, {"samples": samples, "validation_samples": random.randint(1, 2 * batch),
                   **maybe(random, 0.15, "drop_last", True)}


def first_layer(layers):
    """The path of the first layer, of which all parameters are its own; None where it has none."""
    kind, arguments = next(iter(layers[0].items())) if isinstance(layers[0], dict) else (layers[0], {})
    return arguments.get("name", "0") if kind in ("linear", "conv2d", "embedding") else None


def draw_case(seed, number):
    random = random_numbers.Random(f"{seed}:{number}")
    data, pipeline, tensor = draw_ranks(random)
    is_uneven = random.random() < 0.15
    family = random.choice(FAMILIES if tensor == 1 else CUT_FAMILIES)
    networks = NetworkDraw(random, 1 if is_uneven else 4, 8 if random.random() < 0.2 else 1)
    data_section, layers, loss = getattr(networks, family)()
    parallel = draw_parallel(random, data, pipeline, tensor, layers)
    train, samples = draw_training(random, data, parallel)
    optimizers = [{"type": "sgd", "lr": 0.02, "momentum": 0.9}, {"type": "sgd", "lr": 0.02}]
    if not has_batch_norms(layers):
        # In front of batch norms biases have gradients of rounding alone: Adam makes steps of them, running means tell.
        optimizers += [{"type": "adamw", "lr": 0.002}, {"type": "adam", "lr": 0.002}]
    optimizer = random.choice(optimizers)
    has_head = loss == "cross_entropy" and family in ("mlp", "resnet", "gpt")
    config = {"seed": random.randint(0, 99), "device": {"type": "cpu", "threads": 1},
              "data": {**data_section, **samples}, "model": {"layers": layers}, "loss": loss, "optimizer": optimizer,
              "train": train, "memory": draw_memory(random, train["amp"], optimizer["type"], tensor, has_head),
              "parallel": parallel, **maybe(random, 0.25, "average", {"type": "ema", "decay": 0.9}, "swa"),
              **maybe(random, 0.2, "schedule", "cosine"), **maybe(random, 0.1, "freeze", [first_layer(layers)]),
              **maybe(random, 0.2, "checkpoint", {"every": 2}, {"sharded": True})}
    if config.get("freeze") == [None]:
        del config["freeze"]
    must_be_refused = random.random() < 0.06
    if must_be_refused:
        sizes = {"ranks": 2, "data": data, "pipeline": pipeline, "tensor": tensor,
                 "data and norms": data if has_batch_norms(layers) else 1}
        _, changes = random.choice([each for each in IMPOSSIBLE if sizes[each[0]] > 1])
        for section, keys in changes.items():
            config[section] = {**config[section], **keys}
    limit = random.choice((1.0, 0.99, 0.8)) if random.random() < 0.15 and not must_be_refused else None
    return Case(seed, number, family, config, limit, must_be_refused)
