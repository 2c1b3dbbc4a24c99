"""The stages on real English-Swahili text, where there is some."""

import pytest

from configs.schema import BitextConfig, CorpusConfig, FileSource
from tasks.contract import StageContext, load_stage

FILE = "parallel/en-sw/lafand-dev.NC.tsv.zst"


@pytest.mark.shared_data
@pytest.mark.parametrize(("stage", "model"), [("corpus", CorpusConfig), ("bitext", BitextConfig)])
def test_clean_real_text_is_kept(shared_data, tmp_path, stage: str, model: type[CorpusConfig]) -> None:
    for name in ("out", "work"):
        (tmp_path / name).mkdir()
    source = FileSource(name="news", path=FILE, format="tsv", text_column="tgt")
    config = model(sources=(source,), scripts=("Latin",), validation_share=0.05, test_share=0.05)
    context = StageContext(config, {}, tmp_path / "out", tmp_path / "work", {"news": shared_data / FILE})
    summary = load_stage(stage).run(context).summary
    assert summary["read"] == 1734
    assert set(summary["rejected"]) <= {"duplicate", "wrong-script", "length-ratio"}
    assert sum(summary["kept"].values()) > 0.99 * summary["read"]
    assert 0.02 < summary["kept"]["test"] / summary["read"] < 0.08
