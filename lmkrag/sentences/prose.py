"""Where sentences of prose begin, by Punkt (Kiss and Strunk, Computational Linguistics 32(4),
2006).

Punkt is NLTK's. What it knows of a language is learned from texts without labels
(``pipelines/train/borders.py``), one file a language in ``punkt/``; the abbreviations below are set
by hand and stand in many languages.
"""

import json
import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

from lmkrag.specs import ENGLISH

_ABBREVIATIONS = """dr mr mrs ms prof st jr sr rev gen col capt lt sgt hon gov sen rep pres e.g
i.e etc al cf vs viz ca approx resp fig figs eq eqs sec ch vol pp p ed eds inc ltd co corp dept
univ u.s u.k u.n d.c a.m p.m ph.d jan feb mar apr jun jul aug sep sept oct nov dec
avda aprox dhr fa hrn mevr sra srta""".split()
# What stands before a number with a full stop that is an ordinal: "der 2. Vorsitzende".
_BEFORE_ORDINALS = {
    "de": "der|die|das|dem|den|des|am|beim|im|vom|zum|zur",
    "da": "den|det",
    "no": "den|det",
}
_SHORT_WORD = re.compile(r"(?<![^\W_])[^\W_]{1,4}\.\s{1,9}$")
# What stands before the number of something, and what goes on then.
_NUMBER_WORD = re.compile(
    r"\b(?:nos?|nrs?|refs?|tel|reg|acct|inv|lic|ser|rm|apt|bldg|abb)\.\s{1,9}$", re.IGNORECASE
)
_CODE, _FIGURE = re.compile(r"(?:No\.\s)?[A-Z]{0,6}[-/]?\d"), re.compile(r"[+±€$£¥]?\d")


def find_starts(text: str, language: str = ENGLISH) -> list[int]:
    """Return the offsets at which sentences of a text begin, in order.

    A short word before a number or a small letter is an abbreviation: ``rys. 5``, ``bzw. am``; so
    is ``no.`` before a code, and what has a colon after its full stop. The first call imports NLTK.
    """
    starts = {start for start, _ in _load_punkt(language).span_tokenize(text)}
    starts -= _find_after_ordinals(text, language)
    return sorted(start for start in starts if not _is_abbreviated(text, start))


def _find_after_ordinals(text: str, language: str) -> set[int]:
    """Return where words follow ordinals, but for those that mostly begin a sentence."""
    if language not in _BEFORE_ORDINALS:
        return set()
    found = re.finditer(rf"\b(?i:{_BEFORE_ORDINALS[language]})\s\d\d?\.\s+(?=(\w+))", text)
    starters = _learn(language)["starters"]
    return {match.end() for match in found if match[1].lower() not in starters}


def _is_abbreviated(text: str, start: int) -> bool:
    """Whether what ends before a position is a short word with a full stop that goes on, or one
    that stands before a code.
    """
    if text[start] in ":;," and text[start - 1 : start] == ".":
        return True
    if text[start].islower() or _FIGURE.match(text, start):
        abbreviation = _SHORT_WORD
    elif _CODE.match(text, start):
        abbreviation = _NUMBER_WORD
    else:
        return False
    return abbreviation.search(text, max(0, start - 16), start) is not None


@cache
def _learn(language: str) -> dict[str, list[str]]:
    """What was learned of a language, of English where nothing was."""
    folder = files("lmkrag.sentences") / "punkt"
    file = folder / f"{language}.json"
    file = file if file.is_file() else folder / f"{ENGLISH}.json"
    return dict(json.loads(file.read_text("utf-8")))


@cache
def _load_punkt(language: str) -> Any:
    """Return NLTK's tokenizer. Importing it takes 0.2 s, or two seconds if SciPy and scikit-learn
    are installed.
    """
    from nltk.tokenize import punkt

    base = punkt.PunktLanguageVars()

    class Token(punkt.PunktToken):  # type: ignore[misc]  # NLTK has no types
        @property
        def is_initial(self) -> bool:
            """Whether the token is a letter and a full stop: NLTK takes ``_.`` for one, too."""
            return len(self.tok) == 2 and self.tok[0].isalpha()

    class Language(punkt.PunktLanguageVars):  # type: ignore[misc]
        """NLTK's patterns without its limit: five seconds of the processor, those of other threads
        included.
        """

        __slots__ = ()
        contexts = re.compile(base.period_context_re().pattern, re.VERBOSE)
        words = re.compile(base._word_tokenizer_re().pattern, re.VERBOSE)

        def period_context_re(self) -> re.Pattern[str]:
            """Return what finds the marks that may end a sentence."""
            return self.contexts

        def word_tokenize(self, text: str) -> list[str]:
            """Return the words and the marks of a text."""
            return self.words.findall(text)

    learned = _learn(language)
    parameters = punkt.PunktParameters()
    parameters.abbrev_types = {*_ABBREVIATIONS, *learned["abbreviations"]}
    parameters.sent_starters = set(learned["starters"])
    parameters.collocations = {("##number##", word) for word in learned["after_numbers"]}
    # NLTK's own would grow by each word that it is asked for
    parameters.ortho_context = Counter(dict.fromkeys(learned["small"], punkt._ORTHO_MID_LC))
    return punkt.PunktSentenceTokenizer(parameters, lang_vars=Language(), token_cls=Token)
