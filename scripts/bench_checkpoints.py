#!/usr/bin/env python3
"""What checkpoint.sharded gains: ranks that write checkpoints together beside ranks of which the first writes them, in turn on
one machine and one disk, as the event `checkpoint` tells its seconds. Checks that both hold as many bytes, and times plain files
of as many, written by one process and by as many as there are ranks: what the disk allows.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARDS = ("none", "optimizer", "parameters")
CONFIG = """
name: bench
device: {{type: cpu, threads: 1}}
data: {{type: synthetic, shape: [{width}], classes: 10, samples: 64, validation_samples: 2}}
model: {{layers: [{{repeat: {{times: {depth}, layers: [{{linear: {{out: {width}}}}}, relu]}}}}, {{linear: {{out: 10}}}}]}}
optimizer: adamw
train: {{batch_size: 8, epochs: null, steps: {steps}, eval_every: 1000000}}
checkpoint: {{every: 1, keep: 1}}
"""


def run(trainer, folder, num_ranks, shard, is_sharded):
    """Seconds of the checkpoints but the first and bytes of one."""
    output = folder / "run"
    shutil.rmtree(output, ignore_errors=True)
    subprocess.run([trainer, "run", folder / "bench.yaml", "-q", "--ranks", str(num_ranks), f"parallel.shard={shard}",
                    f"checkpoint.sharded={str(is_sharded).lower()}", f"output={output}"], check=True)
    events = [json.loads(line) for line in (output / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = [event["seconds"] for event in events if event["event"] == "checkpoint"]
    num_bytes = sum(file.stat().st_size for file in (output / "checkpoints" / "latest").glob("*.safetensors"))
    return seconds[1:], num_bytes


def write_plainly(path, num_bytes):
    piece = os.urandom(1 << 20)
    with open(path, "wb") as file:
        for _ in range(num_bytes >> 20):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def plain_seconds(folder, num_bytes, num_writers):
    begin = time.monotonic()
    writers = [multiprocessing.Process(target=write_plainly, args=(folder / f"plain{i}", num_bytes // num_writers))
               for i in range(num_writers)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"))
    parser.add_argument("--folder", help="where to write; the system's temporary folder if not given")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=24)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--checkpoints", type=int, default=4, help="of a run, beside the first, which is not counted")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-checkpoints-", dir=arguments.folder))
    try:
        (folder / "bench.yaml").write_text(CONFIG.format(width=arguments.width, depth=arguments.depth,
                                                         steps=arguments.checkpoints + 1), encoding="utf-8")
        print(f"{arguments.ranks} ranks of one thread, load {os.getloadavg()[0]:.1f}, seconds of a checkpoint (lowest, "
              "median)", flush=True)
        for shard in SHARDS:
            seconds, sizes = {False: [], True: []}, {}
            for number in range(arguments.repetitions):
                for is_sharded in (False, True) if number % 2 == 0 else (True, False):
                    told, sizes[is_sharded] = run(arguments.trainer, folder, arguments.ranks, shard, is_sharded)
                    seconds[is_sharded] += told
            if abs(sizes[True] - sizes[False]) > 100_000:
                raise SystemExit(f"other tensors: {sizes}")
            ratio = statistics.median(seconds[False]) / statistics.median(seconds[True])
            texts = [f"{min(each):.2f}, {statistics.median(each):.2f}" for each in (seconds[False], seconds[True])]
            print(f"shard {shard:<10} {sizes[True] / 2**20:6.0f} MiB: rank 0 {texts[0]}; all {texts[1]}; "
                  f"{ratio:.2f} times as fast", flush=True)
        shutil.rmtree(folder / "run")
        for num_writers in (1, arguments.ranks):
            plain = [plain_seconds(folder, sizes[True], num_writers) for _ in range(arguments.repetitions)]
            print(f"plain files by {num_writers}: {min(plain):.2f}, {statistics.median(plain):.2f}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
