"""U-Net in PyTorch, which torchvision has not: as Ronneberger et al. 2015 draw it, with padding and batch norms. Modules have
the names of the layers of configs/models/unet.yaml.
"""
import torch
from torch import nn


def double_conv(channels, out):
    return nn.ModuleDict({"convs": nn.Sequential(
        nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
        nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())})


class UNet(nn.Module):
    """`up`: "transpose" or "bilinear"."""

    def __init__(self, width, depth, up, num_classes):
        super().__init__()
        self.depth = depth
        channels = 3
        for level in range(depth):
            self.add_module(f"down{level}", double_conv(channels, width << level))
            channels = width << level
        self.pool = nn.MaxPool2d(2)
        self.add_module("bottom", double_conv(channels, width << depth))
        for level in reversed(range(depth)):
            out, below = width << level, width << (level + 1)
            self.add_module(f"enlarged{level}", nn.Sequential(nn.ConvTranspose2d(below, out, 2, stride=2)) if
                            up == "transpose" else nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"),
                                                                 nn.Conv2d(below, out, 1)))
            self.add_module(f"up{level}", double_conv(2 * out, out))
        self.add_module("head", nn.Conv2d(width, num_classes, 1))

    def forward(self, x):
        kept = []
        for level in range(self.depth):
            kept.append(self.get_submodule(f"down{level}.convs")(x))
            x = self.pool(kept[-1])
        x = self.bottom["convs"](x)
        for level in reversed(range(self.depth)):
            x = torch.cat([kept[level], self.get_submodule(f"enlarged{level}")(x)], dim=1)
            x = self.get_submodule(f"up{level}.convs")(x)
        return self.head(x)
