"""Where sentences of prose begin: Punkt (Kiss and Strunk, Computational Linguistics 32(4), 2006), not trained.

The abbreviations are set by hand. Sentences begin where NLTK's ``PunktSentenceTokenizer`` finds them with these
abbreviations; NLTK itself takes two seconds to import where SciPy and scikit-learn are installed.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise, repeat

_ABBREVIATIONS = """dr mr mrs ms prof st jr sr rev gen col capt lt sgt hon gov sen rep pres e.g i.e etc al cf vs viz ca
approx resp fig figs eq eqs sec ch vol pp p ed eds inc ltd co corp dept univ u.s u.k u.n d.c a.m p.m ph.d jan feb mar
apr jun jul aug sep sept oct nov dec""".split()
_QUOTES = "'\"‘’“”«»"
_NO_WORD = rf"[?!:;@*(){{}}\[\]{_QUOTES}]"  # a character that no word has inside
_RUN = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"  # a dash or an ellipsis
_WORD_END = rf"(?=\s|$|{_NO_WORD}|{_RUN}|,(?:$|\s|{_NO_WORD}|{_RUN}))"
_TOKEN = re.compile(rf"{_RUN}|[^\s()\[\]{{}}\"`:;&#*@,-]\S*?{_WORD_END}|\S")
_MARK = re.compile(rf"[.?!](?=({_NO_WORD}|\s+(\S+)))")  # a mark that may end a sentence; group 2: the next word
_CLOSING = re.compile(rf"[){_QUOTES}\]}}]+?(?:\s+|(?=--)|$)", re.MULTILINE)  # belongs to the sentence before it
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*$")
_SPACES = " \t\n\r\v\f"


def find_starts(text: str) -> Iterator[int]:
    """Yield where the sentences of a text begin, in order."""
    marks = [match for match, context in _find_marks(text) if _has_end(context)]
    begins = [0, *(match.end() if match[2] is None else match.start(2) for match in marks)]
    ends = [*(match.end() for match in marks), len(text.rstrip())]
    closings = [None, *map(_CLOSING.match, repeat(text), begins[1:], ends[1:]), None]
    for begin, end, (closing, following) in zip(begins, ends, pairwise(closings), strict=True):
        start = begin if closing is None else closing.end()
        if start < end or following is not None:
            yield start


def _find_marks(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each mark that may end a sentence with the words around it; of marks at one word, the last."""
    start = stop = 0  # of the word before the mark
    held: re.Match[str] | None = None
    for match in chain(_MARK.finditer(text), [None]):
        space = 0 if match is None else max(text.rfind(space, stop, match.start()) for space in _SPACES)
        first = space + 1 if space > stop else start
        if held is not None and (match is None or stop <= first):
            yield held, text[start:stop] + held[0] + held[1]
        if match is not None:
            held, start, stop = match, first, match.start()


def _has_end(context: str) -> bool:
    tokens = [token for line in context.split("\n") for token in _TOKEN.findall(line)]
    return any(_ends_sentence(token, following) for token, following in pairwise(tokens))


def _ends_sentence(token: str, following: str) -> bool:
    """Return whether a sentence ends between two tokens: at a mark, unless it is one of an abbreviation."""
    if token in (".", "?", "!"):
        return True
    word = token[:-1].lower()
    if not token.endswith(".") or word.endswith(".") or word.rpartition("-")[2] in _ABBREVIATIONS:
        return False
    is_initial = len(token) == 2 and token[0].isalpha()
    if is_initial and following[0].isupper():
        return False
    goes_on = following in (";", ":", ",", ".", "!", "?") or following[0].islower()
    return not (goes_on and (is_initial or _NUMBER.match(token)))
