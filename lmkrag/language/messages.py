"""How messages of conversations begin: with a heading, a bold name or a time, and who speaks."""

import re
from typing import NamedTuple

_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}"
_CLOCK = r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:[ \u202f]?[APap]\.?[Mm]\.?)?"
_TIME = rf"{_DATE}(?:,?[ T]{_CLOCK})?|{_CLOCK}"
_MARK = r"[\u200e\u200f]?"
_OWN = "user|human|you|me"
_ASSISTANT = (
    r"assistant|ai|chatgpt|gpt[\w.-]{1,12}|claude|gemini|copilot|deepseek|grok|llama|mistral|bot"
    "|model"
)
_ROLE = rf"(?:{_OWN}|{_ASSISTANT}|system|tool)"
_NAME = r"\w[^\n:*(\[|#]{0,58}[^\n:*(\[|#,\s]|\w"
_LEVEL = "(?:info|debug|warn(?:ing)?|error|fatal|critical|trace|notice)"  # of a log
# Each form: (mark, name, time). A name that is no role stands beside a date and a time.
_AT = rf"[(\[](?P<at>{_TIME})[)\]]"
_FORMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "## User", "#### You said:", "## Maria Lopez, 2024-06-01 10:00"
        rf"(?P<mark>#{{1,6}}) \**(?:(?P<role>{_ROLE})(?: said)?(?:,? [(\[]?(?P<at>{_TIME})[)\]]?)?"
        rf"|(?P<name>{_NAME}),? [(\[]?(?P<time>{_DATE}[ T]{_CLOCK})[)\]]?)"
        r":?\**[ \t]*(?:\r?\n|$)",
        # "**User:** ", "**User**: ", "**Maria Lopez** (2024-06-01 10:00): "
        rf"(?P<mark>\*\*)(?:(?P<role>{_ROLE})(?: said)?(?: {_AT})?(?::\*\*|\*\*:|\*\*(?=[ \t]*$))"
        rf"|(?P<name>{_NAME})(?:\*\*)? [(\[](?P<time>{_DATE},?[ T]{_CLOCK})[)\]]"
        r"(?:\*\*)?:(?:\*\*)?)\s*",
        rf"(?P<mark>)(?P<role>{_ROLE})(?: said)?(?: {_AT})?:(?:\s+|$)",  # "User: "
        # "[01.06.24, 10:00:00] Maria: ", "01/06/2024, 10:00 - Maria: "
        rf"{_MARK}(?P<mark>\[?)(?P<at>{_DATE},? {_CLOCK})(?:\]| -) (?!{_LEVEL}\b)"
        rf"(?P<role>{_NAME}): {_MARK}",
    )
)
_LINE_STARTS = re.compile(r"^(?=[\w#*\[\u200e\u200f])", re.MULTILINE)
_LOOKED_AT = 50_000  # characters of a text that show whether it is one
_BEFORE = 2_000  # characters before the first message
_IS_ROLE = re.compile(_ROLE, re.IGNORECASE)
_ONE_SAYS = re.compile(_OWN, re.IGNORECASE)
_ASSISTS = re.compile(_ASSISTANT, re.IGNORECASE)


class Opener(NamedTuple):
    """The beginning of a message.

    Attributes:
        speaker: who speaks, as it is written.
        time: when, as it is written; empty if it is unknown.
        form: how it is written; all messages of a conversation are written alike.
        end: number of its characters, the space before the message included.
    """

    speaker: str
    time: str
    form: str
    end: int

    @property
    def is_own(self) -> bool:
        """Whether the one who asked an assistant speaks."""
        return _ONE_SAYS.fullmatch(self.speaker) is not None

    @property
    def is_assistant(self) -> bool:
        """Whether an assistant speaks."""
        return _ASSISTS.fullmatch(self.speaker) is not None


def is_role(speaker: str) -> bool:
    """Return whether a speaker is the user of an assistant or the assistant, not a name."""
    return _IS_ROLE.fullmatch(speaker) is not None


def read_opener(line: str) -> Opener | None:
    """Return how a line begins a message; None if it does not.

    >>> read_opener("## Maria Lopez, 2024-06-01 10:00")[:2], read_opener("**User:** Hello")[:2]
    (('Maria Lopez', '2024-06-01 10:00'), ('User', ''))
    """
    for number, form in enumerate(_FORMS):
        if match := form.match(line):
            parts = match.groupdict()
            speaker = parts["role"] or parts["name"]
            time = parts["at"] or parts.get("time") or ""
            return Opener(speaker.strip(), time, f"{number}{parts['mark']}", match.end())
    return None


def write_opener(speaker: str, time: str) -> str:
    """Return the line that begins a message, by who speaks and when (ISO 8601, or empty)."""
    name = " ".join(re.sub(r"[\n:*(\[|#,]+", " ", speaker).split())[:60].strip() or "unknown"
    return f"## {name}, {time}" if time else f"## {name}"


def is_conversation(text: str) -> bool:
    """Return whether the beginning of a text has messages of several speakers, written alike."""
    head = text[:_LOOKED_AT]
    openers = [
        (start.start(), opener)
        for start in _LINE_STARTS.finditer(head)
        if (opener := read_opener(head[start.start() : start.start() + 200].partition("\n")[0]))
    ]
    if not openers or openers[0][0] > _BEFORE:
        return False
    alike = [opener for _, opener in openers if opener.form == openers[0][1].form]
    has_roles = any(each.is_own for each in alike) and any(each.is_assistant for each in alike)
    are_timed = all(opener.time for opener in alike)
    return has_roles or (are_timed and len({opener.speaker for opener in alike}) > 1)
