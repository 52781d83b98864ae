"""What a request needs comes before every rule that a tenant has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.decision import decide, needs_estimate
from policies.errors import InputTooLong, UnknownModel, Unsupported, UnsupportedContent, UnsupportedParameter
from policies.types import (
    DEFAULT_CAPABILITIES,
    Ask,
    ContextRule,
    Decision,
    Hardness,
    Mode,
    ModelFacts,
    ModelTable,
    Need,
    Routing,
    Tenant,
)

EASY, HARD, LEGAL = Hardness(0.1, "chat"), Hardness(0.9, "chat"), Hardness(0.1, "legal")
IMAGE = Need("images", "messages[1].content[0]", "content parts of type 'image_url'", in_messages=True)
SOUND = Need("audio", "messages[0].content[0]", "content parts of type 'input_audio'", in_messages=True)
CALLS = Need("tools", "tools", "'tools'")
SCHEMA = Need("json_schema", "response_format", "'response_format' of type 'json_schema'")


def facts(name: str, *more: str, without: str = "", tokenizer: str | None = None) -> ModelFacts:
    """Return a model with the default capabilities and these."""
    return ModelFacts(name, 4000, (DEFAULT_CAPABILITIES | set(more)) - {without}, tokenizer)


def table(*models: ModelFacts) -> dict[str, ModelFacts]:
    """Return the models by name; flash and standard take text only unless they are given."""
    return {name: facts(name) for name in ("flash", "standard")} | {model.name: model for model in models}


def run(
    models: ModelTable,
    *needs: Need,
    model: str = "auto",
    hardness: Hardness | None = EASY,
    tenant: Tenant | None = None,
    tokens: int = 10,
    token_ids: str = "",
) -> Decision:
    """Decide with defaults for what a test does not care about."""
    ask = Ask(model, tokens, needs=needs, token_ids=token_ids)
    return decide(ask, hardness, tenant or Tenant("acme"), models, cut=0.5)


def with_routing(**settings: object) -> Tenant:
    """Return a tenant with these routing settings."""
    return Tenant("acme", routing=Routing(**settings))  # pyright: ignore[reportArgumentType]


STANDARD_SEES = table(facts("standard", "images"))
FLASH_SEES = table(facts("flash", "images"))
BOTH_SEE = table(facts("flash", "images"), facts("standard", "images"))


def test_an_easy_request_goes_to_the_model_that_can_take_it_and_nowhere_else():
    decision = run(STANDARD_SEES, IMAGE)
    assert (decision.model, decision.fallbacks, decision.reason) == ("standard", (), "capability:images")
    assert decision.trace[-1] == decision.reason
    assert run(FLASH_SEES, IMAGE, hardness=HARD).model == "flash"


def test_among_models_that_can_difficulty_decides_as_ever():
    assert run(BOTH_SEE, IMAGE).reason.startswith("complexity:")
    assert run(BOTH_SEE, IMAGE).fallbacks == ("standard",)
    assert run(BOTH_SEE, IMAGE, hardness=HARD).model == "standard"
    assert run(table(), CALLS, SCHEMA).reason.startswith("complexity:")


@pytest.mark.parametrize(
    ("tenant", "hardness", "tokens"),
    [
        pytest.param(with_routing(mode=Mode.STANDARD), EASY, 10, id="the tenant's mode"),
        pytest.param(with_routing(standard_domains=frozenset({"legal"})), LEGAL, 10, id="a risk domain"),
        pytest.param(Tenant("acme", context=ContextRule(5, "standard")), EASY, 10, id="the context rule"),
        pytest.param(None, None, 10, id="a classifier that failed"),
        pytest.param(None, EASY, 9999, id="an input that is too long"),
    ],
)
def test_a_capability_wins_over(tenant: Tenant | None, hardness: Hardness | None, tokens: int):
    decision = run(FLASH_SEES, IMAGE, tenant=tenant, hardness=hardness, tokens=tokens)
    assert (decision.model, decision.fallbacks, decision.reason) == ("flash", (), "capability:images")


def test_a_mode_whose_model_can_is_what_decided():
    assert run(STANDARD_SEES, IMAGE, tenant=with_routing(mode=Mode.STANDARD)).reason == "tenant-mode:standard"
    assert run(STANDARD_SEES, IMAGE, tenant=with_routing(mode=Mode.FLASH)).reason == "capability:images"


def test_a_rule_that_refuses_long_inputs_comes_first():
    with pytest.raises(InputTooLong):
        run(table(), IMAGE, tenant=Tenant("acme", context=ContextRule(5, "reject")))


def test_hardness_is_not_asked_for_where_it_decides_nothing():
    tenant = Tenant("acme")
    assert needs_estimate(Ask("auto", 10), tenant, STANDARD_SEES)
    assert needs_estimate(Ask("auto", 10, needs=(IMAGE,)), tenant, BOTH_SEE)
    assert not needs_estimate(Ask("auto", 10, needs=(IMAGE,)), tenant, STANDARD_SEES)
    assert not needs_estimate(Ask("auto", 10, needs=(IMAGE,)), tenant, table())
    assert not needs_estimate(Ask("auto", 10, token_ids="logit_bias"), tenant, table())


def test_a_model_that_was_named_and_cannot_is_an_error_that_names_those_that_can():
    models = STANDARD_SEES | table(facts("vision", "images"), facts("secret", "images"))
    models["standard"] = facts("standard", "images")
    tenant = Tenant("acme", models=frozenset({"flash", "standard", "vision"}))
    with pytest.raises(UnsupportedContent) as told:
        run(models, IMAGE, model="flash", tenant=tenant)
    assert told.value.param == "messages[1].content[0]"
    assert "'flash' does not take content parts of type 'image_url'" in str(told.value)
    assert "These models do: standard, vision." in str(told.value)
    assert run(models, IMAGE, model="vision", tenant=tenant).reason == "forced:vision"


def test_what_no_model_takes_is_refused_with_the_setting_that_would_change_it():
    for model in ("auto", "flash"):
        with pytest.raises(UnsupportedContent, match=r"models\.<name>\.capabilities\.images: true") as told:
            run(table(), IMAGE, model=model)
        assert told.value.param == "messages[1].content[0]"
    odd = Need(
        "parts:hologram", "messages[0].content[2]", "content parts of type 'hologram'", in_messages=True
    )
    with pytest.raises(UnsupportedContent, match=r"type 'hologram'\. .*capabilities\.parts\."):
        run(table(), odd)
    assert run(table(facts("standard", "parts:hologram")), odd).model == "standard"


def test_a_model_that_the_tenant_may_not_use_helps_nobody():
    with pytest.raises(UnsupportedContent) as told:
        run(STANDARD_SEES, IMAGE, tenant=Tenant("acme", models=frozenset({"flash"})))
    assert "standard" not in str(told.value)
    with pytest.raises(UnknownModel):
        run(STANDARD_SEES, IMAGE, model="standard", tenant=Tenant("acme", models=frozenset({"flash"})))


@pytest.mark.parametrize(("need", "param"), [(CALLS, "tools"), (SCHEMA, "response_format")])
def test_parameters_are_capabilities_too(need: Need, param: str):
    one = table(facts("flash", without=need.capability))
    assert run(one, need).reason == f"capability:{need.capability}"
    none = one | {"standard": facts("standard", without=need.capability)}
    with pytest.raises(UnsupportedParameter) as told:
        run(none, need)
    assert told.value.param == param


def test_no_model_that_has_all_is_told_with_all_that_is_needed():
    models = table(facts("flash", "images"), facts("standard", "audio"))
    with pytest.raises(
        UnsupportedContent, match=r"image_url' together with the rest of the request \(audio\)"
    ):
        run(models, IMAGE, SOUND)


def test_a_fallback_can_take_the_request_too():
    models = table(facts("flash", "images"), facts("third", "images"))
    tenant = with_routing(fallback=("standard", "third"))
    assert run(models, IMAGE, tenant=tenant).fallbacks == ("third",)
    assert run(models, IMAGE, model="flash", tenant=tenant).fallbacks == ("third",)
    assert run(models, tenant=tenant).fallbacks == ("standard", "third")


class TestTokenIds:
    """Ids of tokens stay with the tokenizer that they are of."""

    MODELS = table(facts("flash", tokenizer="deepseek"), facts("standard", "images", tokenizer="qwen"))
    SAME = table(facts("flash", tokenizer="qwen"), facts("standard", tokenizer="qwen"))

    def test_they_stay_with_the_tokenizer_that_the_tenant_declared(self):
        tenant = with_routing(tokenizer="deepseek")
        decision = run(self.MODELS, tenant=tenant, hardness=HARD, token_ids="logit_bias")
        assert (decision.model, decision.fallbacks) == ("flash", ())
        assert decision.reason == "tokenizer:deepseek"
        assert run(self.MODELS, tenant=tenant, hardness=HARD).model == "standard"

    @pytest.mark.parametrize("models", [table(), MODELS, table(facts("flash", tokenizer="qwen"))])
    def test_where_nobody_says_whose_they_are_auto_is_refused_with_the_remedy(self, models: ModelTable):
        with pytest.raises(UnsupportedParameter) as told:
            run(models, token_ids="logit_bias")
        assert told.value.param == "logit_bias"
        for remedy in ("routing.tokenizer", "models.<name>.tokenizer", "flash, standard"):
            assert remedy in str(told.value)

    def test_models_that_state_the_same_tokenizer_are_all_the_same_to_them(self):
        decision = run(self.SAME, hardness=HARD, token_ids="stop_token_ids")
        assert (decision.model, decision.fallbacks) == ("standard", ("flash",))
        assert decision.reason.startswith("complexity:")

    def test_a_declared_tokenizer_that_no_model_has_left_is_refused(self):
        with pytest.raises(UnsupportedParameter, match="'llama'"):
            run(self.MODELS, tenant=with_routing(tokenizer="llama"), token_ids="logit_bias")
        with pytest.raises(UnsupportedParameter, match="'deepseek'") as told:
            run(self.MODELS, IMAGE, tenant=with_routing(tokenizer="deepseek"), token_ids="logit_bias")
        assert "Models that do: none." in str(told.value)

    def test_a_tenant_with_one_model_need_not_say_whose_they_are(self):
        only_flash = frozenset({"flash"})
        assert run(table(), tenant=Tenant("acme", models=only_flash), token_ids="logit_bias").model == "flash"
        strict = Tenant("acme", models=only_flash, routing=Routing(tokenizer="qwen"))
        with pytest.raises(UnsupportedParameter):
            run(self.MODELS, tenant=strict, token_ids="logit_bias")

    def test_those_of_a_named_model_are_its_own(self):
        assert run(table(), model="flash", token_ids="logit_bias").fallbacks == ()
        assert run(self.MODELS, model="flash", token_ids="logit_bias").fallbacks == ()
        assert run(self.SAME, model="flash", token_ids="logit_bias").fallbacks == ("standard",)


NAMES = ("images", "audio", "tools", "json_schema", "parts:hologram")
SETS = st.frozensets(st.sampled_from(NAMES))
TOKENIZERS = st.none() | st.sampled_from(["a", "b"])
MODELS = st.fixed_dictionaries({
    name: st.builds(ModelFacts, st.just(name), st.none() | st.integers(100, 5000), SETS, TOKENIZERS)
    for name in ("flash", "standard", "third")
})  # fmt: skip
NEEDS = SETS.map(lambda names: tuple(Need(name, "here", name) for name in sorted(names)))
TENANTS = st.builds(
    Tenant,
    st.just("acme"),
    models=st.none() | st.frozensets(st.sampled_from(["flash", "standard", "third"])),
    routing=st.builds(
        Routing,
        mode=st.sampled_from(Mode),
        standard_domains=st.frozensets(st.sampled_from(["legal"])),
        fallback=st.permutations(["flash", "standard", "third"]).map(tuple),
        tokenizer=TOKENIZERS,
    ),
    context=st.builds(
        ContextRule, st.none() | st.integers(1, 200), st.sampled_from(["standard", "truncate", "reject"])
    ),
)


@given(
    models=MODELS,
    needs=NEEDS,
    tenant=TENANTS,
    model=st.sampled_from(["auto", "flash", "standard", "third"]),
    hardness=st.none() | st.builds(Hardness, st.floats(0, 1), st.sampled_from(["legal", "chat"])),
    tokens=st.integers(0, 6000),
    token_ids=st.sampled_from(["", "logit_bias"]),
)
def test_whatever_comes_the_model_and_each_fallback_can_take_the_request(
    models: ModelTable,
    needs: tuple[Need, ...],
    tenant: Tenant,
    model: str,
    hardness: Hardness | None,
    tokens: int,
    token_ids: str,
):
    ask = Ask(model, tokens, needs=needs, token_ids=token_ids)
    try:
        decision = decide(ask, hardness, tenant, models, cut=0.5)
    except (Unsupported, UnknownModel, InputTooLong):
        return
    chosen = models[decision.model]
    for name in (decision.model, *decision.fallbacks):
        assert {need.capability for need in needs} <= models[name].capabilities
        assert tenant.may_use(name)
        assert not token_ids or name == decision.model or models[name].tokenizer == chosen.tokenizer
    declared = tenant.routing.tokenizer
    if token_ids and model == "auto" and declared is not None:
        assert chosen.tokenizer == declared
    if model != "auto":
        assert decision.model == model


@given(models=MODELS, needs=NEEDS, tenant=TENANTS)
def test_a_request_for_auto_is_refused_only_where_no_choice_of_auto_can_take_it(
    models: ModelTable, needs: tuple[Need, ...], tenant: Tenant
):
    able = [
        name
        for name in ("flash", "standard")
        if tenant.may_use(name) and {need.capability for need in needs} <= models[name].capabilities
    ]
    try:
        decision = decide(Ask("auto", 1, needs=needs), EASY, tenant, models, cut=0.5)
    except Unsupported:
        assert not able
    except UnknownModel:
        assert not tenant.may_use("flash")
        assert not tenant.may_use("standard")
    else:
        assert decision.model in able
