import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import tables
from storage.tables import TableWriter, read_batches, write_table


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", 10)


@pytest.mark.parametrize("sizes", [[35], [1] * 35, [10, 25], [9, 1, 20, 5], [0, 35, 0]])
def test_bytes_do_not_depend_on_the_pieces(tmp_path, small_groups, sizes):
    table = pa.table({"id": pa.array(range(35), pa.int32()), "text": [f"▁{n % 7}" for n in range(35)]})
    write_table(table, tmp_path / "whole.parquet")
    start = 0
    with TableWriter(tmp_path / "pieces.parquet", table.schema) as writer:
        for size in sizes:
            writer.write(table.slice(start, size))
            start += size
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    metadata = pq.ParquetFile(tmp_path / "whole.parquet").metadata
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [10, 10, 10, 5]
    assert pq.read_table(tmp_path / "whole.parquet").equals(table)


def test_encodings_of_the_pieces_do_not_matter(tmp_path):
    plain = pa.table({"text": ["a", "b", "a"]})
    coded = pa.table({"text": plain["text"].dictionary_encode()})
    for name, table in (("plain", plain), ("coded", coded)):
        with TableWriter(tmp_path / name, plain.schema) as writer:
            writer.write(table)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "coded").read_bytes()


def test_batches_columns_and_an_empty_table(tmp_path):
    table = pa.table({"b": [1, 2, 3], "a": ["x", "y", "z"]}).replace_schema_metadata({"pandas": "{}"})
    with TableWriter(tmp_path / "t.parquet", table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write(batch)
    assert [batch.num_rows for batch in read_batches(tmp_path / "t.parquet", batch_rows=2)] == [2, 1]
    (batch,) = read_batches(tmp_path / "t.parquet", columns=["a"])
    assert batch.to_pydict() == {"a": ["x", "y", "z"]}
    write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    assert list(read_batches(tmp_path / "empty.parquet")) == []
    assert pq.read_schema(tmp_path / "empty.parquet").names == ["b", "a"]


def test_columns_that_do_not_fit(tmp_path):
    with TableWriter(tmp_path / "t.parquet", pa.schema([("a", pa.int32())])) as writer:
        with pytest.raises(pa.ArrowInvalid):
            writer.write(pa.table({"a": ["x"]}))
        with pytest.raises(KeyError, match="a"):
            writer.write(pa.table({"b": [1]}))


def test_metadata_is_dropped(tmp_path):
    table = pa.table({"a": [1]})
    write_table(table, tmp_path / "1")
    write_table(table.replace_schema_metadata({"pandas": "x"}), tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
