"""Turn texts of any length into as many tokens as a model takes."""

from tokenizers import Encoding, Tokenizer

_MOST_CHARACTERS = 16  # for each token: more are only white space, or words that no model knows


def encodable(text: str) -> str:
    """Return a text with lone surrogates, which tokenizers refuse, replaced one for one."""
    return text.encode("utf-8", "replace").decode("utf-8")


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
