"""The networks of tests/golden/: what is written to config.yaml and what PyTorch is built from, in one place.

A layer is a name or (name, arguments); lists nest as in the YAML. `data` describes the dataset that is made up for it:
images are uint8 and normalised with mean and std, anything else is float32. Together they use every layer, activation,
loss, optimizer and schedule whose arithmetic PyTorch fixes.
"""

NETWORKS = {
    "mlp": {
        "data": {"shape": [12], "classes": 5, "samples": 45},
        "layers": [
            ("linear", {"out": 24, "name": "first"}), "relu",
            ("linear", {"out": 16}), "gelu",
            ("linear", {"out": 16, "bias": False}), "tanh",
            ("linear", {"out": 5, "name": "head"}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True},
        "train": {"batch_size": 8},
    },
    "cnn": {
        "data": {"shape": [13, 9, 3], "classes": 4, "samples": 26,
                 "normalize": {"mean": [0.45, 0.5, 0.4], "std": [0.25, 0.3, 0.2]}},
        "layers": [
            ("conv2d", {"out": 8, "kernel": 3, "padding": 1, "bias": False}), "batchnorm2d",
            ("maxpool2d", {"kernel": 3, "stride": 2, "padding": 1}), "relu",
            ("conv2d", {"out": 12, "kernel": [3, 2], "stride": [2, 1], "padding": [1, 0], "groups": 4}), "relu",
            ("conv2d", {"out": 8, "kernel": 3, "padding": 2, "dilation": 2, "bias": False}),
            ("batchnorm2d", {"eps": 0.001, "momentum": 0.2}), "relu",
            ("avgpool2d", {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 0]}),
            "flatten",
            ("linear", {"out": 10}), "relu",
            ("linear", {"out": 4}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
        "train": {"batch_size": 7},
    },
    "residual": {
        "data": {"shape": [8, 8, 1], "classes": 3, "samples": 22, "normalize": {"mean": [0.5], "std": [0.25]}},
        "layers": [
            ("conv2d", {"out": 6, "kernel": 3, "padding": 1, "bias": False, "name": "stem"}), "batchnorm2d", "silu",
            ("residual", {
                "name": "down",
                "layers": [
                    ("conv2d", {"out": 10, "kernel": 3, "stride": 2, "padding": 1, "bias": False}), "batchnorm2d", "silu",
                    ("conv2d", {"out": 10, "kernel": 3, "padding": 1, "bias": False}), "batchnorm2d",
                ],
                "shortcut": [("conv2d", {"out": 10, "kernel": 1, "stride": 2, "bias": False}), "batchnorm2d"],
            }), "silu",
            ("repeat", {"times": 2, "layers": [
                ("residual", {"layers": [
                    ("conv2d", {"out": 10, "kernel": 3, "padding": 1, "groups": 2, "bias": False}), "batchnorm2d", "silu",
                ]}),
            ]}),
            "global_avgpool",
            ("sequential", {"layers": [("linear", {"out": 8}), "silu", ("linear", {"out": 3})]}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "adamw", "lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.1},
        "schedule": {"type": "cosine"},
        "train": {"batch_size": 6},
    },
    "shared": {
        "data": {"shape": [9, 7, 3], "classes": 4, "samples": 26,
                 "normalize": {"mean": [0.45, 0.5, 0.4], "std": [0.25, 0.3, 0.2]}},
        "layers": [
            ("conv2d", {"out": 6, "kernel": 3, "padding": 1, "name": "stem"}), ("batchnorm2d", {"name": "norm"}), "relu",
            ("conv2d", {"out": 6, "kernel": 3, "padding": 1, "bias": False, "name": "conv"}),
            ("batchnorm2d", {"share": "norm"}), ("prelu", {"num": 6, "name": "slope"}),
            ("conv2d", {"out": 6, "kernel": 3, "padding": 2, "stride": 2, "dilation": 2, "bias": False, "share": "conv"}),
            ("batchnorm2d", {"share": "norm"}), ("prelu", {"num": 6, "share": "slope"}),
            ("conv2d", {"out": 6, "kernel": 3, "bias": False, "share": "conv"}),
            ("groupnorm", {"groups": 2, "name": "groups"}), ("groupnorm", {"groups": 2, "share": "groups"}),
            "global_avgpool",
            ("linear", {"out": 6, "name": "hidden"}), ("layernorm", {"name": "rows"}), "silu",
            ("repeat", {"times": 2, "layers": [
                ("residual", {"layers": [("linear", {"out": 6, "share": "hidden"}), ("layernorm", {"share": "rows"}), "tanh"]}),
            ]}),
            ("linear", {"out": 4}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
        "train": {"batch_size": 6, "clip_norm": 1.0},
    },
    "residual_relu": {
        "data": {"shape": [8, 6, 3], "classes": 4, "samples": 26,
                 "normalize": {"mean": [0.45, 0.5, 0.4], "std": [0.25, 0.3, 0.2]}},
        "layers": [
            ("conv2d", {"out": 6, "kernel": 3, "padding": 1, "bias": False}), "batchnorm2d", "relu",
            ("residual", {"layers": [
                ("conv2d", {"out": 6, "kernel": 3, "padding": 1, "bias": False}), "batchnorm2d", "relu",
                ("conv2d", {"out": 6, "kernel": 3, "padding": 1, "bias": False}), ("batchnorm2d", {"affine": False}),
            ]}), "relu",
            ("residual", {
                "layers": [
                    ("conv2d", {"out": 9, "kernel": 3, "stride": 2, "padding": 1, "bias": False}), "batchnorm2d", "relu",
                    ("conv2d", {"out": 9, "kernel": 3, "padding": 1, "bias": False}), "batchnorm2d",
                ],
                "shortcut": [("conv2d", {"out": 9, "kernel": 1, "stride": 2, "bias": False}), "batchnorm2d"],
            }), "relu",
            "global_avgpool",
            ("linear", {"out": 4}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
        "train": {"batch_size": 7},
    },
    "group_norms": {
        "data": {"shape": [9, 7, 3], "classes": 4, "samples": 26,
                 "normalize": {"mean": [0.45, 0.5, 0.4], "std": [0.25, 0.3, 0.2]}},
        "layers": [
            ("conv2d", {"out": 8, "kernel": 3, "padding": 1, "bias": False}), ("groupnorm", {"groups": 4}), "relu",
            ("conv2d", {"out": 10, "kernel": 3, "stride": 2}), ("instancenorm2d", {"eps": 0.01}), "silu",
            ("conv2d", {"out": 6, "kernel": 1}), ("instancenorm2d", {"affine": True, "eps": 0.001}), "gelu",
            ("groupnorm", {"groups": 3, "affine": False}),
            "flatten",
            ("linear", {"out": 12}), ("batchnorm1d", {"momentum": 0.3}), "silu",
            ("linear", {"out": 10}), ("groupnorm", {"groups": 2, "eps": 0.01}), "tanh",
            ("linear", {"out": 4}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "sgd", "lr": 0.02, "momentum": 0.9, "weight_decay": 0.01},
        "train": {"batch_size": 7},
    },
    "residual_layernorm": {
        "data": {"shape": [10], "classes": 4, "samples": 33},
        "layers": [
            ("linear", {"out": 12}),
            ("repeat", {"times": 3, "layers": [
                ("residual", {"layers": ["layernorm", ("linear", {"out": 20}), "gelu", ("linear", {"out": 12})]}),
            ]}),
            ("residual", {"layers": [("linear", {"out": 12}), "tanh"]}), "layernorm",
            ("linear", {"out": 4}),
        ],
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "adamw", "lr": 0.01, "weight_decay": 0.1},
        "train": {"batch_size": 8},
    },
    "layernorm": {
        "data": {"shape": [10], "classes": 4, "samples": 33},
        "layers": [
            ("linear", {"out": 20}), "layernorm", "sigmoid", ("dropout", {"p": 0.0}),
            ("linear", {"out": 14}), ("layernorm", {"eps": 0.001}), ("gelu", {"approximate": "tanh"}),
            ("linear", {"out": 4}),
        ],
        "loss": {"type": "cross_entropy", "label_smoothing": 0.1, "class_weights": [1.0, 0.5, 2.0, 1.5]},
        "optimizer": {"type": "adam", "lr": 0.02},
        "train": {"batch_size": 8, "clip_norm": 0.5},
    },
    "regression": {
        "data": {"shape": [7], "classes": 0, "samples": 29},
        "layers": [("linear", {"out": 16}), "silu", "layernorm", ("linear", {"out": 12}), "tanh", ("linear", {"out": 1})],
        "loss": {"type": "mse"},
        "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.8, "weight_decay": 0.02, "decay_norms_and_biases": True},
        "schedule": {"type": "step", "every": 6, "gamma": 0.5},
        # 8 + 8, then 8 + 5: an update divides by its own number of samples.
        "train": {"batch_size": 8, "accumulation_steps": 2},
    },
    "features": {
        "data": {"shape": [9, 7, 2], "classes": 0, "target_shape": [9, 7, 3], "samples": 29,
                 "normalize": {"mean": [0.45, 0.5], "std": [0.25, 0.3]}},
        "layers": [("conv2d", {"out": 6, "kernel": 3, "padding": 1}), "silu", ("conv2d", {"out": 3, "kernel": 3, "padding": 1})],
        "loss": [
            {"type": "mse", "weight": 0.25},
            {"type": "feature", "weight": 1.5, "network": {"layers": [
                ("sequential", {"name": "features", "layers": [
                    ("conv2d", {"out": 6, "kernel": 3, "padding": 1}), "batchnorm2d", "relu", ("maxpool2d", {"kernel": 2}),
                    ("conv2d", {"out": 8, "kernel": 3, "padding": 1}), ("groupnorm", {"groups": 2}), "gelu",
                    ("conv2d", {"out": 4, "kernel": 1})]}),
                "flatten", ("linear", {"out": 3, "name": "head"})], "weights": {"file": "frozen.safetensors"}},
             "layers": ["features.2", "features.4", "features.6"], "layer_weights": [1.0, 0.5, 2.0], "distance": "mse"},
        ],
        "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9},
        # 8 + 8, then 8 + 5.
        "train": {"batch_size": 8, "accumulation_steps": 2},
    },
    "binary": {
        "data": {"shape": [6], "classes": 0, "samples": 27, "binary": True},
        "layers": [("linear", {"out": 12}), "relu", ("linear", {"out": 8}), "sigmoid", ("linear", {"out": 1})],
        "loss": {"type": "bce_with_logits"},
        "optimizer": {"type": "adam", "lr": 0.02, "weight_decay": 0.01, "eps": 1.0e-6},
        "train": {"batch_size": 10},
    },
}
