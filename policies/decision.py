"""The decision: which model answers, and why. Pure; it reads nothing but its arguments."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from policies.capabilities import able, can_stand_in, has_all, unsupported, why_alone
from policies.effort import choose_effort
from policies.errors import InputTooLong, UnknownModel
from policies.types import (
    AUTO,
    FLASH,
    STANDARD,
    Ask,
    Decision,
    Effort,
    Hardness,
    LossBound,
    Mode,
    ModelTable,
    Overflow,
    Tenant,
)

OUTPUT_RESERVE = 256
"""Tokens kept free for the answer when the client names no `max_tokens`."""

COMPLEXITY = "complexity"
"""The rule that looked at the score and at nothing else."""

QUALITY = "quality"
"""The rule that looked at the score, against a cut that is proven to keep the loss in bounds."""

LONGEST_SHOWN = 100
"""Characters of a model's name that a client made up which an error repeats."""


def needs_estimate(ask: Ask, tenant: Tenant, models: ModelTable) -> bool:
    """Tell whether `decide` will look at the hardness of the request."""
    return (
        ask.model == AUTO
        and tenant.routing.mode is Mode.AUTO
        and len(able(_allowed(tenant, models), ask, tenant, models)) > 1
    )


def decide(
    ask: Ask,
    hardness: Hardness | None,
    tenant: Tenant,
    models: ModelTable,
    *,
    cut: float = 0.0,
    bound: LossBound | None = None,
) -> Decision:
    """Choose the model for a request.

    What a model can take comes before all: only models that have every capability that the request
    needs, and the tokenizer of its token ids, are chosen or fall in. Among those the rules decide: a
    forced model, the tenant's mode, the context rule, risk domains, keywords. Else what has a score above
    the cut that is proven for the loss that the tenant allows; without one, or until it is proven, the
    tenant's hardest `standard_share`: those with a score above `cut`.

    Where a rule and a capability disagree, the capability wins, as the engine could but refuse: a
    request for `auto` goes to the one model that can take it in spite of the mode, the context rule
    `standard`, the risk domains and the keywords; what the tenant may use stays as it is, and the
    context rule `reject` comes first. A model that was forced and cannot take the request is an error,
    never another model; its token ids are taken to be its own.

    Args:
        ask: The request.
        hardness: The classifier's word; None where `needs_estimate` is false, or when the classifier
            failed: then standard is the safe choice.
        tenant: Whose request it is.
        models: Every configured model.
        cut: The (1 - standard_share) quantile of the tenant's recent scores; looked at with `hardness` alone.
        bound: How it stands with the loss that the tenant allows; None when it states none.

    Raises:
        UnknownModel: The model is not configured, or the tenant may not use it.
        InputTooLong: The tenant's context rule says `reject`.
        Unsupported: The forced model, or every model that `auto` may choose, lacks what is needed.
        ThinkingConflict: Thinking is asked for, and a tool is forced, of a model that cannot do both.
    """
    case = _Case(ask, hardness, tenant, models, cut, bound)
    trace: list[str] = []
    overflow, limit = _overflow(case), tenant.context.max_input_tokens
    if overflow == "reject":
        raise InputTooLong(
            f"The input has about {ask.input_tokens} tokens; tenant {tenant.name!r} may send at most {limit}."
        )
    model, reason = _choose(case, trace)
    keep = limit if overflow == "truncate" else None
    if keep is not None:
        trace.append(f"context:truncated to {keep}")
        case = replace(case, ask=replace(ask, input_tokens=keep))
    if ask.model == AUTO:
        model, reason = _make_it_fit(model, reason, case, trace)
    trace.append(reason)
    fallbacks = tuple(
        [name for name in tenant.routing.fallback if name != model and _may_take_over(name, model, case)]
    )
    cap = _output_cap(ask, tenant)
    effort = _effort((model, *fallbacks), reason, case, cap, trace)
    return Decision(model, fallbacks, reason, tuple(trace), cap, keep, effort)


class _Case(msgspec.Struct, frozen=True):
    ask: Ask
    hardness: Hardness | None
    tenant: Tenant
    models: ModelTable
    cut: float
    bound: LossBound | None


def _choose(case: _Case, trace: list[str]) -> tuple[str, str]:
    """Return the model and the reason, before the question whether the input fits."""
    if case.ask.model != AUTO:
        _check_usable(case.ask.model, case.tenant, case.models)
        if not has_all(case.models[case.ask.model], case.ask.needs):
            raise unsupported([case.ask.model], case.ask, case.tenant, case.models)
        return case.ask.model, f"forced:{case.ask.model}"
    return _by_policy(case) or _by_hardness(case, trace)


def _by_policy(case: _Case) -> tuple[str, str] | None:
    """Apply the rules that do not look at what is asked; None when they leave it open."""
    tenant = case.tenant
    allowed = _allowed(tenant, case.models)
    if not allowed:
        raise UnknownModel(
            f"Tenant {tenant.name!r} may use neither flash nor standard, so 'auto' has no choice."
        )
    left = able(allowed, case.ask, tenant, case.models)
    if not left:
        raise unsupported(allowed, case.ask, tenant, case.models)
    if len(allowed) == 1:
        return allowed[0], f"only-allowed:{allowed[0]}"
    mode = tenant.routing.mode
    if mode is not Mode.AUTO and mode.value in left:
        return mode.value, f"tenant-mode:{mode.value}"
    if len(left) == 1:
        other = STANDARD if left[0] == FLASH else FLASH
        return left[0], why_alone(left[0], other, case.ask, case.models)
    if _overflow(case) == "standard":
        return STANDARD, f"context:{case.ask.input_tokens}>{tenant.context.max_input_tokens}"
    return None


def _by_hardness(case: _Case, trace: list[str]) -> tuple[str, str]:
    """Apply the rules that look at what is asked: domains, keywords, then the score against the cut."""
    hardness, routing = case.hardness, case.tenant.routing
    if hardness is None:
        return STANDARD, "classifier:failed"
    if routing.standard_domains:
        if hardness.domain in routing.standard_domains:
            return STANDARD, f"domain:{hardness.domain}"
        trace.append(f"domain:{hardness.domain} is not a standard domain")
    keyword = _first_keyword(case.ask.text, routing.standard_keywords)
    if keyword is not None:
        return STANDARD, f"keyword:{keyword}"
    return _by_score(hardness.score, case.cut, case.bound)


def _by_score(score: float, cut: float, bound: LossBound | None) -> tuple[str, str]:
    rule, note = COMPLEXITY, ""
    if bound is not None and bound.cut is not None:
        rule, cut = QUALITY, bound.cut
        if cut < 0.0:
            return STANDARD, f"{QUALITY}:{bound.note}"
    elif bound is not None:
        note = f" ({QUALITY}: {bound.note})"
    if score > cut:
        return STANDARD, f"{rule}:{score:.3f}>{cut:.3f}{note}"
    return FLASH, f"{rule}:{score:.3f}<={cut:.3f}{note}"


def _overflow(case: _Case) -> Overflow | None:
    """Return the tenant's rule for an input over its bound; None for one that is not."""
    rule = case.tenant.context
    over = rule.max_input_tokens is not None and case.ask.input_tokens > rule.max_input_tokens
    return rule.on_overflow if over else None


def _allowed(tenant: Tenant, models: ModelTable) -> list[str]:
    """Return what `auto` may choose from, before the question what the request needs."""
    usable = models if tenant.models is None else tenant.models
    return [name for name in (FLASH, STANDARD) if name in models and name in usable]


def _check_usable(model: str, tenant: Tenant, models: ModelTable) -> None:
    if model in models and tenant.may_use(model):
        return
    usable = sorted(name for name in models if tenant.may_use(name))
    if model not in models:
        shown = model if len(model) <= LONGEST_SHOWN else f"{model[:LONGEST_SHOWN]}..."
        raise UnknownModel(f"The model {shown!r} does not exist. Use one of: auto, {', '.join(usable)}.")
    raise UnknownModel(
        f"Tenant {tenant.name!r} may not use the model {model!r}; it may use: {', '.join(usable)}."
    )


def _first_keyword(text: str, keywords: tuple[str, ...]) -> str | None:
    if not keywords:
        return None
    lowered = text.lower()
    return next((word for word in keywords if word in lowered), None)


def _fits(model: str, ask: Ask, models: ModelTable) -> bool:
    context = models[model].context
    needed = ask.input_tokens + (ask.max_output_tokens or OUTPUT_RESERVE)
    return context is None or needed <= context


def _may_take_over(other: str, model: str, case: _Case) -> bool:
    """Tell whether a model may answer in place of the chosen one."""
    return (
        other in case.models
        and case.tenant.may_use(other)
        and can_stand_in(case.models[other], case.models[model], case.ask)
        and _fits(other, case.ask, case.models)
    )


def _make_it_fit(model: str, reason: str, case: _Case, trace: list[str]) -> tuple[str, str]:
    """Move a request that would overflow its model to the other one, when that has room."""
    ask, models = case.ask, case.models
    other = STANDARD if model == FLASH else FLASH
    if _fits(model, ask, models) or not _may_take_over(other, model, case):
        return model, reason
    trace.append(reason)
    return other, f"context:{ask.input_tokens} tokens do not fit {model}"


def _effort(
    models: Sequence[str], reason: str, case: _Case, cap: int | None, trace: list[str]
) -> Effort | None:
    """Choose how hard the first of the models, and those that stand in for it, shall think."""
    ask = case.ask
    if not ask.may_think or not any(case.models[name].thinks for name in models):
        return None
    easy = models[0] == FLASH and reason.startswith((COMPLEXITY, QUALITY))
    most = ask.max_output_tokens if cap is None else cap
    effort, why = choose_effort(ask, case.models[models[0]], easy=easy, limit=most)
    trace.append(why)
    return effort


def _output_cap(ask: Ask, tenant: Tenant) -> int | None:
    cap = tenant.max_output_tokens
    if cap is None or (ask.max_output_tokens is not None and ask.max_output_tokens <= cap):
        return None
    return cap
