"""`POST /v1/responses`: OpenAI's Responses API, without state."""

from collections.abc import Iterable, Mapping

from msgspec import Raw

from gateway.apis.chat import ChatAnswer
from gateway.apis.chat_stream import StreamEvent
from gateway.apis.errors import ChatError
from gateway.apis.reply import TranslatedReply
from gateway.apis.responses_answer import Facts, ResponseEvents, response_of
from gateway.apis.responses_request import translate_responses
from gateway.http import Receive, Scope, Send
from gateway.pipeline import answer_request
from gateway.requests.chat import ChatRequest, parse_chat
from gateway.services import Services

RESPONSES_PATH = "/v1/responses"
PARAMS: Mapping[str, str] = {
    "messages": "input",
    "response_format": "text.format",
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
}
"""Fields of a chat request that are called otherwise here. Messages are not items: no index is told."""


class Responses:
    """`POST /v1/responses` as a plain ASGI application."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = ResponsesReply(send, created=int(self._services.clock.now().timestamp()))
        await answer_request(self._services, scope, receive, reply, endpoint=RESPONSES_PATH, read=reply.read)


class ResponsesReply(TranslatedReply):
    """Answers as the Responses API does; errors have the same shape in all of OpenAI's APIs."""

    def __init__(self, send: Send, *, created: int) -> None:
        super().__init__(send)
        self._created = created
        self._echo: Mapping[str, Raw] = {}
        self._events: ResponseEvents | None = None

    def read(self, body: bytes) -> ChatRequest:
        """Return the chat request that a body stands for, and keep what the answer repeats of it.

        Raises:
            BodyInvalid: It is not one, or asks for what only OpenAI's own service has.
        """
        translated = translate_responses(body)
        self._echo = translated.echo
        return parse_chat(translated.body)

    def answer_of(self, answer: ChatAnswer) -> object:
        """Return a response."""
        return response_of(answer, self._facts())

    def error_of(self, status: int, error: ChatError) -> tuple[int, object]:
        """Return an error as it is, its path in the words of this API as far as there are some."""
        root = (error.param or "").partition("[")[0]
        error.param = PARAMS.get(root, error.param)
        return status, {"error": error}

    def events_of(self, event: StreamEvent) -> Iterable[bytes]:
        """Return the events of a Responses stream."""
        if self._events is None:
            self._events = ResponseEvents(self._facts())
        return self._events.of(event)

    def _facts(self) -> Facts:
        return Facts(self.request_id, self._created, self._echo)
