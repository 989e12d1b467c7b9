"""How messages of conversations begin: with a heading, a bold name or a time, and who speaks; whom
mails quote.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lmkrag.language.dates import MONTHS

_DATE = r"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|[A-Z][a-z]{2} \d\d?)"
_CLOCK = r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:[ \xa0\u202f]?[APap]\.?[ \xa0\u202f]?[Mm]\.?)?"
_TIME = rf"{_DATE}(?:,?[ T]{_CLOCK})?|{_CLOCK}"
# Marks of the direction of a text.
_UNSEEN = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_OWN = "user|human|you|me"
_ASSISTANT = (
    r"assistant|ai|chatgpt|gpt[\w.-]{1,12}|claude|gemini|copilot|deepseek|grok|llama|mistral|bot"
    "|model"
)
_ROLE = rf"(?:{_OWN}|{_ASSISTANT}|system|tool)"
_NAME = r"""[^\s:*(\[|#"<>][^\n:*\[|#"<>]{0,59}?(?<![\s,])"""
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
    )
)
# A line that begins with a time is a message of who follows. "09:00 - Lunch: soup" is none.
_STAMP = re.compile(
    rf"[{_UNSEEN}]?(?P<mark>\[?)(?P<at>(?P<day>{_DATE},?(?: à)?[ T])?{_CLOCK})"
    rf"(?:\] |(?(day) - |\] )|[ \t]+)(?!{_LEVEL}\b)",
    re.IGNORECASE,
)
_SPEAKERS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"<[ @+%&~!]?(?P<name>[^\s<>]{1,40})>\s",  # "10:00 <@rook> ", of programs for IRC
        r" ?\*\s(?P<name>[^\s*]{1,40})\s",  # "10:00 * rook ", who does something
        r"[@+%&~]?(?P<name>[^\d\s:<>*-][^\s:<>]{0,39})\t",  # "2024-06-01 10:00:00\trook\t"
        r"(?P<name>)(?:-!-|\*\*\*|<--|-->|--)\s",  # "10:00 -!- ", of nobody
        rf"From +(?P<name>{_NAME})(?: +to +[^\n:]{{1,60}})? ?:(?:\s+|$)",  # of Zoom
        # "[01.06.24, 10:00:00] Maria: ", "01/06/2024, 10:00 - Maria: "; without a name of nobody.
        rf"(?<=[\]-] )(?:(?P<name>{_NAME}) ?:(?:[ \t]|$))?[{_UNSEEN}]?",
    )
)
_LINE_STARTS = re.compile(rf"^(?=[\w#*\[{_UNSEEN}])", re.MULTILINE)
_AROUND_NAME = f"{_UNSEEN}~ \xa0\u202f"
_LOOKED_AT = 50_000  # characters of a text that show whether it is one
_DATED = re.compile(_DATE, re.IGNORECASE)
_BEFORE = 2_000  # characters before the first message
_IS_ROLE = re.compile(_ROLE, re.IGNORECASE)
_ONE_SAYS = re.compile(_OWN, re.IGNORECASE)
_ASSISTS = re.compile(_ASSISTANT, re.IGNORECASE)
QUOTE_MARKS = re.compile(r"^(?:[ \t]?>)+[ \t]?", re.MULTILINE)
"""What the lines begin with that a mail quotes."""
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{0,200}\w")
_WRITES = re.compile(  # what a quotation is announced by
    r"\b(?:wrote|writes|said|says|quoting|schrieb|schreibt|(?:a )?écrit|escribió|(?:ha )?scritto"
    r"|schreef|escreveu|skrev|napisał(?:\(a\))?|kirjoitti|написал)(?!\w)",
    re.IGNORECASE,
)
_WHEN = re.compile(
    rf"(?<!\S)\S{{0,40}}\d\S*|\b(?:{'|'.join(MONTHS)}|\w{{2,8}}day|[ap]\.?m|uhr|i|you|he|she"
    r"|we|they)\b\.?",
    re.IGNORECASE,
)
_AUTHOR = re.compile(
    r"\b([^\W\d_][\w.'’ -]{0,60})[\s\"'<(\[]{0,9}[@§]|§\W{0,9}([^\W\d_][\w.'’ -]{0,60})"
)
_LONGEST_LEAD = 300  # characters of what announces a quotation


class Opener(NamedTuple):
    """The beginning of a message.

    Attributes:
        speaker: who speaks, as it is written; empty for a notice of nobody.
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
            speaker = parts["role"] or parts.get("name") or ""
            time = parts["at"] or parts.get("time") or ""
            return Opener(speaker.strip(), time, f"{number}{parts['mark']}", match.end())
    stamp = _STAMP.match(line)
    return _read_speaker(line, stamp) if stamp else None


def _read_speaker(line: str, stamp: re.Match[str]) -> Opener | None:
    """Return who speaks after the time that a line begins with; None if the line is no message."""
    for speaker in _SPEAKERS:
        if match := speaker.match(line, stamp.end()):
            name = " ".join((match["name"] or "").strip(_AROUND_NAME).split())
            return Opener(name, stamp["at"], f"{stamp['mark']}{bool(stamp['day'])}", match.end())
    return None


def write_opener(speaker: str, time: str) -> str:
    """Return the line that begins a message, by who speaks and when (ISO 8601, or empty)."""
    name = " ".join(re.sub(r"""[\n:*\[|#"<>]+""", " ", speaker).split())[:60].strip(" ,(")
    name = name or "unknown"
    return f"## {name}, {time}" if time else f"## {name}"


def count_marks(line: str) -> int:
    """Return how deep a line is quoted: the number of its marks."""
    marks = QUOTE_MARKS.match(line)
    return marks[0].count(">") if marks else 0


def read_author(lead: str) -> str | None:
    """Return whom lines quote that end with a colon, or an empty string if they do not say so; None
    for other lines.

    >>> [read_author(lead) for lead in ("On 3 May, Ada Quill wrote:", "My answers:", "Thanks.")]
    ['Ada Quill', '', None]
    """
    line = " ".join(lead.split())
    if not line.endswith((":", "：")) or len(line) > _LONGEST_LEAD:
        return None
    address = _ADDRESS.search(line)
    # An address, a verb of saying and a date become one sign each: the name stands beside a sign.
    for pattern, sign in ((_ADDRESS, "@"), (_WRITES, "§"), (_WHEN, ",")):
        line = pattern.sub(sign, line)
    names = ((match[1] or match[2]).split() for match in _AUTHOR.finditer(line))
    # A name begins and ends with capitals; scripts without these are taken as they are.
    named = (name for name in names if not (name[0][0].islower() or name[-1][0].islower()))
    return " ".join(next(named, [address[0]] if address else []))


def is_conversation(text: str) -> bool:
    """Return whether the beginning of a text has messages of several speakers, written alike."""
    openers = _list_alike(text[:_LOOKED_AT])
    has_roles = any(each.is_own for each in openers) and any(each.is_assistant for each in openers)
    return has_roles or _have_speakers(openers)


def _list_alike(text: str) -> list[Opener]:
    """Return the beginnings of messages that are written as the first one; none if it is late."""
    openers = [
        (start.start(), opener)
        for start in _LINE_STARTS.finditer(text)
        if (opener := read_opener(text[start.start() : start.start() + 200].partition("\n")[0]))
    ]
    if not openers or openers[0][0] > _BEFORE:
        return []
    return [opener for _, opener in openers if opener.form == openers[0][1].form]


def _have_speakers(openers: Sequence[Opener]) -> bool:
    """Return whether messages have times and several speakers.

    Without dates each speaks twice on average: what stands beside the times of an agenda or of a
    log is seldom the same twice.
    """
    named = [opener.speaker for opener in openers if opener.speaker]
    are_timed = all(opener.time for opener in openers)
    have_names = len(openers) <= 4 * len(named)  # the others are notices of nobody
    are_dated = any(_DATED.match(opener.time) for opener in openers)
    most_speakers = len(named) if are_dated else len(named) // 2
    return are_timed and have_names and 1 < len(set(named)) <= most_speakers
