"""What the standard model gains on each recurring task: counters, and their empirical-Bayes mean.

In mixed traffic the task says more than the prompt. A task is what a gateway knows of a request before it
reads it: the system prompt and the tools, the key, the endpoint (`classifier.model.task_name`). A prompt
without one belongs to the nearest cluster of an adapted model (`classifier.clusters`), under its name.

The state is two sums a task, so it can be kept anywhere that adds: HINCRBY and HINCRBYFLOAT in Redis, or
`merged` here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SHRINKAGE = 6.0
"""Pairs that the mean over all tasks counts for, in the mean of one task."""

MAX_TASKS = 4096
"""The most tasks that are kept apart; those with the fewest pairs count to all tasks only."""


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
    """

    tasks: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    everything: Tally = field(default_factory=Tally)
    shrinkage: float = SHRINKAGE

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
        if tally is None:
            return self.mean
        return (tally.total + self.shrinkage * self.mean) / (tally.pairs + self.shrinkage)

    def effect(self, task: str) -> float:
        """By how much the expected gain on `task` lies above the mean; 0 for an unknown one."""
        return self.gain(task) - self.mean

    def added(self, pairs: Iterable[tuple[str, float]]) -> "TaskGains":
        """With these (task, gain) counted in; a task "" counts to the mean only."""
        found: dict[str, Tally] = {}
        everything = Tally()
        for task, gain in pairs:
            one = Tally(1.0, gain)
            everything = everything.plus(one)
            if task:
                found[task] = found.get(task, Tally()).plus(one)
        return self.merged(TaskGains(found, everything))

    def merged(self, other: "TaskGains") -> "TaskGains":
        """With the counters of `other` added; the shrinkage stays."""
        tasks = dict(self.tasks)
        for task, tally in other.tasks.items():
            tasks[task] = tasks.get(task, Tally()).plus(tally)
        return TaskGains(_bounded(tasks), self.everything.plus(other.everything), self.shrinkage)


def _bounded(tasks: dict[str, Tally]) -> dict[str, Tally]:
    """At most MAX_TASKS of `tasks`: those with the most pairs, by name where they tie."""
    if len(tasks) <= MAX_TASKS:
        return tasks
    kept = sorted(tasks, key=lambda task: (-tasks[task].pairs, task))[:MAX_TASKS]
    return {task: tasks[task] for task in kept}
