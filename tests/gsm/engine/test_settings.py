"""Settings of GSM as vLLM hands them over."""

from typing import Any

import pytest

from backends.gsm.engine.errors import SettingsInvalid
from backends.gsm.engine.settings import GsmSettings, blocks_per_page


def test_what_is_left_out_has_the_defaults() -> None:
    settings = GsmSettings.read({"gsm_host_bytes": 1, "spec_name": "vLLM's own"}, "bfloat16")

    assert (settings.group_size, settings.max_groups, settings.min_ttl) == (512, 64, 2.0)
    assert settings.rebuild_threshold == 0.3
    assert settings.disk_path is None


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "int8_per_token_head", "nvfp4"])
def test_a_quantised_cache_is_rebuilt_sooner(dtype: str) -> None:
    assert GsmSettings.read({"gsm_host_bytes": 1}, dtype).rebuild_threshold == 0.2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "gsm_host_bytes has to be set"),
        ({"gsm_host_bytes": "4GB"}, "gsm_host_bytes is '4GB'; it has to be a whole number from 1 on"),
        ({"gsm_host_bytes": 1, "gsm_max_groups": 0}, "gsm_max_groups is 0"),
        ({"gsm_host_bytes": 1, "gsm_rebuild_threshold": 30}, "it has to be a number from 0 to 1"),
        ({"gsm_host_bytes": 1, "gsm_prefix_reuse": "yes"}, "it has to be true or false"),
        ({"gsm_host_bytes": 1, "gsm_disk_path": 5}, "it has to be a string"),
        ({"gsm_host_bytes": 1, "gsm_disk_path": "/x"}, "gsm_disk_path and gsm_disk_bytes go together"),
        ({"gsm_host_bytes": 1, "gsm_disk_bytes": 9}, "gsm_disk_path and gsm_disk_bytes go together"),
        ({"gsm_host_bytes": 1, "gsm_colour": 9}, "`gsm_colour` is not a setting of GSM"),
        ({"gsm_host_bytes": 1, "block_size": 512}, "GSM has gsm_group_size"),
    ],
)
def test_a_setting_that_cannot_be_followed_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsInvalid, match=says):
        GsmSettings.read(given, "float32")


@pytest.mark.parametrize(
    ("blocks", "group", "expected"),
    [([128], 512, 1), ([16], 512, 8), ([64, 256], 512, 2), ([48], 480, 5), ([512], 512, 1)],
)
def test_a_page_is_the_fewest_blocks_of_128_tokens_that_divide_a_group(
    blocks: list[int], group: int, expected: int
) -> None:
    assert blocks_per_page(blocks, group) == expected


@pytest.mark.parametrize(
    ("blocks", "group", "would_do"), [([128], 500, 512), ([1024], 512, 1024), ([96], 512, 480)]
)
def test_a_group_that_is_no_whole_number_of_blocks_is_refused_with_one_that_is(
    blocks: list[int], group: int, would_do: int
) -> None:
    with pytest.raises(
        SettingsInvalid, match=f"{group} tokens, which is not a multiple .*; {would_do} would do"
    ):
        blocks_per_page(blocks, group)
