"""What a model can take and do, as the configuration states it."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policies.capabilities import PART_CAPABILITIES, SWITCHES, TEXT_TYPES


def _not_known(name: str) -> str:
    if name in TEXT_TYPES:
        raise ValueError(f"{name!r} is text, which every model takes")
    if name in PART_CAPABILITIES:
        raise ValueError(f"{name!r} has a switch of its own: write `{PART_CAPABILITIES[name]}: true`")
    return name


TypeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
PartType = Annotated[TypeName, AfterValidator(_not_known)]


class CapabilitiesSection(BaseModel):
    """What a model has beside text. A request is sent only to models that have all it needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: bool = Field(default=False, description="Takes images: parts `image_url`, `input_image`.")
    audio: bool = Field(default=False, description="Takes sound: parts `input_audio`, `audio_url`.")
    video: bool = Field(default=False, description="Takes video: parts `video_url`.")
    files: bool = Field(default=False, description="Takes files, such as PDF: parts `file`.")
    tools: bool = Field(default=True, description="Calls tools: `tools`, `functions`, messages of a tool.")
    json_schema: bool = Field(
        default=True, description="Holds answers to a schema or a grammar: `response_format`, ..."
    )
    parts: list[PartType] = Field(
        default_factory=list[str], description="Other types of content parts that it takes, by name."
    )
    outputs: list[TypeName] = Field(
        default_factory=list[str], description="What it answers in beside text, as in `modalities`: audio."
    )

    def names(self) -> frozenset[str]:
        """Return the capabilities by the names that decisions know."""
        switched = {name for name in SWITCHES if getattr(self, name)}
        parts, outputs = {f"parts:{name}" for name in self.parts}, {f"outputs:{n}" for n in self.outputs}
        return frozenset(switched | parts | outputs)
