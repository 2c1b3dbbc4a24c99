"""Bits per byte of recipes over the tokens they were trained on, all with the same budget of tokens.

    python -m benchmarks.quality sw --model MODEL --store URL --out FOLDER [--tokens 250000] [--only NAME] [--seed 0]

Every contestant of quality.yaml is one `langadapt run`; stages that several need are computed once, and what was broken
off goes on where it was. FOLDER gets results.jsonl, a line for each run, the newest of the same contestant and seed
counting, and from all of them results.md and results.svg.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from benchmarks.quality_results import Outcome, markdown, plot
from storage.store import Store

HERE = Path(__file__).resolve().parent
BITS, TOKENS_PER_BYTE = "bits_per_byte", "tokens_per_byte"


@dataclass(frozen=True)
class Contestant:
    """A recipe as it takes part.

    Attributes:
        name: in table and plot.
        recipe: name of the recipe.
        phases: its phases, as YAML.
        ours: whether no paper has published it.
        overrides: further values.
    """

    name: str
    recipe: str
    phases: str
    ours: bool = False
    overrides: tuple[str, ...] = ()


def contestants() -> tuple[list[Contestant], list[str]]:
    """Those of quality.yaml, and the values that all of them have."""
    table = yaml.safe_load((HERE / "quality.yaml").read_text(encoding="utf-8"))
    made = [
        Contestant(
            row["name"],
            row["recipe"],
            json.dumps(table["schemes"][row["scheme"]]),
            row.get("ours", False),
            tuple(row.get("overrides", ())),
        )
        for row in table["contestants"]
    ]
    return made, list(table["common"])


def run(contestant: Contestant, common: list[str], seed: int, options: argparse.Namespace) -> Outcome:
    """Run one contestant and read its scores.

    Raises:
        CalledProcessError: the run failed; its messages are on standard error.
    """
    own = [f"training.phases={contestant.phases}", f"training.tokens={options.tokens}", f"training.seed={seed}"]
    overrides = [*own, *common, *options.override, *contestant.overrides]
    command = [sys.executable, "-m", "flows.cli", "run", options.language, "--model", options.model]
    command += ["--recipe", contestant.recipe, "--no-prefect", "--json", "--store", options.store]
    command += [part for override in overrides for part in ("-o", override)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return _outcome(contestant, seed, json.loads(done.stdout), Store(options.store))


def _outcome(contestant: Contestant, seed: int, result: dict[str, Any], store: Store) -> Outcome:
    curve: list[tuple[int, float]] = []
    before = own = 0
    for key in (stage["key"] for stage in result["stages"] if stage["stage"] == "training"):
        found = store.lookup("training", key).artifact
        if found is None:
            raise SystemExit(f"artifact {key} of run {result['run_id']} is not in {store.layout.root}")
        rows = pq.read_table(store.open(found) / "validation.parquet").to_pylist()
        curve += [(before + row["tokens"], row[BITS]) for row in rows if row["tokens"] or not curve]
        before += rows[-1]["tokens"]
        texts = store.manifest(found).summary.get("texts", {})  # of a mixture
        own += texts["target"]["tokens"] if texts else rows[-1]["tokens"]
    scores = {(row["metric"], row["model"]): row["value"] for row in result["results"]}
    final = [model for metric, model in scores if metric == BITS and model.startswith("phase")][-1]
    return Outcome(
        name=contestant.name,
        ours=contestant.ours,
        seed=seed,
        tokens=before,
        bytes=own / scores[TOKENS_PER_BYTE, final],
        initial=scores[BITS, "initial"],
        test=scores[BITS, final],
        curve=curve,
        run=result["run_id"],
    )


def write(folder: Path, highest: float) -> None:
    """Make table and plot from the lines of results.jsonl."""
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    newest = {(row["name"], row["seed"]): Outcome(**row) for row in rows}
    (folder / "results.md").write_text(markdown(newest.values()), encoding="utf-8")
    (folder / "results.svg").write_text(plot(newest.values(), highest), encoding="utf-8")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("language")
    parser.add_argument("--model", required=True, help="name or folder of the source model")
    parser.add_argument("--store", required=True, help="artifact store")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--tokens", type=int, default=250_000, help="budget of every contestant")
    parser.add_argument("--only", action="append", help="name of a contestant, again for each; all without it")
    parser.add_argument("--seed", type=int, action="append", help="again for each; 0 without it")
    parser.add_argument("-o", "--override", action="append", default=[], help="further values for all")
    parser.add_argument("--highest", type=float, default=3.5, help="top of the plot, bits per byte")
    return parser.parse_args()


def main() -> None:
    """Run what the command line asks for; what is done is written after each run."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    named, common = contestants()
    for seed in options.seed or [0]:
        for contestant in named:
            if options.only is not None and contestant.name not in options.only:
                continue
            outcome = run(contestant, common, seed, options)
            with (options.out / "results.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(outcome)) + "\n")
            write(options.out, options.highest)
            print(
                f"{outcome.name}, seed {seed}: validation {outcome.validation:.4f}, test {outcome.test:.4f}", flush=True
            )


if __name__ == "__main__":
    main()
