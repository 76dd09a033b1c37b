"""predict_gpu.py: what it counts of PyTorch, and how a prediction follows from calls, bytes and launches."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import predict_gpu  # noqa: E402
from predict_gpu_pytorch import kernels_of, reserved_bytes  # noqa: E402


def layer(kind, output, parameters=0):
    return {"kind": kind, "output": output, "parameters": parameters}


MLP = [layer("input", [8, 6]), layer("flatten", [8, 6]), layer("linear", [8, 4], 28), layer("relu", [8, 4]),
       layer("linear", [8, 3], 15)]
BLOCK = [layer("input", [2, 4, 4, 3]), layer("conv2d", [2, 4, 4, 5], 135), layer("batchnorm2d", [2, 4, 4, 5], 10),
         layer("relu", [2, 4, 4, 5]), layer("global_avgpool", [2, 5]), layer("linear", [2, 3], 18)]


class PyTorch(unittest.TestCase):
    def test_an_mlp_run_op_by_op_has_a_kernel_for_each_op_of_autograd(self):
        kernels = kernels_of(MLP, half=False, fp16=False, compiled=False)
        # ReLU and its gradient, two sums for biases, six of the loss, one update.
        self.assertEqual(len(kernels), 2 + 2 + 6 + 1)
        # ReLU 5 passes, sums over both outputs, the loss twice its logits, 20 bytes a parameter.
        self.assertEqual(sum(kernels), 4 * (5 * 32 + 32 + 24) + 8 * 24 + 20 * 43)

    def test_compiled_elementwise_ops_are_part_of_their_neighbours(self):
        eager, compiled = (kernels_of(BLOCK, False, False, compiled) for compiled in (False, True))
        # The ReLU behind batch norm costs nothing, the sums of batch norm two kernels more each way.
        size = 160 * 4
        self.assertEqual(len(eager) - len(compiled), 2 - 4 + 2 + 3)
        norm_and_relu = (8 + 5 - 10) * size
        pool, bias = (3 - 2) * size, -1 * 6 * 4
        self.assertEqual(sum(eager) - sum(compiled), norm_and_relu + pool + bias)

    def test_16_bit_halve_the_passes_and_cast_weights_and_gradients(self):
        full, half = (kernels_of(MLP, half, False, False) for half in (False, True))
        # Weight and bias of two layers both ways; the input; the logits both ways.
        self.assertEqual(len(half) - len(full), 8 + 1 + 2)
        self.assertEqual(sum(half) - sum(full), -2 * (5 * 32 + 32 + 24) + 12 * 43 + 6 * 48 + 12 * 24)
        self.assertEqual(len(kernels_of(MLP, True, True, False)) - len(half), 6)

    def test_a_layer_without_a_rule_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no rule is written down for layer 'gelu'"):
            kernels_of([*MLP, layer("gelu", [8, 3])], False, False, False)

    def test_16_bit_keep_half_the_activations_beside_copies_of_the_weights(self):
        full, half = (reserved_bytes(1000, 50, 10, in_half) for in_half in (False, True))
        self.assertEqual(full - half, 500 - 20 + 200)


class Trainer(unittest.TestCase):
    PLAN = {"peak_reserved": 60, "ops": [
        {"op": "linear", "calls": 2.0, "predicted_seconds": 5e-6, "input_bytes": 1e9, "output_bytes": 1e9},
        {"op": "batchnorm2d", "statistics": False, "calls": 1.0, "predicted_seconds": 1, "input_bytes": 3000,
         "output_bytes": 2000},
        {"op": "batchnorm2d", "statistics": True, "calls": 1.0, "predicted_seconds": 1, "input_bytes": 3500,
         "output_bytes": 2500},
        {"op": "batchnorm2d_backward", "calls": 1.0, "predicted_seconds": 1, "input_bytes": 5000, "output_bytes": 2500},
        {"op": "sgd_update", "calls": 1.0, "predicted_seconds": 1, "input_bytes": 3000, "output_bytes": 0}]}

    def test_a_step_is_its_products_its_bytes_and_its_starts(self):
        launches = {"linear": {"kernels": 0, "library_calls": 2}, "batchnorm2d": {"kernels": 3, "library_calls": 0}}
        found = predict_gpu.predict_trainer(self.PLAN, launches, 1e9)
        self.assertAlmostEqual(found["product_seconds"], 2 * (5e-6 - 2e-6))
        self.assertEqual(found["other_bytes"], 7000 + 6000 + 12500 + 5000)
        self.assertAlmostEqual(found["seconds"], 6e-6 + 30.5e-6 + (3 + 2 + 1) * 2e-6)

    def test_batch_norm_moves_five_tensors_for_its_gradient_and_seven_with_that_of_an_addend(self):
        for inputs, outputs, moved in ((2, 1, 5), (3, 2, 7)):
            op = {"op": "batchnorm2d_backward", "input_bytes": 100 * inputs, "output_bytes": 100 * outputs}
            self.assertEqual(predict_gpu.moved_bytes(op), 100 * moved)

    def test_a_goal_is_met_by_what_is_predicted_and_by_nothing_else(self):
        figures = {"trainer": {"seconds": 1.0, "reserved": 70}, "planned_reserved": 60, "pytorch_reserved_at_least": 100,
                   "pytorch": {"compile": {"seconds": 1.16}, "eager": {"seconds": 1.9}}}
        goals = predict_gpu.goals_of({"resnet18": {"bf16": figures}})
        self.assertEqual([(goal["predicted"], goal["met"]) for goal in goals],
                         [(1.16, True), (1.9, False), (0.7, False), (0.6, True), (None, None)])

    def test_goals_are_told_over_all_precisions(self):
        goals = [{"network": "n", "goal": "g", "precision": precision, "predicted": value, "met": value >= 3}
                 for precision, value in (("f32", 2.0), ("bf16", 3.5))]
        self.assertEqual(predict_gpu.verdicts_of(goals), ["- n, g, in f32, bf16: 2.00 to 3.50×: met in bf16 only"])
        self.assertEqual(predict_gpu.verdicts_of(goals[:1]), ["- n, g, in f32: 2.00 to 2.00×: not met"])


if __name__ == "__main__":
    unittest.main()
