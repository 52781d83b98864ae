"""What an answer costs. Money is Decimal; prices are USD per million tokens."""

from decimal import Decimal

from policies.types import Prices

MILLION = Decimal(1_000_000)
PLACES = Decimal("0.000000001")


def cost_usd(prices: Prices, *, prompt: int, cached: int, completion: int) -> Decimal:
    """Return the cost of one answer in USD, to nine places.

    Args:
        prices: Of the model that answered.
        prompt: Input tokens, cached ones included.
        cached: Input tokens read from the engine's cache; these pay the hit price.
        completion: Output tokens, reasoning included.
    """
    cached = min(cached, prompt)
    total = prices.hit * cached + prices.miss * (prompt - cached) + prices.output * completion
    return (total / MILLION).quantize(PLACES)


def prices_of_gpu(*, usd_per_hour: Decimal, tokens_per_second: Decimal) -> Prices:
    """Return what a token of an own machine costs, every token alike.

    Args:
        usd_per_hour: Cost of the machine.
        tokens_per_second: Input and output tokens together that it handles when busy.
    """
    each = usd_per_hour / Decimal(3600) / tokens_per_second * MILLION
    return Prices(hit=each, miss=each, output=each)
