"""What the standard model gains on each recurring task: counters, and their empirical-Bayes mean.

In mixed traffic the task says more than the prompt. A task is what a gateway knows of a request before it
reads it: the system prompt and the tools, the key, the endpoint (`classifier.model.task_name`). A prompt
without one belongs to the nearest cluster of an adapted model (`classifier.clusters`), under its name.

The state is two sums a task, and three over all pairs, so it can be kept anywhere that adds: HINCRBYFLOAT in
Redis, or `merged` here.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

SHRINKAGE = 6.0
"""Pairs that the mean over all tasks counts for, in the mean of one task, where nothing is known of it."""

LEAST_SHRINKAGE = 2.0
"""However far apart the tasks seem to be: few pairs often make them seem so."""

CAUTION = 0.5
"""Standard errors by which tasks must differ more than by chance before they count as different at all.

It costs .01 of APGR where tasks do differ, and saves half of what is lost where they do not."""

MAX_TASKS = 4096
"""The most tasks that are kept apart; those with the fewest pairs count to all tasks only."""


_TYPICAL_VARIANCE = 0.2
"""Of a gain in [-1, 1]: over the labelled sources it is .15 to .27."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Pairs seen and the sum of their gains (standard score - flash score)."""

    pairs: float = 0.0
    total: float = 0.0

    def plus(self, other: "Tally") -> "Tally":
        """The tally of both."""
        return Tally(self.pairs + other.pairs, self.total + other.total)


@dataclass(frozen=True, slots=True)
class TaskGains:
    """Gains by task.

    Attributes:
        tasks: Task -> its tally; at most MAX_TASKS.
        everything: The tally over all pairs, with a task or without, kept apart or not.
        shrinkage: See SHRINKAGE.
        squares: Sum of the squared gains of all pairs.
    """

    tasks: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    everything: Tally = field(default_factory=Tally)
    shrinkage: float = SHRINKAGE
    squares: float = 0.0

    @property
    def mean(self) -> float:
        """Mean gain over all pairs; 0 before there are any."""
        return self.everything.total / self.everything.pairs if self.everything.pairs else 0.0

    def gain(self, task: str) -> float:
        """The expected gain on `task`: (sum of its gains + shrinkage x mean) / (its pairs + shrinkage).

        This is the posterior mean of a normal effect with a normal prior (Efron and Morris 1975); the
        shrinkage is the variance within tasks over that between them. An unknown task gets the mean.
        """
        tally = self.tasks.get(task)
        if tally is None or self.shrinkage == math.inf:
            return self.mean
        return (tally.total + self.shrinkage * self.mean) / (tally.pairs + self.shrinkage)

    def effect(self, task: str) -> float:
        """By how much the expected gain on `task` lies above the mean; 0 for an unknown one."""
        return self.gain(task) - self.mean

    def added(self, pairs: Iterable[tuple[str, float]]) -> "TaskGains":
        """With these (task, gain) counted in; a task "" counts to the mean only."""
        found: dict[str, Tally] = {}
        everything, squares = Tally(), 0.0
        for task, gain in pairs:
            one = Tally(1.0, gain)
            everything = everything.plus(one)
            squares += gain * gain
            if task:
                found[task] = found.get(task, Tally()).plus(one)
        return self.merged(TaskGains(found, everything, squares=squares))

    def merged(self, other: "TaskGains") -> "TaskGains":
        """With the counters of `other` added; the shrinkage stays."""
        tasks = dict(self.tasks)
        for task, tally in other.tasks.items():
            tasks[task] = tasks.get(task, Tally()).plus(tally)
        return TaskGains(
            _bounded(tasks),
            self.everything.plus(other.everything),
            self.shrinkage,
            self.squares + other.squares,
        )

    def with_own_shrinkage(self) -> "TaskGains":
        """With the shrinkage that these gains themselves speak for; infinite when tasks differ by chance.

        The shrinkage is the variance within tasks over that between them; the latter by the method of moments
        (DerSimonian and Laird 1986), less CAUTION standard errors of what chance alone would make of it.
        """
        pairs, count = self.everything.pairs, len(self.tasks)
        if count < 2 or pairs <= count:
            return replace(self, shrinkage=math.inf)
        mean, named = self.mean, sum(tally.pairs for tally in self.tasks.values())
        between = sum((t.total - t.pairs * mean) ** 2 / t.pairs for t in self.tasks.values())
        total = max(0.0, self.squares - pairs * mean * mean)
        # Ten pairs' worth of a typical variance: a handful of equal gains is no proof of none.
        within = (max(0.0, total - between) + 10.0 * _TYPICAL_VARIANCE) / (pairs - count + 10.0)
        chance = (count - 1) * within * (1.0 + CAUTION * math.sqrt(2.0 / (count - 1)))
        size = named - sum(tally.pairs**2 for tally in self.tasks.values()) / named
        ratio = (between - chance) / size / within if size > 0.0 else 0.0
        return replace(self, shrinkage=max(LEAST_SHRINKAGE, 1.0 / ratio) if ratio > 0.0 else math.inf)


def _bounded(tasks: dict[str, Tally]) -> dict[str, Tally]:
    """At most MAX_TASKS of `tasks`: those with the most pairs, by name where they tie."""
    if len(tasks) <= MAX_TASKS:
        return tasks
    kept = sorted(tasks, key=lambda task: (-tasks[task].pairs, task))[:MAX_TASKS]
    return {task: tasks[task] for task in kept}
