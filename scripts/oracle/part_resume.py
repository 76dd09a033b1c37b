"""A run that is interrupted and resumed against one that is not: the same bits, each step once."""
import signal
import subprocess
import time

from trainer_runs import INTERRUPTED

LAYERS = [{"conv2d": {"out": 6, "kernel": 3, "padding": 1, "bias": False}}, "batchnorm2d", "relu",
          {"maxpool2d": {"kernel": 2}}, "flatten", {"dropout": {"p": 0.3}}, {"linear": {"out": 16}}, "gelu",
          {"linear": {"out": 10}}]
OPTIMIZERS = [{"type": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True}, {"type": "adam", "lr": 0.003},
              {"type": "adamw", "lr": 0.003, "weight_decay": 0.1}]
SCHEDULES = [{"type": "constant"}, {"type": "one_cycle"}, {"type": "cosine", "warmup_steps": 3},
             {"type": "step", "every": 7, "gamma": 0.5}]
# How the first part ends.
STOPS = ["stopped by train.steps", "interrupted", "killed"]


def draw_config(random):
    train = {"batch_size": random.choice([16, 25, 40]), "epochs": 4, "log_every": 1,
             "accumulation_steps": random.choice([1, 1, 2])}
    if random.random() < 0.3:
        train["amp"] = random.choice(["bf16", "fp16"])
    if random.random() < 0.3:
        train["clip_norm"] = 0.5
    if random.random() < 0.3:
        train["eval_every"] = random.randint(2, 9)
    memory = {"moments": "8bit"} if random.random() < 0.2 else {}
    optimizer = dict(random.choice(OPTIMIZERS))
    if optimizer["type"] == "sgd":
        memory = {}
    return {"seed": random.randint(0, 10**6),
            "data": {"type": "synthetic", "shape": [8, 8, 2], "classes": 10, "samples": random.choice([150, 160, 211]),
                     "validation_samples": 30},
            "model": {"layers": LAYERS}, "optimizer": optimizer, "schedule": dict(random.choice(SCHEDULES)),
            "memory": memory, "train": train, "checkpoint": {"every": random.randint(2, 6), "keep": 100}}


def start_and_stop(case, config, how, total_steps):
    """Runs until it is stopped somewhere in the middle; returns whether there was a middle."""
    command = case.trainer.start(case.folder, config, name="resumed")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, env=case.trainer.environment(), cwd=case.folder)
    wanted = case.random.randint(config["checkpoint"]["every"] + 1, max(config["checkpoint"]["every"] + 2, total_steps - 4))
    for line in process.stdout:
        if '"event":"step"' in line and f'"step":{wanted},' in line:
            process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
            break
    process.stdout.read()
    process.stdout.close()
    return process.wait()


def run(case):
    how = STOPS[case.index % len(STOPS)]
    config = draw_config(case.random)
    case.title, case.seen = f"{how}, {config['optimizer']['type']}, {config['schedule']['type']}", {how}
    whole = case.trainer.run(case.folder, config, name="whole")
    total, cut = len(whole.steps), None
    if how == "stopped by train.steps":
        # A schedule is that of the whole run, so only one that asks for no length can be cut this way.
        config["schedule"] = {"type": "constant"}
        whole = case.trainer.run(case.folder, config, "--overwrite", name="whole")
        cut = case.random.randint(2, total - 2)
        case.trainer.run(case.folder, {**config, "train": {**config["train"], "steps": cut}}, name="resumed")
        resumed = case.trainer.run(case.folder, config, "--resume", name="resumed")
    else:
        code = start_and_stop(case, config, how, total)
        # It may have ended before the signal came; then there is nothing to resume, and both are whole.
        expected = INTERRUPTED if how == "interrupted" else -signal.SIGKILL
        case.findings.holds("the first part ends as told", code in (expected, 0), f"{code}")
        time.sleep(0.05)
        resumed = case.trainer.run(case.folder, config, "--resume", name="resumed")
    for file in ("model", "optimizer"):
        one, other = whole.tensors(file, total), resumed.tensors(file, total)
        case.findings.equal(f"tensors in {file}", sorted(other), sorted(one))
        for name in one:
            case.findings.holds(f"bits of {file} {name}", one[name].tobytes() == other[name].tobytes(), "other bits")
    case.findings.equal("steps in events.jsonl", [event["step"] for event in resumed.logged() if event["event"] == "step"],
                        list(range(1, total + 1)))
    for key in ("loss", "lr", "samples", "epoch"):
        case.findings.equal(f"{key} of every step", [event[key] for event in resumed.logged() if event["event"] == "step"],
                            [event[key] for event in whole.logged() if event["event"] == "step"])
    evaluations = [[(event["step"], event["loss"], event["accuracy"]) for event in one.logged() if event["event"] == "eval"]
                   for one in (whole, resumed)]
    # The last step of the first part is its end, which is evaluated; in the whole run it is a step like others.
    case.findings.equal("evaluations", [entry for entry in evaluations[1] if entry[0] != cut or entry in evaluations[0]],
                        evaluations[0])


def num_cases(options):
    return 3 if options.short else 30


def everything(_options):
    return set(STOPS)
