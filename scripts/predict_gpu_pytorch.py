"""PyTorch's kernels in a training step of one of bench_gpu.py's networks, counted from its documented behaviour: what
autograd, autocast, GradScaler, the fused optimizer and TorchInductor are known to launch. Nothing runs.

Beside products, which both sides leave to cuBLAS and cuDNN and which therefore take the same time here, a kernel is
told by the bytes it moves. A pass is one read or write of all elements of a layer's output.
"""

# (kernels, passes) of the forward and of the backward pass of a layer, run op by op: batch norm reads its input twice, and
# in backward input and gradient twice; a sum of two branches is an op, and so is the sum of the gradients where they part.
EAGER = {"batchnorm2d": ((1, 3), (1, 5)), "relu": ((1, 2), (1, 3)), "residual": ((1, 3), (1, 3)),
         "global_avgpool": ((1, 1), (2, 2)), "linear": ((0, 0), (1, 1)), "conv2d": ((0, 0), (0, 0)),
         "flatten": ((0, 0), (0, 0))}
# Compiled: batch norm becomes sums over parts, their combination, and one pass with all elementwise ops behind it; its
# backward likewise, where the ReLU's mask is read from the output in both passes. Behind a linear layer the ReLU is a
# kernel, its gradient part of the sums for the bias.
COMPILED = {"batchnorm2d": ((3, 3), (3, 7)), "relu": ((0, 0), (0, 0)), "residual": ((0, 1), (0, 2)),
            "global_avgpool": ((1, 1), (0, 1)), "linear": ((0, 0), (1, 2)), "conv2d": ((0, 0), (0, 0)),
            "flatten": ((0, 0), (0, 0))}
RELU_BEHIND_LINEAR_COMPILED = ((1, 2), (0, 1))
# log_softmax and nll_loss; in backward a one, nll_loss's zeros and gradient, log_softmax's gradient.
LOSS_KERNELS = {"eager": 6, "compiled": 3}
TENSORS_A_LAUNCH = 48  # of a fused optimizer over (parameter, gradient, momentum)
UPDATE_BYTES = 20      # a parameter: three read, two written, f32
# GradScaler: scaling the loss, two zeros for the check, the check over all gradients (read and written), the sum, the
# new scale.
SCALER_KERNELS, SCALER_BYTES = 6, 8
CUBLAS_WORKSPACE = 32 * 2**20  # CUBLAS_WORKSPACE_CONFIG's default on Hopper, from PyTorch's allocator
# A kernel counts as an op of the host where it was not captured. Batch norm also counts its calls, with a kernel.


def elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def element_counts(layers):
    """For each of summary's layers: (kind, kind before it, elements that its passes go over, parameters)."""
    rows = []
    for index, layer in enumerate(layers[1:], 1):
        before = layers[index - 1]
        size = elements(layer["output"])
        if layer["kind"] == "global_avgpool":
            size = elements(before["output"])
        rows.append((layer["kind"], before["kind"], size, layer["parameters"]))
    return rows


def kernels_of(layers, half, fp16, compiled):
    """[bytes of each kernel that is no product]."""
    table, kernels = (COMPILED if compiled else EAGER), []
    element_bytes = 2 if half else 4

    def add(count, num_bytes):
        kernels.extend([num_bytes / count] * count)

    input_elements = elements(layers[0]["output"])
    parameters, num_tensors = 0, 0
    for kind, before, size, count in element_counts(layers):
        if kind not in table:
            raise ValueError(f"no rule is written down for layer '{kind}'")
        passes = RELU_BEHIND_LINEAR_COMPILED if compiled and (kind, before) == ("relu", "linear") else table[kind]
        for num_kernels, num_passes in passes:
            # Passes without a kernel of their own lengthen another one.
            if num_kernels:
                add(num_kernels, num_passes * size * element_bytes)
            elif num_passes:
                kernels[-1] += num_passes * size * element_bytes
        if kind == "batchnorm2d":
            add(1, 16)
        parameters += count
        num_tensors += 2 if kind in ("linear", "batchnorm2d") else 1 if count else 0
        if half and kind in ("linear", "conv2d"):
            for _ in range(2 if kind == "linear" else 1):  # weight, and bias: cast, and their gradients cast back
                add(2, 12 * count / (2 if kind == "linear" else 1))
    if half:
        add(1, 6 * input_elements)
        add(2, 12 * elements(layers[-1]["output"]))
    add(LOSS_KERNELS["compiled" if compiled else "eager"], 8 * elements(layers[-1]["output"]))
    if fp16:
        add(SCALER_KERNELS, SCALER_BYTES * parameters)
    add(-(-num_tensors // TENSORS_A_LAUNCH), UPDATE_BYTES * parameters)
    return kernels


def reserved_bytes(saved_bytes, largest_activation, parameters, half):
    """At least, of PyTorch's allocator at the peak: what autograd keeps, two gradients of the largest activation,
    parameters with gradients and momentum, cuBLAS's scratch. cuDNN's scratch and the allocator's rounding come on top."""
    kept = saved_bytes / 2 + 2 * parameters if half else saved_bytes
    return kept + 2 * largest_activation * (2 if half else 4) + 12 * parameters + CUBLAS_WORKSPACE
