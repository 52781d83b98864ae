"""The pages beside the chat: health, readiness, models, metrics."""

from typing import Any

import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from backends import http_client
from backends.engines.probes import free_port
from gateway import server
from gateway.telemetry import CONTENT_TYPE
from tests.fakes.upstream import ScriptedUpstream, Talk, events
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest
from tests.support.waiting import until

BODY: dict[str, Any] = {"model": "flash", "messages": [{"role": "user", "content": "Capital of France?"}]}


async def page(gateway: GatewayUnderTest, path: str, key: str | None = None) -> tuple[int, Any]:
    """Get a page; return its status and its JSON."""
    async with gateway.http(key) as client:
        answer = await client.get(path)
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, answer.json()


async def samples(gateway: GatewayUnderTest) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the metrics: (name, sorted labels) -> value."""
    async with gateway.http(None) as client:
        answer = await client.get("/metrics")
    assert answer.headers["content-type"] == CONTENT_TYPE
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def labels(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


async def test_a_gateway_whose_parts_all_work_is_healthy(gateway: GatewayUnderTest):
    expected = {
        "status": "healthy",
        "models": {"flash": {"flash/main/0": True}, "standard": {"standard/main/0": True}},
        "ledger": True,
        "redis": True,
    }
    for path in ("/health", "/health/readiness"):
        assert await page(gateway, path) == (200, expected)


async def test_a_model_without_a_replica_is_not_ready_but_alive(start_gateway: StartGateway):
    async with start_gateway(flash=f"http://127.0.0.1:{free_port()}") as gateway:
        status, report = await page(gateway, "/health/readiness")
        assert (status, report["status"]) == (503, "not ready")
        assert report["models"]["flash"] == {"flash/main/0": False}
        assert (await page(gateway, "/health"))[0] == 200
        assert await page(gateway, "/health/liveliness") == (200, {"status": "alive"})


async def test_a_model_with_one_of_two_replicas_is_degraded_and_ready(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async with start_gateway(flash=[flash.url, f"http://127.0.0.1:{free_port()}"]) as gateway:
        status, report = await page(gateway, "/health/readiness")
    assert (status, report["status"]) == (200, "degraded")
    assert report["models"]["flash"] == {"flash/main/0": True, "flash/main/1": False}


async def test_health_says_nothing_that_a_stranger_may_not_know(gateway: GatewayUnderTest):
    _, report = await page(gateway, "/health")
    text = str(report)
    assert "127.0.0.1" not in text
    assert "sk-" not in text


async def test_models_are_those_that_the_tenant_may_use(start_gateway: StartGateway):
    async with start_gateway(tenant={"models": ["flash"]}) as gateway:
        status, listed = await page(gateway, "/v1/models", KEY)
        assert status == 200
        assert [model["id"] for model in listed["data"]] == ["auto", "flash"]
        assert (await page(gateway, "/v1/models/flash", KEY))[0] == 200
        assert (await page(gateway, "/v1/models/auto", KEY))[0] == 200
        status, told = await page(gateway, "/v1/models/standard", KEY)
        assert (status, told["error"]["code"], told["error"]["param"]) == (404, "not_found", "model")


async def test_the_official_client_lists_the_models(gateway: GatewayUnderTest):
    async with gateway.openai() as client:
        assert [model.id async for model in client.models.list()] == ["auto", "flash", "standard"]
        assert (await client.models.retrieve("auto")).owned_by == "flashlane"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/flash", "/v1/requests/req_1"])
@pytest.mark.parametrize("key", [None, "sk-fl-nobody"])
async def test_pages_of_a_tenant_need_its_key(gateway: GatewayUnderTest, path: str, key: str | None):
    status, told = await page(gateway, path, key)
    assert (status, told["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/v1/models")])
async def test_a_method_that_a_page_does_not_take_is_told(gateway: GatewayUnderTest, method: str, path: str):
    async with gateway.http() as client:
        answer = await client.request(method, path)
    assert answer.status_code == 405 or (answer.status_code, method) == (404, "GET")
    assert answer.json()["error"]["message"].endswith(path)


async def test_metrics_count_requests_tokens_and_money(gateway: GatewayUnderTest):
    async with gateway.http() as client:
        for stream in (False, True):
            await client.post("/v1/chat/completions", json={**BODY, "stream": stream})
    found = await samples(gateway)
    acme = {"tenant": "acme", "model": "flash"}
    assert found["flashlane_requests_total", labels(**acme, status="ok", code="")] == 2
    assert found["flashlane_decisions_total", labels(**acme, rule="forced")] == 2
    assert found["flashlane_tokens_total", labels(**acme, kind="prompt")] == 24
    assert found["flashlane_tokens_total", labels(**acme, kind="cached")] == 8
    assert found["flashlane_tokens_total", labels(**acme, kind="completion")] == 6
    assert found["flashlane_cost_usd_total", labels(**acme)] == pytest.approx(2 * 0.00000384)
    assert found["flashlane_request_duration_seconds_count", labels(model="flash")] == 2
    assert found["flashlane_time_to_first_token_seconds_count", labels(model="flash")] == 1
    assert found["flashlane_overhead_seconds_count", ()] == 2
    assert found["flashlane_ledger_errors_total", ()] == 0


async def test_metrics_show_what_is_in_flight(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    on = labels(model="flash", pool="main", replica="flash/main/0")

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(events()[1])
        await talk.until_closed()

    flash.script = script
    body = {**BODY, "stream": True}
    async with gateway.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        pieces = answer.aiter_bytes()  # kept: one that is collected closes the connection
        await anext(pieces)
        assert (await samples(gateway))["flashlane_in_flight", on] == 1
    await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
    assert (await samples(gateway))["flashlane_in_flight", on] == 0


async def test_a_failed_replica_is_counted_by_its_name(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    async def die(talk: Talk) -> None:
        talk.abort()

    flash.script = die
    async with gateway.http() as client:
        answer = await client.post("/v1/chat/completions", json=BODY)
        found = await samples(gateway)
    assert answer.status_code == 200  # standard answered
    failed = labels(replica="flash/main/0", kind="BackendUnavailable")
    assert found["flashlane_upstream_errors_total", failed] == 1


async def test_what_clients_send_is_no_label(gateway: GatewayUnderTest):
    async with gateway.http() as client:
        await client.post("/v1/chat/completions", json={**BODY, "model": "made-up-name"})
    async with gateway.http("sk-fl-made-up-key") as client:
        await client.post("/v1/chat/completions", json=BODY)
    text = str(await samples(gateway))
    assert "made-up" not in text
    assert "sk-fl" not in text


def test_idle_connections_are_let_go_before_servers_do_and_kept_longer_than_load_balancers_do():
    assert uvicorn.Config("").timeout_keep_alive > http_client.IDLE_SECONDS
    assert server.IDLE_SECONDS > 60
