"""OPEN-25: hard is hard and easy is easy in any language."""

import json
import unicodedata
from pathlib import Path

import pytest

from policies.tokens import estimate_tokens
from tests.cases.routes import reply_to, route, turns
from tests.support.gateway import GatewayUnderTest

PROMPTS = [
    json.loads(line) for line in Path(__file__).with_name("languages.jsonl").read_text("utf-8").splitlines()
]
LANGUAGES = sorted({prompt["lang"] for prompt in PROMPTS})
WIDE = str.maketrans({",": "，", ".": "。", ";": "；", ":": "：", "?": "？", "!": "！", "(": "（", ")": "）"})
MIXED = (
    ("用Go写一个Paxos实现，并证明safety和liveness。", "帮我把hello翻译成中文"),
    (
        "このRustコードのdeadlockの原因をdebugして、lockの順序を再設計してください。",
        "helloは日本語で何ですか？",
    ),
    ("이 Python 코드의 race condition을 분석하고 lock 순서를 다시 설계해 주세요.", "hello는 한국어로 뭐야?"),
    ("Реализуй lock-free queue на Rust и докажи linearizability.", "Как переводится слово hello?"),
)


@pytest.mark.parametrize("lang", LANGUAGES)
async def test_hard_goes_to_standard_and_easy_to_flash(gateway: GatewayUnderTest, lang: str):
    """Nine of ten at least, five hard and five easy ones."""
    prompts = [prompt for prompt in PROMPTS if prompt["lang"] == lang]
    wrong = [prompt["text"] for prompt in prompts if await route(gateway, prompt["text"]) != prompt["route"]]
    assert len(prompts) == 10
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize("lang", ["zh", "zh-Hant", "ja", "ko"])
async def test_the_width_of_punctuation_changes_nothing(gateway: GatewayUnderTest, lang: str):
    for text in [prompt["text"] for prompt in PROMPTS if prompt["lang"] == lang]:
        narrow = unicodedata.normalize("NFKC", text)
        routes = {await route(gateway, variant) for variant in (text, narrow, text.translate(WIDE))}
        assert len(routes) == 1, text


@pytest.mark.parametrize("lang", ["zh", "ja", "ko", "th"])
async def test_spaces_or_none_change_nothing(gateway: GatewayUnderTest, lang: str):
    for prompt in [prompt for prompt in PROMPTS if prompt["lang"] == lang]:
        text = prompt["text"]
        assert await route(gateway, text.replace(" ", "")) == prompt["route"], text


async def test_latin_words_in_the_midst_change_nothing(gateway: GatewayUnderTest):
    for hard, easy in MIXED:
        assert (await route(gateway, hard), await route(gateway, easy)) == ("standard", "flash"), hard


async def test_latin_letters_of_full_width_are_latin_letters(gateway: GatewayUnderTest):
    text = "用C20实现lock-free队列并证明其线性一致性"
    wide = text.translate({code: code + 0xFEE0 for code in range(33, 127)})
    assert {await route(gateway, variant) for variant in (text, wide)} == {"standard"}


@pytest.mark.parametrize("lang", LANGUAGES)
async def test_a_language_is_no_sign_of_difficulty(gateway: GatewayUnderTest, lang: str):
    """The easy prompts of each language score as low as English ones do, all but one at most."""
    easy = [prompt["text"] for prompt in PROMPTS if (prompt["lang"], prompt["route"]) == (lang, "flash")]
    scores = sorted([(await reply_to(gateway, turns(text)))[1] for text in easy])
    assert scores[-2] < 0.6, scores


@pytest.mark.parametrize(
    ("text", "a_token"), [("汉字" * 200, 1.7), ("かな" * 200, 2), ("한글" * 200, 2), ("ไทย" * 200, 3.5)]
)
def test_limits_count_tokens_by_script(text: str, a_token: float):
    """And not by four characters a token."""
    assert estimate_tokens(text) >= len(text) / a_token
