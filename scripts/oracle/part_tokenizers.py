"""Tokenizers: ids, vocabularies and merges against `tokenizers` and tiktoken, both ways. Needs both; without them there
is no case.
"""
import importlib.util
import json
import unicodedata

import text_samples

HAS_TOKENIZERS = all(importlib.util.find_spec(name) for name in ("tokenizers", "tiktoken"))
if HAS_TOKENIZERS:
    import tiktoken
    import tokenizers
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
# What others than the two are cut by: those of GPT-4o, DeepSeek V3 and StarCoder, and what their parts mean.
OTHERS = {
    "GPT-4o": [r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "DeepSeek": [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
                 r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "lines": [r"^.*$"], "line ends": [r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"], "digits": [r"\d+", GPT2], "empty matches": [r"x*"],
    "cases": [r"(?i)straße|the|[k-s]+"],
}


def special_tokens(count):
    return ["<|endoftext|>", "<|begin|>", "<|end|>", "<pad>"][:count]


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def splits(*expressions):
    steps = [pre_tokenizers.Split(Regex(each), "isolated") for each in expressions]
    return pre_tokenizers.Sequence([*steps, byte_level(False)])


def pre_tokenizer(name):
    return {"gpt2": lambda: byte_level(True), "llama3": lambda: splits(LLAMA3),
            "StarCoder": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
            "dots": lambda: pre_tokenizers.Sequence([pre_tokenizers.Split(". ", "isolated"), byte_level(True)]),
            }.get(name, lambda: splits(*OTHERS[name]))()


def trained(name, text, size, specials=(), model=None):
    tokenizer = tokenizers.Tokenizer(model or models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer(name), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def written(case, name, text):
    file = case.folder / name
    file.write_bytes(text.encode())
    return file.name


def encoded(case, tokenizer, file, *words):
    """The ids that trainer writes for a file, and what it tells of them."""
    found = case.trainer.encoded(case.folder, tokenizer, file, *words)
    told, ids = found["told"], found["ids"].tolist()
    kind = {16: [20240520, 1], 32: [20240801, 7]}[told["bits"]]
    case.findings.equal("header", found["header"].tolist(), [*kind, len(ids)] + [0] * 253)
    case.findings.equal("tokens told", told["tokens"], len(ids))
    return ids, told


def compare_ids(case, what, measured, tokenizer, text):
    """`tokenizer` finds special tokens or takes them as text, as it is set."""
    expected = tokenizer.encode(text, add_special_tokens=False).ids
    shorter = min(len(measured), len(expected))
    first = next((i for i in range(shorter) if measured[i] != expected[i]), shorter)
    there = slice(first, first + 8)
    case.findings.holds(what, measured == expected,
                        f"{len(measured)} ids, expected {len(expected)}; from {first}: {measured[there]}, expected "
                        f"{expected[there]}, which is {tokenizer.decode(expected[there])!r}")


def sizes(case, large):
    return large // (10 if case.options.short else 1)


def seeded(case, text, specials):
    """The text with special tokens here and there."""
    for token in specials:
        at = case.random.randrange(len(text))
        text = text[:at] + token + text[at:]
    return text + "".join(specials)


def load_theirs(case, variant):
    """Tokenizers that `tokenizers` has trained, read and used by trainer."""
    name, kind, size, num_special = variant
    specials = special_tokens(num_special)
    tokenizer = trained(name, text_samples.mixed(case.random, sizes(case, 300_000)), size, specials)
    tokenizer.save(str(case.folder / "tokenizer.json"))
    text = seeded(case, text_samples.KINDS[kind](case.random, sizes(case, 1_000_000)), specials)
    file = written(case, "text", text)
    ids, _ = encoded(case, "tokenizer.json", file, "--special")
    compare_ids(case, "ids", ids, tokenizer, text)
    tokenizer.encode_special_tokens = True
    ids, told = encoded(case, "tokenizer.json", file)
    compare_ids(case, "ids of special tokens as text", ids, tokenizer, text)
    case.findings.equal("distinct tokens", told["distinct_tokens"], len(set(ids)))


def many_tokens(case, size):
    """More than 16 bits tell apart."""
    text = text_samples.letters(case.random, 1_000_000, "abcdefghijklmnopqrstuvwxyz")
    tokenizer = trained("gpt2", text, size)
    tokenizer.save(str(case.folder / "tokenizer.json"))
    text = text[:sizes(case, 500_000)] + text_samples.mixed(case.random, 10_000)
    ids, told = encoded(case, "tokenizer.json", written(case, "text", text))
    case.findings.equal("bits", told["bits"], 32)
    compare_ids(case, "ids", ids, tokenizer, text)


def any_merges(case, variant):
    """Merges in an order that no training gives, with `ignore_merges` or without, as pairs or as lines."""
    ignores, as_lines = variant
    tokenizer = trained("gpt2", text_samples.mixed(case.random, 50_000), 1500)
    state = json.loads(tokenizer.to_str())
    case.random.shuffle(state["model"]["merges"])
    state["model"]["ignore_merges"] = ignores
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(state))
    if as_lines:
        state["model"]["merges"] = [" ".join(pair) for pair in state["model"]["merges"]]
    (case.folder / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    for kind in text_samples.KINDS:
        text = text_samples.KINDS[kind](case.random, sizes(case, 100_000))
        ids, _ = encoded(case, "tokenizer.json", written(case, kind, text))
        compare_ids(case, kind, ids, tokenizer, text)


def vocabulary_and_merges(case, variant):
    """vocab.json and merges.txt, as `tokenizers` writes them."""
    tokenizer = trained("gpt2", text_samples.mixed(case.random, 50_000), variant)
    (case.folder / "hub").mkdir()
    tokenizer.model.save(str(case.folder / "hub"))
    text = text_samples.mixed(case.random, sizes(case, 200_000))
    for path in ("hub", "hub/vocab.json"):
        ids, _ = encoded(case, path, written(case, "text", text))
        compare_ids(case, path, ids, tokenizer, text)


def added_tokens(case, _variant):
    """Tokens that are found everywhere, some with normalization, which leave blanks and parts of words to others."""
    tokenizer = trained("gpt2", text_samples.english(case.random, 30_000), 600)
    plain = [tokenizers.AddedToken(content, normalized=normalized, special=False)
             for content, normalized in (("  ", False), ("the", True), ("th", False), ("\t\t", True), ("ing gr", True),
                                         ("<tool>", False), ("→", True))]
    tokenizer.add_tokens(plain)
    tokenizer.add_special_tokens(["<s>", "<s><s>", " </s>"])
    tokenizer.save(str(case.folder / "tokenizer.json"))
    text = text_samples.mixed(case.random, sizes(case, 200_000))
    text = seeded(case, text, ["<s>", "<s><s>", "<s><s><s>", " </s>", "<tool>"])
    file = written(case, "text", text)
    compare_ids(case, "ids", encoded(case, "tokenizer.json", file, "--special")[0], tokenizer, text)
    tokenizer.encode_special_tokens = True
    compare_ids(case, "special tokens as text", encoded(case, "tokenizer.json", file)[0], tokenizer, text)


def composed(case, kind):
    """Texts that are brought to form C first, as Qwen's, with tokens that are found before that and after."""
    tokenizer = trained("llama3", unicodedata.normalize("NFC", text_samples.mixed(case.random, 100_000)), 2000)
    tokenizer.normalizer = normalizers.NFC() if kind == "alone" else normalizers.Sequence([normalizers.NFC()])
    tokenizer.add_tokens([tokenizers.AddedToken("o\u0301", normalized=False, special=False),
                          tokenizers.AddedToken("e\u0301", normalized=True, special=False)])
    tokenizer.save(str(case.folder / "tokenizer.json"))
    text = unicodedata.normalize("NFD", text_samples.mixed(case.random, sizes(case, 200_000)))
    marks = "\u0301\u0323\u0308\u0328\u1161\u11ab\u212b\u0958\u093c\u3099"
    letters = list(text)
    for _ in range(len(text) // 20):
        letters.insert(case.random.randrange(len(letters)), case.random.choice(marks))
    compare_ids(case, "ids", encoded(case, "tokenizer.json", written(case, "text", "".join(letters)))[0], tokenizer,
                "".join(letters))


def ranks_of(tokenizer):
    """Ranks by bytes, as tiktoken wants them, of a tokenizer without special tokens: its ids in their order."""
    characters = {}
    byte, spare = 0, 0x100
    for byte in range(256):
        shown = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte
        characters[chr(byte if shown else spare)] = byte
        spare += not shown
    return {bytes(characters[letter] for letter in token): number for token, number in tokenizer.get_vocab().items()}


def by_tiktoken(case, variant):
    name, kind = variant
    tokenizer = trained(name, text_samples.mixed(case.random, sizes(case, 300_000)), 3000)
    tokenizer.save(str(case.folder / "tokenizer.json"))
    encoding = tiktoken.Encoding("trained", pat_str={"gpt2": GPT2, "llama3": LLAMA3}[name],
                                 mergeable_ranks=ranks_of(tokenizer), special_tokens={})
    text = text_samples.KINDS[kind](case.random, sizes(case, 300_000))
    ids, _ = encoded(case, "tokenizer.json", written(case, "text", text))
    expected = encoding.encode_ordinary(text)
    # tiktoken merges whatever gives a token, `tokenizers` and trainer only pairs that were merged in training.
    differ = [piece for piece in sorted(set(encoding.decode_with_offsets(expected)[0].split()))
              if encoding.encode_ordinary(piece) != tokenizer.encode(piece).ids] if ids != expected else []
    case.findings.holds("ids", ids == expected, f"{len(ids)} ids, expected {len(expected)}; words that differ: {differ[:5]}")


def merges_of(model):
    return [tuple(pair) if isinstance(pair, list) else tuple(pair.split(" ")) for pair in model["merges"]]


def learned(case, variant):
    """What trainer learns against what `tokenizers` learns, and the file against both readers."""
    name, kind, size, num_special, num_files = variant
    specials = special_tokens(num_special)
    texts = [text_samples.KINDS[kind](case.random, sizes(case, 300_000) // num_files) for _ in range(num_files)]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer(name), decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    files = [written(case, f"text{number}", text) for number, text in enumerate(texts)]
    words = [word for token in specials for word in ("--special", token)]
    found = case.trainer.learned(case.folder, files, "--vocab", size, "--pattern", name, *words)
    ours, theirs = found["file"], json.loads(tokenizer.to_str())
    case.findings.equal("vocabulary", ours["model"]["vocab"], theirs["model"]["vocab"])
    case.findings.equal("merges", merges_of(ours["model"]), merges_of(theirs["model"]))
    for key in ("added_tokens", "pre_tokenizer", "normalizer"):
        case.findings.equal(key, ours[key], theirs[key])
    case.findings.equal("vocabulary told", found["told"]["vocabulary"], len(theirs["model"]["vocab"]))
    loaded = tokenizers.Tokenizer.from_file(str(case.folder / "ours.json"))
    text = seeded(case, text_samples.mixed(case.random, sizes(case, 200_000)), specials)
    ids, _ = encoded(case, "ours.json", written(case, "text", text), "--special")
    compare_ids(case, "ids by the file", ids, loaded, text)
    case.findings.equal("the text again", loaded.decode(ids, skip_special_tokens=False), text)


VARIANTS = []
if HAS_TOKENIZERS:
    VARIANTS += [(load_theirs, (name, kind, 4000, 2)) for name in ("gpt2", "llama3") for kind in text_samples.KINDS]
    VARIANTS += [(load_theirs, (name, "mixed", 1000, 0)) for name in ("StarCoder", "dots", *OTHERS)]
    VARIANTS += [(many_tokens, 70_000)]
    VARIANTS += [(any_merges, (ignores, as_lines)) for ignores in (False, True) for as_lines in (False, True)]
    VARIANTS += [(vocabulary_and_merges, 700), (added_tokens, "some"), (composed, "alone"), (composed, "in a list")]
    VARIANTS += [(by_tiktoken, (name, kind)) for name in ("gpt2", "llama3") for kind in text_samples.KINDS]
    VARIANTS += [(learned, (name, kind, size, num_special, num_files))
                 for name, kind, size, num_special, num_files in (
                     ("gpt2", "mixed", 5000, 1, 1), ("llama3", "mixed", 3000, 4, 3), ("gpt2", "letters", 600, 0, 1),
                     ("gpt2", "letters", 100_000, 0, 2), ("llama3", "letters", 1200, 2, 1), ("gpt2", "English", 800, 0, 1),
                     ("llama3", "English", 256, 0, 1), ("gpt2", "unbroken", 300, 3, 1))]


def run(case):
    function, variant = VARIANTS[case.index]
    case.title = f"{function.__name__}, {variant}"
    function(case, variant)


def num_cases(_options):
    return len(VARIANTS)
