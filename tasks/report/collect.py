"""Gathers the figures of a report from the artifacts' files and manifests."""

from collections.abc import Mapping
from pathlib import Path

from configs.schema import ReportConfig
from tasks.report.alignment import alignment
from tasks.report.artifacts import find_artifacts
from tasks.report.corpora import corpora
from tasks.report.data import ReportData
from tasks.report.embeddings import embeddings
from tasks.report.losses import losses
from tasks.report.mapping import mapping
from tasks.report.results import headline, results
from tasks.report.segmentation import fertility, segmentation
from tasks.report.segmenter import source_segmenter, target_segmenter
from tasks.report.stages import libraries, stages
from tasks.report.verification import verification


def collect(
    config: ReportConfig, inputs: Mapping[str, Path], measurements: Mapping[str, Path] | None = None
) -> ReportData:
    """The figures of the report.

    Args:
        config: title and nodes.
        inputs: folder of each node, by node id, with manifest.json where there is one; any may be missing. Two more may
            be given: 'source_tokenizer' and 'source_model', folders of a source model that is no node of the run.
        measurements: Parquet file of times and speeds of each node's build, by node id; any may be missing.
    """
    artifacts = find_artifacts(config.nodes, inputs, measurements)
    source, target = source_segmenter(artifacts, inputs), target_segmenter(artifacts)
    rows, totals = results(artifacts)
    return ReportData(
        title=config.title,
        language=config.language,
        language_name=config.language_name,
        model=config.model,
        recipe=config.recipe,
        paper=config.paper,
        headline=headline(rows),
        results=rows,
        totals=totals,
        corpora=corpora(artifacts),
        fertility=fertility(artifacts),
        segmentation=segmentation(artifacts, source, target),
        alignment=alignment(artifacts),
        mapping=mapping(artifacts),
        verification=verification(artifacts),
        embeddings=embeddings(artifacts),
        losses=losses(artifacts),
        stages=stages(artifacts),
        libraries=libraries(artifacts),
    )
