"""Everything that trainer prints for programs is as configs/events.schema.json says, and all that it says is printed."""

import functools
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import interpreters

try:
    import jsonschema
except ImportError:
    interpreters.go_on_as_system()
    raise

TRAINER = pathlib.Path(os.environ["TRAINER"]).resolve()
SCHEMA = json.loads((REPOSITORY / "configs/events.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EVENTS = [choice["$ref"].removeprefix("#/$defs/") for choice in SCHEMA["oneOf"]]

# What no run on a CPU can show.
UNSEEN = {
    ("oom", "other_processes", "[]"), ("oom", "other_processes", "[]", "pid"),
    ("oom", "other_processes", "[]", "name"), ("oom", "other_processes", "[]", "bytes"),
    *(("doctor", "devices", "[]", name) for name in
      ("index", "compute_capability", "sm_clock", "memory_clock", "used_counts", "notes", "problem", "cudnn_properties",
       "outside_allocator", "processes")),
    *(("doctor", "devices", "[]", "processes", "[]", name) for name in ("pid", "name", "bytes")),
    ("summary", "frozen", "[]", "shares"),  # of a frozen network that shares layers: as of those that are trained
    ("step", "mfu"),  # where the device's peak is known: of a GPU, or of a CPU that `trainer bench` has measured
}


@functools.lru_cache(maxsize=None)
def validator_of(definition):
    return jsonschema.Draft202012Validator({**SCHEMA["$defs"][definition], "$defs": SCHEMA["$defs"]})


def definitions_of(event):
    """Those of events of its name: commands tell several under one."""
    return [name for name in EVENTS if SCHEMA["$defs"][name]["properties"]["event"]["const"] == event["event"]]


def definition_of(event):
    return next((name for name in definitions_of(event) if validator_of(name).is_valid(event)), None)


def resolved(schema):
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    for choice in schema.get("anyOf", []):
        if choice.get("type") != "null":
            return resolved(choice)
    return schema


def described(schema, path):
    """The paths of all fields that the schema names."""
    schema = resolved(schema)
    for key, value in schema.get("properties", {}).items():
        yield (*path, key)
        yield from described(value, (*path, key))
    if "items" in schema:
        yield from described(schema["items"], (*path, "[]"))


def shown(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from shown(inner, (*path, key))
    if isinstance(value, list):
        for inner in value:
            yield from shown(inner, (*path, "[]"))


class EventsSchema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-schema-"))
        (cls.folder / "configs").symlink_to(REPOSITORY / "configs")
        (cls.folder / "tests").symlink_to(REPOSITORY / "tests")
        cls.environment = {**os.environ, "XDG_CACHE_HOME": str(cls.folder / "cache")}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def events_of(self, words, exit_code, largest_file=resource.RLIM_INFINITY):
        done = subprocess.run([TRAINER, *words.split(), "--json"], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=300,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, ) * 2))
        self.assertEqual(done.returncode, exit_code, f"{words}\n{done.stdout[-2000:]}{done.stderr}")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(events)
        for event in events:
            problems = [f"{name}: {'.'.join(map(str, error.absolute_path))}: {error.message}"
                        for name in definitions_of(event) for error in validator_of(name).iter_errors(event)]
            self.assertIsNotNone(definition_of(event), f"{words}: {problems}: {json.dumps(event)[:2000]}")
            VALIDATOR.validate(event)
        return events

    def test_it_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_a_field_that_is_not_described_or_of_another_type_is_found(self):
        event = self.events_of("run configs/quickstart.yaml train.steps=1 output=runs/one", 0)[0]
        self.assertTrue(VALIDATOR.is_valid(event))
        self.assertFalse(VALIDATOR.is_valid({**event, "surplus": 1}))
        self.assertFalse(VALIDATOR.is_valid({**event, "parameters": "many"}))
        self.assertFalse(VALIDATOR.is_valid({key: event[key] for key in event if key != "device"}))

    def test_all_that_is_printed_is_described_and_all_that_is_described_is_printed(self):
        quick, features = "configs/quickstart.yaml", REPOSITORY / "tests/golden/features/config.yaml"
        events = []
        # Plans of this data tell from here on how fast it is read.
        subprocess.run([TRAINER, "bench", quick, "--data", "--seconds", "0.1"], cwd=self.folder, env=self.environment,
                       check=True, stdout=subprocess.DEVNULL)
        (self.folder / "tokens.bin").write_bytes(bytes(range(10)) * 40)
        (self.folder / "tokens.yaml").write_text(
            "data: {type: tokens, train: tokens.bin, split: 0.2, sequence_length: 8, classes: 2500}\n"
            "model: {layers: [embedding: {num: 2500, dim: 4}, linear: {out: 2500}]}\n", encoding="utf-8")
        (self.folder / "text.txt").write_text("The cat sat on the mat. " * 60, encoding="utf-8")
        (self.folder / "text.yaml").write_text(
            "data: {type: text, train: text.txt, split: 0.2, sequence_length: 8}\nmodel:\n  file: models/gpt2.yaml\n"
            "  with: {depth: 1, width: 8, heads: 2, vocabulary: 256, length: 16}\n", encoding="utf-8")
        (self.folder / "table.csv").write_text(
            "age,town,rooms,kind,price,size\n20,york,2,a,1,2\n31.5,bath,,b,2,4\n-4,york,3,,3,6\n,hull,5,a,4,1\n7,bath,1,b,5,3\n"
            "60,york,4,a,6,5\n", encoding="utf-8")
        (self.folder / "table.yaml").write_text(
            "seed: 5\ndata: {type: csv, train: table.csv, target: [price, size], target_type: numeric, split: 0.5,\n"
            "       standardize_target: true, missing: [mean, category]}\n"
            "model: {layers: [linear: {out: 2}]}\nloss: mse\n", encoding="utf-8")
        (self.folder / "refused.yaml").write_text(
            "data: {type: digits}\nmodel: {blocks: {b: {layers: [{linear: {outt: 1}}]}}, layers: [b]}\nsede: 1\n",
            encoding="utf-8")
        (self.folder / "masks.yaml").write_text(
            "data: {type: synthetic, shape: [8, 8, 1], target_shape: [8, 8], classes: 3, samples: 64}\n"
            "model: {layers: [conv2d: {out: 3, kernel: 1}]}\n", encoding="utf-8")
        for words, exit_code in [
            ("run table.yaml train.steps=1 output=runs/table", 0),
            ("run tokens.yaml train.steps=2 output=runs/tokens", 0),
            ("run text.yaml train.steps=2 output=runs/text", 0),
            ("plan text.yaml", 0),
            ("plan text.yaml --generate 12", 0),
            ("plan text.yaml --generate 12 --capacity 1KiB", 4),
            # Parameters of 16 bit alone are small enough.
            ("plan text.yaml --generate 12 model.with.width=512 model.with.depth=6 --capacity 60MiB", 4),
            ("plan text.yaml --generate 12 --gpu t4", 0),
            ("lr-find text.yaml --steps 12", 0),
            ("eval runs/text --worst 2", 0),
            ("generate runs/text --prompt The --tokens 5 --seed 3", 0),
            (f"run {quick} train.epochs=2 output=runs/done", 0),
            ("eval runs/done", 0),
            (f"run {quick} train.steps=0 output=runs/weights weights.file=runs/done weights.new=[11]", 0),
            (f"run {quick} train.amp=fp16 train.steps=3 output=runs/half", 0),
            (f"run {quick} memory.limit=3MiB train.batch_size=512 output=runs/oom", 3),
            (f"run {quick} memory.limit=6MiB train.batch_size=128 memory.on_oom=adapt train.steps=4 "
             "output=runs/adapt", 0),
            (f"run {quick} optimizer.lr=1e30 output=runs/diverged", 5),
            (f"run {quick} loss=[cross_entropy,dice] train.confusion_matrix=on train.steps=2 output=runs/sum", 0),
            (f"run {quick} data.type=synthetic data.shape=[8,8,1] data.target_type=numeric data.samples=64 "
             "data.validation_samples=16 loss=l1 checkpoint.best=mae model.layers.11.linear.out=1 train.steps=2 "
             "output=runs/numbers", 0),
            ("eval runs/sum", 0),
            ("eval runs/numbers", 0),
            (f"run {features} loss.1.network.weights.file={features.parent}/frozen.safetensors train.steps=1 "
             "output=runs/features", 0),
            ("run configs/stages.yaml model.with.width=4 stages.1.train.epochs=1 output=runs/stages", 0),
            ("run configs/stages.yaml model.with.width=4 stages.2.memory.limit=300KiB output=runs/stages-oom", 3),
            ("plan configs/stages.yaml", 0),
            ("plan tests/runs/stages.yaml", 0),
            (f"plan {quick} --verify", 0),
            (f"plan {quick} --capacity 4MiB train.batch_size=256", 4),
            (f"plan {quick} train.eval_batch_size=1000 train.batch_size=16", 0),
            (f"plan {quick} --gpu t4,rtx4090 --capacity 4MiB,1GiB train.batch_size=128", 4),
            (f"plan {quick} --gpu all train.amp=bf16", 4),
            (f"plan {quick} memory.offload=[conv2d] train.batch_size=256", 0),
            (f"plan {quick} train.checkpointing=sqrt train.batch_size=256", 0),
            (f"plan {quick} --ranks 3", 0),
            (f"plan {quick} --gpu h100*2,t4*9", 0),
            ("plan configs/stages.yaml --gpu h100*9", 0),
            (f"run {quick} --ranks 2 memory.limit=2MiB output=runs/ranks-oom", 3),
            (f"run {quick} parallel.pipeline=2 memory.limit=64KiB output=runs/pipeline-oom", 3),
            (f"plan {quick} parallel.pipeline=2", 0),
            (f"fit {quick} --capacity 5MiB", 0),
            (f"fit {quick} --capacity 4MiB --ranks 3", 0),
            (f"fit {quick} --gpu h100 --ranks 1..128", 0),
            (f"fit {quick} --gpu h100*8 --nodes 2", 0),
            (f"fit {quick} --capacity 8MiB --max train.batch_size", 0),
            (f"fit {quick} --capacity 8MiB --max train.batch_size=1..4", 0),
            (f"fit {quick} --capacity 4MiB --max model.layers.0.conv2d.stride=1..3", 0),
            (f"fit {quick} --capacity 1GiB --max model.layers.0.conv2d.kernel", 0),
            (f"fit {quick} --capacity 1KiB --max train.batch_size=1..4", 4),
            (f"check {quick}", 0),
            (f"check {quick} weights.file=runs/done weights.new=[11]", 0),
            (f"check {features} loss.1.network.weights.file={features.parent}/frozen.safetensors", 0),
            ("check tests/runs/stages.yaml", 0),
            ("check refused.yaml", 2),
            (f"check {quick} weights.file=runs/numbers", 6),
            (f"summary {quick}", 0),
            (f"summary {features}", 0),
            ("summary configs/stages.yaml", 0),
            ("summary configs/stages.yaml --stage head", 0),
            ("summary text.yaml", 0),
            (f"data {quick} --no-sheet --npz one.npz --samples 3", 0),
            (f"data {quick} --sheet one.png --samples 3", 0),
            ("data table.yaml --no-sheet", 0),
            ("data text.yaml", 0),
            ("data masks.yaml --no-sheet", 0),
            (f"bench {quick} --steps 2", 0),
            (f"bench {quick} train.amp=bf16 --steps 2", 0),
            (f"bench {quick} --data --seconds 0.1", 0),
            ("bench", 0),
            ("export runs/done -o done.safetensors", 0),
            ("export runs/text --names hub -o text.safetensors", 0),
            ("export runs/done --onnx done.onnx", 0),
            ("tokenizer train text.txt --vocab 300 -o tokenizer.json", 0),
            ("tokenizer encode tokenizer.json text.txt", 0),
            ("tokenizer encode tokenizer.json text.txt -o text.bin", 0),
            ("doctor", 0),
            ("plan --gpu list", 0),
            (f"sweep {quick} optimizer.lr=0.001,1e30 train.steps=3 output=runs/sweep", 5),
            (f"sweep {quick} optimizer.lr=0.001,1e30 train.steps=3 output=runs/sweep", 5),
            ("sweep text.yaml train.batch_size=1,2 train.steps=2 output=runs/sweep-text", 0),
            (f"sweep {quick} train.batch_size=16,4096 --plan-only --capacity 8MiB", 0),
        ]:
            events += self.events_of(words, exit_code)
        subprocess.run([TRAINER, "data", quick, "--samples", "6", "--npz", "digits.npz", "--no-sheet"], cwd=self.folder,
                       env=self.environment, check=True, stdout=subprocess.DEVNULL)
        for words, exit_code in [
            (f"run {quick} loss=bce_with_logits data.type=synthetic data.shape=[8,8,1] data.target_type=numeric "
             "data.samples=64 model.layers.11.linear.out=2 data.classes=2 train.steps=1 output=runs/labels", 0),
            ("run masks.yaml train.steps=1 output=runs/masks", 0),
            ("plan runs/done --predict auto", 0),
            ("plan runs/done --predict 64 --capacity 3MiB", 4),
            ("plan runs/done --predict 64 --gpu t4", 0),
            ("predict runs/done digits.npz nothing.png", 6),
            ("predict runs/done digits.npz --top 2", 0),
            ("predict runs/numbers digits.npz", 0),
            ("predict runs/labels digits.npz", 0),
            ("predict runs/masks digits.npz --masks masks", 0),
            ("predict runs/text text.txt nothing.txt --top 2", 6),
            ("predict runs/tokens tokens.bin", 0),
            ("plan runs/text --predict auto", 0),
            ("compare runs/done runs/half --check memory=1000% --check config=0", 1),
        ]:
            events += self.events_of(words, exit_code)
        # A disk on which the checkpoint has no room.
        events += self.events_of(f"run {quick} train.steps=2 output=runs/failed", 6, largest_file=64 << 10)
        self.assertEqual(sorted({definition_of(event) for event in events} | {"event_checkpoint", "event_warning"}), sorted(EVENTS))
        seen = set()
        for event in events:
            seen |= set(shown(event, (definition_of(event).removeprefix("event_"),)))
        described_fields = set()
        for name in {definition_of(event) for event in events}:
            described_fields |= set(described(SCHEMA["$defs"][name], (name.removeprefix("event_"),)))
        missing = sorted(".".join(path) for path in described_fields - seen - UNSEEN)
        self.assertEqual(missing, [])

    def test_every_plan_has_the_fields_of_a_plan(self):
        plan = self.events_of("plan configs/quickstart.yaml --gpu t4", 0)[0]
        target = self.events_of("plan configs/quickstart.yaml --gpu t4,h100", 0)[0]["targets"][0]
        own = {"target", "spare", "note", "batch_size_that_fits"}
        for key in target.keys() - own:
            self.assertEqual(target[key], plan[key], key)
        self.assertGreaterEqual(len(target.keys() - own), 12)


if __name__ == "__main__":
    unittest.main()
