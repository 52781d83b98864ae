"""What a chat request is seen to need: content parts and parameters of every shape."""

import json
from typing import Any

import pytest

from gateway.requests.chat import parse_chat
from gateway.requests.needs import TOKEN_ID_FIELDS, needs_of, token_ids_of

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
TEXT = {"type": "text", "text": "hi"}


def needs(*turns: Any, **fields: Any) -> dict[str, str]:
    """Return what a request needs, and where that stands; a turn is a user's content, or a whole message."""
    messages: list[Any] = [
        turn if isinstance(turn, dict) else {"role": "user", "content": turn} for turn in turns or ("hi",)
    ]
    chat = parse_chat(json.dumps({"model": "auto", "messages": messages, **fields}).encode())
    return {need.capability: need.param for need in needs_of(chat)}


@pytest.mark.parametrize(
    "content",
    [
        "hi",
        "",
        None,
        [],
        [TEXT],
        [{"text": "no type"}],
        [{"type": "refusal", "refusal": "No."}],
        [{"type": "input_text", "text": "hi"}, {"type": "output_text", "text": "ho"}],
        [{"type": "thinking", "thinking": "Hm."}],
    ],
)
def test_text_of_any_shape_needs_nothing(content: Any):
    assert needs({"role": "assistant", "content": content}) == {}


@pytest.mark.parametrize(
    ("part", "capability"),
    [
        (IMAGE, "images"),
        ({"type": "input_image", "image_url": "https://x.invalid/a.png"}, "images"),
        (SOUND, "audio"),
        ({"type": "audio_url", "audio_url": {"url": "https://x.invalid/a"}}, "audio"),
        ({"type": "video_url", "video_url": {"url": "https://x.invalid/v"}}, "video"),
        ({"type": "file", "file": {"file_data": "AAAA"}}, "files"),
        ({"type": "hologram", "text": "of me"}, "parts:hologram"),
        ({"type": "image_embeds", "image_embeds": "AAAA"}, "parts:image_embeds"),
        ({"type": "Image_URL", "image_url": {}}, "parts:Image_URL"),
        ({"image_url": {"url": "https://x.invalid/no-type.png"}}, "parts:"),
        ({"type": "h" * 9000}, "parts:" + "h" * 65),
    ],
)
def test_a_part_needs_what_its_type_says(part: dict[str, Any], capability: str):
    assert needs("first", [TEXT, part]) == {capability: "messages[1].content[1]"}


def test_earlier_turns_count_and_the_first_place_is_told():
    assert needs([IMAGE], "and?", [TEXT, SOUND, IMAGE]) == {
        "images": "messages[0].content[0]",
        "audio": "messages[2].content[1]",
    }


def test_results_of_tools_need_tools_and_what_is_in_them():
    used = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    result = {"role": "tool", "tool_call_id": "c", "content": [TEXT, IMAGE]}
    assert needs("hi", used, result) == {"images": "messages[2].content[1]", "tools": "messages[2]"}


def test_an_earlier_answer_in_sound_needs_a_model_that_hears():
    spoken = {"role": "assistant", "content": None, "audio": {"id": "audio_1"}}
    assert needs("hi", spoken, "and?") == {"audio": "messages[1].audio"}
    assert needs("hi", spoken | {"audio": None}, "and?") == {}


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"tools": [TOOL]}, {"tools": "tools"}),
        ({"functions": [{"name": "f"}]}, {"tools": "functions"}),
        ({"tools": [TOOL], "functions": [{"name": "f"}]}, {"tools": "tools"}),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, {"json_schema": "response_format"}),
        ({"response_format": {"type": "structural_tag"}}, {"json_schema": "response_format"}),
        ({"structured_outputs": {"choice": ["a"]}}, {"json_schema": "structured_outputs"}),
        ({"guided_regex": "a+"}, {"json_schema": "guided_regex"}),
        ({"grammar": "root ::= x"}, {"json_schema": "grammar"}),
        ({"modalities": ["text", "audio"]}, {"outputs:audio": "modalities"}),
    ],
)
def test_a_parameter_needs_what_it_asks_for(fields: dict[str, Any], needed: dict[str, str]):
    assert needs(**fields) == needed


@pytest.mark.parametrize("empty", [None, [], {}, False, ""])
def test_an_empty_parameter_asks_for_nothing(empty: Any):
    names = ("tools", "functions", "structured_outputs", "guided_json", "grammar")
    assert needs(**dict.fromkeys(names, empty), response_format=None, modalities=None) == {}
    assert needs(response_format={"type": "json_object"}, modalities=["text"]) == {}
    assert needs(response_format={"type": "text"}) == {}


def test_a_parameter_of_another_type_is_left_to_the_engine():
    deep = json.loads("[" * 200 + "]" * 200)
    assert needs(response_format="json", modalities="audio") == {}
    assert needs(response_format={"type": 7, "x": deep}, modalities=[1]) == {}


def token_ids(body: str) -> str:
    """Return the field with token ids of a request that has these fields, as JSON."""
    text = '{"model": "auto", "messages": [{"role": "user", "content": "hi"}], %s}'
    return token_ids_of(parse_chat((text % body).encode()))


def test_fields_with_token_ids_are_seen_unless_they_are_empty():
    for name in TOKEN_ID_FIELDS:
        assert token_ids(f'"{name}": [50256]') == name
        assert token_ids(f'"{name}": null, "x": 1') == ""
        assert token_ids(f'"{name}": [ ]') == ""
    assert token_ids('"logit_bias": {"50256": -100}') == "logit_bias"
    assert token_ids('"logit_bias": { \n }, "stop_token_ids": [7]') == "stop_token_ids"
    assert token_ids('"logit_bias": {%s"7": 1}' % (" " * 99)) == "logit_bias"
    assert token_ids('"stop": ["7"], "seed": 7, "bad_words": ["x"]') == ""
