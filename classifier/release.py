"""From a folder of labelled prompts to the files that ship."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from classifier import weights_file
from classifier.dataset import Source, assert_shippable, load_sources
from classifier.domain_training import learn_domains
from classifier.evaluation import evaluate_matrices
from classifier.reference_prompts import NAME as OWN_PROMPTS
from classifier.training import REFERENCE_SHARES, OwnPrompts, featurise, fit_prior, own_prompts
from classifier.weights_file import ModelCard

TRAINING_COMMAND = "flashlane classifier train --data DIR --out DIR"

NOTES = (
    "The score ranks requests by P(weak fails) x P(strong succeeds); it is not a probability.",
    "Near-duplicates are trained on once, and not at all when a source that holds them is left out.",
    "failure_head_auc is that of the weak-failure head alone, which is no part of the score.",
    "From the prompt alone no ranking gets far beyond prompt length; labels of your own models do.",
    "The reference distribution is composed, not measured: see `reference`.",
    "Its everyday and demanding parts are prompts written for this project, without model outcomes.",
    "They also train the head that tells demanding work from everyday chat, and enter no other head.",
    "Weights of heads, length, topics and demanding work were chosen by the figures below.",
    "Tools, attachments, depth and language are reported and not weighed.",
    (
        "A fixed rule pushes text in scripts without cue words (other than Latin, Chinese, Japanese, Korean, "
        "Cyrillic, Greek, Arabic, Hebrew, Devanagari, Thai) towards the standard model."
    ),
    "Domains have a table of their own, domains.safetensors; docs/classifier.md has its figures.",
)


def train(folder: Path, out: Path, progress: Callable[[str], None] = lambda _: None) -> ModelCard:
    """Train on the labelled prompts in `folder` and write the weights and their card into `out`.

    Args:
        folder: Of .parquet files, one a source; two at least, as one is left out at a time to measure.
        out: Made when it is not there; nothing is written when anything fails.
        progress: Told what is being worked on.

    Raises:
        DatasetInvalid: The data is missing, malformed, or must not be trained on.
        MissingDependency: pyarrow or scikit-learn is not installed.
    """
    progress("reading the prompts")
    sources = load_sources(folder)
    assert_shippable(sources, folder)
    progress("computing features")
    matrices, own = [featurise(source) for source in sources], own_prompts()
    report = evaluate_matrices(sources, matrices, own, lambda name: progress(f"leaving out {name}"))
    progress("fitting on everything")
    prior = fit_prior(matrices, own)
    progress("learning the domains")
    domains = learn_domains(folder)
    card = weights_file.save(out, prior, _card(sources, own, report.as_json()))
    domains.save(out)
    return card


def _card(sources: Sequence[Source], own: OwnPrompts, figures: dict[str, object]) -> dict[str, Any]:
    return {
        "sources": [
            {"name": source.name, "licences": list(source.licences), "prompts": len(source.prompts)}
            for source in sources
        ]
        + [
            {
                "name": OWN_PROMPTS,
                "licences": ["Apache-2.0"],
                "prompts": len(own.everyday.values) + len(own.demanding.values),
            }
        ],
        "reference": REFERENCE_SHARES,
        "figures": figures,
        "training_command": TRAINING_COMMAND,
        "notes": list(NOTES),
    }
