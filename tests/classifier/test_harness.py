"""What a harness puts around a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.harness import without_harness

QUESTION = "why does the build fail?"


@pytest.mark.parametrize(
    "text",
    [
        f"<system-reminder>Be brief.</system-reminder>\n{QUESTION}",
        f"{QUESTION}\n<environment_details>OS: linux</environment_details>",
        f"<user_query>\n{QUESTION}\n</user_query>",
        f"<context>\nA file.\n</context>\n<question>{QUESTION}</question>",
        f"# Rules\n- Be brief.\n\n{QUESTION}",
        f"## Environment\nlinux\n## My request:\n{QUESTION}",
        f"You are an engineer.\n\n{QUESTION}",
    ],
)
def test_the_question_is_left(text: str):
    assert without_harness(text).strip() == QUESTION


@pytest.mark.parametrize(
    "text",
    [
        "Why does `<details>` not open?\n<details>\n<summary>x</summary>\n</details>",
        "fn f<T>(x: T) -> Vec<T> {}",
        "a < b and c > d",
        "Prove this.\n<user_query>hi",
        "# Question\nIs it so?",
        "Design a cache.\n\nRequirements:\n- fast\n- small",
        "First line.\nSecond line: with a colon.\nThird line.",
    ],
)
def test_text_of_the_users_own_is_kept(text: str):
    kept = without_harness(text)
    assert all(word in kept for word in text.replace("# Question", "").split())


def test_nothing_is_left_of_a_turn_that_is_a_block():
    assert not without_harness("<tool_result>\n42\n</tool_result>")


@given(st.text(st.sampled_from('<>/ab-_\n#:* "=ABC[]x')), st.integers(1, 300))
def test_any_text_is_cut_to_no_more_than_it_was(text: str, times: int):
    assert len(without_harness(text * times)) <= len(text) * times + times
