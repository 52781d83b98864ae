"""Requests of the other APIs as chat requests: what is read, what travels, what is refused."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.apis.messages_request import translate_messages
from gateway.apis.responses_request import translate_responses
from gateway.errors import BodyInvalid
from gateway.requests.chat import parse_chat

IMAGE = "data:image/png;base64,AAAA"
USER: list[Any] = [{"role": "user", "content": "hi"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def messages(**fields: Any) -> Any:
    """Return the chat body of a Messages body."""
    return json.loads(translate_messages(json.dumps({"model": "m", "messages": USER, **fields}).encode()))


def responses(**fields: Any) -> Any:
    """Return the chat body of a Responses body."""
    return json.loads(translate_responses(json.dumps({"model": "m", "input": "hi", **fields}).encode()).body)


def turn(role: str, *blocks: Any) -> dict[str, Any]:
    """Return a message of blocks."""
    return {"role": role, "content": list(blocks)}


def text(content: str, kind: str = "text") -> dict[str, Any]:
    """Return a block of text."""
    return {"type": kind, "text": content}


class TestMessages:
    @pytest.mark.parametrize(
        ("system", "expected"),
        [
            ("Be brief.", "Be brief."),
            ([{**text("Be"), "cache_control": {"type": "ephemeral"}}, text("brief.")], "Be\nbrief."),
            ([text("x-anthropic-billing-header: v=1; cch=8f2;"), text("Be brief.")], "Be brief."),
            ("x-anthropic-billing-header: v=1; cch=8f2;\nBe brief.", "Be brief."),
            ("Say: x-anthropic-billing-header: 1", "Say: x-anthropic-billing-header: 1"),
        ],
    )
    def test_the_system_prompt_is_the_first_message_and_the_same_every_time(self, system: Any, expected: str):
        assert messages(system=system)["messages"] == [{"role": "system", "content": expected}, *USER]

    def test_an_empty_system_prompt_is_none(self):
        assert messages(system="")["messages"] == messages(system=[])["messages"] == USER

    def test_what_a_user_shows_keeps_its_order(self):
        url = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
        data = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        }
        pdf_source = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
        pdf = {"type": "document", "title": "a.pdf", "source": pdf_source}
        note_source = {"type": "text", "media_type": "text/plain", "data": "Body."}
        note = {"type": "document", "title": "Note", "source": note_source}
        found = {"type": "search_result", "title": "T", "source": "S", "content": [text("C")]}
        blocks = [text("a"), url, data, pdf, note, found, text("b")]
        (message,) = messages(messages=[turn("user", *blocks)])["messages"]
        assert message["content"] == [
            text("a"),
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image_url", "image_url": {"url": IMAGE}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
            text("Note"),
            text("Body."),
            text("T\nS\nC"),
            text("b"),
        ]

    def test_results_come_first_and_their_images_after_them(self):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
        use = {"type": "tool_use", "name": "f", "input": {"a": 1}}
        result = {"type": "tool_result"}
        (*_, first, second, third, last) = messages(
            messages=[
                *USER,
                turn("assistant", text("Look"), text("ing."), {**use, "id": "1"}, {**use, "id": "2"}),
                turn(
                    "user",
                    text("And?"),
                    {**result, "tool_use_id": "1", "content": [text("x"), image, text("y")]},
                    {**result, "tool_use_id": "2", "is_error": True},
                ),
            ]
        )["messages"]
        assert first["content"] == "Looking."
        assert [call["function"]["arguments"] for call in first["tool_calls"]] == ['{"a": 1}', '{"a": 1}']
        assert second == {"role": "tool", "content": "x\ny", "tool_call_id": "1"}
        assert third == {"role": "tool", "content": "Error", "tool_call_id": "2"}
        assert last["content"] == [{"type": "image_url", "image_url": {"url": IMAGE}}, text("And?")]

    @pytest.mark.parametrize(("said", "told"), [("no disk", "Error: no disk"), ("Error 7", "Error 7")])
    def test_a_failed_tool_is_told_in_words(self, said: str, told: str):
        failed = {"type": "tool_result", "tool_use_id": "1", "content": said, "is_error": True}
        assert messages(messages=[turn("user", failed)])["messages"][0]["content"] == told

    def test_the_models_thoughts_go_back_and_encrypted_ones_do_not(self):
        blocks = [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "redacted_thinking", "data": "x"},
            text("Yes."),
        ]
        sent = messages(messages=[*USER, turn("assistant", *blocks)])["messages"][1]
        assert sent == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ({"type": "auto"}, "auto"),
            ({"type": "any"}, "required"),
            ({"type": "none"}, "none"),
            ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ],
    )
    def test_a_tool_choice_has_another_name(self, choice: Any, expected: Any):
        assert messages(tool_choice=choice)["tool_choice"] == expected

    def test_fields_with_an_equal_name_travel_and_others_are_renamed_or_left_out(self):
        chat = messages(
            max_tokens=5,
            temperature=0.5,
            top_p=0.9,
            top_k=4,
            seed=2**53 + 1,
            chat_template_kwargs={"enable_thinking": False},
            stop_sequences=["a"],
            metadata={"user_id": "u"},
            thinking={"type": "enabled", "budget_tokens": 1024},
            output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"a": 1}}},
            service_tier="auto",
            context_management={},
            n=2,
        )
        del chat["messages"]
        assert chat == {
            "model": "m",
            "max_tokens": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 4,
            "seed": 2**53 + 1,
            "chat_template_kwargs": {"enable_thinking": False},
            "stop": ["a"],
            "user": "u",
            "thinking": {"type": "enabled"},
            "reasoning_effort": "high",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "output", "schema": {"a": 1}, "strict": True},
            },
        }

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"messages": None}, "messages"),
            ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
            ({"messages": [turn("user", {"type": "server_tool_use"})]}, "messages[0].content[0].type"),
            ({"messages": [turn("user", {"type": "image"})]}, "messages[0].content[0]"),
            ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
            ({"tool_choice": {"type": "tool"}}, "tool_choice"),
            ({"tool_choice": "auto"}, "tool_choice"),
            ({"stop_sequences": "END"}, "stop_sequences"),
            ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
            ({"container": "c"}, "container"),
            ({"stream": "yes"}, "stream"),
        ],
    )
    def test_what_cannot_be_is_refused_with_the_path(self, fields: Any, param: str):
        with pytest.raises(BodyInvalid) as caught:
            messages(**fields)
        assert caught.value.param == param


class TestResponses:
    def test_system_prompts_at_the_start_become_one(self):
        items = [
            {"role": "developer", "content": [text("Two.", "input_text")]},
            {"type": "message", "role": "user", "content": "hi"},
            {"role": "system", "content": "Three."},
        ]
        assert responses(instructions="One.", input=items)["messages"] == [
            {"role": "system", "content": "One.\n\nTwo."},
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "Three."},
        ]

    def test_what_the_model_did_in_a_turn_is_one_message(self):
        said = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}
        call = {"type": "function_call", "name": "f", "arguments": "{}"}
        result = {"type": "function_call_output"}
        items: list[Any] = [
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [text("Hm.", "reasoning_text")]},
            {**said, "content": [{**text("Look", "output_text"), "annotations": []}]},
            {**call, "call_id": "1"},
            {**call, "call_id": "2"},
            {**result, "call_id": "1", "output": [text("a", "input_text"), input_image(IMAGE)]},
            {**result, "call_id": "2", "output": "b"},
            {**said, "content": [{"type": "refusal", "refusal": "No."}]},
            {**said, "content": "Well."},
            {"type": "reasoning", "summary": [text("Sum.", "summary_text")]},
        ]
        image = {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}
        calls = [{**CALL, "id": "1"}, {**CALL, "id": "2"}]
        assert responses(input=items)["messages"] == [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Look", "reasoning_content": "Hm.", "tool_calls": calls},
            {"role": "tool", "content": "a", "tool_call_id": "1"},
            {"role": "tool", "content": "b", "tool_call_id": "2"},
            {"role": "user", "content": [image]},
            {"role": "assistant", "content": "No."},
            {"role": "assistant", "content": "Well."},
            {"role": "assistant", "content": "", "reasoning_content": "Sum."},
        ]

    def test_what_a_user_shows_keeps_its_order(self):
        audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
        file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:,a"}
        parts = [input_image(IMAGE), file, audio, text("What?", "input_text")]
        (message,) = responses(input=[turn("user", *parts)])["messages"]
        assert message["content"] == [
            {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
            {"type": "file", "file": {"file_data": "data:,a", "filename": "a.pdf"}},
            audio,
            text("What?"),
        ]

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"type": "text"}, None),
            ({"type": "json_object"}, {"type": "json_object"}),
            (
                {"type": "json_schema", "name": "n", "schema": {"a": 1}, "strict": True},
                {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True}},
            ),
        ],
    )
    def test_a_format_is_a_response_format(self, wanted: Any, expected: Any):
        assert responses(text={"format": wanted}).get("response_format") == expected

    def test_allowed_tools_are_those_that_the_engine_sees(self):
        tools = [{"type": "function", "name": name, "parameters": None} for name in ("f", "g")]
        allowed = [{"type": "function", "name": "g"}]
        chat = responses(
            tools=tools, tool_choice={"type": "allowed_tools", "mode": "required", "tools": allowed}
        )
        assert chat["tools"] == [{"type": "function", "function": {"name": "g"}}]
        assert chat["tool_choice"] == "required"

    def test_fields_with_an_equal_name_travel_and_others_are_renamed_or_left_out(self):
        chat = responses(
            max_output_tokens=5,
            temperature=0.5,
            top_p=0.9,
            reasoning={"effort": "low", "summary": "auto"},
            text={"verbosity": "low"},
            parallel_tool_calls=False,
            top_logprobs=2,
            seed=7,
            user="u",
            store=True,
            truncation="auto",
            include=["reasoning.encrypted_content"],
            metadata={"a": "b"},
            service_tier="auto",
            background=False,
            previous_response_id=None,
        )
        del chat["messages"]
        assert chat == {
            "model": "m",
            "max_tokens": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "reasoning_effort": "low",
            "verbosity": "low",
            "parallel_tool_calls": False,
            "logprobs": True,
            "top_logprobs": 2,
            "seed": 7,
            "user": "u",
        }

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"input": None}, "input"),
            ({"input": []}, "input"),
            ({"input": 7}, "input"),
            ({"input": [7]}, "input[0]"),
            ({"input": [{"role": "robot", "content": "hi"}]}, "input[0].role"),
            ({"input": [turn("user", {"type": "hologram"})]}, "input[0].content[0].type"),
            ({"input": [turn("user", {"type": "input_image", "file_id": "f"})]}, "input[0]"),
            ({"input": [{"type": "function_call", "call_id": "1"}]}, "input[0]"),
            ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
            ({"tools": [{"type": "mcp"}]}, "tools[0].type"),
            ({"tools": [{"type": "function"}]}, "tools[0].name"),
            ({"tool_choice": {"type": "file_search"}}, "tool_choice"),
            ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ],
    )
    def test_what_cannot_be_is_refused_with_the_path(self, fields: Any, param: str):
        with pytest.raises(BodyInvalid) as caught:
            responses(**fields)
        assert caught.value.param == param


def input_image(url: str) -> dict[str, Any]:
    """Return an image of a user."""
    return {"type": "input_image", "image_url": url, "detail": "low"}


words = st.sampled_from([
    "type", "role", "content", "text", "input", "output", "messages", "system", "tools", "tool_choice",
    "user", "assistant", "input_text", "image", "source", "function_call", "message", "tool_result",
    "name", "stream",
])  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(words, anything, max_size=5))
def test_any_body_is_translated_or_refused(fields: dict[str, Any]):
    body = json.dumps({"model": "m", **fields}).encode()
    with contextlib.suppress(BodyInvalid):
        parse_chat(translate_messages(body))
    with contextlib.suppress(BodyInvalid):
        parse_chat(translate_responses(body).body)


@pytest.mark.parametrize("body", [b"\xff", b"[]", b"{", b"7", b'{"input":' + b"[" * 100_000])
def test_what_is_no_object_is_refused(body: bytes):
    for translate in (translate_messages, translate_responses):
        with pytest.raises(BodyInvalid):
            translate(body)
