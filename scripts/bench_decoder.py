"""Speed and memory of the decoders: a training step and greedy generation, side by side in one run.

Each case runs in a process of its own, so that its peak memory is its own. ``python scripts/bench_decoder.py --help``
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

SCALES = {
    7: (1, 3, 7),
    200: (1, 4, 8, 40, 100, 200),
    2000: (1, 4, 8, 40, 100, 2000),
    18000: (1, 8, 40, 200, 18000),
}
DECODERS = {
    "cumulative": {"decoder": "cumulative", "handed_on": "greedy"},
    "block_causal, whole": {"gene_attention": "scale"},
    "block_causal": {},  # as by default: genes through half of the layers, and apart
}


def case(options: argparse.Namespace) -> dict[str, float]:
    """Measure one decoder on one panel: seconds a training step, spots/s generated, peak memory in GB, tokens."""
    import torch

    from genar.genes.hierarchy import Blocks
    from genar.model.block_causal import BlockCausal
    from genar.model.condition import Spots
    from genar.model.config import ModelConfig
    from genar.model.cumulative import Cumulative
    from genar.model.decoder import Choice

    torch.manual_seed(0)
    device = torch.device(options.device)
    scales = SCALES[options.genes]
    settings = DECODERS[options.decoder] | {"width": options.width, "layers": options.layers, "heads": options.heads}
    if options.decoder == "block_causal, whole":
        settings["gene_layers"] = options.layers
    config = ModelConfig.model_validate(settings | {"position": "published"})
    build = Cumulative if config.decoder == "cumulative" else BlockCausal
    network = build(config, Blocks.of(scales), 1024, options.max_count).to(device)
    spots = Spots(torch.randn(options.batch, 1024, device=device), torch.rand(options.batch, 2, device=device))
    counts = torch.poisson(torch.full((options.batch, scales[-1]), 5.0, device=device)).long()
    network.recompute = options.recompute
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)

    def sync() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    def timed(step) -> list[float]:
        seconds = []
        for _ in range(options.steps + 1):
            start = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16, enabled=options.bf16):
                step()
            sync()
            seconds.append(time.perf_counter() - start)
        return seconds[1:] if options.steps else seconds  # the first warms up

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        network.loss(spots, counts).backward()
        optimizer.step()

    def peak() -> float:
        if device.type == "cuda":
            return torch.cuda.max_memory_allocated() / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9

    result = {}
    if options.case[2] == "generate":
        network.eval()
        result["generate_s"] = min(timed(lambda: network.generate(spots, lambda p, _: p.argmax(-1), Choice("greedy"))))
        result["generate_gb"] = peak()
    else:
        network.train()
        result["train_s"] = min(timed(train))
        result["train_gb"] = peak()
    return result


def tokens(decoder: str, genes: int) -> int:
    """Return how many positions a spot's generation computes."""
    scales = np.array(SCALES[genes])
    return int((1 + np.cumsum(scales)).sum()) if decoder == "cumulative" else int(scales.sum())


def main() -> None:
    """Run every case and print one table; ratios are to the first decoder of the same panel."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--decoders", nargs="+", default=list(DECODERS), choices=list(DECODERS))
    add("--panels", nargs="+", type=int, default=[200], choices=list(SCALES))
    add("--width", type=int, default=512)
    add("--layers", type=int, default=8)
    add("--heads", type=int, default=8)
    add("--max-count", type=int, default=2000)
    add("--batch", type=int, default=16)
    add("--steps", type=int, default=3, help="timed steps after one that warms up; the best counts")
    add("--device", default="cpu")
    add("--bf16", action="store_true", help="autocast to bfloat16")
    add("--recompute", action="store_true", help="compute activations anew in the backward pass")
    add("--what", nargs="+", default=["train", "generate"], choices=["train", "generate"])
    add("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        options.decoder, options.genes = options.case[0], int(options.case[1])
        print(json.dumps(case(options)))
        return
    print("| genes | decoder | tokens | train: s a step | spots/s | ratio | GB | generate: s | spots/s | ratio | GB |")
    print("|---" * 11 + "|", flush=True)
    for genes in options.panels:
        first: dict[str, float] = {}
        for decoder in options.decoders:
            found: dict[str, float] = {}
            for what in options.what:
                command = [sys.executable, __file__, *sys.argv[1:], "--case", decoder, str(genes), what]
                run = subprocess.run(command, capture_output=True, text=True, check=False)
                if run.returncode == 0:
                    found |= json.loads(run.stdout.splitlines()[-1])
                else:
                    reason = run.stderr.strip().splitlines()
                    print(f"{genes} genes, {decoder}, {what}: {reason[-1:] or run.returncode}", file=sys.stderr)
            first = first or found
            cells = [str(genes), decoder, str(tokens(decoder, genes))]
            for what in ("train", "generate"):
                seconds = found.get(f"{what}_s")
                if seconds is None:
                    cells += ["-"] * 4
                    continue
                cells += [f"{seconds:.2f}", f"{options.batch / seconds:.2f}"]
                cells += [f"{first[f'{what}_s'] / seconds:.2f}" if f"{what}_s" in first else "-"]
                cells += [f"{found[f'{what}_gb']:.2f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
