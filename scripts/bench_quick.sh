#!/usr/bin/env bash
# scripts/bench_quick.sh: the times a user waits for, apart from training. Prints, as the median of 11 calls:
# what scripts/trainer adds to calling the binary, planning 100 and 1,000 layers, and the quickstart with its accuracy.
# Leave the machine alone meanwhile.
set -euo pipefail
scripts=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
"$scripts/trainer" --version >&2
exec python3 - "$scripts/trainer" "$scripts/../build/release/trainer" "$scripts/../configs/quickstart.yaml" <<'PYTHON'
import json, os, statistics, subprocess, sys, tempfile, time

script, binary, quickstart = map(os.path.abspath, sys.argv[1:])


def median_ms(command, calls=11):
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def network(layers, features):
    blocks = {"linear": "{linear: {out: 256}}, relu", "conv": "{conv2d: {out: 64, kernel: 3, padding: 1}}, relu"}
    head = "flatten, {linear: {out: 10}}"
    return (f"data: {{type: synthetic, shape: {features}, classes: 10, samples: 50000, validation_samples: 10000}}\n"
            f"model: {{layers: [{{repeat: {{times: {layers // 2}, layers: [{blocks['linear' if len(features) == 1 else 'conv']}]}}}}, {head}]}}\n"
            "train: {batch_size: 64, epochs: 3}\n")


with tempfile.TemporaryDirectory() as folder:
    def plan_ms(layers, features):
        path = os.path.join(folder, "network.yaml")
        with open(path, "w") as file:
            file.write(network(layers, features))
        return median_ms([binary, "plan", path, "--quiet"])

    base = median_ms([binary, "--version"])
    print(f"binary alone                          {base:7.1f} ms")
    print(f"scripts/trainer adds                  {median_ms([script, '--version']) - base:7.1f} ms   (at most 50)")
    print(f"plan, 100 layers, linear              {plan_ms(100, [256]):7.1f} ms   (at most 200)")
    print(f"plan, 100 layers, convolutional       {plan_ms(100, [32, 32, 3]):7.1f} ms   (at most 200)")
    print(f"plan, 1,000 layers, linear            {plan_ms(1000, [256]):7.1f} ms   (whole process; compiling alone at most 100)")
    print(f"plan, 1,000 layers, convolutional     {plan_ms(1000, [32, 32, 3]):7.1f} ms")

    start = time.perf_counter()
    run = subprocess.run([binary, "run", quickstart, "--json", f"output={folder}/quickstart"], check=True,
                         stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    best = max(event["accuracy"] for event in map(json.loads, run.stdout.splitlines()) if event["event"] == "eval")
    end = json.loads(run.stdout.splitlines()[-1])
    print(f"quickstart                            {seconds:7.1f} s    (at most 30), "
          f"accuracy {100 * end['accuracy']:.2f} %, best {100 * best:.2f} % (at least 97)")
PYTHON
