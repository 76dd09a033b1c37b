"""Finds out from outside which samples trainer's model sees, in which order.

A linear layer whose weights are zero is trained one sample at a time without being changed: its gradient is the sample
times what the loss says of the output, and that depends on the target alone. Classes: row c of the gradient is
(1/C − [c is the class]) · sample. Numbers under the mean squared error over K outputs: row k is −2 y_k / K · sample.
"""
import numpy as np

from trainer_runs import gradient_probe


def seen_samples(trainer, folder, data, outputs, numeric=False, epochs=1, seed=1, extra=None, name="probe"):
    """[(sample flat as the first layer finds it, target)] of all steps, and the run. Images come channel by channel."""
    config = gradient_probe({
        "seed": seed, "data": data, "model": {"init": "zeros", "layers": ["flatten", {"linear": {"out": outputs}}]},
        "loss": {"type": "mse" if numeric else "cross_entropy"}, "train": {"batch_size": 1, "epochs": epochs,
                                                                           "log_every": 1, **(extra or {})}})
    run = trainer.run(folder, config, name=name)
    samples = []
    for step in range(1, len(run.steps) + 1):
        gradients = run.gradients(step)
        weight, bias = gradients["1.weight"].astype(np.float64), gradients["1.bias"].astype(np.float64)
        if numeric:
            row = int(np.abs(bias).argmax())
            samples.append((weight[row] / bias[row], -bias * outputs / 2))
        else:
            row = int(bias.argmin())
            samples.append((weight[row] / bias[row], row))
    return samples, run
