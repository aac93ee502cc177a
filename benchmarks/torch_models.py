"""Models of the field, with random weights, in given sizes: what the PyTorch backend is measured and tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int, depth: int = 3) -> None:
        super().__init__()
        sizes = [width, *[hidden] * (depth - 1), width]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = F.gelu(layer(x))
        return self.layers[-1](x)


class Block(nn.Module):
    """A layer of GPT-2: attention that looks back alone, then a gelu between two products; norms in front."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Llama(nn.Module):
    """A layer of LLaMA: RMS norms, rotary positions, a gated product."""

    def __init__(self, width: int, heads: int, hidden: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], -1))
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], -1))

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        h = self.norm1(x)
        q, k, v = (p(h).view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Dlrm(nn.Module):
    """Numbers and categories to one share: embeddings, products of all pairs, two perceptrons (Naumov et al. 2019)."""

    def __init__(self, numbers: int, rows: int, tables: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(numbers, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1))
        first, second = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("first", first)
        self.register_buffer("second", second)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        x = self.bottom(numbers)
        rows = torch.stack([x, *(table(categories[:, n]) for n, table in enumerate(self.tables))], 1)
        products = rows @ rows.transpose(1, 2)
        pairs = products[:, self.first, self.second]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = (
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            if stride > 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.short(x))


class ResNet(nn.Module):
    """ResNet-18 where `layers` is 2 and `width` 64."""

    def __init__(self, width: int = 64, layers: int = 2, classes: int = 1000, stages: int = 4) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        blocks: list[nn.Module] = []
        channels = width
        for n in range(stages):
            for k in range(layers):
                blocks.append(Residual(channels, width << n, 2 if n and not k else 1))
                channels = width << n
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


class Language(nn.Module):
    """A language model of characters: what a training loop is tried on."""

    def __init__(self, letters: int, width: int, heads: int, length: int, depth: int = 1) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, letters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.letters(text) + self.places))


@dataclass(frozen=True)
class Case:
    """A model and what it is called with, for a batch."""

    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]


def cases(small: bool) -> list[Case]:
    """The models as they are measured, or `small` for tests."""
    w, t = (32, 8) if small else (512, 128)
    rows = 50 if small else 10_000
    image = 32 if small else 224
    resnet = (lambda: ResNet(4, 1, 10, 1)) if small else ResNet
    return [
        Case("MLP", lambda: Mlp(w, 4 * w), lambda b: (torch.randn(b * (1 if small else 32), w),)),
        Case("transformer block", lambda: Block(w, w // 16 if small else 8), lambda b: (torch.randn(b, t, w),)),
        Case("LLaMA layer", lambda: Llama(w, w // 16 if small else 8, 3 * w, t), lambda b: (torch.randn(b, t, w),)),
        Case("DLRM", lambda: Dlrm(13, rows, 4 if small else 26, w // 4 if small else 64),
             lambda b: (torch.randn(b * (2 if small else 32), 13),
                        torch.randint(0, rows, (b * (2 if small else 32), 4 if small else 26)))),
        Case("ResNet-18", lambda: resnet().eval(), lambda b: (torch.randn(b, 3, image, image),)),
    ]  # fmt: skip
