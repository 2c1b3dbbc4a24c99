"""Prefect flows, deployments and the command line: the only place that imports Prefect."""
