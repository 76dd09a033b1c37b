"""The networks of bench_cpu.py and bench_gpu.py in PyTorch, as their YAML files describe them."""
import torch
from torch import nn

from pytorch_gpt import GPT
from pytorch_unet import UNet


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU(True),
            nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False), nn.BatchNorm2d(channels_out))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out))

    def forward(self, x):
        return torch.relu_(self.layers(x) + self.shortcut(x))


def make_mlp(width, depth):
    layers = [nn.Flatten()]
    for features in [784] + [width] * (depth - 1):
        layers += [nn.Linear(features, width), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def make_cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(True), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(True),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(True), nn.Linear(128, 10))


def make_resnet18():
    layers = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    channels = 64
    for out in (64, 128, 256, 512):
        for stride in (1 if out == 64 else 2, 1):
            # As in the YAML: the block adds, the ReLU behind it is a layer of its own.
            layers.append(BasicBlock(channels, out, stride))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def make_resnet50():
    import torchvision  # what the other networks do not need
    return torchvision.models.resnet50(num_classes=10)


def make_unet():
    return UNet(64, 4, "transpose", 2)


def make_gpt_mini():
    return GPT(6, 384, 6, 65, 256)


def make_gpt2_124m():
    return GPT(12, 768, 12, 50257, 1024)


# By the names of bench_gpu.py.
MODELS = {"mlp_small": lambda: make_mlp(256, 2), "mlp_wide": lambda: make_mlp(2000, 2), "resnet18": make_resnet18,
          "mlp_deep": lambda: make_mlp(5000, 5)}


def trainer_names(network, model):
    """For each tensor of the model's state but num_batches_tracked, in order: its name in trainer's files."""
    names = [name for name in model.state_dict() if not name.endswith("num_batches_tracked")]
    if network == "mlp_deep":
        # Layer 3 of the YAML repeats a linear layer and its ReLU, each time under a number.
        places = {1: "1", 3: "3.0.0", 5: "3.1.0", 7: "3.2.0", 9: "3.3.0", 11: "4"}
    elif network == "resnet18":
        # Blocks 3 … 10 are layers 3, 5, … 17 of the YAML, each followed by its ReLU; the head is layer 20.
        places = {place: str(3 + 2 * (place - 3) if 3 <= place <= 10 else place + 7 if place > 10 else place)
                  for place in range(14)}
    else:
        return names
    return [places[int(place)] + "." + rest for place, _, rest in (name.partition(".") for name in names)]
