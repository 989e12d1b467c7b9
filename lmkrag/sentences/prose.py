"""Where sentences of prose begin, by Punkt (Kiss and Strunk, Computational Linguistics 32(4),
2006).

Punkt is NLTK's. It is not trained here: the abbreviations are set by hand.
"""

import re
from collections import Counter
from functools import cache
from typing import Any

_ABBREVIATIONS = """dr mr mrs ms prof st jr sr rev gen col capt lt sgt hon gov sen rep pres e.g
i.e etc al cf vs viz ca approx resp fig figs eq eqs sec ch vol pp p ed eds inc ltd co corp dept
univ u.s u.k u.n d.c a.m p.m ph.d jan feb mar apr jun jul aug sep sept oct nov dec""".split()


def find_starts(text: str) -> list[int]:
    """Return the offsets at which sentences of a text begin, in order.

    The first call imports NLTK.
    """
    return [start for start, _ in _load_punkt().span_tokenize(text)]


@cache
def _load_punkt() -> Any:
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

    parameters = punkt.PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS)
    parameters.ortho_context = Counter()  # NLTK's would grow by each word that it is asked for
    return punkt.PunktSentenceTokenizer(parameters, lang_vars=Language(), token_cls=Token)
