import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch import nn

from tasks.contract import InputError
from tasks.training.lm_head import base_model, check_halves, lm_head

SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OLDER = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "Llama": SMALL,
    "Mistral": SMALL,
    "Qwen2": SMALL,
    "Qwen3": SMALL,
    "Gemma": SMALL,
    "Gemma2": {**SMALL, "final_logit_softcapping": 0.5},
    "Gemma3": {**SMALL, "final_logit_softcapping": 0.7},
    "Cohere": {**SMALL, "logit_scale": 0.25},
    "Granite": {**SMALL, "logits_scaling": 4.0},
    "Phi": {**SMALL, "num_key_value_heads": 2},
    "GPT2": {**OLDER, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "GPTJ": {**OLDER, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "rotary_dim": 4},
    "GPTNeoX": SMALL,
    "OPT": {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 8},
    "Bloom": {**OLDER, "hidden_size": 16, "n_layer": 2, "n_head": 2},
    "Falcon": {**OLDER, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    "Mpt": {**OLDER, "d_model": 16, "n_layers": 2, "n_heads": 2, "max_seq_len": 32},
}
NAMES = {"Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"), "GPT2": ("GPT2Config", "GPT2LMHeadModel")}


def build(family, **changes):
    config, model = NAMES.get(family, (f"{family}Config", f"{family}ForCausalLM"))
    with torch.random.fork_rng():
        torch.manual_seed(4)
        built = getattr(transformers, model)(getattr(transformers, config)(**{**FAMILIES[family], **changes}))
        for parameter in built.parameters():
            # from noise that makes biases, norms and soft-capping count
            nn.init.normal_(parameter, std=0.3)
    return built.eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_halves_give_the_models_logits(family):
    model = build(family)
    tokens = torch.randint(40, (2, 9), generator=torch.Generator().manual_seed(1))
    check_halves(model)
    with torch.no_grad():
        expected = model(input_ids=tokens).logits
        hidden = base_model(model)(input_ids=tokens)[0]
        torch.testing.assert_close(lm_head(model).logits(hidden), expected)


def test_what_the_head_has():
    assert lm_head(build("GPTJ")).bias.shape == (40,)
    assert (lm_head(build("Cohere")).scale, lm_head(build("Granite")).scale) == (0.25, 0.25)
    head = lm_head(build("Gemma2"))
    assert (head.scale, head.softcap, head.bias) == (1.0, 0.5, None)
    opt = build("OPT")
    assert lm_head(opt).weight is opt.model.decoder.embed_tokens.weight
    assert lm_head(opt).weight.shape == (40, 8)


def test_something_unknown_between_the_halves():
    model = build("Llama")
    model.model.norm.register_forward_hook(lambda module, inputs, output: 2 * output)
    check_halves(model)  # inside the base: seen by both
    model.lm_head.register_forward_hook(lambda module, inputs, output: 2 * output)
    with pytest.raises(InputError, match=r"LlamaForCausalLM: .* logits that differ by up to"):
        check_halves(model)


def test_heads_that_are_more_than_a_matrix():
    settings = {"is_decoder": True, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    bert = transformers.BertLMHeadModel(transformers.BertConfig(**SMALL, **settings))
    with pytest.raises(InputError, match=r"BertLMHeadModel: .* logits that differ"):
        check_halves(bert)
    model = build("Llama")
    model.lm_head = nn.Sequential(nn.Linear(16, 40))
    with pytest.raises(InputError, match="LlamaForCausalLM has the LM head Sequential"):
        lm_head(model)
    with pytest.raises(InputError, match=r"LlamaModel .* apart"):
        base_model(transformers.LlamaModel(model.config))


def test_every_module_is_left_in_its_mode():
    model = build("Llama").train()
    model.model.norm.eval()
    check_halves(model)
    modes = {name: module.training for name, module in model.named_modules()}
    assert modes.pop("model.norm") is False
    assert all(modes.values())


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT with transformers 5
def test_peft():
    """LoRA in the layers, head and embeddings trained in full: the trained copies are what counts."""
    settings = LoraConfig(r=2, target_modules="all-linear", modules_to_save=["lm_head", "embed_tokens"])
    model = get_peft_model(build("Llama"), settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))))
    assert lm_head(model).weight.requires_grad
    check_halves(model)
    head_too = get_peft_model(build("Llama"), LoraConfig(r=2, target_modules=["q_proj", "lm_head"]))
    with pytest.raises(InputError, match=r"with LoRA, the head is to be trained in full"):
        lm_head(head_too)
