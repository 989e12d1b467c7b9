"""Passages through the whole engine: exact, apart, joined, copies told once."""

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.results import FOUND, weigh_evidence
from lmkrag.sentences.split import split_sentences

MANUAL = """# Ferry manual

## Loading

The deck takes these loads:

| Vehicle | Limit | Lane |
|---|---|---|
| Car | 2.5 t | side |
| Lorry | 18 t | centre |

## Rescue boat

The rescue boat is launched from the lee side, never when the engine runs. It holds six people, and two lower it.

## Seals

The seals of the sound were counted on six mornings in August, and the highest count of all was 187 animals.
"""
NOTES = "The gauge at the quay measures the level of the water every minute.\n\nTo reset it:\n\n    hold MODE and POWER\n"
QUESTIONS = [
    "What is the limit for a lorry?",
    "How many people does the rescue boat hold?",
    "How do I reset the gauge?",
]


@pytest.fixture(scope="module")
def manual(encoder, tmp_path_factory):
    with Engine.open(
        tmp_path_factory.mktemp("manual") / "index", create=True, encoder=encoder, rerank=False
    ) as engine:
        engine.add(
            [
                Document("manual.md", "manual.md", MANUAL, title="Ferry manual", kind="markdown"),
                Document("copy.md", "copy.md", MANUAL, title="Ferry manual", kind="markdown"),
                Document("notes.txt", "notes.txt", NOTES),
            ]
        )
        yield engine


def test_a_row_comes_with_its_header_and_place(manual):
    span = manual.search("What is the limit for a lorry?")[0]
    assert span.text == MANUAL[MANUAL.index("The deck") : MANUAL.index("\n\n## Rescue")]
    assert span.headings == ("Ferry manual", "Loading")
    assert span.section == "Ferry manual > Loading"
    assert (span.line, span.last_line) == (5, 10)
    assert span.place == "manual.md:5" or (span.place, span.also_in) == (
        "copy.md:5",
        ("manual.md",),
    )
    (hit,) = [hit for hit in span.hits if "Lorry" in MANUAL[hit.start : hit.end]]
    assert span.start <= hit.start < span.end


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_every_mode_tells_how_many_of_the_words_there_are_and_answers(manual, mode):
    spans = manual.search("How many people does the rescue boat hold?", mode=mode)
    assert 0.6 < max(span.coverage for span in spans) <= 1
    assert manual.ask("How many people does the rescue boat hold?", mode=mode).found


def test_a_copy_is_told_and_not_listed(manual):
    found = manual.search("How many people does the rescue boat hold?", top_k=4)
    assert len({span.text for span in found}) == len(found)
    assert {found[0].doc_id, *found[0].also_in} == {"manual.md", "copy.md"}
    context = manual.build_context("How many people does the rescue boat hold?")
    assert context.text.count("It holds six people") == 1


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("level", ["passage", "span", "sentence"])
def test_exact_and_apart_at_every_level(manual, question, level):
    spans = manual.search(question, level=level, top_k=20)
    for span in spans:
        text = manual.read(span.doc_id)
        assert text[span.start : span.end] == span.text == span.text.strip()
        assert text.count("\n", 0, span.start) + 1 == span.line
        assert span.last_line == span.line + span.text.count("\n")
        assert 0 <= span.coverage <= 1
        assert all(hit.start < span.end and span.start < hit.end for hit in span.hits)
    for i, one in enumerate(spans):
        assert all(
            one.doc_id != o.doc_id or one.end <= o.start or o.end <= one.start
            for o in spans[i + 1 :]
        )


def test_so_many_of_one_document(manual):
    for level in ("passage", "span", "sentence"):
        for most in (1, 2):
            found = [
                span.doc_id
                for span in manual.search(
                    "the rescue boat", top_k=9, level=level, per_document=most
                )
            ]
            assert max(found.count(doc_id) for doc_id in found) == most
    assert (
        len({span.doc_id for span in manual.ask("How do I reset the gauge?", per_document=1).spans})
        >= 2
    )
    with pytest.raises(UsageError, match="per_document must be at least 1, not 0"):
        manual.search("the rescue boat", per_document=0)


def test_a_copy_takes_no_place_of_its_document(encoder, tmp_path):
    shared = (
        "The rescue boat is launched by two people, who wear a life jacket each, from the slipway at the east mole, "
        "whatever the tide.\n"
    )
    stores = "\n# Stores\n\nThe rescue boat has a spare oar and ropes of nylon.\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(
            [
                Document("a.md", "a.md", shared, kind="markdown"),
                Document("b.md", "b.md", shared + stores, kind="markdown"),
            ]
        )
        first, second = engine.search("Who launches the rescue boat?", per_document=1)
    assert (first.also_in, second.also_in) == (("b.md",), ())
    assert (first.doc_id, second.doc_id) == ("a.md", "b.md")
    assert "oar" in second.text


def test_a_quotation_takes_no_place_of_its_mail(encoder, tmp_path):
    asked = "Which of the two pumps shall we order for the east lock before the winter comes?\n"
    reply = "The larger one, please.\n\n"
    tides = "At spring tide the smaller pump of the two can't lift the water over the sill.\n\n"
    header = "From: {0} <{0}@lock.example>\nTo: all@lock.example\nDate: Mon, {1} May 2026 08:00:00 +0000\n\n"
    answer = header.format("Bo", 5) + reply + 9 * tides + f"Ida wrote:\n\n> {asked}"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(
            [
                Document("1.eml", "1.eml", header.format("Ida", 4) + asked, kind="mail"),
                Document("2.eml", "2.eml", answer, kind="mail"),
            ]
        )
        found = engine.search("Which of the two pumps shall we order?", per_document=1)
    assert [span.doc_id for span in found] == ["1.eml", "2.eml"]
    assert "sill" in found[1].text


def test_a_reply_comes_with_all_that_it_quotes(encoder, tmp_path):
    asked = "How many fenders came back? I counted eleven before the storm and see nine now. The rest seems complete."
    wrapped = asked.replace("storm and", "storm and\n>")
    header = "From: {0} <{0}@lock.example>\nTo: all@lock.example\nDate: Mon, {1} May 2026 08:00:00 +0000\n\n"
    reply = (
        f"Dear Ida,\n\n> {wrapped}\n\nTwo were burst and Jan took them out.\n\nBest wishes\nBo\n"
    )
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(
            [
                Document("1.eml", "1.eml", header.format("Ida", 4) + asked + "\n", kind="mail"),
                Document("2.eml", "2.eml", header.format("Bo", 5) + reply, kind="mail"),
            ]
        )
        (first,) = engine.search("How many fenders were burst?", top_k=1)
    assert first.text == f"> {wrapped}\n\nTwo were burst and Jan took them out."
    assert (first.doc_id, first.also_in) == ("2.eml", ("1.eml",))


def test_a_passage_with_all_words_of_the_query_is_not_weak(encoder, tmp_path):
    row = "no.: {0} | item: {1} | unit: metre | price: {2} | in stock: 4 | supplier: Stahl Petersen | remark: checked"
    items = (
        ("M-403", "mild steel bar", "3.70"),
        ("M-404", "brass rod", "18.90"),
        ("P-501", "lino", "3.20"),
    )
    text = "\n".join(row.format(*item) for item in items)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add([Document("prices.csv", "prices.csv", text, kind="csv")])
        first = engine.search("M-404")[0]
        assert "brass" in first.text and weigh_evidence([first]) < FOUND and not first.weak
        assert all(span.weak for span in engine.search("how tall is the tower of Pisa?"))


def test_readers_get_passages_with_their_sections(manual):
    context = manual.build_context("What is the limit for a lorry?")
    assert 'section="Ferry manual > Loading"' in context.text
    assert "| Vehicle | Limit | Lane |" in context.text


def test_a_row_far_below_its_header(encoder, tmp_path):
    rows = "".join(
        f"| {name}{number} | {number * 7} |\n"
        for number in range(20)
        for name in ("oar", "anchor", "lamp")
    )
    table = f"# Prices\n\n| Part | Crowns |\n|---|---|\n{rows}"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("prices.md", "prices.md", table, title="Prices", kind="markdown"))
        span = next(
            s for s in engine.search("What does lamp18 cost?", top_k=20) if "| lamp18 |" in s.text
        )
        assert span.header == "| Part | Crowns |"
        assert table[span.start : span.end] == span.text
        assert (
            f"{span.header}\n[…]\n{span.text}"
            in engine.build_context("What does lamp18 cost?", context_tokens=900).text
        )


RULED = {
    "a.tex": r"""\section{Fees}
\begin{table}
\caption{Fees by boat}
\begin{tabular}{lrr}
\toprule
Boat & Fee & Deposit \\
\midrule
Heron & 40 & 400 \\ \hline
Skua & 28 & 280 \\
\end{tabular}
\end{table}
""",
    "a.rst": """Fees by boat
============

=====  ===  =======
Boat   Fee  Deposit
=====  ===  =======
Heron  40   400
Skua   28   280
=====  ===  =======
""",
    "b.rst": """Fees by boat
============

+-------+-----+---------+
| Boat  | Fee | Deposit |
+=======+=====+=========+
| Heron | 40  | 400     |
+-------+-----+---------+
| Skua  | 28  | 280     |
+-------+-----+---------+
""",
}


def test_a_row_far_below_the_rules_of_its_header(encoder, tmp_path):
    rule = "======== ======"
    rows = "".join(f"lamp{number:<4} {number * 7}\n" for number in range(10, 70))
    table = f"Prices\n======\n\n{rule}\nPart     Crowns\n{rule}\n{rows}{rule}\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("prices.rst", "prices.rst", table, title="Prices", kind="rst"))
        spans = engine.search("What does lamp58 cost?", top_k=20)
    assert next(s for s in spans if "lamp58 " in s.text).header == "Part     Crowns"


@pytest.mark.parametrize("name", RULED)
def test_a_row_of_a_ruled_table_is_read_with_its_caption(name):
    text = RULED[name]
    kind = "rst" if name.endswith("rst") else "text"
    rows = [each for each in split_sentences(text, kind=kind) if each.kind == "row"]
    contexts = [
        row.context
        for row in rows
        if "4" in text[row.start : row.end] or "28" in text[row.start : row.end]
    ]
    assert all(each.endswith("Fees by boat Boat Fee Deposit") for each in contexts)
    assert len(contexts) == 2


def test_what_a_colon_announces_is_answered(manual):
    answer = manual.ask("How do I reset the gauge?")
    assert "hold MODE and POWER" in answer.text
    assert answer.citations[0].place in (
        "notes.txt:3",
        "notes.txt:5",
    )  # the colon, or what it announces


def test_contents_and_links_rank_last(encoder, tmp_path):
    text = (
        "# Contents\n\n1 Launching the rescue boat 3\n2 Resetting the gauge 4\n\n"
        "- [Launching the rescue boat](#launching-the-rescue-boat)\n- [Resetting the gauge](#resetting-the-gauge)\n\n"
        "# Launching the rescue boat\n\nSix people and two who lower it go down on the lee side.\n\n"
        "# Resetting the gauge\n\nHold both keys until the needle falls.\n"
    )
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add([Document("manual.md", "manual.md", text, kind="markdown")])
        for mode in ("hybrid", "lexical"):
            for level in ("span", "sentence"):
                found = engine.search("launching the rescue boat", mode=mode, level=level)
                entries = [
                    span.text.lstrip().startswith(("- [", "1 L", "2 R", "# C")) for span in found
                ]
                assert "lee side" in found[0].text
                assert entries == sorted(entries)


FAQ = """Usage
=====

What if there is a conflict?
----------------------------

.. seealso::
    :ref:`conflict-handling`

.. _marker-faq:

How do I serve a folder from a read only filesystem?
----------------------------------------------------

Syncing needs a marker, which says that the folder is present. By default this is a directory called
``.stfolder``.

Options
-------

.. option:: limitBandwidthInLan

    Whether to apply bandwidth limits to devices in the same network.

.. option:: minHomeDiskFree

    The least free space that is left on the disk.
"""


@pytest.mark.parametrize(
    ("question", "expected", "others"),
    [
        ("how are conflicts handled", "What if there is a conflict?", "read only"),
        ("how do I limit bandwidth at night?", "limitBandwidthInLan", "minHomeDiskFree"),
    ],
)
def test_a_passage_keeps_to_its_section_and_its_entry(
    encoder, tmp_path, question, expected, others
):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("faq.rst", "faq.rst", FAQ, kind="rst"))
        (first, *_) = engine.search(question)
    assert expected in first.text or expected in first.headings
    assert others not in first.text
    assert "seealso" not in first.text


MARKED = r"""# The [lamp](https://lamp.example) `run( \[options] )`

<section class="use" id="use">

## Keys of :program:`lampd` and lamp\_b

Press <kbd>F1</kbd> to open the menu &mdash; it closes at nine.<br>The file is `<kbd>`, or <file>.

</section>
"""


def test_nobody_sees_the_tags_entities_and_links_of_markdown(encoder, tmp_path):
    (tmp_path / "lamp.md").write_text(MARKED)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(tmp_path / "lamp.md")
        (first, *_) = engine.search("Which key opens the menu?")
        answer = engine.ask("Which key opens the menu?")
    assert first.title == r"The lamp `run( \[options] )`"
    assert first.headings == (first.title, "Keys of lampd and lamp_b")
    assert first.text.endswith("or <file>.")
    assert "Press F1 to open the menu — it closes at nine. The file is `<kbd>`, or" in answer.text


@pytest.mark.parametrize("opening", ["For example, the keeper", "Then the keeper"])
def test_a_sentence_that_goes_on_comes_with_the_one_before(encoder, tmp_path, opening):
    text = f"The lamp is dimmed in fog.\n\n{opening} covers its northern pane with a shutter of slate.\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("lamp.txt", "lamp.txt", text))
        (first, *_) = engine.search("Which pane is covered with slate?")
    assert first.text.startswith("The lamp is dimmed")


def test_an_entry_is_not_joined_by_the_next(encoder, tmp_path):
    shift = (
        "Shift\n  Holding the Shift key while you draw the lane makes it straight. Holding it before you begin adds the "
        "lane to the chart, and where it lies on another lane the two become one that has the outer border of both."
    )
    both = (
        "Ctrl+Shift\n  Holding both keys while you draw the lane does both. Holding both before you begin keeps of the "
        "chart what the lane covers, and what lies outside it is taken off the chart."
    )
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("keys.html", "keys.html", f"{shift}\n\n{both}\n", kind="html"))
        first = engine.search("What happens if I hold Shift while I draw a lane?")[0]
    assert first.text == shift


RESTORING = """# Restoring the register

A change that removed a column is not taken back by the tool. It stops and says so. Then:

1. Close the page: `ferry close`. It shows the telephone number of the desk.
2. Call Ada or Ben. Nobody else has the right to restore.
3. Take the last copy. Copies of the register are made every four hours, and kept for three weeks.
4. Bookings since that copy are written again from the journal of the bank. The script is `tools/again.py`. For a thousand
   bookings it takes seven minutes.

Copies of the timetable are made once a night, and kept for sixty days, since the harbours can send theirs again.
"""


@pytest.mark.parametrize(
    "question",
    [
        "Whom do I phone when a copy has to be put back in?",
        "how often are copies of the register made?",
    ],
)
def test_a_list_is_not_joined_by_the_paragraph_after_it(encoder, tmp_path, question):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("restoring.md", "restoring.md", RESTORING, kind="markdown"))
        first = engine.search(question)[0]
    assert first.text == RESTORING[: RESTORING.index("\n\nCopies of the timetable")]


RULES = """RULES OF THE QUARRY
They hang beside the gate. Whoever breaks one of them talks to the foreman.

1. Driving. Nobody drives faster than fifteen kilometres an hour. The road to the crusher has one lane, and who comes
down lets the other pass. Loads are covered as soon as the wind lifts the dust from the heap.

2. Blasting. Stay four hundred metres from the face when the siren has sounded. Whoever is nearer goes into the shelter.
Nobody leaves it before the long tone.

3. Dust. Wear the mask with two filters at the crusher, and change them when breathing becomes hard. The water is turned
on before the belt starts. If the pump fails, the belt stands still until it runs again.

4. Ladders. They are tied at the top and reach three rungs above the edge. A ladder with a cracked rung is sawn through,
so that nobody takes it again. Aluminium is not used near the overhead line.
"""


def test_a_rule_of_several_sentences_is_not_joined_by_the_next(encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("rules.txt", "rules.txt", RULES))
        first = engine.search("how far from the face must people stay when it is blasted?")[0]
    assert first.text == RULES[RULES.index("2. B") : RULES.index("\n\n3.")]
