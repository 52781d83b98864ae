# ruff: noqa: RUF001 - turns in other scripts
"""OPEN-23: the work asked for is judged in its context, which stands in the request."""

import pytest

from gateway.exchange import HEADER
from tests.cases.playing import ask, record_of
from tests.cases.routes import LONG_ANSWER, route, route_of, turns
from tests.support.gateway import GatewayUnderTest

TASKS = {
    "en": (
        "Derive the amortised cost of a splay tree with a potential function and prove that the bound "
        "is tight."
    ),
    "zh": "推导伸展树的均摊复杂度，构造势函数并证明该上界是紧的。",
    "ja": "スプレー木の償却計算量をポテンシャル関数を用いて導出し、上界が厳密であることを証明してください。",
    "ko": "스플레이 트리의 분할 상환 복잡도를 퍼텐셜 함수로 유도하고 상한이 빡빡함을 증명하세요.",
    "es": (
        "Deduce el coste amortizado de un árbol splay con una función de potencial y demuestra que la "
        "cota es óptima."
    ),
    "fr": (
        "Établissez la complexité amortie d'un arbre splay par une fonction potentiel et prouvez que la "
        "borne est optimale."
    ),
    "de": "Leite die amortisierten Kosten eines Splay-Baums her und beweise, dass die Schranke scharf ist.",
    "ru": "Выведите амортизированную сложность splay-дерева и докажите, что оценка точна.",
}
FOLLOW_UPS = {
    "en": (
        "now do it for n",
        "and the proof?",
        "continue",
        "ok, go on",
        "what about the lower bound?",
        "commit it",
        "fix the second step, it's wrong",
        "looks good, now the same for deletion",
        "Great. Now please write the other half in exactly the same way, in the notation that we used above",
    ),
    "zh": ("继续", "那证明呢？", "换成归纳法", "好的，继续", "把上面的结论推广到n维"),
    "ja": ("続けて", "証明は？", "次もお願いします"),
    "ko": ("계속해 주세요", "증명은?", "다음도 부탁해요"),
    "es": ("continúa", "¿y la demostración?", "ahora para n"),
    "fr": ("continue", "et la preuve ?", "maintenant pour n"),
    "de": ("weiter", "und der Beweis?", "jetzt für n"),
    "ru": ("продолжай", "а доказательство?", "теперь для n"),
}
THANKS = {
    "en": "thanks, that helps a lot!",
    "zh": "谢谢！",
    "ja": "ありがとうございます",
    "de": "Vielen Dank!",
}


@pytest.mark.parametrize("lang", TASKS)
async def test_a_hard_task_in_progress_stays_on_standard(gateway: GatewayUnderTest, lang: str):
    """A: whatever short turn goes on with it, at once and several turns later."""
    task, follow_ups = TASKS[lang], FOLLOW_UPS[lang]
    for follow_up in follow_ups:
        assert await route(gateway, task, LONG_ANSWER, follow_up) == "standard", follow_up
    history = [text for follow_up in follow_ups for text in (LONG_ANSWER, follow_up)]
    assert await route(gateway, task, *history) == "standard"


@pytest.mark.parametrize("lang", FOLLOW_UPS)
async def test_the_same_turn_alone_is_easy(gateway: GatewayUnderTest, lang: str):
    """C: nothing is asked for but that."""
    for follow_up in FOLLOW_UPS[lang][:3]:
        assert await route(gateway, follow_up) == "flash", follow_up


@pytest.mark.parametrize("lang", THANKS)
async def test_thanks_are_judged_the_same_each_time_and_end_no_task(gateway: GatewayUnderTest, lang: str):
    """B: either model may take them; the next turn of the task goes where the task went."""
    task, thanks = TASKS[lang], THANKS[lang]
    routes = [await route(gateway, task, LONG_ANSWER, thanks) for _ in range(3)]
    assert len(set(routes)) == 1
    assert (
        await route(gateway, task, LONG_ANSWER, thanks, "You're welcome!", FOLLOW_UPS[lang][0]) == "standard"
    )


@pytest.mark.parametrize(
    ("question", "more"),
    [
        ("unrelated: what is the capital of Norway?", "and of Sweden?"),
        ("How long should I boil an egg?", "and two of them?"),
        ("Recommend a museum in Vienna", "another one please"),
    ],
)
async def test_a_new_topic_comes_down_when_the_context_became_easy(
    gateway: GatewayUnderTest, question: str, more: str
):
    """D: and not before."""
    task = TASKS["en"]
    assert await route(gateway, task, LONG_ANSWER, question) == "standard"
    assert await route(gateway, task, LONG_ANSWER, question, "Short answer.", more) == "flash"


@pytest.mark.parametrize("lang", TASKS)
@pytest.mark.parametrize(
    "before",
    [
        ("hi", "Hello!"),
        ("thanks", "You're welcome."),
        ("Summarise this article: " + "The council met on Monday. " * 80, "It met."),
        ("What is the capital of Peru?", "Lima", "and of Chile?", "Santiago"),
    ],
)
async def test_a_hard_task_goes_up_at_once(gateway: GatewayUnderTest, lang: str, before: tuple[str, ...]):
    """E: whatever easy turns came before it."""
    assert await route(gateway, *before, TASKS[lang]) == "standard"


async def test_easy_turns_do_not_add_up_to_a_hard_one(gateway: GatewayUnderTest):
    history = [text for n in range(12) for text in (f"and what is {n} in French?", "It is a number.")]
    assert (
        await route(gateway, "How do you say hello in French?", "Bonjour", *history, "and thirteen?")
        == "flash"
    )


async def test_a_task_stays_through_the_calls_of_tools(gateway: GatewayUnderTest):
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    loop = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 passed"},
    ]
    started = [*turns(TASKS["en"]), *loop * 4]
    assert await route_of(gateway, started) == "standard"
    done = [*started, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "ok, continue"}]
    assert await route_of(gateway, done) == "standard"
    output = [
        *turns(TASKS["en"], "I run it."),
        {"role": "user", "content": "[run for 'ls'] Result:\na.py\nb.py"},
    ]
    assert await route_of(gateway, output) == "standard"


async def test_the_reply_says_which_model_and_why(gateway: GatewayUnderTest):
    messages = turns(TASKS["en"], LONG_ANSWER, "and the proof?")
    reply = await ask(gateway, model="auto", messages=messages)
    assert reply.headers[f"{HEADER}model"] == "standard"
    assert reply.headers[f"{HEADER}reason"].startswith("complexity:")
    assert "complexity:" in " ".join((await record_of(gateway, reply)).trace)
