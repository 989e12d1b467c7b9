"""Regular expressions that are compiled late."""

import re
from typing import Any


class LateRegex:
    """A regular expression that is compiled on first use, since a command needs few of them."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(re.compile(*self._arguments), name)
        return value
