"""What a span needs to be read alone, and nothing else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.search.code_blocks import enclosing_block
from lmkrag.search.passages import complete_span
from lmkrag.search.results import find_header
from lmkrag.search.units import begins_unit
from lmkrag.search.weights import WEIGHTS

PROSE = (
    "The keeper writes the weather into the log at six, at noon and at six again, with the height of the barometer. "
    "The office in Lervik reads it over the telephone and sends it on to the boats that lie in the harbour. "
)
TABLE = """The deck takes these loads:

| Vehicle | Limit |
|---|---|
| Car | 2.5 t |
| Lorry | 18 t |

Gas bottles travel on the open deck only.
"""
LIST = """When a crossing is cancelled, passengers may:

- travel on a later one,
- get the fare back,
- stay overnight in the waiting room.

The office tells them so.
"""
MAIL = """From: per@harrow.example

> Who still has the key to the switch cabinet?

I do. It hangs behind the bar.

> Two pupils use a wheelchair.

They board first, over the car deck.
"""
INTERVIEW = """Q: When did you take over the Heron?

A: In 1998, from my aunt. She had run it for thirty years.

Q: What was the worst winter?

A: That of 2010.
"""
COMMAND = """## The bow door

To turn the door alarm off:

    hold the red button for five seconds

It comes back by itself after ten minutes.
"""
SOURCE = '''"""Fares."""

AGE = 14
FEE = 2


@cached
def fare(age, base):
    """Return what one pays."""
    if age < AGE:
        return 0

    return base


def group(ages, base):
    return sum(fare(age, base) for age in ages)


class Ledger:
    def open(self, path):
        return connect(path)
'''


def passage(view, piece: str) -> str:
    """The passage of the sentences that a piece of the text stands in."""
    start = view.text(0, view.row.length).index(piece)
    first, last = view.ordinal_at(start), view.ordinal_at(start + len(piece.rstrip()) - 1)
    low, high = complete_span(view, first, last + 1)
    return view.text(low, high).strip()


LISTING = """It burns less at dusk, which saves colza.

```
lamp --dim=2 --quiet
```

Later, at dusk, you may let this command,

```
lamp --dusk
```

dim it to one.
"""
ASKED = """  * **6.8 Who may board first?**

  Pupils in wheelchairs board first.

  * **6.9 Who boards last?**

  Cars board last.
"""


@pytest.mark.parametrize(
    ("text", "piece", "expected"),
    [
        pytest.param(
            TABLE,
            "| Lorry",
            TABLE[: TABLE.index("\n\nGas")],
            id="a row brings its header and caption",
        ),
        pytest.param(
            LIST,
            "- get",
            LIST[: LIST.index("\n\nThe office")],
            id="an item brings its list and lead-in",
        ),
        pytest.param(
            LIST, "When a", LIST[: LIST.index("\n\nThe office")], id="a lead-in brings the list"
        ),
        pytest.param(
            MAIL,
            "It hangs",
            "> Who still has the key to the switch cabinet?\n\nI do. It hangs behind the bar.",
            id="reply",
        ),
        pytest.param(
            MAIL,
            "They board",
            "> Two pupils use a wheelchair.\n\nThey board first, over the car deck.",
            id="quoted",
        ),
        pytest.param(
            INTERVIEW,
            "A: That of",
            "Q: What was the worst winter?\n\nA: That of 2010.",
            id="an answer brings its question",
        ),
        pytest.param(
            INTERVIEW,
            "Q: When",
            "Q: When did you take over the Heron?\n\nA: In 1998, from my aunt. She had run it for thirty years.",
            id="a question brings its answer",
        ),
        pytest.param(
            COMMAND,
            "To turn",
            "To turn the door alarm off:\n\n    hold the red button for five seconds",
            id="a colon brings what it announces",
        ),
        pytest.param(
            COMMAND,
            "It comes",
            "To turn the door alarm off:\n\n    hold the red button for five seconds\n\n"
            "It comes back by itself after ten minutes.",
            id="a pronoun brings what it stands for",
        ),
        pytest.param(
            LISTING,
            "lamp --dim",
            LISTING[LISTING.index("It burns") : LISTING.index("\n\nLater")],
            id="a listing brings the sentence above it",
        ),
        pytest.param(
            LISTING,
            "dim it to",
            LISTING[LISTING.index("Later") :].strip(),
            id="a sentence that goes on below a listing brings it",
        ),
        pytest.param(
            "One is short. Two, too.\n\nThree.",
            "Two",
            "One is short. Two, too.",
            id="a short paragraph",
        ),
        pytest.param(
            PROSE * 3,
            "The office",
            PROSE[PROSE.index("The office") :].strip(),
            id="of a long one the span",
        ),
    ],
)
def test_what_belongs_together(make_view, text, piece, expected):
    assert passage(make_view(text), piece) == expected


def test_headings_are_told_elsewhere(make_view):
    text = "# Manual\n\n## Fog\n\nThe master decides. Nobody else does.\n"
    assert passage(make_view(text), "The master") == "The master decides. Nobody else does."
    asked = "### Can I bring my dog?\n\nYes, on a lead.\n"
    assert passage(make_view(asked), "Yes") == asked.strip()


def test_a_row_far_below_its_header_is_told_it_apart(make_view):
    rows = "".join(f"| item {number} | {number * 7} crowns a year |\n" for number in range(60))
    view = make_view(f"| Item | Cost |\n|---|---|\n{rows}")
    assert passage(view, "| item 50") == "| item 50 | 350 crowns a year |"
    assert (
        find_header(view, view.ordinal_at(view.text(0, 10_000).index("| item 50")))
        == "| Item | Cost |"
    )
    assert find_header(view, 0) == ""
    assert passage(view, "| item 5 ").startswith("| Item | Cost |\n")


@pytest.mark.parametrize(
    ("piece", "first", "last"),
    [
        ("return 0", "@cached", "return base"),
        ("return base", "@cached", "return base"),
        ("def group", "def group", "for age in ages)"),
        ("connect(path)", "class Ledger", "return connect(path)"),
        ("FEE", "AGE = 14", "FEE = 2"),
    ],
)
def test_code_comes_by_whole_functions(make_view, piece, first, last):
    view = make_view(SOURCE, "code")
    start = SOURCE.index(piece)
    low, high = enclosing_block(view, start, start + len(piece), WEIGHTS.block_chars)
    found = SOURCE[low:high].strip()
    assert found.startswith(first)
    assert found.endswith(last)


JAVADOC = """class Ferry {
    /**
     * Returns the fare of a vehicle.
     */
    @Override
    public int fare(int length) {
        return 40 + length;
    }

    int berth() { return 2; }
}
"""
ALLMAN = """int first(void)
{
    return 1;
}
// How long the crossing takes.
int minutes(int knots)
{
    return 55 * 12 / knots;
}
int last(void) { return 3; }
"""
WHERE = """fn load<T>(cars: &[T]) -> usize
where
    T: Vehicle,
{
    cars.len()
}
"""


@pytest.mark.parametrize(
    ("text", "piece", "first", "last"),
    [
        (JAVADOC, "return 40", "/**", "    }"),
        (JAVADOC, "fare of a vehicle", "/**", "    }"),
        (JAVADOC.replace("    int berth() { return 2; }\n", ""), "return 40", "/**", "    }"),
        (ALLMAN, "return 55", "// How long", "}"),
        (ALLMAN, "crossing takes", "// How long", "}"),
        (WHERE, "cars.len()", "fn load", "}"),
        (WHERE, "T: Vehicle", "fn load", "}"),
    ],
)
def test_comments_and_braces_of_a_function_belong_to_it(make_view, text, piece, first, last):
    start = text.index(piece)
    low, high = enclosing_block(make_view(text, kind="code"), start, start + len(piece), 150)
    lines = text[low:high].rstrip().splitlines()
    assert (lines[0].lstrip().startswith(first), lines[-1].rstrip()) == (True, last)
    assert "berth" not in text[low:high] and "last" not in text[low:high]


def test_of_a_long_class_only_the_method_comes(make_view):
    methods = "".join(
        f"    def method_{n}(self):\n        value = {n}\n        return value\n\n"
        for n in range(60)
    )
    text = f"class Long:\n{methods}"
    view = make_view(text, "code")
    start = text.index("value = 30")
    low, high = enclosing_block(view, start, start + 10, WEIGHTS.block_chars)
    assert (
        text[low:high].strip() == "def method_30(self):\n        value = 30\n        return value"
    )


PIECES = st.sampled_from(
    [
        "# Heading\n\n",
        "A sentence of some words. ",
        "It goes on. ",
        "Is it so?\n\n",
        "These are:\n\n",
        "- an item\n",
        "| a | b |\n",
        "|---|---|\n",
        "> quoted\n",
        "\n\n",
        "```\ncode here\n```\n",
        "NAME: says something. ",
        "Ü 字。",
        "    indented\n",
    ]
)


@given(st.lists(PIECES, min_size=1, max_size=30), st.sampled_from(["text", "code"]), st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_passage_holds_its_span_and_stays_short(make_view, pieces, kind, data):
    view = make_view("".join(pieces), kind)
    if not view.row.sentences:
        return
    first = data.draw(st.integers(0, view.row.sentences - 1))
    stop = data.draw(st.integers(first + 1, min(view.row.sentences, first + 4)))
    start, end = complete_span(view, first, stop)
    low, high = view.bounds(first)[0], view.bounds(stop - 1)[1]
    assert 0 <= start <= low < high <= end <= view.row.length
    assert (
        end - start
        <= (high - low)
        + WEIGHTS.paragraph_chars
        + 3 * WEIGHTS.lead_chars
        + WEIGHTS.following_chars
        + WEIGHTS.block_chars
    )


def test_properties_of_a_note_answer_alone(tmp_path, encoder):
    text = "---\ntitle: Ferry timetable\nauthor: Jane Roe\nlayout: page\n---\n\n# Ferry\n\nIt leaves at nine.\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("ferry.md", "ferry.md", text, kind="markdown"))
        texts = [span.text for span in engine.search("who is the author?")]
        assert "author: Jane Roe" in texts
        assert all("layout" not in text for text in texts)
        (first, *_) = engine.search("when does it leave?")
        assert "It leaves at nine." in first.text and "Jane Roe" not in first.text


REFERENCE = """Boats
=====

.. class:: Boat(name)

   A boat of the harbour.

   .. method:: sail(course, *, crew: Sequence[Sailor] | None = None, lights: bool = True, horn: bool = True)

      Take the boat out.

      .. note::

         Nobody stands on the foredeck.

      The log is written every ten minutes.
"""


def test_an_entry_of_a_reference_is_told_its_signature(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("boats.rst", "boats.rst", REFERENCE, kind="rst"))
        engine.add(Document("fog.md", "fog.md", "# Fog\n\nHarbours close.\n", kind="markdown"))
        (log, *_) = engine.search("how often is the log written?")
        (first, *_) = engine.search("Take the boat out.")
        (named, *_) = engine.search("sail")
    assert log.headings[:2] == ("Boats", "Boat(name)")
    assert " ".join([*log.headings, log.text]).count("sail(course") == 1
    assert first.text.count("sail(course") == 1 and "Take the boat out." in named.text


OPTIONS = """Options Element
---------------

.. option:: options.limitBandwidthInLan

    Whether to apply bandwidth limits to devices in the same network.

.. option:: options.minHomeDiskFree
    :mandatory: May be zero.

    The least free space that is left on the disk.

The file is read at the start.
"""
TERMS = """retries
    How often a job is tried.
timeout
    How long a job may take. After that it is stopped.

wait
: How long the next one waits. It may be zero.
"""
KEYS = """## retries

**Type:** number

Default: 5

How often a job is tried before it fails. It is logged each time.
"""
FAQ = """Does it sail in fog?

It does not. The master decides at six.

Does it carry dogs?

It does, on a lead.
"""
CLAUSE = "The keeper notes it in the book of the station, with the hour and his name. "
DEFINITIONS = f"""These modes are known:

dim
  The lamp burns low. {CLAUSE}{CLAUSE}{CLAUSE}

  At dusk {CLAUSE.strip()}

out
  The lamp is out.

The office knows more.
"""
ASCIIDOC = """lamp(1)
=======

OPTIONS
-------
[verse]
lamp [--dim]

dim [<hours>]::

Burn low. The hours are whole numbers.
+
For instance, at dusk:
+
----
$ lamp dim 2
----
+
It burns low until ten.

quit::
	Stop.
"""
LINES = "".join(f"  lamp.step({number})  # of the evening\n" for number in range(20))
FENCED = (
    f"Call it at dusk:\n\n```py\ndef light(lamp):\n{LINES}\n  lamp.dim()\n```\n\nIt burns low.\n"
)
DIRECTIVE = f"""Lamp
====

Call it at dusk.

Or at dawn:

.. code-block:: python

    def light(lamp):
{LINES.replace("  ", "        ")}
    light(lamp)

It burns low.
"""
ITEMS = """Options of the lamp:

- --dim=HOURS: It burns low. Hours are counted from dusk.

  A size of more than ten is refused, and the keeper is told about it by letter.

- --quit: It stops.

- --light: It burns.
"""
SECTION = """# Ads

## Why is there a board of squares?

It stands where a picture was.

To see nothing, set the picture to blank.

## Why squares?

They are seen.
"""
LINKED = (
    "The lamp is tested at dusk.\n\nLook for the flag (lampd): https://lamp.example/flag\n\nNext.\n"
)
COLUMNS = "# Two boats\n\n- cheap\n- slow\n\n- dear\n- fast\n"


@pytest.mark.parametrize(
    ("text", "kind", "piece", "expected"),
    [
        pytest.param(
            OPTIONS,
            "rst",
            "Whether to",
            ".. option:: options.limitBandwidthInLan\n\n"
            "    Whether to apply bandwidth limits to devices in the same network.",
            id="an option has its name",
        ),
        pytest.param(
            OPTIONS,
            "rst",
            "The least",
            OPTIONS[OPTIONS.index(".. option:: options.min") : OPTIONS.index("\n\nThe file")],
            id="an option has its name and fields",
        ),
        pytest.param(
            TERMS,
            "markdown",
            "How often",
            "retries\n    How often a job is tried.",
            id="an entry ends at the next term",
        ),
        pytest.param(
            TERMS,
            "markdown",
            "It may be",
            "wait\n: How long the next one waits. It may be zero.",
            id="a definition has its term",
        ),
        pytest.param(
            KEYS,
            "markdown",
            "How often",
            KEYS[KEYS.index("**Type") :].strip(),
            id="a paragraph has the keys above it",
        ),
        pytest.param(
            DEFINITIONS,
            "html",
            "At dusk",
            DEFINITIONS[DEFINITIONS.index("dim") : DEFINITIONS.index("\n\nout")],
            id="a long definition has its term",
        ),
        pytest.param(
            DEFINITIONS,
            "html",
            "These modes",
            DEFINITIONS[: DEFINITIONS.index("\n\nThe office")],
            id="what is announced comes by whole entries",
        ),
        pytest.param(
            ASCIIDOC,
            "text",
            "It burns low",
            ASCIIDOC[ASCIIDOC.index("dim [<") : ASCIIDOC.index("\n\nquit")],
            id="an entry of AsciiDoc",
        ),
        pytest.param(
            ASCIIDOC,
            "text",
            "dim [<",
            ASCIIDOC[ASCIIDOC.index("dim [<") : ASCIIDOC.index("\n\nquit")],
            id="no passage ends with a term",
        ),
        pytest.param(
            FENCED,
            "markdown",
            "  lamp.step(12)",
            FENCED[: FENCED.index("\n\nIt burns")],
            id="a listing is whole and has its lead-in",
        ),
        pytest.param(
            DIRECTIVE,
            "rst",
            "Or at dawn",
            DIRECTIVE[DIRECTIVE.index("Or at") : DIRECTIVE.index("\n\nIt burns")],
            id="a directive has its code",
        ),
        pytest.param(COLUMNS, "pptx", "- fast", "- fast", id="an item of a slide"),
        pytest.param(
            ITEMS,
            "markdown",
            "A size of",
            ITEMS[ITEMS.index("- --dim") : ITEMS.index("\n\n- --quit")],
            id="a further paragraph of an item",
        ),
        pytest.param(
            SECTION,
            "markdown",
            "It stands",
            SECTION[SECTION.index("## Why is") : SECTION.index("\n\n## Why squares")],
            id="a short section, with the question that heads it",
        ),
        pytest.param(
            LINKED, "text", "The lamp", "The lamp is tested at dusk.", id="a link of another text"
        ),
        pytest.param(
            "10. Licenses\n       The first is free.\n\n   The fee was proposed in June. Bo refined it.\n",
            "text",
            "The fee",
            "The fee was proposed in June. Bo refined it.",
            id="a paragraph indented less is of no entry",
        ),
        pytest.param(
            "   The fee is new. The rule was drafted\n   by Bo in June.\n\n   Cy changed the rule.\n",
            "text",
            "Cy changed",
            "Cy changed the rule.",
            id="a sentence within a line is no term",
        ),
    ],
)
def test_entries_come_whole_and_alone(make_view, text, kind, piece, expected):
    assert passage(make_view(text, kind), piece) == expected


def test_nothing_is_taken_from_above_a_heading(make_view):
    text = "# Fares\n\nThe office asks:\n\n# Dogs\n\nThey stay on deck.\n"
    assert passage(make_view(text, "markdown"), "# Dogs").startswith("# Dogs")


@pytest.mark.parametrize(
    ("text", "kind", "starts"),
    [
        pytest.param(OPTIONS, "rst", [".. option", "The file"], id="options"),
        pytest.param(TERMS, "markdown", ["timeout", "wait"], id="terms"),
        pytest.param(FAQ, "text", ["Does it carry"], id="questions"),
        pytest.param(ASKED, "markdown", ["  * **6.9"], id="questions as items"),
        pytest.param(COLUMNS, "pptx", ["- dear"], id="columns of a slide"),
        pytest.param("# A\n\nOne.\n\n## B\n\nTwo.\n", "markdown", ["## B"], id="sections"),
        pytest.param("1998: calm\n1999: storm\n", "csv", ["1999"], id="records"),
        pytest.param(LIST, "text", [], id="not items"),
        pytest.param(PROSE + PROSE, "text", [], id="not sentences"),
    ],
)
def test_units_by_example(make_view, text, kind, starts):
    view = make_view(text, kind)
    units = [view.sentence(n) for n in range(1, view.row.sentences) if begins_unit(view, n)]
    assert len(units) == len(starts)
    assert all(unit.startswith(start) for unit, start in zip(units, starts, strict=True))


NEIGHBOURS = {
    "harbour.py": """class Harbour:
    def open_gate(self, hour):
        if hour > 5:
            self.gate = "open"
        return self.gate

    def weigh_anchor(self):
        # The winch lifts it.
        return self.winch.lift()

    @property
    def lamp(self):
        return self.lamps[-1]

"""
    + "".join(f"    def berth_{n}(self):\n        return self.berths[{n}]\n\n" for n in range(60)),
    "harbour.c": """static int open_gate(int hour)
{
#ifdef NIGHT
    return 0;
#endif
    return hour > 5;
}

/* The winch lifts it. */
int weigh_anchor(struct winch *winch) {
    return lift(winch);
}

static const int lamps = 3;

int lamp(void) {
    return lamps - 1;
}
""",
    "harbour.js": """function openGate (hour) {
  return hour > 5
}

// The winch lifts it.
function weighAnchor (winch) {
  return winch.lift()
}

module.exports = { openGate, weighAnchor }
""",
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_passage_of_code_names_the_function_that_is_asked_for(name, tmp_path, encoder):
    text = NEIGHBOURS[name]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document(name, name, text, kind="code"))
        (span, *_) = engine.search("where does the winch lift the anchor?")
    assert "lift(" in span.text
    assert "anchor" in span.headings[-1].lower()


def test_of_a_class_that_is_a_passage_the_best_method_is_named(tmp_path, encoder):
    text = NEIGHBOURS["harbour.py"].partition("    def berth_0")[0]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("harbour.py", "harbour.py", text, kind="code"))
        (span, *_) = engine.search("where does the winch lift the anchor?")
    assert span.text.startswith("class Harbour") and "def lamp" in span.text
    assert span.headings == ("class Harbour", "def weigh_anchor(self)")
