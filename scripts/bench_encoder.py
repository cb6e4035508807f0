"""Measure how fast an encoder runs on the CPU, by each way to run it that is installed, side by side.

Ways take turns, so that a busy machine slows all alike; the best of their turns counts. The first line, torch in NCHW
with batch normalisation apart, is what the ratios and the differences are to.

    python scripts/bench_encoder.py --threads 2
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from io import BytesIO

import torch
from torch import Tensor, nn

from genar.encoders.load import fill
from genar.encoders.pooling import features
from genar.encoders.registry import Encoder, spec_of
from genar.encoders.runtime import openvino
from genar.encoders.timm_names import build
from genar.encoders.weights import weights_file

Way = Callable[[Tensor], Tensor]


class Plain(nn.Module):
    """An encoder as its parts are published."""

    def __init__(self, encoder: Encoder, network: nn.Module, memory: torch.memory_format) -> None:
        super().__init__()
        self.network, self.memory, self.pooling = network.eval().to(memory_format=memory), memory, encoder.spec.pooling
        self.register_buffer("mean", encoder.mean)
        self.register_buffer("std", encoder.std)

    def forward(self, tiles: Tensor) -> Tensor:
        """Return the features of tiles, uint8 [B, 3, H, W]."""
        x = (tiles.float() - self.mean) / self.std
        return features(self.network, x.contiguous(memory_format=self.memory), self.pooling)


def main() -> None:
    """Print a table, a way a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="efficientnet_lite0")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=6)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    spec = spec_of(args.encoder)
    network = build(spec)
    fill(network, spec, weights_file(spec))
    plain = copy.deepcopy(network)
    random = torch.Generator().manual_seed(0)
    tiles = torch.randint(0, 256, (args.batch, 3, spec.input_px, spec.input_px), dtype=torch.uint8, generator=random)
    ways, started = {}, {}
    before = time.perf_counter()
    with torch.no_grad():
        for name, way in made(Encoder(spec, network), plain, tiles, args.threads):
            results = way(tiles)
            ways[name], started[name] = way, (time.perf_counter() - before, results)
            before = time.perf_counter()
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(args.turns):
            for name, way in ways.items():
                start = time.perf_counter()
                way(tiles)
                best[name] = min(best[name], time.perf_counter() - start)
    first, (_, expected) = next(iter(started.items()))
    print(f"{spec.name}, batch {args.batch}, {args.threads} threads\n")
    print("| way | tiles/s | ratio | largest difference | start, s |\n|---|---|---|---|---|")
    for name, seconds in best.items():
        start, results = started[name]
        difference = float((results - expected).abs().max())
        print(f"| {name} | {args.batch / seconds:.1f} | {best[first] / seconds:.2f} | {difference:.0e} | {start:.1f} |")


def made(encoder: Encoder, plain: nn.Module, tiles: Tensor, threads: int) -> Iterator[tuple[str, Way]]:
    """Yield the ways that there are."""
    last = torch.channels_last
    yield "torch, NCHW", Plain(encoder, copy.deepcopy(plain), torch.contiguous_format)
    yield "torch, channels last", Plain(encoder, copy.deepcopy(plain), last)
    fused = Plain(encoder, encoder.network, last)
    yield "torch, channels last, fused", fused
    yield "torch.compile, fused", torch.compile(fused, options={"freezing": True})
    if find_spec("onnxruntime") and find_spec("onnx"):
        yield "ONNX Runtime", onnx(fused, tiles, threads)
    if find_spec("openvino"):
        yield "OpenVINO", openvino(fused, encoder.spec.input_px)


def onnx(network: nn.Module, tiles: Tensor, threads: int) -> Way:
    """Compile a network with ONNX Runtime."""
    import onnxruntime

    buffer = BytesIO()
    axes = {"tiles": {0: "n"}, "features": {0: "n"}}
    torch.onnx.export(
        network, (tiles[:2],), buffer, input_names=["tiles"], output_names=["features"], dynamic_axes=axes, dynamo=False
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(buffer.getvalue(), options, providers=["CPUExecutionProvider"])
    return lambda given: torch.from_numpy(session.run(None, {"tiles": given.numpy()})[0])


if __name__ == "__main__":
    main()
