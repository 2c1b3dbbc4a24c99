import pytest

from tasks.report.segmenter import load_segmenter


@pytest.mark.parametrize("node", ["tokenizer", "source.tokenizer"])
def test_pieces_cover_the_sentence(artifacts, node):
    segmenter = load_segmenter(artifacts[node])
    text = "la ĝardeno"
    assert segmenter.byte_level == (node == "source.tokenizer")
    shown = "".join(segmenter.segment(text)).replace("…", "")
    assert shown.replace("▁", " ").strip() == text


def test_folder_without_tokenizer_is_none(tmp_path):
    assert load_segmenter(tmp_path) is None
    assert load_segmenter(None) is None
