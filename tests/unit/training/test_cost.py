import numpy as np
import pytest

from tasks.embeddings.sparse_rows import SparseRows
from tasks.training.adapter import AdaptedModel
from tasks.training.adapter_cost import AdapterSizes, dense_cost, sparse_cost
from tasks.training.adapter_dense import DenseAdapter
from tasks.training.adapter_objective import AdaptedObjective
from tasks.training.adapter_sparse import SparseAdapter
from tasks.training.cost import token_flops, training_cost
from tasks.training.course import make_course
from tasks.training.packing import PackedText
from tasks.training.strategy import prepare
from tasks.training.training_text import OneText, TrainingText

# hidden 32, feed-forward 48, one key-value head of 16: 32·32·2 + 32·16·2 + 3·32·48 = 7680 a layer; head 304·32
LAYERS, MATRIX, NORMS = 3 * 7680, 304 * 32, 7 * 32


@pytest.fixture
def cost_of(make_llama, make_phase):
    def cost(tied=False, recomputed=False, **values):
        phase = make_phase(steps=10, batch_size=6, sequence_length=16, **values)
        text = PackedText(np.zeros((30, 16), dtype=np.int32), 1, 480)
        training = TrainingText(OneText(text, 0), {"target": text}, {"target": 1.0})
        prepared = prepare(make_llama(tied=tied), phase, None)
        return training_cost(prepared, training, make_course(phase, training), recomputed)

    return cost


def test_everything_is_trained(cost_of):
    cost = cost_of(trainable="all")
    assert cost.flops == 960 * 6 * (LAYERS + MATRIX)
    assert (cost.steps, cost.tokens, cost.places, cost.epochs) == (10, 960, 960, 2.0)
    assert cost.total == cost.trained == LAYERS + 2 * MATRIX + NORMS
    assert cost.memory_bytes == 16 * cost.total
    assert cost_of(trainable="all", recomputed=True).flops == 960 * (8 * LAYERS + 6 * MATRIX)


def test_embeddings_and_head(cost_of):
    cost = cost_of(trainable="embeddings+head")
    assert cost.flops == 960 * (4 * (LAYERS + MATRIX) + 2 * MATRIX)
    assert (cost.trained, cost.checkpoint_bytes) == (2 * MATRIX, 24 * MATRIX)
    assert cost.memory_bytes == 4 * (LAYERS + 2 * MATRIX + NORMS) + 12 * 2 * MATRIX
    assert "19.5 k of 42.7 k parameters trained, 10 steps, 960 tokens (2.00 passes over the text), " in str(cost)
    assert "checkpoints of 233.5 kB" in str(cost)
    assert cost_of(tied=True, trainable="embeddings").flops == 960 * (4 * (LAYERS + MATRIX) + 2 * MATRIX)


def test_extra_heads_are_trained_in_full(cost_of):
    cost = cost_of(trainable="embeddings+head", objective="mtp", extra_heads=2)
    assert cost.flops == 960 * (4 * LAYERS + 6 * 3 * MATRIX)
    assert cost.trained == 4 * MATRIX


def test_low_rank_matrices(cost_of):
    """Rank 2: 2·(in + out) a layer's matrix: q, o 2·64, k, v 2·48, gate, up, down 2·80."""
    cost = cost_of(trainable="lora", lora={"rank": 2, "alpha": 4})
    added = 3 * (2 * 128 + 2 * 96 + 3 * 160)
    assert cost.trained == 2 * MATRIX + added
    assert cost.flops == 960 * (4 * (LAYERS + added + MATRIX) + 2 * (added + MATRIX))


def test_adapters_cost_what_their_formulas_say(make_llama):
    start = SparseRows.from_coo(np.arange(50), np.arange(50), np.ones(50), 50)
    sizes = {"target": 50, "source": 304, "width": 32, "body": LAYERS}
    dense = AdaptedModel(make_llama(), *(DenseAdapter(start, 304) for _ in range(2)))
    assert token_flops(AdaptedObjective(dense), 96) == dense_cost(AdapterSizes(**sizes)).total
    sparse = AdaptedModel(make_llama(), *(SparseAdapter(start, 304) for _ in range(2)))
    given = AdapterSizes(**sizes, input_entries=50, output_entries=50, step_tokens=96)
    assert token_flops(AdaptedObjective(sparse), 96) == sparse_cost(given).total
    assert token_flops(AdaptedObjective(sparse), 96, recomputed=True) == sparse_cost(given).total + 2 * LAYERS
