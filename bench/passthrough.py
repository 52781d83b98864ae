"""The yardstick: the pass-through that one would write first, FastAPI with aiohttp, and nothing else."""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from fastapi import FastAPI, Request, Response


def make_app(upstream: str) -> FastAPI:
    """Return an application that forwards chat requests to `upstream`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            app.state.session = session
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        session: aiohttp.ClientSession = request.app.state.session
        headers = {"content-type": "application/json"}
        url = f"{upstream}/v1/chat/completions"
        async with session.post(url, data=await request.body(), headers=headers) as answer:
            return Response(await answer.read(), answer.status, media_type=answer.content_type)

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(make_app(arguments.upstream), port=arguments.port, access_log=False, log_level="warning")
