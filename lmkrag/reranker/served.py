"""A re-ranker on a server with the API that vLLM, Infinity, llama.cpp, Jina and Cohere have."""

import json
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import ServerError, UsageError
from lmkrag.reranker.base import PlacedText
from lmkrag.system.clients import open_async_client
from lmkrag.types.arrays import Scores

if TYPE_CHECKING:  # this import takes time, and not every search asks a server
    import httpx

KEY_VARIABLE = "LMKRAG_RERANK_KEY"

_AT_A_TIME = 32  # texts of a request, which small servers take
_LONGEST = 6_000  # characters of a text, so that a request stays within the limits of servers
_MOST_BYTES = 4_000_000  # of a reply
_TIMEOUT = 30.0  # seconds for all passages of a search, where it has no limit of its own
_LEAST = 1e-6  # the least probability, which keeps log-odds finite


class ServedReranker:
    """Asks a server to score passages. State: its address. May be shared by threads.

    A key in ``LMKRAG_RERANK_KEY`` is sent to that server only.

    >>> reranker = ServedReranker("http://localhost:8000/v1/rerank#Qwen/Qwen3-Reranker-0.6B")
    >>> reranker.name
    'http://localhost:8000/v1/rerank'
    """

    def __init__(self, address: str) -> None:
        """Take the URL of the endpoint, with the name of the model behind ``#`` if the server has
        several.

        Raises UsageError: it is no such URL.
        """
        self._url, self._model = urldefrag(address)
        try:
            parts = urlsplit(self._url)
            is_valid = bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise UsageError(
                f"re-ranker {address!r}: give a URL such as http://localhost:8000/v1/rerank"
            )
        host = parts.netloc.rpartition("@")[2]  # without a password
        self.name = f"{parts.scheme}://{host}{parts.path}"

    def score(
        self, question: str, passages: Sequence[PlacedText], *, deadline: float = math.inf
    ) -> Scores:
        """Return the log-odds that each passage answers a question, ``[passages]`` float32.

        Scores that all lie within 0 and 1 are probabilities and become log-odds; others are taken
        as they are.

        Args:
            question: as it was asked.
            passages: to be scored.
            deadline: when the reply must be there, by ``time.monotonic``.

        Raises:
            ServerError: the server did not answer in time, or not with scores.
        """
        import asyncio

        import httpx

        texts = [passage.whole[:_LONGEST] for passage in passages]
        seconds = min(_TIMEOUT, deadline - time.monotonic())
        try:
            # in a thread of its own, since that of the caller may run an event loop
            with ThreadPoolExecutor(1) as thread:
                scores = thread.submit(
                    asyncio.run, self._ask_all(question, texts, seconds)
                ).result()
        except TimeoutError as error:
            raise ServerError(f"re-ranker {self.name}: did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise ServerError(f"re-ranker {self.name}: can't be reached ({why})") from error
        return _to_log_odds(np.array(scores, np.float64))

    async def _ask_all(self, question: str, texts: list[str], seconds: float) -> list[float]:
        """The scores of all texts. Raises TimeoutError: they are not all there after ``seconds``,
        however the server spends them; ServerError or an error of httpx.
        """
        import asyncio

        scores: list[float] = []
        async with (
            asyncio.timeout(seconds),
            open_async_client(self._url, headers=_authorize(), timeout=None) as client,
        ):
            for start in range(0, len(texts), _AT_A_TIME):
                scores += await self._ask(client, question, texts[start : start + _AT_A_TIME])
        return scores

    async def _ask(
        self,
        client: "httpx.AsyncClient",  # noqa: TID251
        question: str,
        texts: list[str],
    ) -> list[float]:
        """The scores of some texts. Raises ServerError or an error of httpx."""
        body: dict[str, Any] = {
            "query": question,
            "documents": texts,
            "top_n": len(texts),
            "return_documents": False,
        }
        if self._model:
            body["model"] = self._model
        reply = bytearray()
        async with client.stream("POST", self._url, json=body) as response:
            async for piece in response.aiter_bytes():
                reply += piece
                if len(reply) > _MOST_BYTES:
                    raise ServerError(f"re-ranker {self.name}: sent more than a list of scores")
        if response.status_code != HTTPStatus.OK:
            raise ServerError(f"re-ranker {self.name}: answered {response.status_code}")
        try:
            return _read_scores(json.loads(reply), len(texts))
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise ServerError(f"re-ranker {self.name}: sent no score for each passage") from error


def _authorize() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _read_scores(reply: Any, count: int) -> list[float]:
    """The score of each text. Raises ValueError, TypeError, LookupError or ArithmeticError: the
    reply has not one finite score for each.
    """
    scores = {result["index"]: float(result["relevance_score"]) for result in reply["results"]}
    ordered = [scores[number] for number in range(count)]
    if not all(map(math.isfinite, ordered)):
        raise ValueError("a score is not finite")
    return ordered


def _to_log_odds(scores: NDArray[np.float64]) -> Scores:
    if not ((scores >= 0) & (scores <= 1)).all():
        return scores.astype(np.float32)
    probabilities = np.clip(scores, _LEAST, 1 - _LEAST)
    return np.log(probabilities / (1 - probabilities)).astype(np.float32)
