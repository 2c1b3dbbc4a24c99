"""Loss and gradients of an LM head: time and peak memory of ways to compute them, at a large vocabulary.

The section `loss` of benchmarks/training.py. Each way runs in a process of its own. "Beyond inputs" is its peak above
that of a process which has only hidden states, weight and their gradients: what the loss itself needs. Ways:

- plain: logits of all tokens in float32, cross_entropy; what transformers' own loss does
- plain frozen: the same with a head that is not trained
- torch: torch.nn.functional.linear_cross_entropy, in newer versions of torch; slow on a CPU, so only by hand
- langadapt: tasks.training.linear_cross_entropy; also "frozen", and "evaluation" without any gradients

By hand, one way, on a GPU for instance (its peak is then that of the GPU's memory):

    python -m benchmarks.training_loss WAY [--vocabulary 131072] [--tokens 1024] [--width 512] [--device cuda]
        [--bfloat16] [--chunk N] [--threads 2] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.alignment_results import Bar, Cell, Section, table
from benchmarks.measured_child import measure
from tasks.training.linear_cross_entropy import linear_cross_entropy

ROUNDS = 2
WAYS = ("plain", "langadapt", "plain frozen", "langadapt frozen", "plain evaluation", "langadapt evaluation")
MIB = 2**20
TOLERANCE = 1e-4  # of the loss
MEMORY = 0.5  # of the plain way's


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


def figures_of(way: str, options: argparse.Namespace) -> dict[str, float]:
    """Seconds, loss and (of a GPU) peak memory of one way, in this process."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    device = torch.device(options.device)
    hidden = torch.randn(options.tokens, options.width, device=device).requires_grad_()
    weight = torch.randn(options.vocabulary, options.width, device=device).mul_(0.02).requires_grad_()
    labels = torch.randint(options.vocabulary, (options.tokens,), device=device)
    weight.requires_grad_("frozen" not in way)
    loss_function = loss_of(way, options.chunk)
    seconds, loss = [], float("nan")
    for _ in range(ROUNDS):
        hidden.grad = weight.grad = None
        synchronize(device)
        started = time.perf_counter()
        with torch.set_grad_enabled("evaluation" not in way):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=options.bfloat16):
                mean = loss_function(hidden, weight, labels)
            if mean.requires_grad:
                mean.backward()  # type: ignore[no-untyped-call]  # torch
        synchronize(device)
        seconds.append(time.perf_counter() - started)
        loss = mean.item()
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    return {"seconds": min(seconds), "loss": loss, "peak_bytes": peak}


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def loss(sizes: tuple[int, int, int], threads: int) -> Section:
    """All ways on the CPU; `sizes`: vocabulary, tokens, width."""
    vocabulary, tokens, width = sizes
    found = {way: _measured(way, sizes, threads) for way in WAYS}
    inputs = {base: _measured(base, sizes, threads) for base in map(_inputs_of, WAYS[::2])}
    for way, figures in found.items():
        figures["beyond_inputs"] = figures["peak_bytes"] - inputs[_inputs_of(way)]["peak_bytes"]
    title = f"Loss of {tokens:,} tokens, vocabulary {vocabulary:,}, width {width}"
    columns = ("", "seconds", "peak MiB", "beyond inputs", "loss")
    rows: list[list[Cell]] = [
        [way, of["seconds"], of["peak_bytes"] / MIB, of["beyond_inputs"] / MIB, of["loss"]] for way, of in found.items()
    ]
    bars = [
        Bar(
            f"loss: {ours}, memory beyond inputs over that of {plain}",
            found[ours]["beyond_inputs"] / found[plain]["beyond_inputs"],
            MEMORY,
            at_least=False,
        )
        for plain, ours in zip(WAYS[::2], WAYS[1::2], strict=True)
    ]
    worst = max(abs(figures["loss"] - found["plain"]["loss"]) for figures in found.values())
    bars.append(Bar("loss: largest difference", worst, TOLERANCE, at_least=False))
    return Section("loss", [table(title, columns, rows)], [{"way": way, **of} for way, of in found.items()], bars)


def _inputs_of(way: str) -> str:
    """The way that only has the inputs of `way`."""
    return way.replace(way.split()[0], "inputs")


def _measured(way: str, sizes: tuple[int, int, int], threads: int) -> dict[str, float]:
    """The figures of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        options = zip(("vocabulary", "tokens", "width", "threads"), (*sizes, threads), strict=True)
        command = [sys.executable, "-m", "benchmarks.training_loss", way, "--json", str(file)]
        measured = measure(command + [part for name, value in options for part in (f"--{name}", str(value))], threads)
        return {**json.loads(file.read_text()), "peak_bytes": measured.peak_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way")
    for name, default in (("vocabulary", 131072), ("tokens", 1024), ("width", 512), ("threads", 2), ("chunk", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    text = json.dumps(figures_of(options.way, options))
    if options.json is None:
        print(text)
    else:
        options.json.write_text(text)


if __name__ == "__main__":
    main()
