# ruff: noqa: RUF001 - prompts in other scripts
"""Where prompts go when the hardest 35% go to the standard model."""

import json
from pathlib import Path

import pytest

from classifier.model import Classifier
from classifier.types import Conversation, Turn

SHARE = 0.35
HARD = (
    "Write a lock-free multi-producer queue in C++20 and prove that it is linearizable; "
    "discuss ABA and memory ordering."
)

EVERYDAY = (
    "What is the capital of France?",
    "Hi!",
    "Translate 'good morning' to Spanish",
    "法国的首都是哪里?",
    "Write a haiku about rain",
    "Summarise this email: Dear team, the office is closed on Monday. Please take your laptops. Regards, Tom",
    "commit it",
    "what time zone is CET?",
)
DEMANDING = (
    "Prove that sqrt(2) is irrational.",
    "Prove that there are infinitely many primes congruent to 3 mod 4, giving every step",
    "证明:对任意正整数 n,n^3-n 能被 6 整除,请逐步推导",
    HARD,
    "请用C++20实现一个无锁的多生产者队列,并证明其线性一致性,同时讨论ABA问题和内存序。",
    "用python写一个raft实现并给出安全性证明",
)


def score(classifier: Classifier, *texts: str) -> float:
    roles = ("user", "assistant") * len(texts)
    turns = [Turn(role, text) for role, text in zip(roles, texts, strict=False)]
    return classifier.estimate(Conversation(turns=turns, depth=len(turns))).score


@pytest.mark.parametrize("prompt", EVERYDAY)
def test_everyday_chat_stays_on_flash(classifier: Classifier, prompt: str):
    assert score(classifier, prompt) < classifier.reference_cut(SHARE)


@pytest.mark.parametrize("prompt", DEMANDING)
def test_work_of_many_steps_goes_to_standard(classifier: Classifier, prompt: str):
    assert score(classifier, prompt) > classifier.reference_cut(SHARE)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("route", ["flash", "standard"])
def test_prompts_that_no_weight_was_learned_from_go_where_they_belong(
    classifier: Classifier, lang: str, route: str
):
    lines = Path(__file__).with_name("held_out.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [
        line["text"] for line in map(json.loads, lines) if (line["lang"], line["route"]) == (lang, route)
    ]
    cut = classifier.reference_cut(SHARE)
    right = sum((score(classifier, text) > cut) == (route == "standard") for text in texts)
    assert len(texts) >= 10
    assert right / len(texts) >= 0.9


def test_a_short_follow_up_belongs_to_the_task_before_it(classifier: Classifier):
    follow_up = score(classifier, HARD, "A long answer.", "looks good, now apply the same to the pop side")
    assert follow_up > classifier.reference_cut(SHARE)


def test_thanks_after_a_hard_task_is_no_hard_task(classifier: Classifier):
    assert score(classifier, HARD, "A long answer.", "thanks!") < classifier.reference_cut(SHARE)


def test_an_easy_context_is_forgotten_at_once(classifier: Classifier):
    assert score(classifier, "hi", "hello", HARD) > classifier.reference_cut(SHARE)


def test_a_hard_task_fades_when_the_topic_changed_two_turns_ago(classifier: Classifier):
    texts = (HARD, "...", "unrelated: what is the capital of France?", "Paris", "and of Spain?")
    assert score(classifier, *texts) < classifier.reference_cut(SHARE)


@pytest.mark.parametrize(
    ("hard", "easy"),
    [
        ("Докажите, что задача о вершинном покрытии NP-полна, и приведите алгоритм с оценкой.", "привет"),
        ("分散トランザクションの2相コミットと3相コミットを比較し、安全性を証明してください。", "ありがとう"),
        ("اشرح خوارزمية رافت بالتفصيل وأثبت خاصية الأمان عند تغيير العضوية", "مرحبا"),
        ("비잔틴 장애 허용 합의 알고리즘의 안전성을 증명하고 복잡도를 분석하세요", "안녕하세요"),
    ],
)
def test_hard_prompts_in_other_scripts_go_to_standard_and_greetings_do_not(
    classifier: Classifier, hard: str, easy: str
):
    cut = classifier.reference_cut(SHARE)
    assert score(classifier, easy) < cut < score(classifier, hard)


def test_an_article_to_summarise_counts_by_the_request_and_not_by_its_length(classifier: Classifier):
    article = "The council met to talk about the new bus line, and most people in the room were in favour. "
    short, long = (score(classifier, f"Summarise this article: {article * n}") for n in (4, 60))
    assert long == pytest.approx(short, abs=0.02)
    assert long < classifier.reference_cut(SHARE)
    after = score(classifier, f"{article * 60}\n\nSummarise the text above in one sentence.")
    assert after < classifier.reference_cut(SHARE)


def test_full_width_and_ascii_punctuation_score_alike(classifier: Classifier):
    text = "请用C++20实现一个无锁的多生产者队列,并证明其线性一致性,同时讨论ABA问题和内存序。"
    wide = text.replace(",", "\uff0c")
    assert score(classifier, wide) == pytest.approx(score(classifier, text), abs=0.02)
