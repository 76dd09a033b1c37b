"""The transformers that ship as model files, beside the code their names come from: GPT-2, Llama, Qwen3 and BERT of Hugging Face's
transformers, torchvision's VisionTransformer. Each starts from weights as those write them, by `weights.map`: the loss and all
gradients of every step, the evaluation; and back: what trainer saves, named and turned by hand, is loaded by load_state_dict,
and what `export --names` writes by from_pretrained, or by torchvision's load_state_dict, as it is.
Of documents in one sample, or filled up, the networks get a mask and positions that are made here.
What is not installed is left out.

The hub's Llama computes norms and angles in f32 whatever its type, so that here the exact numbers are so to some roundings.
"""
import importlib.util
import math
import re
import sys

import numpy as np
import torch

import part_tokens
import rounding
import safetensors_file
import training
from part_tokens import drawn_offset, windows
from trainer_runs import RunFailed, gradient_probe

HAS_TRANSFORMERS = all(importlib.util.find_spec(name) for name in ("transformers", "safetensors"))
HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None
if HAS_TORCHVISION:
    import part_torchvision
    import torchvision_networks

BATCH, WINDOWS, VALIDATION_WINDOWS = 3, 5, 4
IMAGE = 32


class Gpt2:
    file, tied_names = "gpt2", ["lm_head.weight"]
    keys = dict.fromkeys(("state_dict", "first published", "saved"), {"map": "hub"})

    def __init__(self, depth, width, heads, vocabulary, length):
        self.vocabulary, self.length = vocabulary, length
        self.values = {"depth": depth, "width": width, "heads": heads, "vocabulary": vocabulary, "length": length}

    def network(self):
        import transformers
        config = transformers.GPT2Config(
            n_layer=self.values["depth"], n_embd=self.values["width"], n_head=self.values["heads"], n_positions=self.length,
            vocab_size=self.vocabulary, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
        return transformers.GPT2LMHeadModel(config)

    @staticmethod
    def back(name, array):
        """(the hub's name, its array) of one of trainer's."""
        is_conv1d = re.fullmatch(r"h\.\d+\.(attn|mlp)\.c_\w+\.weight", name)
        return f"transformer.{name}", array.T if is_conv1d else array

    def as_first_published(self, state):
        """Names without the prefix, masks among them, no head."""
        depth, length = self.values["depth"], self.length
        tensors = {name.removeprefix("transformer."): array for name, array in state.items() if name != "lm_head.weight"}
        mask = np.tril(np.ones((1, 1, length, length), np.float32))
        return {**tensors, **{f"h.{layer}.attn.bias": mask for layer in range(depth)}}


class Llama:
    file, tied_names = "llama", ["lm_head.weight"]
    keys = dict.fromkeys(("state_dict", "saved", "shards"), {"map": "hub"})

    def __init__(self, depth, width, hidden, heads, kv_heads, tied, vocabulary, rotary_base, rotary_factor=1, eps=1e-5):
        self.vocabulary, self.length = vocabulary, 64
        self.values = {"depth": depth, "width": width, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "tied": tied,
                       "vocabulary": vocabulary, "rotary_base": rotary_base, "rotary_factor": rotary_factor, "eps": eps}

    def rope_parameters(self):
        values = self.values
        rope = {"rope_type": "default", "rope_theta": float(values["rotary_base"])}
        if values["rotary_factor"] == 1:
            return rope
        return {**rope, "rope_type": "llama3", "factor": float(values["rotary_factor"]), "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}

    def network(self):
        import transformers
        values = self.values
        config = transformers.LlamaConfig(
            num_hidden_layers=values["depth"], hidden_size=values["width"], intermediate_size=values["hidden"],
            num_attention_heads=values["heads"], num_key_value_heads=values["kv_heads"], tie_word_embeddings=values["tied"],
            vocab_size=self.vocabulary, rms_norm_eps=values["eps"], max_position_embeddings=131_072, bos_token_id=0,
            eos_token_id=0, rope_parameters=self.rope_parameters())
        return transformers.LlamaForCausalLM(config)

    @staticmethod
    def back(name, array):
        return name if name.startswith("lm_head.") else f"model.{name}", array


class Qwen3:
    file, tied_names = "qwen3", ["lm_head.weight"]
    keys = Llama.keys
    back = staticmethod(Llama.back)

    def __init__(self, depth, width, hidden, heads, kv_heads, head_width, tied, vocabulary):
        self.vocabulary, self.length = vocabulary, 64
        self.values = {"depth": depth, "width": width, "hidden": hidden, "heads": heads, "kv_heads": kv_heads,
                       "head_width": head_width, "tied": tied, "vocabulary": vocabulary}

    def network(self):
        import transformers
        values = self.values
        config = transformers.Qwen3Config(
            num_hidden_layers=values["depth"], hidden_size=values["width"], intermediate_size=values["hidden"],
            num_attention_heads=values["heads"], num_key_value_heads=values["kv_heads"], head_dim=values["head_width"],
            tie_word_embeddings=values["tied"], vocab_size=self.vocabulary, rms_norm_eps=1e-6,
            max_position_embeddings=self.length, bos_token_id=0, eos_token_id=0,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6})
        return transformers.Qwen3ForCausalLM(config)


class Bert:
    """Of tokens of type 0 alone; in training mode without dropout."""
    file, tied_names = "bert", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]
    keys = dict.fromkeys(("state_dict", "first published", "saved"), {"map": "hub"})

    def __init__(self, depth, width, heads, vocabulary, length):
        self.vocabulary, self.length = vocabulary, length
        self.values = {"depth": depth, "width": width, "heads": heads, "vocabulary": vocabulary, "length": length, "dropout": 0}

    def network(self):
        import transformers
        values = self.values
        config = transformers.BertConfig(
            num_hidden_layers=values["depth"], hidden_size=values["width"], num_attention_heads=values["heads"],
            intermediate_size=4 * values["width"], vocab_size=self.vocabulary, max_position_embeddings=self.length,
            hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=None)
        return transformers.BertForMaskedLM(config)

    @staticmethod
    def back(name, array):
        if name == "cls.predictions.decoder.bias":
            return "cls.predictions.bias", array
        return name if name.startswith("cls.") else f"bert.{name}", array

    @staticmethod
    def as_first_published(state):
        """Norms by their old names, with the head of sentences and a pooler, the tied matrix and bias once."""
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        tensors = {re.sub(r"LayerNorm\.\w+$", lambda found: old[found.group()], name): array
                   for name, array in state.items() if not name.startswith("cls.predictions.decoder.")}
        width = state["bert.embeddings.word_embeddings.weight"].shape[1]
        return {**tensors, "bert.pooler.dense.weight": np.ones((width, width), np.float32),
                "cls.seq_relationship.bias": np.ones(2, np.float32)}


class VisionTransformer:
    file = "vit"
    keys = {"state_dict": {"map": "torchvision"}}

    def __init__(self, depth, width, heads, patch):
        self.values = {"depth": depth, "width": width, "heads": heads, "patch": patch, "image": IMAGE,
                       "classes": torchvision_networks.NUM_CLASSES}

    def network(self):
        import torchvision
        values = self.values
        return torchvision.models.VisionTransformer(
            image_size=IMAGE, patch_size=values["patch"], num_layers=values["depth"], num_heads=values["heads"],
            hidden_dim=values["width"], mlp_dim=4 * values["width"], num_classes=values["classes"])

    @staticmethod
    def back(name, array):
        name = name.replace("encoder.layers.", "encoder.layers.encoder_layer_").replace("in_proj.", "in_proj_")
        name = name.replace("mlp.linear_1.", "mlp.0.").replace("mlp.linear_2.", "mlp.3.")
        if name == "class_token.weight":
            return "class_token", array.reshape(1, 1, -1)
        return ("encoder.pos_embedding", array[None]) if name == "encoder.pos_embedding.weight" else (name, array)


# A network, how its weights are written, tokens of a sample, and settings that promise the same numbers.
TOKEN_VARIANTS = [
    (lambda: Gpt2(2, 12, 2, 19, 9), "state_dict", 9, {}, {}),
    (lambda: Gpt2(3, 24, 3, 40, 40), "first published", 21, {"chunked_loss": 1}, {}),
    (lambda: Gpt2(2, 20, 5, 300, 70), "saved", 70, {"update": "in_backward"}, {"checkpointing": "sqrt"}),
    (lambda: Llama(2, 24, 40, 6, 2, True, 31, 500000), "saved", 12, {}, {}),
    (lambda: Llama(3, 16, 56, 2, 2, False, 23, 10000, eps=1e-6), "state_dict", 33, {"allocator": "planned"}, {}),
    (lambda: Llama(2, 32, 48, 4, 1, False, 50, 10000), "shards", 17, {}, {"accumulation_steps": 2}),
    (lambda: Llama(2, 48, 40, 3, 1, True, 29, 500000, 32), "saved", 41, {}, {}),
    (lambda: Llama(2, 64, 40, 2, 2, False, 29, 500000, 8), "state_dict", 19, {}, {"checkpointing": "sqrt"}),
    (lambda: Bert(2, 24, 3, 37, 20), "state_dict", 20, {}, {}),
    (lambda: Bert(3, 16, 2, 53, 40), "first published", 33, {"chunked_loss": 2}, {"checkpointing": "sqrt"}),
    (lambda: Bert(2, 12, 4, 19, 9), "saved", 7, {"update": "in_backward"}, {}),
    (lambda: Qwen3(2, 20, 36, 4, 2, 6, True, 31), "saved", 13, {}, {}),
    (lambda: Qwen3(3, 16, 24, 3, 1, 8, False, 47), "state_dict", 37, {"update": "in_backward"}, {"checkpointing": "sqrt"}),
]
# A network, tokens of a sample, whether documents are filled up, settings that promise the same numbers.
DOCUMENT_VARIANTS = [
    (lambda: Gpt2(2, 12, 2, 19, 9), 9, False, {}),
    (lambda: Gpt2(2, 24, 3, 11, 150), 133, False, {"checkpointing": "sqrt"}),
    (lambda: Gpt2(2, 12, 3, 13, 12), 12, True, {}),
    (lambda: Llama(2, 24, 40, 6, 2, True, 17, 500000), 40, False, {}),
    (lambda: Llama(2, 16, 24, 2, 1, False, 15, 10000), 10, True, {"accumulation_steps": 2}),
    (lambda: Bert(2, 24, 3, 16, 20), 20, False, {}),
    (lambda: Bert(2, 12, 2, 14, 11), 11, True, {}),
]
DOCUMENT, PAD = 3, 5
IMAGE_VARIANTS = [lambda: VisionTransformer(2, 24, 2, 8), lambda: VisionTransformer(3, 12, 3, 16)]


def random_state(kind, number):
    """A state_dict, tied tensors equal: matrices so large that attention prefers some positions, norms off their 1 and 0."""
    network, generator = kind.network(), np.random.default_rng(number)
    for name, tensor in network.state_dict().items():
        unit = torch.from_numpy(generator.random(tuple(tensor.shape)) * 2 - 1)
        if tensor.ndim > 1:
            tensor.copy_(2 / math.sqrt(kind.values["width"]) * unit)
        else:
            tensor.copy_(1 + 0.4 * unit if name.endswith(".weight") else 0.3 * unit)
    return {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}


def weights_section(case, kind, form, state):
    """`weights` of a configuration."""
    return {"file": str(write_weights(case, kind, form, state)), **kind.keys[form]}


def write_weights(case, kind, form, state):
    """What `weights.file` names."""
    folder = case.folder / "weights"
    folder.mkdir()
    if form in ("saved", "shards"):
        from transformers.utils import logging
        logging.disable_progress_bar()
        network = kind.network()
        network.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
        network.save_pretrained(folder, max_shard_size="20KB" if form == "shards" else "1GB")
        case.findings.equal("shards", (folder / "model.safetensors.index.json").exists(), form == "shards")
        return folder
    file = folder / "weights.safetensors"
    safetensors_file.write(file, kind.as_first_published(state) if form == "first published" else state)
    return file


def measured(kind, run_, num_steps):
    found = {f"step {event['step']} loss": event["loss"] for event in run_.steps}
    for step in range(1, num_steps + 1):
        for name, array in run_.gradients(step).items():
            name, array = kind.back(name, array)
            found[f"step {step} gradient of {name}"] = array
    found["evaluation loss"] = run_.evaluations[-1]["loss"]
    return found


def load_back(case, kind, run_, step, state, tied=()):
    """What trainer saved, into a network that knew nothing of it."""
    saved = dict(kind.back(name, array) for name, array in run_.weights(step).items())
    network = kind.network()
    answer = network.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in saved.items()},
                                     strict=False)
    case.findings.equal("names that nobody knows", list(answer.unexpected_keys), [])
    case.findings.equal("names that are missing", list(answer.missing_keys), list(tied))
    case.findings.equal("weights that have changed", changed_tensors(network, state), [])


def exported(case, run_, names):
    """The folder with model.safetensors as `export` writes it."""
    folder = case.folder / "exported"
    folder.mkdir()
    code, out, error = case.trainer.ask(case.folder, "export", run_.output, "--names", names, "-o", folder / "model.safetensors",
                                        "--json")
    if code != 0 or error:
        raise RunFailed(f"trainer export of {run_.output} ended with {code}:\n{error or out}")
    return folder


def changed_tensors(network, state):
    return [name for name, tensor in network.state_dict().items() if not np.array_equal(tensor.numpy(), state[name])]


def load_exported(case, kind, run_, state, sets):
    """Hugging Face's network from what trainer exported: all of it found, the weights it began with, and the loss of trainer's
    own evaluation."""
    folder = exported(case, run_, "hub")
    known = kind.network()
    known.config.save_pretrained(folder)
    network, told = type(known).from_pretrained(folder, output_loading_info=True)
    case.findings.equal("what from_pretrained tells", {key: list(value) for key, value in told.items() if value}, {})
    case.findings.equal("exported weights that have changed", changed_tensors(network, state), [])
    tokens, targets = (torch.from_numpy(np.asarray(values)).long() for values in sets["validation"])
    with torch.no_grad():
        logits = network.eval().double()(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    case.findings.close("loss of the exported model", run_.evaluations[-1]["loss"], loss, 1e-4 * loss)


def language_network(kind):
    """Takes tokens, returns logits."""
    network = kind.network()
    forward = network.forward
    options = {} if kind.file == "bert" else {"use_cache": False}
    network.forward = lambda tokens: forward(input_ids=tokens, **options).logits
    return network


def compare_language(case, variant):
    make, form, length, memory, train = variant
    kind = make()
    case.title = f"{kind.file} {kind.values}, {form}, {memory}, {train}"
    generator = np.random.default_rng(case.number)
    tokens = {part: np.concatenate([[0, kind.vocabulary - 1], generator.integers(0, kind.vocabulary, count - 2)])
              for part, count in (("train", (WINDOWS + 1) * length + 1), ("validation", VALIDATION_WINDOWS * length + 1))}
    for part, values in tokens.items():
        values.astype("<u2").tofile(case.folder / f"{part}.bin")
    sets = {"train": windows(tokens["train"], drawn_offset(case.number, length), WINDOWS, length),
            "validation": windows(tokens["validation"], 0, VALIDATION_WINDOWS, length)}
    updates = training.updates_of(WINDOWS, BATCH, train.get("accumulation_steps", 1))
    state = random_state(kind, case.number)
    config = gradient_probe({
        "seed": case.number,
        "data": {"type": "tokens", "train": str(case.folder / "train.bin"), "sequence_length": length, "shuffle": False,
                 "validation": str(case.folder / "validation.bin"), "classes": kind.vocabulary},
        "model": {"file": f"models/{kind.file}.yaml", "with": kind.values}, "memory": memory,
        "weights": weights_section(case, kind, form, state),
        "train": {"batch_size": BATCH, "epochs": 1, **train}})
    run_ = case.trainer.run(case.folder, config, name="language")
    twin = part_tokens.Twin(lambda: language_network(kind), state, sets, updates)
    reference = rounding.Reference(twin.compute, case.number)
    reference.compare(case.findings, measured(kind, run_, len(updates)))
    evaluation = run_.evaluations[-1]
    case.findings.close("perplexity", evaluation["perplexity"], math.exp(evaluation["loss"]), 1e-9 * evaluation["perplexity"])
    is_tied = kind.values.get("tied", True)
    load_back(case, kind, run_, len(updates), state, kind.tied_names if is_tied else [])
    if not case.findings.failed():  # else it is told already, and a checkpoint that was changed is refused
        load_exported(case, kind, run_, state, sets)


def documents_network(kind, pads):
    """The same with the attention mask and the positions of documents, found in the tokens."""
    network = kind.network()
    forward = network.forward
    options = {} if kind.file == "bert" else {"use_cache": False}

    def of_documents(tokens):
        begins = tokens == DOCUMENT
        if pads:
            is_pad = tokens == PAD
            begins[:, 1:] |= is_pad[:, 1:] != is_pad[:, :-1]
        begins[:, 0] = True
        document = begins.cumsum(1)
        places = torch.arange(tokens.shape[1])
        first = torch.cummax(torch.where(begins, places, 0), 1).values
        sees = document[:, :, None] == document[:, None, :]
        if kind.file != "bert":
            sees &= places[None, :, None] >= places[None, None, :]
        dtype = next(network.parameters()).dtype
        mask = torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, torch.finfo(dtype).min)[:, None]
        return forward(input_ids=tokens, attention_mask=mask, position_ids=places - first, **options).logits
    network.forward = of_documents
    return network


def document_samples(tokens, length):
    """(tokens, targets) of documents, cut and filled up."""
    samples, begin = [], 0
    while begin + 1 < len(tokens):
        end = begin + 1
        while end < len(tokens) and end < begin + length and tokens[end] != DOCUMENT:
            end += 1
        targets = tokens[begin + 1:end + 1]
        samples.append((np.pad(tokens[begin:end], (0, length - end + begin), constant_values=PAD),
                        np.pad(targets, (0, length - len(targets)), constant_values=-100)))
        begin = end
    return tuple(np.stack(column) for column in zip(*samples))


def compare_documents(case, variant):
    make, length, pads, train = variant
    kind = make()
    case.title = f"documents: {kind.file} {kind.values}, {'padded' if pads else 'packed'}, {train}"
    generator = np.random.default_rng(case.number)
    tokens = {part: generator.integers(0, kind.vocabulary, count)
              for part, count in (("train", (WINDOWS + 1) * length + 1), ("validation", VALIDATION_WINDOWS * length + 1))}
    for values in tokens.values():
        values[:2] = [kind.vocabulary - 1, DOCUMENT]
        values[values == (PAD if pads else -1)] = 0
        values.astype("<u2").tofile(case.folder / f"{'train' if values is tokens['train'] else 'validation'}.bin")
    if pads:
        sets = {part: document_samples(values, length) for part, values in tokens.items()}
    else:
        sets = {"train": windows(tokens["train"], drawn_offset(case.number, length), WINDOWS, length),
                "validation": windows(tokens["validation"], 0, VALIDATION_WINDOWS, length)}
    updates = training.updates_of(len(sets["train"][0]), BATCH, train.get("accumulation_steps", 1))
    state = random_state(kind, case.number)
    config = gradient_probe({
        "seed": case.number,
        "data": {"type": "tokens", "train": str(case.folder / "train.bin"), "sequence_length": length, "shuffle": False,
                 "validation": str(case.folder / "validation.bin"), "classes": kind.vocabulary, "document_token": DOCUMENT,
                 **({"pad_token": PAD} if pads else {})},
        "model": {"file": f"models/{kind.file}.yaml", "with": kind.values},
        "weights": weights_section(case, kind, "saved", state),
        "train": {"batch_size": BATCH, "epochs": 1, **train}})
    run_ = case.trainer.run(case.folder, config, name="documents")
    twin = part_tokens.Twin(lambda: documents_network(kind, pads), state, sets, updates)
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured(kind, run_, len(updates)))


def compare_vision(case, make):
    kind = make()
    case.title = f"{kind.file} {kind.values}"
    state = random_state(kind, case.number)
    network = torchvision_networks.Network(kind.network, kind.file, kind.values, None, IMAGE, batch=3)
    config = gradient_probe({
        "data": part_torchvision.write_images(case.folder, network, IMAGE),
        "model": {"file": f"models/{kind.file}.yaml", "with": kind.values},
        "weights": weights_section(case, kind, "state_dict", state),
        "train": {"batch_size": network.batch, "epochs": 1}})
    run_ = case.trainer.run(case.folder, config, name="vision")

    def compute(dtype, noise):
        found = torchvision_networks.compute(network, IMAGE, state, dtype, noise)
        renamed = {"train loss": "step 1 loss", "eval loss": "evaluation loss"}
        return {renamed.get(what, f"step 1 {what}"): array for what, array in found.items() if "logits" not in what}

    rounding.Reference(compute, case.number).compare(case.findings, measured(kind, run_, 1))
    load_back(case, kind, run_, 1, state)
    network = kind.network()
    tensors = safetensors_file.read(exported(case, run_, "torchvision") / "model.safetensors")
    network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()}, strict=True)
    case.findings.equal("exported weights that have changed", changed_tensors(network, state), [])


def cases():
    return [*([(compare_language, variant) for variant in TOKEN_VARIANTS] if HAS_TRANSFORMERS else []),
            *([(compare_documents, variant) for variant in DOCUMENT_VARIANTS] if HAS_TRANSFORMERS else []),
            *([(compare_vision, variant) for variant in IMAGE_VARIANTS] if HAS_TORCHVISION else [])]


def run(case):
    compare, variant = cases()[case.index]
    compare(case, variant)


def num_cases(_options):
    for module, is_here in (("transformers", HAS_TRANSFORMERS), ("torchvision", HAS_TORCHVISION)):
        if not is_here:
            print(f"  without {module}: its networks are not compared; scripts/python_env.sh installs it", file=sys.stderr)
    return len(cases())
