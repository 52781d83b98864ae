"""`POST /v1/messages` and `POST /v1/messages/count_tokens`: Anthropic's Messages API."""

import logging
from collections.abc import Iterable, Mapping

import msgspec

from gateway.apis.chat import ChatAnswer
from gateway.apis.chat_stream import StreamEvent
from gateway.apis.errors import ChatError
from gateway.apis.messages_answer import MessageEvents, error_body, message_of
from gateway.apis.messages_request import translate_messages
from gateway.apis.reply import TranslatedReply
from gateway.errors import ClientLeft, to_answer
from gateway.http import JSON, Receive, Reply, Scope, Send, read_body
from gateway.pipeline import answer_request, identify
from gateway.requests.chat import ChatRequest, parse_chat
from gateway.services import Services

log = logging.getLogger(__name__)

MESSAGES_PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"


def read_messages(body: bytes) -> ChatRequest:
    """Return the chat request that a body stands for.

    Raises:
        BodyInvalid: It is not one, or asks for what only Anthropic's own service has.
    """
    return parse_chat(translate_messages(body))


class Messages:
    """`POST /v1/messages` as a plain ASGI application."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = MessagesReply(send)
        await answer_request(
            self._services, scope, receive, reply, endpoint=MESSAGES_PATH, read=read_messages
        )


class CountTokens:
    """`POST /v1/messages/count_tokens` as a plain ASGI application: an estimate, no engine is asked."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = MessagesReply(send)
        reply.unread = receive
        try:
            identify(self._services, scope)
            body = await read_body(scope, receive, self._services.max_body_bytes)
            reply.unread = None
            tokens = read_messages(body).input_tokens()
        except ClientLeft:
            return
        except Exception as error:
            answer = to_answer(error)
            if answer.status >= 500:
                log.exception("%s failed", COUNT_PATH)
            await reply.whole(answer.status, JSON, answer.headers, answer.body())
            return
        await Reply(send).whole(200, JSON, {}, msgspec.json.encode({"input_tokens": tokens}))


class MessagesReply(TranslatedReply):
    """Answers as Anthropic's API does."""

    def answer_of(self, answer: ChatAnswer) -> object:
        """Return a message."""
        return message_of(answer, self.request_id)

    def error_of(self, status: int, error: ChatError) -> tuple[int, object]:
        """Return an error; 529 says that the model is overloaded."""
        return error_body(status, error, self.request_id)

    def events_of(self, event: StreamEvent) -> Iterable[bytes]:
        """Return the events of a Messages stream."""
        return MessageEvents(self.request_id).of(event)

    def headers_of(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers; Anthropic's clients read the request id from one of their own."""
        own = {"request-id": self.request_id} if self.request_id else {}
        return {**headers, **own}
