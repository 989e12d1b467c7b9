"""What the trained reader says of contrasts: a value is right, or it is not given."""

import pytest

from lmkrag import Engine

BOATS = """Boat,Length m,Fee,Owner,Home,Hired
Kestrel,12,40,Ben Marsh,Oslo,2019-05-02
Heron,9,35,Ada Quill,Kiel,2021-03-14
Skua,7,28,Tom Ellery,Oslo,2018-01-09
Plover,11,38,Rosa Kern,Kiel,2022-02-22
"""
PUMPS = (
    "# Pumps\n\nThe QR-2000 pump weighs 48 kg.\n\nThe QR-200 pump weighs 9 kg.\n\n"
    "The QR-20 pump weighs 2 kg.\n"
)
MOTORS = (
    "# Motors\n\nThe VK-2000 motor weighs 48 kg and needs 400 volts.\n\n"
    "The VK-200 motor weighs 9 kg and needs 230 volts.\n\n"
    "The VK-20 motor weighs 2 kg and needs 12 volts.\n"
)
SEATS = "# Boats\n\nThe Wren seats 9, the Fulmar 22.\n"
REPAIRS = (
    "# Repairs\n\nThe tenant pays for repairs up to 150 euros; the landlord pays for the roof, the "
    "boiler and the windows.\n"
)
PIER = "# Pier\n\nThe pier is 140 metres long.\n"
LEASES = "# Leases\n\nThe lease of the mill begins on 1 May 2023 and ends on 30 April 2028.\n"


@pytest.fixture(scope="module")
def engine(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("contrasts")
    texts = {
        "pumps": PUMPS,
        "motors": MOTORS,
        "seats": SEATS,
        "repairs": REPAIRS,
        "leases": LEASES,
        "pier": PIER,
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "boats.csv").write_text(BOATS)
    with Engine.open(folder / "index", create=True, encoder=encoder) as engine:
        engine.add(folder)
        yield engine


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("How much does the QR-200 weigh?", ["9 kg"]),
        ("How many volts does the VK-200 need?", ["230 volts", "230"]),
        ("How many volts does the VK-20 motor need?", ["12 volts", "12"]),
        ("How many does the Fulmar seat?", ["22"]),
        ("How many people does the Wren seat?", ["9"]),
        ("Who pays for a broken boiler?", ["landlord", "the landlord"]),
        ("When does the lease of the barn end?", []),
        ("When does the lease of the mill end?", ["30 April 2028"]),
        ("Which boat has a fee of 38?", ["Plover"]),
        ("Which boat costs 28?", ["Skua"]),
        ("What is the fee of the Heron?", ["35"]),
        ("Who owns the Skua?", ["Tom Ellery"]),
        ("When was the Plover hired?", ["2022-02-22"]),
    ],
)
def test_a_value_is_right_or_not_given(engine, question, values):
    answer = engine.ask(question)
    assert all(short.text in values for short in answer.short)


def test_a_sure_value_is_given(engine):
    answer = engine.ask("How long is the pier?")
    (short,), (citation, *_) = answer.short, answer.citations
    assert short.text == "140 metres" == engine.read("pier.md")[short.start : short.end]
    assert answer.text.splitlines()[0].endswith("140 metres")
    assert citation.start <= short.start < short.end <= citation.end
    assert short.number == citation.number


def test_what_nothing_answers_is_not_strong(engine):
    for question in ("When does the lease of the barn end?", "How much does the QR-500 weigh?"):
        assert engine.ask(question).label != "strong", question
