#!/usr/bin/env python3
"""Predicted against measured times of a step; see check_predictions.sh."""
import argparse
import json
import os
import sys

from trainer_events import Trainer, TrainerFailed, field

NETWORKS = ["mlp", "cnn", "resnet18"]
MOST_DIFFERENCE = 0.25


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="scripts/check_predictions.sh")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeat", type=int, default=1, help="rounds of measuring rates and networks; medians count")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error("--repeat takes at least 1")
    trainer = Trainer(os.environ.get("TRAINER"))

    rounds = {network: [] for network in NETWORKS}
    calibrations = []
    for _ in range(arguments.repeat):
        calibrations.append(json.loads(trainer.ask("bench", "device.type=cpu", "device.threads=2")))
        for network in NETWORKS:
            # The prediction is made before the first step runs.
            event = json.loads(trainer.ask("bench", f"configs/bench/{network}.yaml"))
            if field(event, "rates")["origin"] != "measured":
                raise TrainerFailed(f"{network} was not predicted by the rates that were just measured")
            rounds[network].append((field(event, "predicted_seconds"), field(event, "step_seconds")))

    results = []
    for network, pairs in rounds.items():
        predicted, measured = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
        ratio = predicted / measured
        results.append({"network": network, "predicted_seconds": predicted, "step_seconds": measured, "ratio": ratio,
                        "within": abs(ratio - 1) <= MOST_DIFFERENCE})
    passed = all(result["within"] for result in results)

    if arguments.json:
        print(json.dumps({"device": calibrations[-1]["device"], "most_difference": MOST_DIFFERENCE, "passed": passed,
                          "calibration_seconds": calibrations[-1]["seconds"], "networks": results}))
    else:
        print(f"{calibrations[-1]['device']['name']}: rates measured in {calibrations[-1]['seconds']:.0f} s")
        print(f"{'network':12}{'predicted':>12}{'measured':>12}{'ratio':>8}")
        for result in results:
            print(f"{result['network']:12}{1e3 * result['predicted_seconds']:9.1f} ms{1e3 * result['step_seconds']:9.1f} ms"
                  f"{result['ratio']:8.2f}{'' if result['within'] else '   off by more than 25 %'}")
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TrainerFailed as failure:
        sys.exit(f"check_predictions: {failure}")
