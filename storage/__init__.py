"""Content-addressed artifacts, their keys and manifests, and DuckDB views over their Parquet."""
