"""Stage `report`: report.html and report.json of a run."""

from configs.schema import ReportConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write report.json (the figures) and report.html (the page) from the artifacts in `inputs`.

    The report shows times and hosts from the manifests, and speeds as they were measured, so it is the one artifact
    whose bytes may differ between runs of the same configuration.
    """
    from tasks.report.collect import collect
    from tasks.report.data import to_json
    from tasks.report.render import render_html

    config: ReportConfig = context.config
    data = collect(config, context.inputs, context.measurements)
    (context.out / "report.json").write_text(to_json(data), encoding="utf-8")
    (context.out / "report.html").write_text(render_html(data, None), encoding="utf-8")
    summary = {
        f"{item['metric']}_{value['name']}": value["value"] for item in data.headline for value in item["values"]
    }
    return StageResult(summary=summary)


STAGE = Stage(name="report", version=4, config=ReportConfig, run=run, reads_measurements=True)
