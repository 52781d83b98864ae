"""The ASGI application: hot routes as plain ASGI inside FastAPI, the rest as FastAPI routes."""

from collections.abc import Callable, Mapping
from typing import Annotated, cast

import msgspec
from fastapi import Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from backends.types import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from gateway.apis.messages import COUNT_PATH, MESSAGES_PATH, CountTokens, Messages
from gateway.apis.responses import RESPONSES_PATH, Responses
from gateway.errors import ErrorAnswer, GatewayError, NotFound, to_answer
from gateway.health import Health
from gateway.http import JSON, AsgiApp, Receive, Scope, Send
from gateway.ledger import record_json
from gateway.pipeline import Endpoint, identify
from gateway.requests.chat import parse_chat
from gateway.requests.completions import parse_completion
from gateway.requests.embeddings import parse_embedding
from gateway.services import Services
from gateway.telemetry import CONTENT_TYPE
from policies.errors import PolicyError
from policies.types import AUTO, Caller


class GatewayApp(FastAPI):
    """FastAPI, with routes that go straight to plain ASGI applications, past its middleware and routing."""

    def __init__(self, services: Services, hot_routes: Mapping[tuple[str, str], AsgiApp]) -> None:
        """Make an application without FastAPI's pages of documentation.

        Args:
            services: What requests work with.
            hot_routes: (method, path) -> application; it answers every error by itself.
        """
        super().__init__(
            title="Flashlane", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
        )
        self.services = services
        self._hot_routes = hot_routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request."""
        if scope["type"] == "http":
            hot = self._hot_routes.get((scope["method"], scope["path"]))
            if hot is not None:
                await hot(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def methods_of(self, path: str) -> list[str]:
        """Return which methods a route past FastAPI takes; none where there is no such route."""
        return [method for method, known in self._hot_routes if known == path]


def create_app(services: Services, health: Health) -> GatewayApp:
    """Return the application over running services."""
    app = GatewayApp(
        services,
        {
            ("POST", CHAT_PATH): Endpoint(services, CHAT_PATH, parse_chat),
            ("POST", COMPLETIONS_PATH): Endpoint(services, COMPLETIONS_PATH, parse_completion),
            ("POST", EMBEDDINGS_PATH): Endpoint(services, EMBEDDINGS_PATH, parse_embedding),
            ("POST", MESSAGES_PATH): Messages(services),
            ("POST", COUNT_PATH): CountTokens(services),
            ("POST", RESPONSES_PATH): Responses(services),
        },
    )
    _add_error_handlers(app)
    _add_api(app, services)
    _add_operations(app, services, health)
    return app


def _caller(request: Request) -> Caller:
    return identify(cast("GatewayApp", request.app).services, request.scope)


KnownCaller = Annotated[Caller, Depends(_caller)]


def _add_api(app: FastAPI, services: Services) -> None:
    @app.get("/v1/models")
    def list_models(caller: KnownCaller) -> Response:  # pyright: ignore[reportUnusedFunction]
        names = [AUTO, *(name for name in services.models if caller.tenant.may_use(name))]
        return _json({"object": "list", "data": [_model(name) for name in names]})

    @app.get("/v1/models/{name}")
    def show_model(name: str, caller: KnownCaller) -> Response:  # pyright: ignore[reportUnusedFunction]
        if name != AUTO and (name not in services.models or not caller.tenant.may_use(name)):
            raise NotFound(f"The model {name!r} does not exist, or you may not use it.", param="model")
        return _json(_model(name))

    @app.api_route("/v1/responses/{response_id}", methods=["GET", "DELETE"])
    @app.get("/v1/responses/{response_id}/input_items")
    @app.post("/v1/responses/{response_id}/cancel")
    def no_response(response_id: str, _caller: KnownCaller) -> Response:  # pyright: ignore[reportUnusedFunction]
        raise NotFound(f"Response {response_id!r} is not here: Flashlane keeps no responses.")

    @app.get("/v1/requests/{request_id}")
    async def show_request(request_id: str, caller: KnownCaller) -> Response:  # pyright: ignore[reportUnusedFunction]
        record = await services.ledger.find(request_id, tenant=caller.tenant.name)
        if record is None:
            raise NotFound(f"There is no request {request_id!r} of tenant {caller.tenant.name!r}.")
        return Response(record_json(record), media_type=JSON)


def _add_operations(app: FastAPI, services: Services, health: Health) -> None:
    @app.get("/health/liveliness")
    def live() -> Response:  # pyright: ignore[reportUnusedFunction]
        return _json({"status": "alive"})

    @app.get("/health/readiness")
    async def ready() -> Response:  # pyright: ignore[reportUnusedFunction]
        report = await health.report()
        return _json(report.as_json(), 200 if report.ready else 503)

    @app.get("/health")
    async def detail() -> Response:  # pyright: ignore[reportUnusedFunction]
        return _json((await health.report()).as_json())

    @app.get("/metrics")
    async def metrics() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(await services.telemetry.render(), media_type=CONTENT_TYPE)


def _add_error_handlers(app: GatewayApp) -> None:
    async def known(_request: Request, error: Exception) -> Response:
        return _error(to_answer(error))

    async def framework(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        what, code = "No such page", "not_found"
        headers = dict(getattr(error, "headers", None) or {})
        if status == 404 and (methods := app.methods_of(request.url.path)):
            status, headers = 405, {"allow": ", ".join(methods)}
        if status == 405:
            what, code = f"{request.method} is not allowed on", "method_not_allowed"
        text = f"{what}: {request.url.path}"
        return _error(ErrorAnswer(status, text, "invalid_request_error", code, headers=headers))

    handlers: Mapping[type[Exception], Callable[..., object]] = {
        GatewayError: known,
        PolicyError: known,
        HTTPException: framework,
        Exception: known,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)  # pyright: ignore[reportArgumentType]


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "flashlane"}


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def _error(answer: ErrorAnswer) -> Response:
    return Response(answer.body(), answer.status, dict(answer.headers), JSON)
