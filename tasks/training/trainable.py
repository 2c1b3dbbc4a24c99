"""Which parameters a phase trains."""

from collections.abc import Iterable

from torch import nn

from configs.schema import Trainable
from tasks.contract import InputError

# Where the decoder layers are, in the families of transformers: Llama, Mistral, Qwen, Gemma, Phi; OPT; GPT-2, GPT-J,
# BLOOM, Falcon; GPT-NeoX, Pythia; MPT.
LAYER_LISTS = ("model.layers", "model.decoder.layers", "transformer.h", "gpt_neox.layers", "transformer.blocks")


def select_trainable(model: nn.Module, mode: Trainable, layers: int) -> dict[str, nn.Parameter]:
    """Mark the parameters that `mode` trains (requires_grad), freeze all others, and return the trained ones by name.

    - 'embeddings': the input embeddings; with a tied LM head that is the head's matrix too.
    - 'embeddings+head': the LM head (and its bias, where there is one) as well.
    - 'bottom-top': these and the first and last `layers` decoder layers, norms inside them included. The final norm
      stays frozen: the paper lists "embeds, layers[0,1,30,31], lm_head" (Remy et al. 2024, recipe tables). Where the
      two ends meet or overlap, every layer is trained.
    - 'all': every parameter, position embeddings and final norm included.

    Raises:
        InputError: the decoder layers of this kind of model cannot be found, or there are fewer than `layers`.
    """
    chosen = {id(parameter) for parameter in _parameters(model, mode, layers)}
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in chosen)
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in chosen}


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """The list of the model's decoder layers, bottom first.

    Raises:
        InputError: no known place holds them.
    """
    for path in LAYER_LISTS:
        try:
            found = model.get_submodule(path)
        except AttributeError:
            continue
        if isinstance(found, nn.ModuleList):
            return found
    raise InputError(
        f"cannot find the decoder layers of {type(model).__name__} (looked at {', '.join(LAYER_LISTS)}): "
        "train 'embeddings', 'embeddings+head' or 'all' instead of 'bottom-top'"
    )


def vocabulary_parameters(model: nn.Module) -> Iterable[nn.Parameter]:
    """The parameters of input embeddings and LM head (its bias, where there is one, included).

    Raises:
        InputError: there is no LM head.
    """
    yield from model.get_input_embeddings().parameters()  # type: ignore[operator]  # a method of every HF model
    head = model.get_output_embeddings()  # type: ignore[operator]  # a method of every HF model
    if head is None:
        raise InputError(f"{type(model).__name__} has no LM head: it is not a causal language model")
    yield from head.parameters()


def _parameters(model: nn.Module, mode: Trainable, layers: int) -> Iterable[nn.Parameter]:
    if mode == "all":
        yield from model.parameters()
        return
    if mode == "embeddings":
        yield from model.get_input_embeddings().parameters()  # type: ignore[operator]  # a method of every HF model
        return
    yield from vocabulary_parameters(model)
    if mode == "bottom-top":
        stack = list(decoder_layers(model))
        if layers > len(stack):
            raise InputError(f"layers is {layers}, but the model has {len(stack)} decoder layers: lower it")
        for layer in stack[:layers] + stack[-layers:]:
            yield from layer.parameters()
