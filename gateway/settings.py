"""The environment, read in this one place."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    Attributes:
        models_dir: Where model files are cached (FLASHLANE_MODELS).
        state_dir: Where a local gateway keeps its ledger, tenants and Valkey data (FLASHLANE_STATE).
        secrets: The environment, asked only for the names that a configuration gives (`api_key_env`).
        engine_python: Python of the environment that vLLM is installed in (FLASHLANE_ENGINE_PYTHON).
    """

    models_dir: Path
    state_dir: Path
    secrets: Mapping[str, str]
    engine_python: str = "python3"

    @classmethod
    def from_env(cls) -> "Settings":
        """Read the environment of this process."""
        env = os.environ  # noqa: TID251 - this is the place
        cache = platformdirs.user_cache_path("flashlane")
        state = platformdirs.user_state_path("flashlane")
        return cls(
            models_dir=Path(env.get("FLASHLANE_MODELS") or cache / "models"),
            state_dir=Path(env.get("FLASHLANE_STATE") or state),
            secrets=env,
            engine_python=env.get("FLASHLANE_ENGINE_PYTHON") or "python3",
        )
