"""The second stage: an encoder is asked only where it ranks better, and only the one that a version names."""

import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run

import numpy as np
import pytest
from msgspec.structs import replace as changed
from typer.testing import CliRunner

from classifier.adaptation import adapt
from classifier.adapted import Adapted
from classifier.adapted_file import load_adapted, save_adapted
from classifier.encoders import MAX_TOKENS, Encoder, load_encoder
from classifier.errors import EncoderUnavailable, MissingDependency, ModelFileInvalid
from classifier.metrics import curve_figures
from classifier.model import Classifier
from classifier.pairs import Pair
from classifier.types import Conversation, Turn
from classifier.versions import add_version
from gateway.cli.classifier import app as cli
from tests.support.hard_names import NAMES, pairs_of, vectors_of
from tests.support.tiny_encoder import write_tiny_encoder

pytest.importorskip("onnxruntime", reason="the extra is not installed: pip install flashlane[encoder]")

PRIOR = "prior-of-the-test"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny", NAMES, vectors_of(1))


@pytest.fixture(scope="module")
def encoder(model: Path) -> Encoder:
    return load_encoder(str(model))


@pytest.fixture(scope="module")
def adapted(classifier: Classifier, encoder: Encoder) -> Adapted:
    return adapt(classifier.prior, pairs_of(500), encoder=encoder)


def asked(text: str) -> Conversation:
    return Conversation([Turn("user", text)])


def test_a_text_has_one_vector_of_length_one(encoder: Encoder):
    hard, again, easy = (encoder.encode(text) for text in (f"{NAMES[0]}", f"{NAMES[0]}", f"{NAMES[1]}"))
    assert np.linalg.norm(hard) == pytest.approx(1.0, abs=1e-5)
    assert hard.tolist() == again.tolist()
    assert hard @ easy < hard @ encoder.encode(NAMES[2])


def test_no_more_than_its_head_is_read_of_a_text(encoder: Encoder):
    long = " ".join([NAMES[1]] * (MAX_TOKENS - 2))
    assert encoder.encode(long).tolist() == encoder.encode(f"{long} {NAMES[0]} {NAMES[0]}").tolist()
    assert np.isfinite(encoder.encode("")).all()


def test_the_name_of_an_encoder_tells_its_weights(encoder: Encoder, tmp_path: Path):
    same, other = (
        load_encoder(str(write_tiny_encoder(tmp_path / f"another folder {seed}", NAMES, vectors_of(seed))))
        for seed in (1, 2)
    )
    assert encoder.name.startswith("onnx@")
    assert same.name == encoder.name
    assert other.name != encoder.name


def test_a_tokenizer_may_lie_in_the_folder_above(model: Path, encoder: Encoder, tmp_path: Path):
    (tmp_path / "tokenizer.json").write_bytes((model.parent / "tokenizer.json").read_bytes())
    nested = tmp_path / "onnx" / "model.onnx"
    nested.parent.mkdir()
    nested.write_bytes(model.read_bytes())
    assert load_encoder(str(nested)).encode("x").tolist() == encoder.encode("x").tolist()


def test_what_is_no_encoder_is_refused_by_name(model: Path, tmp_path: Path):
    with pytest.raises(EncoderUnavailable, match=r"absent\.onnx: there is no tokenizer\.json"):
        load_encoder(str(tmp_path / "absent.onnx"))
    (tmp_path / "tokenizer.json").write_bytes((model.parent / "tokenizer.json").read_bytes())
    with pytest.raises(EncoderUnavailable, match="cannot be loaded"):
        load_encoder(str(tmp_path / "absent.onnx"))
    (tmp_path / "broken.onnx").write_bytes(model.read_bytes()[:100])
    with pytest.raises(EncoderUnavailable, match=r"broken\.onnx: it cannot be loaded"):
        load_encoder(str(tmp_path / "broken.onnx"))
    image = write_tiny_encoder(tmp_path / "image", NAMES[:2], vectors_of(1)[:2], token_ids="pixels")
    with pytest.raises(EncoderUnavailable, match="pixels"):
        load_encoder(str(image))
    blank = write_tiny_encoder(tmp_path / "blank", ["this"], np.full((1, 4), np.nan, dtype=np.float32))
    with pytest.raises(EncoderUnavailable, match="is no vector"):
        load_encoder(str(blank))


@pytest.mark.parametrize(
    ("module", "model", "remedy"),
    [
        ("onnxruntime", "minilm/model.onnx", r"pip install flashlane\[encoder\]"),
        ("sentence_transformers", "all-MiniLM-L6-v2", "pip install sentence-transformers"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, model: str, remedy: str
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=remedy):
        load_encoder(model)


def test_an_onnx_encoder_needs_no_torch(model: Path):
    code = (
        "import sys; from classifier.encoders import load_encoder; "
        f"load_encoder({str(model)!r}); print('torch' in sys.modules)"
    )
    found = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_what_only_the_encoder_knows_ranks_prompts_that_no_pair_had(
    classifier: Classifier, encoder: Encoder, adapted: Adapted
):
    report = adapted.report.second_stage
    assert report is not None
    assert report.kept
    assert report.encoder == encoder.name
    assert report.difference.low > 0.0
    served = classifier.with_adapted(adapted, "adapted")
    assert served.has_second_stage
    fresh = pairs_of(600, seed=9)
    first = [served.estimate(asked(pair.prompt)) for pair in fresh]
    both = [
        served.refine(estimate, asked(pair.prompt), encoder.encode)
        for estimate, pair in zip(first, fresh, strict=True)
    ]
    flash, standard = (np.array([getattr(pair, name) for pair in fresh]) for name in ("flash", "standard"))
    areas = [
        curve_figures(np.array([each.score for each in estimates]), flash, standard).apgr
        for estimates in (first, both)
    ]
    assert areas[1] > areas[0] + 0.04
    assert all(0.0 <= each.score <= 1.0 for each in both)
    assert both[0].p_flash_ok is not None
    assert changed(both[0], score=first[0].score, p_flash_ok=first[0].p_flash_ok) == first[0]


def test_the_first_stage_is_what_it_is_without_an_encoder(classifier: Classifier, adapted: Adapted):
    alone = adapt(classifier.prior, pairs_of(500))
    one, other = (classifier.with_adapted(each, "adapted") for each in (alone, adapted))
    assert [one.estimate(asked(pair.prompt)) for pair in pairs_of(50)] == [
        other.estimate(asked(pair.prompt)) for pair in pairs_of(50)
    ]
    assert replace(adapted.report, second_stage=None) == alone.report
    assert alone.second is None


def test_an_encoder_that_knows_nothing_is_not_kept_and_not_needed(classifier: Classifier, tmp_path: Path):
    blind = load_encoder(str(write_tiny_encoder(tmp_path / "blind", NAMES, vectors_of(3, telling=False))))
    found = adapt(classifier.prior, pairs_of(300, by_name=0.0), encoder=blind)
    assert found.report.second_stage is not None
    assert not found.report.second_stage.kept
    assert found.second is None
    save_adapted(tmp_path, found, prior=PRIOR)
    assert load_adapted(tmp_path, prior=PRIOR, encoder="")[0].second is None


def test_a_version_is_served_with_its_encoder_and_refused_with_another_or_none(
    adapted: Adapted, encoder: Encoder, tmp_path: Path
):
    save_adapted(tmp_path, adapted, prior=PRIOR)
    loaded, card = load_adapted(tmp_path, prior=PRIOR, encoder=encoder.name)
    assert card.second is not None
    assert loaded.second is not None
    assert adapted.second is not None
    assert loaded.second.quantiles == adapted.second.quantiles
    assert loaded.second.gain.slopes.tolist() == adapted.second.gain.slopes.tolist()
    assert load_adapted(tmp_path, prior=PRIOR)[1] == card  # who asks for the first stage only may have it
    with pytest.raises(EncoderUnavailable, match=rf"with the encoder {encoder.name}, and none is configured"):
        load_adapted(tmp_path, prior=PRIOR, encoder="")
    with pytest.raises(EncoderUnavailable, match="and the one here is other@1"):
        load_adapted(tmp_path, prior=PRIOR, encoder="other@1")


def test_vectors_of_different_lengths_are_refused(adapted: Adapted, tmp_path: Path):
    assert adapted.second is not None
    short = replace(adapted.second.flash_ok, slopes=adapted.second.flash_ok.slopes[:-1])
    save_adapted(tmp_path, replace(adapted, second=replace(adapted.second, flash_ok=short)), prior=PRIOR)
    with pytest.raises(ModelFileInvalid, match="second_flash_ok"):
        load_adapted(tmp_path, prior=PRIOR)


def test_a_command_tries_an_encoder_and_says_what_it_adds(model: Path, tmp_path: Path):
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(_line(pair) for pair in pairs_of(300)))
    arguments = ["adapt", "--pairs", str(file), "--out", str(tmp_path / "versions")]
    result = CliRunner().invoke(cli, [*arguments, "--encoder", str(model)])
    assert result.exit_code == 0, result.output
    assert "onnx@" in result.output
    assert "kept" in result.output
    explained = CliRunner().invoke(cli, ["explain", "Tell me.", "--model", str(tmp_path / "versions")])
    assert explained.exit_code == 0, explained.output
    wrong = CliRunner().invoke(cli, [*arguments, "--encoder", str(tmp_path / "absent.onnx")])
    assert wrong.exit_code == 2
    assert "absent.onnx" in wrong.output


def _line(pair: Pair) -> str:
    return f'{{"prompt": "{pair.prompt}", "flash_score": {pair.flash}, "standard_score": {pair.standard}}}'


def test_only_a_version_with_a_second_stage_encodes(
    adapted: Adapted, encoder: Encoder, classifier: Classifier, tmp_path: Path
):
    add_version(tmp_path, lambda place: save_adapted(place, adapted, prior=classifier.card.version))
    served = Classifier.load(tmp_path, encoder=encoder.name)
    assert served.has_second_stage
    estimate = served.estimate(asked(f"Translate the word {NAMES[0]}."))
    refined = served.refine(estimate, asked(f"Translate the word {NAMES[0]}."), encoder.encode)
    assert refined.score > estimate.score
    assert classifier.refine(estimate, asked("x"), _never) is estimate


def _never(text: str) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    raise AssertionError(f"a version without a second stage encodes nothing: {text}")
