"""Turn texts of any length into as many tokens as a model takes."""

from pathlib import Path

from tokenizers import Encoding, Tokenizer

from lmkrag.errors import EncoderError

_MOST_CHARACTERS = 16  # for each token: more are only white space, or words that no model knows


def encodable(text: str) -> str:
    """Return a text with lone surrogates, which tokenizers refuse, replaced one for one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def find_landmark(tokenizer: Tokenizer, landmark: str, folder: Path) -> int:
    """Return the id of the token that ends each sentence.

    Args:
        tokenizer: the tokenizer of the model.
        landmark: the token.
        folder: of the model, for the message.

    Raises:
        EncoderError: the tokenizer has no such token.
    """
    number: int | None = tokenizer.token_to_id(landmark)
    if number is None:
        raise EncoderError(f"{folder}: its landmark {landmark!r} is no token of its tokenizer.json")
    return number


def tokenize(tokenizer: Tokenizer, text: str, most: int) -> Encoding:
    """Return the first tokens of a text, without special tokens.

    Every model gets questions and titles from here. A limit in characters would say nothing about
    tokens: Chinese has one for each character, hashes and base64 have one for two.

    Args:
        tokenizer: the tokenizer of the model.
        text: a text of any length; only its beginning is read.
        most: maximum number of tokens.
    """
    encoding = tokenizer.encode(
        encodable(text[: most * _MOST_CHARACTERS]), add_special_tokens=False
    )
    encoding.truncate(most)
    return encoding
