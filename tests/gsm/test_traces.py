"""Reading request traces in Mooncake's form."""

import json
from typing import Any

import pytest

from backends.gsm.errors import TraceInvalid
from backends.gsm.traces import TracedRequest, read_trace

GOOD: dict[str, Any] = {"timestamp": 1500, "input_length": 700, "output_length": 3, "hash_ids": [4, 9]}


def test_a_request_is_read_with_its_time_in_seconds_and_empty_lines_are_passed_over() -> None:
    lines = [json.dumps(GOOD), "\n", json.dumps(GOOD | {"more": 1}).encode() + b"\n"]
    assert list(read_trace(lines, "t")) == [TracedRequest(1.5, 700, 3, (4, 9))] * 2


def test_a_request_may_be_shorter_than_a_group() -> None:
    [request] = read_trace([json.dumps(GOOD | {"hash_ids": [], "input_length": 5})], "t")
    assert request.groups == ()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "is not JSON"),
        (b"\xff", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "`timestamp`"),
        (json.dumps(GOOD | {"timestamp": "now"}), "`timestamp`"),
        (json.dumps(GOOD | {"timestamp": float("nan")}), "`timestamp`"),
        (json.dumps(GOOD | {"timestamp": True}), "`timestamp`"),
        (json.dumps(GOOD | {"input_length": -1}), "`input_length`"),
        (json.dumps(GOOD | {"output_length": 1.5}), "`output_length`"),
        (json.dumps(GOOD | {"hash_ids": 3}), "`hash_ids`"),
        (json.dumps(GOOD | {"hash_ids": [1, "2"]}), "`hash_ids`"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_number(line: str | bytes, what: str) -> None:
    with pytest.raises(TraceInvalid, match=rf"^t\.jsonl, line 3: .*{what}"):
        list(read_trace([json.dumps(GOOD), "", line], "t.jsonl"))
