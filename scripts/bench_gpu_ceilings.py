"""What a GPU can do, measured through PyTorch: products in each precision, copies, the gap between a graph's nodes."""
import subprocess
import time

import torch


def used_of_device():
    """Bytes in use on the first GPU, by all processes; asked without starting CUDA. 0 where nobody tells."""
    try:
        output = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
                                capture_output=True, text=True, check=True, timeout=20).stdout
        return int(output.splitlines()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0


def seconds_of(function, repetitions):
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repetitions):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repetitions


def product_rate(dtype, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: torch.mm(a, b), 10)


def copy_rate(num_bytes, repetitions):
    source = torch.empty(num_bytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * num_bytes / seconds_of(lambda: target.copy_(source), repetitions)


def node_seconds():
    """Of one node of a graph of tiny kernels, each of which waits for the one before."""
    tiny = torch.zeros(32, device="cuda")
    tiny.add_(1)
    torch.cuda.synchronize()
    graph, num_nodes = torch.cuda.CUDAGraph(), 1000
    with torch.cuda.graph(graph):
        for _ in range(num_nodes):
            tiny.add_(1)
    return seconds_of(graph.replay, 20) / num_nodes


def launch_seconds():
    """Of starting a tiny kernel from Python, one after the other."""
    tiny = torch.zeros(32, device="cuda")
    return seconds_of(lambda: tiny.add_(1), 2000)


def ceilings():
    rates = {"f32": (torch.float32, False), "tf32": (torch.float32, True), "bf16": (torch.bfloat16, True),
             "fp16": (torch.float16, True)}
    figures = {"device": torch.cuda.get_device_name(),
               "flops_per_second": {name: product_rate(*rate) for name, rate in rates.items()},
               "bytes_per_second": copy_rate(2**31, 20), "bytes_per_second_at_64_mib": copy_rate(2**25, 200),
               "node_seconds": node_seconds(), "launch_seconds": launch_seconds()}
    torch.cuda.empty_cache()
    return figures
