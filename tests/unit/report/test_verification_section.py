"""The section on the initial model's verification."""

from tasks.report.collect import collect
from tasks.report.markdown import render_markdown
from tasks.report.render import render_html
from tasks.report.verification import warnings


def test_checks_with_figures_of_file_and_manifest(report_config, artifacts):
    found = collect(report_config, artifacts).verification
    assert found["counts"] == {"passed": 2, "skipped": 1, "warning": 2}
    by_name = {check["name"]: check for check in found["checks"]}
    assert by_name["fertility"]["figures"] == [
        {"name": "before tokens_per_word", "value": 3.43}, {"name": "after tokens_per_word", "value": 1.5},
    ]  # fmt: skip
    assert by_name["logits of new tokens"]["figures"][0] == {"name": "mean", "value": 9.25}
    assert by_name["row lengths of the LM head"]["figures"] == []
    assert [(row["table"], row["rows"], row["values"][:2]) for row in found["lengths"]] == [
        ("LM head", "source", [1, 2]), ("LM head", "new", [0.125, 0.25]),
    ]  # fmt: skip
    assert [check["name"] for check in warnings(found)] == ["zero rows of the LM head", "logits of new tokens"]


def test_the_page_shows_warnings_first_and_escapes(report_config, artifacts):
    page = render_html(collect(report_config, artifacts), None)
    section = page[page.index('<section id="verification">') :]
    for text in ("2 rows are &lt;zero&gt;", "mean 9 (rows 7", "9.250", "before tokens per word", "no held-out text"):
        assert text in section
    assert section.index("2 rows are") < section.index("<table")
    assert "2 passed, 1 skipped, 2 warnings." in section
    assert "<script>" not in section
    assert "\u202e" not in section


def test_the_markdown_has_the_warnings_alone(report_config, artifacts):
    text = render_markdown(collect(report_config, artifacts), None)
    assert "- zero rows of the LM head: 2 rows are \\<zero\\>" in text
    assert "tokens_per_word" not in text


def test_without_manifests_what_depends_on_the_machine_is_missing(report_config, bare_artifacts):
    found = collect(report_config, bare_artifacts).verification
    logits = next(check for check in found["checks"] if check["name"] == "logits of new tokens")
    assert (logits["message"], logits["figures"]) == ("", [])


def test_a_run_without_an_initial_model_has_no_section(report_config, artifacts):
    del artifacts["initial-model"]
    data = collect(report_config, artifacts)
    assert data.verification is None
    assert 'id="verification"' not in render_html(data, None)
    assert "Warnings" not in render_markdown(data, None)
