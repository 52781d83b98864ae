"""What tasks gained, kept in Redis: added to by whoever has a pair, read by every process.

One hash for each tenant, pair of models and version of the classifier. Its fields are `n:TASK` and `t:TASK`
(pairs of a task, and the sum of their excesses), and `pairs`, `total` and `squares` over all pairs. An excess
(`Classifier.excess`) is what a pair gained beyond what that version expects of its prompt, so the sums of one
version mean nothing to another: a version that learned from pairs counts them in its own file, and starts
with an empty hash. So no pair counts twice.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

from redis.asyncio import Redis

from classifier.model import Classifier
from classifier.task_gains import MAX_TASKS, Tally, TaskGains
from classifier.types import Conversation

KEPT_SECONDS = 90 * 24 * 3600
"""Gains of a version that gets no more pairs, as it is no longer served, are forgotten after so long."""

_PAIRS = b"pairs"

_ADD = """
local key, most = KEYS[1], tonumber(ARGV[1])
redis.call('HINCRBYFLOAT', key, 'pairs', ARGV[2])
redis.call('HINCRBYFLOAT', key, 'total', ARGV[3])
redis.call('HINCRBYFLOAT', key, 'squares', ARGV[4])
for at = 6, #ARGV, 3 do
  redis.call('HINCRBYFLOAT', key, 'n:' .. ARGV[at], ARGV[at + 1])
  redis.call('HINCRBYFLOAT', key, 't:' .. ARGV[at], ARGV[at + 2])
end
if redis.call('HLEN', key) > 2 * most + 3 then
  local all, tasks = redis.call('HGETALL', key), {}
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 2) == 'n:' then
      table.insert(tasks, {tonumber(all[at + 1]), string.sub(all[at], 3)})
    end
  end
  table.sort(tasks, function(one, other)
    if one[1] ~= other[1] then return one[1] > other[1] end
    return one[2] < other[2]
  end)
  for at = math.ceil(most * 3 / 4) + 1, #tasks do
    redis.call('HDEL', key, 'n:' .. tasks[at][2], 't:' .. tasks[at][2])
  end
end
redis.call('EXPIRE', key, ARGV[5])
"""
"""Adds at once; with more than the most tasks those with the fewest pairs go, down to three quarters."""


def gains_key(tenant: str, models: str, version: str) -> str:
    """Return where gains are kept.

    Args:
        tenant: Whose pairs they are.
        models: The pair of models that answered, as `Config.pair_of_models` names it.
        version: Of the classifier that the excesses are of.
    """
    return f"flashlane:gains:{{{tenant}}}:{models}:{version}"


async def record_pair(
    redis: Redis,
    classifier: Classifier,
    conversation: Conversation,
    gain: float,
    *,
    tenant: str,
    models: str,
) -> None:
    """Count a pair that the classifier of a tenant did not learn from.

    Args:
        redis: Shared state.
        classifier: Serves the tenant now.
        conversation: As it was estimated, with its key and endpoint.
        gain: Standard score - flash score, in [-1, 1].
        tenant: Whose request it was.
        models: The pair of models that answered, as `Config.pair_of_models` names it.

    Raises:
        ValueError: The gain is out of its range.
        RedisError: Redis is away, and nothing was counted.
    """
    if not -1.0 <= gain <= 1.0:
        raise ValueError(f"a gain lies in [-1, 1], not {gain}")
    found = TaskGains().added([classifier.excess(conversation, gain)])
    await add_gains(redis, gains_key(tenant, models, classifier.version), found)


async def add_gains(redis: Redis, key: str, gains: TaskGains) -> None:
    """Add counters to those that are there, all or nothing, whoever else adds at the same time.

    Raises:
        RedisError: Redis is away, and nothing was added.
    """
    totals = (gains.everything.pairs, gains.everything.total, gains.squares)
    arguments: list[str] = [str(MAX_TASKS), *map(repr, totals), str(KEPT_SECONDS)]
    for task, tally in gains.tasks.items():
        arguments += [task, repr(tally.pairs), repr(tally.total)]
    untyped: Any = redis
    await untyped.eval(_ADD, 1, key, *arguments)


async def read_counts(redis: Redis, keys: Sequence[str]) -> list[bytes | None]:
    """Return how many pairs stand under each key, as written there: it changes when anything does.

    Raises:
        RedisError: Redis is away.
    """
    async with redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.hget(key, cast("str", _PAIRS))
        return cast("list[bytes | None]", await pipeline.execute())


async def read_gains(redis: Redis, key: str) -> TaskGains:
    """Return what stands under a key; fields that are no numbers are passed over.

    Raises:
        RedisError: Redis is away.
    """
    untyped: Any = redis
    fields = cast("dict[bytes, bytes]", await untyped.hgetall(key))
    tasks: dict[str, Tally] = {}
    for name in fields:
        pairs, total = _number(fields, name), _number(fields, b"t:" + name[2:])
        if name.startswith(b"n:") and pairs > 0.0:
            tasks[name[2:].decode("utf-8", "replace")] = Tally(pairs, total)
    everything = Tally(_number(fields, _PAIRS), _number(fields, b"total"))
    return TaskGains(tasks, everything, squares=_number(fields, b"squares"))


def _number(fields: dict[bytes, bytes], name: bytes) -> float:
    try:
        value = float(fields.get(name, b"0"))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0
