#!/usr/bin/env python3
"""The PyTorch side of bench_gpu.py: one process that trains one network in all modes and answers requests, one line of
JSON each (bench_peer.py).

    {"do": "open", "network", "weights", "images", "targets", "shape", "batch", "num_batches", "lr", "device"}
    {"do": "prepare", "mode", "precision", "compared"}   builds, compiles, captures; first losses, memory of it alone
    {"do": "run", "mode", "precision", "steps"}          a repetition
    {"do": "ceilings"}                                   what the machine can do

PyTorch is used at its best: the data lies on the device as f32, gradients are set to None, the optimizer is the fused
one, images are channels_last, cudnn.benchmark is on, and nothing waits for the device between the first timed step and
the last.
"""
import gc
import json
import os
import pathlib
import subprocess
import sys
import time

from bench_gpu_ceilings import ceilings, used_of_device
from bench_models import MODELS, trainer_names
from bench_peer import Broken, serve, with_trouble

import torch
from torch import nn

MIB = 2**20
NUM_WARM = 4
FIRST_SCALE = 65536.0  # of the loss in fp16, as trainer's
# How the forward pass (with its backward) is compiled, and whether the whole step is captured by hand in one graph:
# forward, loss, backward, optimizer and, in fp16, GradScaler, over inputs and gradients that stay where they are.
MODES = {
    "eager": (None, False),
    "captured": (None, True),
    "compile": ({}, False),
    "compile captured": ({}, True),
    "compile graphs": ({"mode": "reduce-overhead"}, False),
}
PRECISIONS = {"f32": (False, None), "tf32": (True, None), "bf16": (True, torch.bfloat16), "fp16": (True, torch.float16)}


def read_weights(path):
    """A safetensors file, without NumPy, which need not be there."""
    content = bytearray(pathlib.Path(path).read_bytes())
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    types = {"F32": torch.float32, "I64": torch.int64}
    return {name: torch.frombuffer(content, dtype=types[entry["dtype"]], offset=8 + length + entry["data_offsets"][0],
                                   count=torch.Size(entry["shape"]).numel()).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


class Task:
    """The network, its data on the device, and what all modes share."""

    def __init__(self, request):
        self.network, self.batch, self.lr = request["network"], request["batch"], request["lr"]
        self.device = torch.device(request["device"])
        self.used_before = used_of_device() if self.is_cuda else 0
        if self.is_cuda and not torch.cuda.is_available():
            raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU")
        self.state = read_weights(request["weights"])
        shape = (request["num_batches"] * self.batch, *request["shape"])
        self.images, self.targets = self._data(request, shape)
        self.num_batches = request["num_batches"]

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    def _data(self, request, shape):
        """Normalised images and targets in one block of whole 2 MiB and at least 10, which PyTorch's allocator gives a
        segment of its own without a rest that a mode could use."""
        pixels, classes = (torch.frombuffer(bytearray(pathlib.Path(request[name]).read_bytes()), dtype=torch.uint8)
                           for name in ("images", "targets"))
        images = (pixels.reshape(shape).float() / 255 - 0.5) / 0.25
        if self.is_image:
            images = images.contiguous(memory_format=torch.channels_last)
        image_bytes, target_bytes = images.numel() * 4, classes.numel() * 8
        total = max(10 * MIB, -(-(image_bytes + target_bytes) // (2 * MIB)) * 2 * MIB)
        block = torch.empty(total, dtype=torch.uint8, device=self.device)
        held = block[:image_bytes].view(torch.float32).as_strided(images.shape, images.stride())
        held.copy_(images)
        targets = block[image_bytes:image_bytes + target_bytes].view(torch.int64)
        targets.copy_(classes)
        return held, targets

    @property
    def is_image(self):
        return self.network == "resnet18"

    def batch_of(self, index):
        begin = index % self.num_batches * self.batch
        return self.images[begin:begin + self.batch], self.targets[begin:begin + self.batch]

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize()


class Session:
    """One mode in one precision."""

    def __init__(self, task, mode, precision):
        self.task = task
        self.compile_options, self.is_captured = MODES[mode]
        self.keeps_graphs = bool(self.compile_options)
        if self.is_captured and not task.is_cuda:
            raise RuntimeError("only a GPU has graphs to capture")
        self.tf32, self.amp = PRECISIONS[precision]
        self.use_precision()
        self.model = MODELS[task.network]()
        self.names = dict(zip((name for name in self.model.state_dict() if not name.endswith("num_batches_tracked")),
                              trainer_names(task.network, self.model)))
        self.model.to(task.device)
        if task.is_image:
            self.model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=task.lr, momentum=0.9, fused=True)
        self.scaler = torch.amp.GradScaler(task.device.type, init_scale=FIRST_SCALE, enabled=self.amp is torch.float16)
        self.criterion = nn.CrossEntropyLoss()
        self.graph = self.loss_of = None
        self.index = 0
        self.begin()

    def begin(self):
        """Compiles and captures. The steps of that change the weights; start() takes them back."""
        if self.loss_of is None:
            def loss_of(x, y):
                with torch.autocast(self.task.device.type, self.amp or torch.bfloat16, enabled=self.amp is not None):
                    return self.criterion(self.model(x), y)
            # fullgraph: what cannot be compiled whole is an error, and not a slower run.
            self.loss_of = loss_of if self.compile_options is None else torch.compile(
                loss_of, fullgraph=True, **self.compile_options)
        if not self.is_captured:
            for index in range(NUM_WARM):
                self.step(index)
            return
        self.x, self.y = (tensor.clone() for tensor in self.task.batch_of(0))
        stream = torch.cuda.Stream()  # as PyTorch's notes on graphs ask for
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(NUM_WARM):
                self.train_on(self.x, self.y)
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.train_on(self.x, self.y)

    def start(self):
        """The first weights, no momentum, the first loss scale."""
        own = self.model.state_dict()
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(self.task.state[self.names[name]] if name in self.names else torch.zeros_like(value))
            for state in self.optimizer.state.values():
                state["momentum_buffer"].zero_()
            if self.scaler.is_enabled():
                self.scaler._scale.fill_(FIRST_SCALE)
                self.scaler._growth_tracker.zero_()
        self.index = 0

    def use_precision(self):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32

    def train_on(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(x, y)
        self.scaler.scale(loss).backward()
        # A fused optimizer takes scale and overflow as tensors: nothing waits, and it can be captured.
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def step(self, index):
        x, y = self.task.batch_of(index)
        if self.graph is None:
            if self.keeps_graphs:
                torch.compiler.cudagraph_mark_step_begin()
            return self.train_on(x, y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss

    def run(self, steps):
        """Seconds of so many steps."""
        self.use_precision()
        self.task.wait()
        start = time.perf_counter()
        for index in range(self.index, self.index + steps):
            self.step(index)
        self.task.wait()
        self.index += steps
        return time.perf_counter() - start

    def first_losses(self, count):
        self.start()
        losses = [self.step(index).clone() for index in range(count)]
        self.index = count
        self.task.wait()
        return [loss.item() for loss in losses]

    def tensors(self):
        """All that stays on the device between steps."""
        yield from self.model.parameters()
        yield from self.model.buffers()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        if self.scaler.is_enabled():
            yield from (self.scaler._scale, self.scaler._growth_tracker)

    def park(self):
        """Leaves the device's memory, so that another mode can be measured alone."""
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = self.loss = self.x = self.y = None
        if self.keeps_graphs:
            self.loss_of = None
        self._move("cpu")

    def wake(self):
        self._move(self.task.device)
        self.use_precision()
        if self.is_captured or self.loss_of is None:
            self.begin()

    def _move(self, device):
        for tensor in self.tensors():
            tensor.data = tensor.data.to(device)


class Sessions:
    """All modes of the network; asleep are those that had to leave the device while another was prepared."""

    def __init__(self):
        self.task, self.all, self.asleep = None, {}, set()
        torch.backends.cudnn.benchmark = True
        # Each mode compiles the same function, in four precisions.
        torch._dynamo.config.recompile_limit = 64

    def answer(self, request):
        try:
            return self.answer_once(request)
        except Exception as error:
            if is_cuda_broken():
                raise Broken(f"{type(error).__name__}: {error}") from error
            raise

    def answer_once(self, request):
        if request["do"] == "ceilings":
            return ceilings()
        if request["do"] == "open":
            self.task = Task(request)
            return {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version() if self.task.is_cuda else None,
                    "device": torch.cuda.get_device_name() if self.task.is_cuda else "cpu"}
        key = (request["mode"], request["precision"])
        if request["do"] == "prepare":
            return self.prepare(key, request)
        return self.run(key, request["steps"])

    def prepare(self, key, request):
        self.all.pop(key, None)
        self.clear(key)
        base = torch.cuda.memory_reserved() if self.task.is_cuda else 0
        left = base - torch.cuda.memory_allocated() if self.task.is_cuda else 0
        begin = time.perf_counter()
        try:
            session = Session(self.task, *key)
            losses = session.first_losses(request["compared"])
            seconds = time.perf_counter() - begin
            session.run(NUM_WARM)
            answer = {"losses": losses, "prepare_seconds": seconds, "step_seconds": session.run(NUM_WARM) / NUM_WARM,
                      "parameters": sum(parameter.numel() for parameter in session.model.parameters()),
                      "memory": self.memory_of(session, base, left)}
        except BaseException:
            session = None
            self.clear(key)
            raise
        self.all[key] = session
        return answer

    def clear(self, key):
        """Everything that modes hold of the device goes, but for the data."""
        for other in self.all.keys() - self.asleep:
            self.all[other].park()
            self.asleep.add(other)
        if MODES[key[0]][0]:
            # Its graphs share one pool with those of the other precisions, and live in the compiled code.
            torch._dynamo.reset()
        gc.collect()
        if self.task.is_cuda:
            torch.cuda.synchronize()
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def memory_of(self, session, base, left):
        """Of this mode alone: reserved at most since it was begun, and in steps once the search for kernels and the
        compiler's trials are forgotten; and what the driver counts for the process."""
        if not self.task.is_cuda:
            return {}
        reserved = torch.cuda.max_memory_reserved() - base
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        session.run(NUM_WARM)
        memory = {"reserved": reserved, "reserved_steady": torch.cuda.max_memory_reserved() - base,
                  "allocated": torch.cuda.max_memory_allocated() - base,
                  "data_and_left_over": base, "free_in_left_over": left}
        return memory | self.driver_memory()

    def driver_memory(self):
        own = process_bytes()
        if own:
            return {"driver": own, "driver_counts": "this process"}
        return {"driver": used_of_device() - self.task.used_before, "driver_counts": "all processes, less those before"}

    def run(self, key, steps):
        session, begin = self.all[key], time.perf_counter()
        try:
            self.wake(key)
            seconds = session.run(steps)
        except torch.OutOfMemoryError:  # all at once do not fit: this one alone
            self.clear(key)
            self.wake(key)
            seconds = session.run(steps)
        return {"step_seconds": seconds / steps, "samples_per_second": self.task.batch * steps / seconds,
                "wake_seconds": time.perf_counter() - begin - seconds}

    def wake(self, key):
        if key in self.asleep:
            self.asleep.discard(key)
            self.all[key].wake()
            self.all[key].run(NUM_WARM)


def is_cuda_broken():
    """Whether an error stays: after a fault in a kernel every call of the process fails."""
    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def process_bytes():
    """What the driver counts for this process; 0 where it does not tell, as in some containers."""
    try:
        output = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                                capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    rows = [line.split(",") for line in output.splitlines() if "," in line]
    return sum(int(memory) for pid, memory in rows if pid.strip() == str(os.getpid()) and memory.strip().isdigit()) * MIB


if __name__ == "__main__":
    sessions = Sessions()
    serve(with_trouble(sessions.answer) if "--rehearse" in sys.argv else sessions.answer)
