"""Attention in small transformers: losses and all gradients against scaled_dot_product_attention in f64, with rotary
positions as Hugging Face's Llama has them."""
import numpy as np

import part_networks
import training


def block(width, attention, packed, norm="layernorm"):
    """One block of a transformer before whose branches a norm stands."""
    return [{"residual": {"layers": [norm, {"linear": {"out": packed}}, {"attention": attention}, {"linear": {"out": width}}]}},
            {"residual": {"layers": [norm, {"linear": {"out": 2 * width}}, "gelu", {"linear": {"out": width}}]}}]


def cross(heads, kv_heads, width, **keys):
    """Queries, keys and values by products of their own."""
    return [{"layernorm": {"name": "x"}}, {"linear": {"out": heads * width, "name": "q"}},
            {"linear": {"out": kv_heads * width, "name": "k", "from": "x"}},
            {"linear": {"out": kv_heads * width, "name": "v", "from": "x"}},
            {"attention": {"heads": heads, "kv_heads": kv_heads, "from": ["q", "k", "v"], **keys}}]


def normalised(heads, kv_heads, width, norm, **keys):
    """Of queries and keys that are normalised head by head, as Qwen3's."""
    return [{"linear": {"out": 12, "name": "x"}}, {"linear": {"out": heads * width}}, {norm: {"heads": heads, "name": "q"}},
            {"linear": {"out": kv_heads * width, "from": "x"}}, {norm: {"heads": kv_heads, "name": "k"}},
            {"linear": {"out": kv_heads * width, "name": "v", "from": "x"}},
            {"attention": {"heads": heads, "kv_heads": kv_heads, "from": ["q", "k", "v"], **keys}}]


STRETCHED = {"rotary_base": 30, "rotary_factor": 4, "rotary_high_freq_factor": 3, "rotary_original_length": 60}

# The sample's positions and features, and the layers over them.
VARIANTS = [
    ([7, 12], block(12, {"heads": 3}, 36)),
    ([9, 8], [*block(8, {"heads": 2, "causal": True}, 24), *block(8, {"heads": 4, "causal": True}, 24)]),
    ([11, 12], block(12, {"heads": 6, "kv_heads": 2, "causal": True, "rotary_base": 10000}, 40, "rmsnorm")),
    ([13, 8], block(8, {"heads": 2, "kv_heads": 1, "causal": True, "window": 4}, 16)),
    ([6, 16], block(16, {"heads": 2, "rotary_base": 100}, 48, "rmsnorm")),
    ([70, 6], block(6, {"heads": 1, "causal": True, "window": 33, "rotary_base": 500}, 18)),
    ([135, 4], block(4, {"heads": 2, "causal": True}, 12)),
    ([1, 6], block(6, {"heads": 3, "causal": True}, 18)),
    ([8, 10], cross(4, 2, 3)),
    ([5, 6], cross(2, 2, 4, causal=True, rotary_base=10000)),
    ([9, 24], block(24, {"heads": 2, "causal": True, **STRETCHED}, 72)),
    ([75, 8], cross(1, 1, 16, causal=True, rotary_base=500000, rotary_factor=32)),
    ([7, 6], normalised(4, 2, 5, "rmsnorm", causal=True)),
    ([10, 12], normalised(2, 1, 6, "layernorm", rotary_base=100)),
    ([6, 8], [{"linear": {"out": 8, "name": "x"}}, {"attention": {"heads": 2, "causal": True, "from": ["x", "x", "x"]}}]),
]


def run(case):
    (positions, features), layers = VARIANTS[case.index]
    shape = [positions, 1, features] if positions % 2 else [positions // 2, 2, features]
    layers = [*layers, "flatten", {"linear": {"out": 3}}]
    case.title = f"{positions} positions of {features}"
    data = {"form": "synthetic", "shape": shape, "outputs": 3, "batch": 4, "samples": 7, "validation": 5, "loss": "mse"}
    section, sets = part_networks.synthetic_data(case, data)
    weights = training.random_weights(training.torch_network.build(layers, shape), np.random.default_rng(case.number))
    updates = training.updates_of(data["samples"], data["batch"])
    twin = part_networks.Twin(layers, data, {"type": "mse"}, weights, sets, updates)
    part_networks.compare_twin(case, twin, section)


def num_cases(_options):
    return len(VARIANTS)
