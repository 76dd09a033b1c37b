#!/usr/bin/env python3
"""scripts/pytorch_transformers.py MODEL BATCH: what PyTorch's autograd saves for one batch of a transformer.

MODEL is gpt2_124m, of 1,024 tokens, or vit_b_16, torchvision's, of 224×224 pixels. Prints a line of JSON: the bytes of the
storages that torch.autograd.graph.saved_tensors_hooks sees, parameters left out. The tensors are fake: they have shapes and
no bytes, so that nothing is computed or allocated. Attention is PyTorch's fused one, which saves no scores.
"""
import json
import sys
from unittest import mock

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bench_models import make_gpt2_124m

GPT_LENGTH, IMAGE = 1024, 224


def make_gpt(batch):
    tokens = torch.zeros(batch, GPT_LENGTH, dtype=torch.long)
    return make_gpt2_124m(), tokens, tokens.flatten()


def make_vit(batch):
    import torchvision  # what the other does not need
    with mock.patch.object(nn.init, "trunc_normal_"):  # which looks at numbers that fake tensors have not
        model = torchvision.models.vit_b_16()
    return model, torch.zeros(batch, 3, IMAGE, IMAGE), torch.zeros(batch, dtype=torch.long)


MODELS = {"gpt2_124m": make_gpt, "vit_b_16": make_vit}


def answer(model_name, batch):
    seen = []

    def keep(tensor):
        seen.append(tensor)
        return tensor

    with FakeTensorMode():
        model, x, target = MODELS[model_name](batch)
        model.train()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            nn.functional.cross_entropy(model(x), target)
        held_anyway = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
        storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in seen}
    return {"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
            "saved_bytes": sum(size for address, size in storages.items() if address not in held_anyway)}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], int(sys.argv[2]))))
