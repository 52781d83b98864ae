"""A clock or an id near the head of a prompt is found, in English and Chinese, with its place."""

import pytest

from policies.volatile import HEAD, find_volatile, texts_of


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("You are Ada. Today is Monday.", "a clock"),
        ("Today's date: 30 November.", "a clock"),
        ("The current time is given below.", "a clock"),
        ("Current date and time: Mon", "a clock"),
        ("Report for 2026-11-30.", "a date"),
        ("Report for 2026-11-30T08:15:00Z.", "a date"),
        ("Report for 30.11.2026.", "a date"),
        ("Report for 11/30/2026.", "a date"),
        ("Knowledge as of November 30, 2026.", "a date"),
        ("Written on 30 Nov 2026.", "a date"),
        ("The clock says 10:31.", "a time"),
        ("Now: 1790000000", "a unix time"),
        ("Now: 1790000000123 ms", "a unix time"),
        ("Trace 123e4567-e89b-12d3-a456-426614174000 begins.", "an id"),
        ("Session ID: abc-17", "an id"),
        ("Trace 9e107d9d372bb6826bd81d3542a419d6 begins.", "an id"),
        ("Hello {{ current_time }}, be brief.", "a placeholder"),
        ("Hello {date}, be brief.", "a placeholder"),
        ("Hello ${NOW}, be brief.", "a placeholder"),
        ("你是助手。今天是星期一。", "a clock"),
        ("你是助手。当前时间:见下。", "a clock"),
        ("你是助手。当前日期:见下。", "a clock"),
        ("现在是上午。", "a clock"),
        ("报告日期 2026年11月30日。", "a date"),
        ("会话ID:abc17", "an id"),
        ("八点开始,10点31分结束。", "a time"),
    ],
)
def test_what_changes_is_named(text: str, what: str):
    found = find_volatile([("messages[0]", text)])
    assert found is not None
    assert found.what == what


@pytest.mark.parametrize(
    "text",
    [
        "You are a helpful assistant. Answer in 3 to 5 sentences, in the year's best style.",
        "",
        "You answer in at most 20 words.",
        "Ratio 16:9 pictures.",
        "The ratio is 16:9, version 1.2.3, port 8080, model gpt-4.1, RFC 2119, ISO 27001.",
        "Use up-to-date facts. May I remind you that time is short? Do it today.",
        "Orders have ids such as A-1234; prices are like 19.99. Answer with {name} and {{city}}.",
        "When is the deadline? Say how many days remain; the current user may ask twice.",
        "你是一个有用的助手。请用中文回答,今天也要有礼貌。时间有限,请简短。",
        "The update of the database takes time, and the candidate waits. {timeout}"[:-10],
    ],
)
def test_what_stays_is_left_alone(text: str):
    assert find_volatile([("messages[0]", text)]) is None


def test_the_place_is_told_by_line_and_column():
    found = find_volatile([("messages[0]", "Be brief.\nIt is: 2026-11-30\n")])
    assert found is not None
    assert (found.line, found.column, found.before, found.text) == (2, 8, 17, "2026-11-30")
    assert str(found).startswith("messages[0], line 2, column 8: a date ('2026-11-30'); nothing after it")


def test_tools_stand_before_messages_and_parts_are_read():
    tools = [{"type": "function", "function": {"name": "log", "description": "Since 2026-11-30."}}]
    messages = [{"role": "system", "content": [{"type": "text", "text": "Today is Monday."}]}]
    found = find_volatile(texts_of(messages, tools))
    assert found is not None
    assert found.where == "tools[0].function.description"
    found = find_volatile(texts_of(messages, None))
    assert found is not None
    assert found.where == "messages[0].content[0].text"


def test_what_stands_far_from_the_head_does_little_harm():
    assert find_volatile([("messages[0]", "x " * (HEAD // 2) + "2026-11-30")]) is None
    assert find_volatile([("messages[0]", "x " * (HEAD // 2)), ("messages[1]", "2026-11-30")]) is None


@pytest.mark.parametrize(
    ("system", "what", "before"),
    [
        ("At 10:31. You are a helper.", "a time", 3),
        ("报告:2026年11月30日。", "a date", 3),
        ("Session 0f8fad5b-d9cb-469f-a165-70867728950e", "an id", 8),
    ],
)
def test_what_can_still_be_reused_is_counted(system: str, what: str, before: int):
    found = find_volatile([("messages[0]", system)])
    assert found is not None
    assert (found.what, found.before) == (what, before)
