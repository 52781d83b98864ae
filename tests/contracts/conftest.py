"""Every backend under contract."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.contracts.subjects import Subject, subject_named


@pytest_asyncio.fixture(params=["fake", "server", "provider"])
async def subject(request: pytest.FixtureRequest) -> AsyncGenerator[Subject]:
    """A backend, in turn the fake, `OpenAIServer` and `Provider`."""
    async with subject_named(request.param) as found:
        yield found
