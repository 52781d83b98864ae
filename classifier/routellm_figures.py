"""A model's figures on RouteLLM's evaluation files, beside those that RouteLLM published."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from classifier.metrics import CurveFigures, binned_figures, curve_figures
from classifier.model import Classifier
from classifier.routellm_suite import PUBLISHED, Benchmark, Published
from classifier.types import Conversation, Turn


@dataclass(frozen=True, slots=True)
class SuiteFigures:
    """Figures on one benchmark, all off ten bins but `exact`.

    Attributes:
        prompts: How many, contaminated ones left out.
        contaminated: How many were left out.
        score: Of the model.
        exact: Of the model, off the exact curve.
        length: Of the characters of a prompt.
        random: Of a random order.
        published: Of RouteLLM's best router.
    """

    prompts: int
    contaminated: int
    score: CurveFigures
    exact: CurveFigures
    length: CurveFigures
    random: CurveFigures
    published: Published

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


def suite_figures(
    classifier: Classifier,
    benchmarks: Sequence[Benchmark],
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, SuiteFigures]:
    """Measure `classifier` on each of `benchmarks`; it sees the prompt, nothing else."""
    found: dict[str, SuiteFigures] = {}
    for benchmark in benchmarks:
        progress(benchmark.name)
        weak, strong = np.array(benchmark.weak), np.array(benchmark.strong)
        scores = np.array(
            [
                classifier.estimate(Conversation(turns=[Turn("user", prompt)])).score
                for prompt in benchmark.prompts
            ]
        )
        lengths = np.array([len(prompt) for prompt in benchmark.prompts], dtype=np.float64)
        found[benchmark.name] = SuiteFigures(
            prompts=len(scores),
            contaminated=benchmark.contaminated,
            score=binned_figures(scores, weak, strong),
            exact=curve_figures(scores, weak, strong),
            length=binned_figures(lengths, weak, strong),
            random=binned_figures(np.random.default_rng(0).random(len(scores)), weak, strong),
            published=PUBLISHED[benchmark.name],
        )
    return found
