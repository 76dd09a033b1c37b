"""The tools themselves read what `logging` writes: TensorBoard's own code finds every scalar, histogram and text, and compares
the points of a sweep in its HPARAMS tab; prometheus_client parses the metrics; MLflow finds runs, parameters and metrics.

Environment: TRAINER, the binary. Needs tensorboard, prometheus_client and mlflow-skinny (scripts/python_env.sh); without them
it is skipped (77).
"""
import math
import os
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import interpreters

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # which MLflow 3 asks for
try:
    import mlflow
    from prometheus_client.parser import text_string_to_metric_families
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups
except ImportError as missing_module:
    interpreters.go_on_in_environment_or_skip(missing_module)

from live_logs_test import DIGITS, HOSTILE, Folder, safetensors


class Tools(Folder):
    def accumulated(self, output):
        found = event_accumulator.EventAccumulator(str(self.folder / output), {"scalars": 0, "histograms": 0, "tensors": 0})
        found.Reload()
        return found

    def check_with_tensorboard(self, output):
        found, expected = self.accumulated(output), self.expected_scalars(output)
        self.assertEqual(set(found.Tags()["scalars"]) - {"progress/stage"}, set(expected))
        for tag, values in expected.items():
            scalars = [(each.step, each.value) for each in found.Scalars(tag)]
            self.assertEqual(scalars, values, tag)
        return found

    def test_tensorboard_has_the_scalars_of_a_run_that_was_resumed(self):
        settings = ("logging.tensorboard=true", "checkpoint.every=20", "checkpoint.keep=100", "train.epochs=2",
                    "logging.histograms_every=10")
        self.train("run", *settings)
        for path in (self.folder / "run/checkpoints").iterdir():
            if path.is_symlink() or path.name != "step-00000040":
                path.unlink() if path.is_symlink() else shutil.rmtree(path)
        self.train("run", *settings, "--resume")
        found = self.check_with_tensorboard("run")
        last = self.events("run")[-1]["steps"]
        weights = safetensors(self.folder / "run/checkpoints/step-00000040/model.safetensors")
        for name, numbers in weights.items():
            histograms = {each.step: each.histogram_value for each in found.Histograms(f"weights/{name}")}
            self.assertEqual(list(histograms), list(range(10, last + 1, 10)))
            value = histograms[40]
            self.assertEqual((value.min, value.max, value.num), (min(numbers), max(numbers), len(numbers)))
            self.assertTrue(math.isclose(value.sum, math.fsum(numbers), rel_tol=1e-9, abs_tol=1e-9))
            self.assertEqual(sum(value.bucket), len(numbers))
        self.assertIn("configuration", found.Tags()["tensors"])

    def test_the_hparams_tab_compares_the_points_of_a_sweep(self):
        self.run_trainer("sweep", DIGITS, "optimizer.lr=0.001,0.01", "train.amp=off,bf16", "train.epochs=1",
                         "logging.tensorboard=true", "output=sweep")
        multiplexer = plugin_event_multiplexer.EventMultiplexer()
        multiplexer.AddRunsFromDirectory(str(self.folder))
        multiplexer.Reload()
        provider = data_provider.MultiplexerDataProvider(multiplexer, str(self.folder))
        plugin = backend_context.Context(base_plugin.TBContext(data_provider=provider))
        experiment = get_experiment.Handler(context.RequestContext(), plugin, "", api_pb2.GetExperimentRequest()).run()
        swept = {info.name for info in experiment.hparam_infos if info.differs}
        self.assertEqual(swept, {"optimizer.lr", "train.amp"})
        self.assertIn("accuracy/validation", {info.name.tag for info in experiment.metric_infos})
        request = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=10, allowed_statuses=[
            api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING, api_pb2.STATUS_UNKNOWN])
        groups = list_session_groups.Handler(context.RequestContext(), plugin, "", request).run().session_groups
        self.assertEqual(len(groups), 4)
        for group in groups:
            self.assertEqual([each.status for each in group.sessions], [api_pb2.STATUS_SUCCESS])
            metrics = {each.name.tag: each.value for each in group.metric_values}
            end = self.events(group.name)[-1]
            self.assertAlmostEqual(metrics["accuracy/validation"], end["accuracy"], places=6)
            self.assertIn(f"/lr={group.hparams['optimizer.lr'].number_value:g}", group.name)

    def test_prometheus_client_parses_the_metrics(self):
        self.train("run", "train.steps=3", "logging.prometheus_file=metrics.prom", f"name='{HOSTILE}'")
        families = {family.name: family for family in
                    text_string_to_metric_families((self.folder / "metrics.prom").read_text("utf-8"))}
        (sample,) = families["trainer_step"].samples
        self.assertEqual((sample.value, sample.labels["run"]), (3, HOSTILE))
        self.assertEqual(families["trainer_samples"].type, "counter")
        self.assertEqual(families["trainer_memory_reserved_bytes"].samples[0].value,
                         [event for event in self.events("run") if event["event"] == "step"][-1]["memory"]["reserved"])

    def test_mlflow_finds_the_run(self):
        self.train("run", "train.epochs=1", "logging.mlflow=mlruns", f"name='{HOSTILE}'", "optimizer.lr=0.02")
        client = mlflow.MlflowClient(tracking_uri=(self.folder / "mlruns").as_uri())
        experiment = client.get_experiment_by_name(HOSTILE)
        (run,) = client.search_runs([experiment.experiment_id])
        self.assertEqual(run.info.status, "FINISHED")
        self.assertEqual(run.info.run_name, "run")
        self.assertEqual(run.data.params["optimizer.lr"], "0.02")
        for tag, values in self.expected_scalars("run").items():
            history = sorted((each.step, each.value) for each in client.get_metric_history(run.info.run_id, tag))
            self.assertEqual([step for step, _ in history], [step for step, _ in values], tag)
        self.assertEqual([each.path for each in client.list_artifacts(run.info.run_id)], ["config.yaml"])


if __name__ == "__main__":
    # Of what is imported only these are its own.
    unittest.main(defaultTest="Tools")
