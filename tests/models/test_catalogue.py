"""The pinned models."""

import re

import pytest

from backends.models.catalogue import CATALOGUE
from backends.models.types import CatalogueModel


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_a_model_is_pinned_in_every_part(model: CatalogueModel):
    assert sum(part.size for part in model.parts) == model.size
    assert len({part.package for part in model.parts}) == len(model.parts)
    for digest in (model.sha256, *(part.sha256 for part in model.parts)):
        assert re.fullmatch("[0-9a-f]{64}", digest)
    assert model.file_name.endswith(".gguf")
    assert model.hub_url is None or model.hub_url.startswith("https://")


def test_names_and_files_are_unique():
    assert (
        len({model.name for model in CATALOGUE})
        == len({model.file_name for model in CATALOGUE})
        == len(CATALOGUE)
    )
