"""The cut that keeps the loss against the standard model below a bound, with a stated confidence.

Learn-then-Test (Angelopoulos, Bates, Candes, Jordan, Lei 2021, arXiv:2110.01052): every candidate cut stands
for the hypothesis "its loss is above the bound"; a valid p-value for each, and a procedure that controls the
family-wise error, give a cut whose loss is at most the bound with the stated confidence.

* Loss of a cut: mean of (standard score - flash score) over the prompts that it leaves to Flash, counting 0
  for the others. One prompt's loss lies in [-1, 1]; a prompt that Flash answers better counts for it.
* Evidence: a gambler's wealth (Waudby-Smith and Ramdas 2024, arXiv:2010.09686). One pair after the other, in
  random order, it grows by 1 + bet x (bound - loss), where the bet depends on earlier pairs only. A loss is
  at most 1 and a bet below 1 / (1 - bound), so wealth stays positive. Under the hypothesis bound - loss has a
  mean of at most 0, so wealth is a supermartingale that starts at 1, and by Ville's inequality it ever
  reaches 1 / (1 - confidence) with a probability of at most 1 - confidence. Any bets are valid; those taken
  are the best for a normal loss of the variance seen so far.
* Procedure: cuts in an order fixed beforehand, from the one that leaves least to Flash; the first that is not
  rejected ends the walk. Only if the first true hypothesis is rejected is a promise broken, so the
  family-wise error is at most 1 - confidence (Learn-then-Test, Proposition 2, with one starting point).

The promise holds for prompts drawn like the pairs, and for scores that did not learn from these pairs. Even
without any loss wealth grows by less than 1 / (1 - bound) a pair: fewer pairs than
log(1 / (1 - confidence)) / bound (150 for 2% at 95%) never suffice.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CANDIDATES = tuple(step / 200.0 for step in range(1, 201))
"""The cuts that are tried, in order. Fixed beforehand: cuts chosen by looking at the pairs void the proof."""

_FIRST_VARIANCE = 0.25  # what the first bets assume
_HIGHEST_BET = 0.9  # of the one that a loss of 1 would ruin


@dataclass(frozen=True, slots=True)
class RiskCut:
    """A cut with a promise.

    Attributes:
        cut: Scores above it go to the standard model.
        flash_share: Share of the pairs at or below it.
        loss: Mean loss of these pairs under the cut; an estimate, the promise is `max_loss`.
        max_loss: The loss is at most this ...
        confidence: ... with this probability over the draw of the pairs.
        pairs: How many were used.
    """

    cut: float
    flash_share: float
    loss: float
    max_loss: float
    confidence: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Pairs from which a cut for any bound can be found; (N,) each.

    Attributes:
        scores: In [0, 1], of a model that did not learn from the pair.
        flash: Scores of Flash's answers in [0, 1].
        standard: Scores of the standard model's answers in [0, 1].
    """

    scores: Array
    flash: Array
    standard: Array

    def cut(self, max_loss: float, confidence: float) -> RiskCut | None:
        """As `risk_cut`."""
        return risk_cut(self.scores, self.flash, self.standard, max_loss=max_loss, confidence=confidence)


def fewest_pairs(max_loss: float, confidence: float) -> int:
    """Pairs that it takes to prove a bound even if Flash never loses."""
    low, high = 0, 1
    while not _proven(np.zeros(high), max_loss, confidence):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _proven(np.zeros(middle), max_loss, confidence) else (middle, high)
    return high


def risk_cut(
    scores: Array,
    flash: Array,
    standard: Array,
    *,
    max_loss: float,
    confidence: float = 0.95,
    seed: int = 0,
) -> RiskCut | None:
    """The highest cut for which "loss at most `max_loss`" is proven with `confidence`.

    Args:
        scores: (N,) scores in [0, 1] of a model that did not learn from these pairs.
        flash: (N,) scores of Flash's answers in [0, 1].
        standard: (N,) scores of the standard model's answers in [0, 1].
        max_loss: In (0, 1).
        confidence: In (0, 1).
        seed: Of the order in which the pairs are looked at, so that a sorted file does no harm.

    Returns:
        None when the pairs are too few, or too bad, to prove it for any cut.

    Raises:
        ValueError: A number is out of its range, or the lengths differ.
    """
    _check(scores, flash, standard, max_loss, confidence)
    order = np.random.default_rng(seed).permutation(len(scores))
    scores, gaps = scores[order], (standard - flash)[order]
    found: float | None = None
    for cut in CANDIDATES:
        if not _proven(np.where(scores <= cut, gaps, 0.0), max_loss, confidence):
            break
        found = cut
    if found is None:
        return None
    to_flash = scores <= found
    return RiskCut(
        cut=found,
        flash_share=float(to_flash.mean()),
        loss=float(np.where(to_flash, gaps, 0.0).mean()),
        max_loss=max_loss,
        confidence=confidence,
        pairs=len(scores),
    )


def _proven(losses: Array, bound: float, confidence: float) -> bool:
    """Whether a mean loss above `bound` is refuted."""
    seen = np.arange(1, len(losses) + 1)
    means = np.cumsum(losses) / seen
    spread = _FIRST_VARIANCE + np.cumsum((losses - means) ** 2)
    variances = np.concatenate([[_FIRST_VARIANCE], (spread / (seen + 1))[:-1]])  # of earlier losses only
    needed = -np.log1p(-confidence)
    bets = np.minimum(np.sqrt(2.0 * needed / (len(losses) * variances)), _HIGHEST_BET / (1.0 - bound))
    wealth = np.cumsum(np.log1p(bets * (bound - losses)))
    return bool(wealth.max(initial=0.0) >= needed)


def _check(scores: Array, flash: Array, standard: Array, max_loss: float, confidence: float) -> None:
    if not len(scores) == len(flash) == len(standard):
        raise ValueError(f"{len(scores)} scores, {len(flash)} flash and {len(standard)} standard outcomes")
    for name, values in (("scores", scores), ("flash", flash), ("standard", standard)):
        if not np.all((values >= 0.0) & (values <= 1.0)):
            raise ValueError(f"{name} must lie in [0, 1]")
    for name, value in (("max_loss", max_loss), ("confidence", confidence)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must lie between 0 and 1, not {value}")
