"""Loss and gradients of an LM head: time and peak memory of ways to compute them, at a large vocabulary. Informational.

Each way runs in a process of its own (on a CPU). "beyond inputs" is its peak above that of a process which has only
hidden states, weight and their gradients: what the loss itself needs. Ways:

- plain: logits of all tokens in float32, cross_entropy; what transformers' own loss does
- plain frozen: the same with a head that is not trained
- torch: torch.nn.functional.linear_cross_entropy, in newer versions of torch; with its own choice of blocks unless
  --chunk is given, and slow with it on a CPU, so only when asked for
- langadapt: tasks.training.linear_cross_entropy; also "frozen", and "evaluation" without any gradients

    python -m benchmarks.training_loss [--vocabulary 131072] [--tokens 1024] [--width 512] [--device cpu] [--threads 1]
        [--bfloat16] [--chunk N] [--ways plain,langadapt]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.measured_child import measure
from tasks.training.linear_cross_entropy import linear_cross_entropy

ROUNDS = 2
WAYS = ("plain", "langadapt", "plain frozen", "langadapt frozen", "plain evaluation", "langadapt evaluation")
MIB = 2**20


def loss_of(way: str, chunk: int | None) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The function (hidden, weight, labels) -> mean loss of `way`."""

    def inputs(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        return 0.0 * (hidden.sum() + weight.sum())

    def plain(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(nn.functional.linear(hidden, weight).float(), labels)

    def in_torch(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.linear_cross_entropy(
            hidden, weight, labels, options=nn.LinearCrossEntropyOptions(batch_chunk_size=chunk)
        )

    def ours(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        return linear_cross_entropy(hidden, weight, labels, chunk=chunk) / len(labels)

    return {"inputs": inputs, "plain": plain, "torch": in_torch, "langadapt": ours}[way.split()[0]]


def child(arguments: argparse.Namespace) -> None:
    """Measure one way in this process and write its figures."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    device = torch.device(arguments.device)
    hidden = torch.randn(arguments.tokens, arguments.width, device=device).requires_grad_()
    weight = torch.randn(arguments.vocabulary, arguments.width, device=device).mul_(0.02).requires_grad_()
    labels = torch.randint(arguments.vocabulary, (arguments.tokens,), device=device)
    weight.requires_grad_("frozen" not in arguments.child)
    loss_function = loss_of(arguments.child, arguments.chunk)
    seconds, loss = [], float("nan")
    for _ in range(ROUNDS):
        hidden.grad = weight.grad = None
        synchronize(device)
        started = time.perf_counter()
        with torch.set_grad_enabled("evaluation" not in arguments.child):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=arguments.bfloat16):
                summed = loss_function(hidden, weight, labels)
            if summed.requires_grad:
                summed.backward()  # type: ignore[no-untyped-call]  # torch
        synchronize(device)
        seconds.append(time.perf_counter() - started)
        loss = summed.item()
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    arguments.figures.write_text(json.dumps({"seconds": min(seconds), "loss": loss, "peak_bytes": peak}))


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def figures_of(way: str, arguments: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks.training_loss",
            *sys.argv[1:],
            "--child",
            way,
            "--figures",
            str(file),
        ]
        if arguments.device == "cuda":
            subprocess.run(command, check=True)
            return dict(json.loads(file.read_text()))
        measured = measure(command, arguments.threads)
        return {**json.loads(file.read_text()), "peak_bytes": measured.peak_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("vocabulary", 131072), ("tokens", 1024), ("width", 512), ("threads", 1), ("chunk", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--figures", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    print(f"{arguments.tokens} tokens, vocabulary {arguments.vocabulary}, width {arguments.width}, {arguments.device}")
    print(f"{'way':22} {'seconds':>8} {'peak MiB':>9} {'beyond inputs':>14} {'loss':>9}")
    for way in arguments.ways.split(","):
        base = figures_of(way.replace(way.split()[0], "inputs"), arguments)["peak_bytes"]
        found = figures_of(way, arguments)
        peak, beyond = found["peak_bytes"] / MIB, (found["peak_bytes"] - base) / MIB
        print(f"{way:22} {found['seconds']:8.2f} {peak:9.0f} {beyond:14.0f} {found['loss']:9.5f}", flush=True)


if __name__ == "__main__":
    main()
