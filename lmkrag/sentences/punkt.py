"""NLTK's Punkt with abbreviations set by hand, or with NLTK's own downloaded ``punkt_tab`` data.

Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary Detection" (Computational Linguistics 32(4), 2006).
"""

from typing import TYPE_CHECKING

from lmkrag.errors import UsageError

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

ABBREVIATIONS = frozenset(
    """dr mr mrs ms prof st jr sr rev gen col capt lt sgt hon gov sen rep pres e.g i.e etc al cf vs viz ca approx resp
    fig figs eq eqs sec ch vol pp p ed eds inc ltd co corp dept univ u.s u.k u.n d.c a.m p.m ph.d
    jan feb mar apr jun jul aug sep sept oct nov dec""".split()
)


def load_punkt(splitter: str = "punkt", language: str = "english") -> "PunktSentenceTokenizer":
    """Return a Punkt tokenizer with the abbreviations above, or with NLTK's data for ``"punkt_tab"``.

    Raises:
        UsageError: the splitter is unknown, or NLTK's data is not on this machine.
    """
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer, PunktTokenizer

    if splitter == "punkt":
        parameters = PunktParameters()
        parameters.abbrev_types = set(ABBREVIATIONS)
        return PunktSentenceTokenizer(parameters)
    if splitter != "punkt_tab":
        raise UsageError(f"unknown splitter {splitter!r}: use 'punkt' or 'punkt_tab'")
    try:
        return PunktTokenizer(language)
    except LookupError:
        raise UsageError(f"NLTK has no punkt_tab data for {language!r} here: run nltk.download('punkt_tab')") from None
