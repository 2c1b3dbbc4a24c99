"""New rows and adapters in the training stage, with the mapping as an input: what is saved, and resuming to the bit."""

from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

COPIES = 40  # of `mapping`
KINDS = {
    "new-rows": {"trainable": "new-rows", "objective": "mtp", "packing": "documents"},
    "sparse": {"trainable": "adapter", "adapter": {"kind": "sparse", "nearest": 3, "auxiliary": 0.1}},
    "dense": {"trainable": "adapter", "adapter": {"kind": "dense", "auxiliary": 0.1}, "packing": "documents"},
}


class Killed(BaseException):
    """Not an `Exception`, so that nothing handles it."""


def stop_at(step):
    def progress(done, total, unit, message=""):
        if unit == "steps" and done == step:
            raise Killed

    return progress


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_stopped_and_resumed(tmp_path, run_training, make_model_folder, make_phase, mapping, kind, tied):
    model = make_model_folder(tied=tied, dtype=torch.bfloat16)
    further = {"mapping": mapping}
    if kind != "new-rows":
        further["vocabulary"] = make_model_folder(pad_token_id=5)
    phase = make_phase(steps=7, checkpoint_every=2, log_every=1, **KINDS[kind])
    whole = run_training(tmp_path / "whole", model, phase, further=further)
    for step in (3, 6):
        with suppress(Killed):
            run_training(tmp_path / "stopped", model, phase, further=further, progress=stop_at(step))
            pytest.fail("it was not stopped")
    assert run_training(tmp_path / "stopped", model, phase, further=further).contents() == whole.contents()

    before, after = load_file(model / "model.safetensors"), load_file(whole.out / "model.safetensors")
    again, info = AutoModelForCausalLM.from_pretrained(str(whole.out), output_loading_info=True)
    assert not any(info.values())
    tables = {"model.embed_tokens.weight", *(() if kind == "new-rows" and tied else ("lm_head.weight",))}
    assert {name for name in after if name not in before or not torch.equal(before[name], after[name])} == tables
    assert {tensor.dtype for tensor in after.values()} == {torch.bfloat16}
    size = len(AutoTokenizer.from_pretrained(str(whole.out)))
    if kind == "new-rows":
        for name in tables:
            kept = [*range(COPIES), *range(size, len(before[name]))]  # copies, and rows beyond the vocabulary
            assert torch.equal(before[name][kept], after[name][kept])
    else:
        assert again.get_input_embeddings().weight.shape[0] == size
        assert (again.config.tie_word_embeddings, again.config.pad_token_id) == (False, 5)
