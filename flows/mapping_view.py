"""Looking into a token mapping of a store: one token's sources, or how much of the text which origin covers."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.faults import ConfigError
from configs.schema import valid_code
from flows.inspection import newest_runs
from flows.settings import Settings, open_store
from storage.store import Store

STAGE = "mapping"
MARKS = ("▁", "Ġ", " ", "##")
SUGGESTIONS = 8


@dataclass(frozen=True)
class FoundMapping:
    """A mapping in the store.

    Attributes:
        key: the artifact's key.
        label: what people read, for instance 'mapping en-eo'.
        folder: its files.
    """

    key: str
    label: str
    folder: Path


def find_mapping(where: Settings, what: str) -> FoundMapping:
    """The mapping artifact whose key, or that of the run whose id, or of the newest run of the language, is `what`.

    Raises:
        ConfigError: nothing or more than one mapping fits.
    """
    store = open_store(where)
    if not what:
        raise ConfigError("which mapping? Give a language that was run, a run id, or a mapping's key")
    labels = _of_runs(where, what)
    by_key = {item.key: f"mapping {item.key[:12]}" for item in store.manifests(STAGE) if item.key.startswith(what)}
    found = labels or by_key
    if len(found) == 1:
        ((key, label),) = found.items()
        methods = [item.config.get("method") for item in store.manifests(STAGE) if item.key == key]
        return FoundMapping(key, f"{label} ({', '.join(map(str, methods))})", _folder(store, key))
    if not found:
        raise ConfigError(
            f"{what!r} fits no mapping: give a language that was run ('langadapt status'), a run id, or the first "
            "letters of a mapping's key ('langadapt query \"SELECT key FROM artifacts WHERE stage = 'mapping'\"')"
        )
    listed = "\n".join(f"  {key[:16]}  {label}" for key, label in found.items())
    raise ConfigError(f"{what!r} fits {len(found)} mappings; give the first letters of a key:\n{listed}")


def _of_runs(where: Settings, what: str) -> dict[str, str]:
    """Key -> label of the mappings of the newest run of the language, or of the runs whose ids begin so."""
    found: dict[str, str] = {}
    for run in newest_runs(where):
        of_language = valid_code(what) and run.get("language") == what
        if run["run_id"].startswith(what) or of_language:
            found |= {
                stage["key"]: f"{stage['label']}, run {run['run_id']}"
                for stage in run["stages"]
                if stage["stage"] == STAGE and stage["key"] not in found
            }
            if found and of_language:
                break
    return found


def _folder(store: Store, key: str) -> Path:
    lookup = store.lookup(STAGE, key)
    if lookup.artifact is None:
        raise ConfigError(f"mapping {key[:16]}: {lookup.problem or 'its artifact is gone'}; run it again")
    return store.open(lookup.artifact)


def overview(found: FoundMapping) -> dict[str, Any]:
    """Size, coverage weighted by frequency, and rows by origin (see `tasks.report.mapping`), as plain JSON types."""
    import pyarrow.parquet as pq

    from tasks.report.mapping import origins, weighted_coverage

    tokens = pq.read_table(found.folder / "tokens.parquet")
    coverage, bands = weighted_coverage(tokens, found.folder)
    return {
        "key": found.key,
        "label": found.label,
        "folder": str(found.folder),
        "tokens": tokens.num_rows,
        "coverage": coverage,
        "origins": origins(tokens),
        "bands": bands,
    }


def show_token(found: FoundMapping, text: str, limit: int) -> list[dict[str, Any]]:
    """The rows of the tokens that `text` names, with their strongest `limit` sources, as plain JSON types.

    A token is named by the tokenizer's own string ('▁vijftien', 'Ġvijftien'), or by its text with or without the mark
    of a word's start; without it, the token that starts a word and the one that does not are both meant.

    Raises:
        ConfigError: the vocabulary has no such token; the nearest are named.
    """
    import pyarrow.parquet as pq

    tokens = pq.read_table(found.folder / "tokens.parquet")
    names = tokens["token"].to_pylist()
    texts = tokens["text"].to_pylist() if "text" in tokens.column_names else names
    chosen = _named(text, names, texts)
    if not chosen:
        near = _near(text, texts)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise ConfigError(f"no token {text!r} among the {len(names):,} of {found.label}{hint}")
    total = sum(tokens["frequency"].to_pylist())
    sources = _sources(found.folder, chosen)
    numbers = _rows_of_numbers(found.folder, tokens.num_rows)
    rows = []
    for row in chosen:
        values = tokens.slice(row, 1).to_pylist()[0]
        rows.append(
            {
                "token": values["token"],
                "text": texts[row],
                "target_id": row,
                "origin": values["origin"],
                "frequency": values["frequency"],
                "frequency_share": values["frequency"] / total if total else None,
                "entropy": values["entropy"],
                "sources": len(sources.get(row, [])),
                "made": "mean" if row in sources else "numbers" if row in numbers else "drawn",
                "weights": sources.get(row, [])[:limit],
            }
        )
    return rows


def _named(text: str, names: list[str], texts: list[str]) -> list[int]:
    """Ids of the tokens that `text` names, the tokenizer's own string first."""
    bare = _bare(text)
    if text != bare and bare:
        marked = "▁" + bare if text[0] in ("▁", "Ġ", " ") else bare
        return [i for i, name in enumerate(names) if text in (name, texts[i]) or (marked == texts[i])]
    exact = [i for i, name in enumerate(names) if text in (name, texts[i])]
    return exact + [i for i, name in enumerate(texts) if _bare(name) == text and i not in exact] if text else exact


def _bare(text: str) -> str:
    """`text` without the mark of a word's start or of a continuation, unless nothing else is there."""
    for mark in MARKS:
        if text.startswith(mark) and len(text) > len(mark):
            return text.removeprefix(mark)
    return text


def _near(text: str, texts: list[str]) -> list[str]:
    """Tokens that look like `text`: other case, longer by an ending, or a few letters off."""
    wanted = _bare(text).lower()
    by_bare: dict[str, list[str]] = {}
    for name in texts:
        if abs(len(_bare(name)) - len(wanted)) <= 3:
            by_bare.setdefault(_bare(name).lower(), []).append(name)
    starts = sorted(
        (bare for bare in by_bare if bare.startswith(wanted) and wanted), key=lambda bare: (len(bare), bare)
    )
    close = difflib.get_close_matches(wanted, list(by_bare), n=SUGGESTIONS, cutoff=0.6)
    found = [name for bare in dict.fromkeys([*starts[: SUGGESTIONS // 2], *close]) for name in by_bare[bare]]
    return found[:SUGGESTIONS]


def _rows_of_numbers(folder: Path, size: int) -> frozenset[int]:
    """Ids of the tokens, of `size`, whose rows the initialiser gave as numbers."""
    from tasks.embeddings.dense_files import read_dense_ids

    return frozenset(read_dense_ids(folder, size).tolist())


def _sources(folder: Path, rows: list[int]) -> dict[int, list[dict[str, Any]]]:
    """Source tokens of the rows, strongest first: source_id, token, weight."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    entries = pq.read_table(folder / "mapping.parquet")
    entries = entries.filter(pc.is_in(entries["target_id"], value_set=pa.array(rows, entries["target_id"].type)))
    path = folder / "source_tokens.parquet"  # mappings made before it was written have none
    named = pq.read_table(path, columns=["source_id", "text"]).to_pylist() if path.is_file() else []
    texts = {row["source_id"]: row["text"] for row in named}
    found: dict[int, list[dict[str, Any]]] = {}
    for entry in entries.to_pylist():
        name = texts.get(entry["source_id"], f"#{entry['source_id']}")
        found.setdefault(entry["target_id"], []).append(
            {"source_id": entry["source_id"], "token": name, "weight": entry["weight"]}
        )
    return found
