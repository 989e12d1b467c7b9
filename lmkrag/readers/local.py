"""Find a server of a language model on this machine."""

from collections.abc import Sequence
from typing import NamedTuple

from lmkrag.errors import UsageError

_PORTS = (11434, 1234, 8080, 8000)  # the default ports of Ollama, LM Studio, llama.cpp and vLLM
_SECONDS = 0.5  # that one of them may take to list its models


class LocalServer(NamedTuple):
    """The address of a server that speaks OpenAI's API, and the model that it has loaded or lists first."""

    base_url: str
    model: str


def find_local_server(ports: Sequence[int] = _PORTS) -> LocalServer:
    """Return the first server of a language model that listens on this machine, or raise UsageError.

    Each port is asked once for its models, over the loopback interface alone. Models of embeddings are passed over, and
    so are servers of lmkrag, which speak the same API.
    """
    import httpx

    with httpx.Client(timeout=_SECONDS, trust_env=False) as client:
        for port in ports:
            base_url = f"http://127.0.0.1:{port}/v1"
            try:
                models = client.get(f"{base_url}/models").raise_for_status().json()["data"]
                names = [model["id"] for model in models if model.get("owned_by") != "lmkrag"]
            except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError):
                continue  # something else listens there, or nothing
            if names := [name for name in names if isinstance(name, str) and "embed" not in name.lower()]:
                return LocalServer(base_url, names[0])
    raise UsageError(
        "--llm: no language model answers on this machine: start Ollama, LM Studio, llama.cpp or vLLM, "
        "or give --base-url and --model"
    )
