"""What a question says, read once for all parts of a search.

Its operators are ``"quoted phrases"``, which rank higher, and ``-word`` and ``-"a phrase"`` at its
end, which exclude results.
"""

import re
from functools import lru_cache
from typing import NamedTuple, Self

from lmkrag.language.keys import Keys, add_fiscal_years, read_keys
from lmkrag.language.languages import asks_in_english, detect_language
from lmkrag.language.quantities import add_spellings
from lmkrag.language.terms import find_stems, split_words
from lmkrag.specs import ENGLISH

_MOST_PHRASES = 8
_FEW_WORDS = 3  # too few for their language to be detected
QUOTED = re.compile(r"""(?<![\w"“])(?:"(?=\S)([^"]+)(?<=\S)"|“([^“”]+)”|«([^«»]+)»)(?!\w)""")
_EXCLUDED = re.compile(r"""(?<=\S)\s+-(?:"([^"]+)"|([^\W\d_][\w.-]*\w))$""")
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:::|[.#])[A-Za-z_]\w*)*")
_IDENTIFIER = re.compile(
    r"(?<![\w.])[A-Za-z]\w*(?:_\w+|(?<=[a-z\d])[A-Z]\w*)+|\b[A-Za-z_]\w*(?=\(\))"
)
_ABOUT_PROSE = re.compile(
    r"^\W*how (?:to|(?:do|can|could|should|would) (?:I|we|you|one))\b"
    r"|\b(?:install\w*|licen[cs]e\w*|contribut\w*|changelog|release "
    r"notes|readme|documentation|tutorial"
    r"|get started|getting started|roadmap|code of conduct|maintain(?:er|ed)\w*)\b",
    re.IGNORECASE,
)
_ABOUT_CODE = re.compile(
    r"^\W*where\b|\b(?:functions?|methods?|class(?:es)?|constants?|variables?|source code)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"[?？]|^\W*(?:what|which|who|whose|when|why|can|could|may|should|shall|will|would|do|does|did|is"
    r"|are|was|were|has|have|had"
    r"|how (?:many|much|long|often|do|does|did|can|could|should|would|is|are|was|were|to))\b",
    re.IGNORECASE,
)
_ABOUT_SECONDARY = re.compile(
    r"\b(?:tests?|tested|testing|fixtures?|mock\w*|vendor\w*|generated|templates?|translat\w+)\b",
    re.IGNORECASE,
)
# "I", "my", "did we", in several languages; what "you said" was said by the other
_ABOUT_ASKER = re.compile(
    r"\b(?:I|my|mine|me|we|our|us|ich|mein\w*|mir|mich|wir|unser\w*|je|j['’]\w+|mon|ma|mes|nous"
    r"|notre|nos|yo|mi|mis|nosotros|nuestr\w+|io|mio|mia|miei|noi|nostr\w+)\b",
    re.IGNORECASE,
)
_ABOUT_OTHER = re.compile(
    r"\b(?:did|have|had) you\b|\byou (?:have |had )?(?:\w+ed|said|told|gave|wrote|made)\b",
    re.IGNORECASE,
)
_BORDER = re.compile(r"(?<=[a-z\d])(?=[A-Z])|[_\W]+")


class CodeQuestion(NamedTuple):
    """A question as it is matched with source code.

    Attributes:
        identifiers: the names in it that are written as in source code.
        is_name: whether it is a single name.
        stems: the stems of its words.
        about_secondary: whether it is about tests, templates or translations, or about generated or
            foreign code.
        about_prose: whether pages answer it rather than code: it is about the documents of a
            project, such as its licence, or about how to do something.
        about_code: whether code answers it rather than pages: it names an identifier, asks for a
            function or where something is done, or describes something and asks nothing.
    """

    identifiers: tuple[str, ...]
    is_name: bool
    stems: tuple[str, ...]
    about_secondary: bool
    about_prose: bool
    about_code: bool


class Question(NamedTuple):
    """A question, its operators, and the words in it that no others can stand for.

    Attributes:
        text: the question without its exclusions, its dates and numbers also as tables spell them.
        asked: the question without its exclusions, as models read it with a passage.
        keys: its exact words, numbers and names.
        phrases: its quoted phrases, in the form of :func:`normalize_phrase`.
        excluded: what excludes a result, in the same form.
        is_phrases: whether it is nothing but phrases.
        code: the question as it is matched with source code.
    """

    text: str
    asked: str
    keys: Keys
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]
    is_phrases: bool
    code: CodeQuestion

    @classmethod
    def read(cls, query: str, *, exclusions: bool = True) -> Self:
        """Read a query.

        A phrase has at least two words, since questions quote single words that results need not
        have; in a query of nothing but phrases one word will do. A word with a hyphen before it is
        an exclusion only at the query's end: elsewhere it is an option of a command.

        Args:
            query: the query.
            exclusions: whether ``-word`` and ``-"a phrase"`` at its end exclude results.

        >>> question = Question.read('"steam pump" seals -gasket')
        >>> question.text, question.phrases, question.excluded
        ('"steam pump" seals', (' steam pump ',), (' gasket ',))
        """
        text, excluded = add_fiscal_years(query.rstrip()), []
        while exclusions and (match := _EXCLUDED.search(text)):
            words = match[1] or match[2]
            if not split_words(words):
                break
            text = text[: match.start()]
            excluded.append(normalize_phrase(words))
        # What is left is the question; read its phrases.
        unquoted = QUOTED.sub(" ", text)
        is_quoted = not split_words(unquoted)
        quotations = (next(filter(None, match.groups())) for match in QUOTED.finditer(text))
        least = 1 if is_quoted else 2
        phrases = dict.fromkeys(
            phrase for phrase in map(normalize_phrase, quotations) if len(phrase.split()) >= least
        )
        searched = add_spellings(text if excluded else query)
        return cls(
            searched,
            text,
            read_keys(searched),
            tuple(phrases)[:_MOST_PHRASES],
            tuple(excluded),
            is_quoted and bool(phrases),
            _read_code_question(unquoted),
        )

    @property
    def is_english(self) -> bool:
        """Whether it is in English. The model that tells languages apart is loaded only if its
        beginning does not show that.
        """
        return self.language == ENGLISH

    @property
    def language(self) -> str:
        """Its language (ISO 639-1)."""
        return ENGLISH if asks_in_english(self.text) else detect_once(self.text)

    @property
    def is_about_asker(self) -> bool:
        """Whether it is about the one who asks, whose own messages of a conversation answer it."""
        return bool(_ABOUT_ASKER.search(self.asked)) and not _ABOUT_OTHER.search(self.asked)

    def excludes(self, text: str) -> bool:
        """Return whether a text has an excluded phrase."""
        if not self.excluded:
            return False
        words = normalize_phrase(text)
        return any(phrase in words for phrase in self.excluded)


detect_once = lru_cache(maxsize=256)(detect_language)


def detect_asked(question: str) -> str:
    """Return the language of a question (ISO 639-1), English where it is too short to tell."""
    is_short = len(question.split()) <= _FEW_WORDS and question.isascii()
    return ENGLISH if is_short or asks_in_english(question) else detect_once(question)


def normalize_phrase(text: str) -> str:
    """Return the words of a text with a space around each, so that a phrase is a part of it."""
    return f" {' '.join(split_words(text))} "


def find_identifiers(question: str) -> tuple[str, ...]:
    """Return the names of a question that are written as in source code.

    If the question is a single name, such as ``Engine.open``, they are its parts.
    """
    alone = question.strip()
    if _NAME.fullmatch(alone):
        return tuple(re.findall(r"\w+", alone))
    return tuple(dict.fromkeys(match[0] for match in _IDENTIFIER.finditer(question)))


def split_identifiers(text: str) -> str:
    """Return a text with spaces between the parts of identifiers: ``read late`` for
    ``readLate``.
    """
    return _BORDER.sub(" ", text)


def _read_code_question(question: str) -> CodeQuestion:
    """Return a question, without its phrases, as it is matched with source code."""
    identifiers = find_identifiers(question)
    about_prose = _ABOUT_PROSE.search(question) is not None
    is_description = _ASKS.search(question) is None
    names_code = bool(identifiers) or _ABOUT_CODE.search(question) is not None
    return CodeQuestion(
        identifiers,
        _NAME.fullmatch(question.strip()) is not None,
        tuple(find_stems(split_identifiers(question))),
        _ABOUT_SECONDARY.search(question) is not None,
        about_prose,
        (names_code or is_description) and not about_prose,
    )
