"""The gateway of `tests/gateway`, and the official clients of the other APIs."""

from tests.gateway.conftest import flash, gateway, standard, start_gateway

__all__ = ["flash", "gateway", "standard", "start_gateway"]
