"""What a request needs of a model, and which models have it: a filter that comes before every other rule.

The names are those of the configuration, `models.X.capabilities`; a need that is no switch there is
written `parts:TYPE` or `outputs:KIND`.
"""

from collections.abc import Iterable, Mapping, Sequence

from policies.errors import Unsupported, UnsupportedContent, UnsupportedParameter
from policies.types import AUTO, JSON_SCHEMA, TOOLS, Ask, ModelFacts, ModelTable, Need, Tenant

IMAGES, AUDIO, VIDEO, FILES = "images", "audio", "video", "files"

TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal", "thinking"})
"""Content parts that every model takes: OpenAI's, and those that vLLM takes as text."""

PART_CAPABILITIES: Mapping[str, str] = {
    "image_url": IMAGES,
    "input_image": IMAGES,
    "image": IMAGES,
    "input_audio": AUDIO,
    "audio_url": AUDIO,
    "audio": AUDIO,
    "video_url": VIDEO,
    "input_video": VIDEO,
    "video": VIDEO,
    "file": FILES,
    "input_file": FILES,
}
"""Type of a content part -> capability. Embeddings are not here: they fit one model alone, which says so."""

SWITCHES = frozenset({IMAGES, AUDIO, VIDEO, FILES, TOOLS, JSON_SCHEMA})
"""Capabilities that are true or false in the configuration."""


def has_all(model: ModelFacts, needs: Sequence[Need]) -> bool:
    """Tell whether a model has every capability that a request needs."""
    return not needs or all(need.capability in model.capabilities for need in needs)


def able(names: Sequence[str], ask: Ask, tenant: Tenant, models: ModelTable) -> list[str]:
    """Return which of the models may answer a request that leaves the choice to us; maybe none.

    Token ids mean something to one tokenizer only: the one that the tenant has declared, else the one
    that all the models state. Without a declaration a single model need not state its own, as there is
    nothing to mix up.
    """
    if not ask.needs and not ask.token_ids:
        return list(names)
    left = [name for name in names if has_all(models[name], ask.needs)]
    declared = tenant.routing.tokenizer
    if not ask.token_ids or (declared is None and len(names) == 1):
        return left
    tokenizer = declared or _shared_tokenizer(names, models)
    return [name for name in left if tokenizer is not None and models[name].tokenizer == tokenizer]


def can_stand_in(other: ModelFacts, chosen: ModelFacts, ask: Ask) -> bool:
    """Tell whether a model may answer in place of the chosen one; token ids stay with their tokenizer."""
    same = chosen.tokenizer is not None and other.tokenizer == chosen.tokenizer
    return has_all(other, ask.needs) and (same or not ask.token_ids)


def why_alone(chosen: str, other: str, ask: Ask, models: ModelTable) -> str:
    """Return the reason for a model that was left when the other could not take the request."""
    missing = _missing(models[other], ask.needs)
    if missing is not None:
        return f"capability:{missing.capability}"
    return f"tokenizer:{models[chosen].tokenizer}"


def unsupported(names: Sequence[str], ask: Ask, tenant: Tenant, models: ModelTable) -> Unsupported:
    """Return the error for a request that none of the models may answer."""
    others = [name for name in sorted(models) if tenant.may_use(name) and has_all(models[name], ask.needs)]
    if not any(name in others for name in names):
        return _lacks(names, ask, others, models)
    return _ambiguous_ids(ask, tenant, others, models)


def _lacks(names: Sequence[str], ask: Ask, others: Sequence[str], models: ModelTable) -> Unsupported:
    need = _most_missing(names, ask.needs, models)
    who = (
        "No model that 'auto' can choose for you takes"
        if ask.model == AUTO
        else f"The model {ask.model!r} does not take"
    )
    text = [f"{who} {need.what}."]
    if any(need.capability in models[name].capabilities for name in names):
        rest = ", ".join(other.capability for other in ask.needs if other is not need)
        text = [f"{who} {need.what} together with the rest of the request ({rest})."]
    if others:
        text.append(f"These models do: {', '.join(others)}.")
    else:
        text.append(
            "Nor does any other model that you may use. If one can, whoever runs Flashlane states it in the "
            f"configuration: models.<name>.capabilities.{_setting(need.capability)}."
        )
    kind = UnsupportedContent if need.in_messages else UnsupportedParameter
    return kind(" ".join(text), param=need.param)


def _ambiguous_ids(ask: Ask, tenant: Tenant, usable: Sequence[str], models: ModelTable) -> Unsupported:
    declared = tenant.routing.tokenizer
    if declared is None:
        what = (
            f"The token ids in {ask.token_ids!r} mean something to one tokenizer only, and 'auto' may choose "
            f"between several. Ask for a model by its name: {', '.join(usable)}. Or whoever runs Flashlane "
            "declares it: routing.tokenizer of the tenant, models.<name>.tokenizer in the configuration."
        )
    else:
        having = [name for name in usable if models[name].tokenizer == declared]
        what = (
            f"The token ids in {ask.token_ids!r} are of the tokenizer {declared!r}, by routing.tokenizer of "
            "the tenant, and no model that 'auto' can choose has it and takes the rest of the request. "
            f"Models that do: {', '.join(having) or 'none'}."
        )
    return UnsupportedParameter(what, param=ask.token_ids)


def _shared_tokenizer(names: Sequence[str], models: ModelTable) -> str | None:
    """Return the tokenizer that all models state; None when they differ, or one states none."""
    found = {models[name].tokenizer for name in names}
    return found.pop() if len(found) == 1 else None


def _missing(model: ModelFacts, needs: Iterable[Need]) -> Need | None:
    return next((need for need in needs if need.capability not in model.capabilities), None)


def _most_missing(names: Sequence[str], needs: Sequence[Need], models: ModelTable) -> Need:
    """Return the need that fewest of the models meet, the first in the request where that is a draw."""
    return min(needs, key=lambda need: sum(need.capability in models[name].capabilities for name in names))


def _setting(capability: str) -> str:
    """Return how the configuration states a capability; names that clients made up are not repeated."""
    return f"{capability}: true" if capability in SWITCHES else capability.partition(":")[0]
