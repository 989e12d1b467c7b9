"""Values of tables: the one that is asked for, or none."""

import docx
import openpyxl
import pytest

from lmkrag import Document, Engine
from lmkrag.language.keys import add_fiscal_years, find_exact_words, find_keys, holds


def add_table(document, rows):
    table = document.add_table(rows=len(rows), cols=len(rows[0]))
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            table.cell(row, column).text = value


def save_workbook(path, title, rows):
    book = openpyxl.Workbook()
    book.active.title = title
    for values in rows:
        book.active.append(values)
    book.save(path)


@pytest.fixture(scope="module")
def tables(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rows = [
        f"B-{number},bolt M{number},{10 * number},{number / 100:.2f}" for number in range(1, 400)
    ]
    (folder / "stock.csv").write_text("part,name,in stock,price\n" + "\n".join(rows))
    (folder / "votes.md").write_text(
        "# Votes\n\nThe council voted on the bridge.\n\n| Option | For | Against |\n|---|---|---|\n"
        "| Steel | 214 | 512 |\n| Wood | 300 | 100 |\n"
    )
    (folder / "lines.csv").write_text(
        "line,deaths_85_99,wrecks_00_14,deaths_00_14\nGull Ferries,31,2,4\nTern Ferries,12,5,9\nSwift,0,0,1\n"
    )
    (folder / "plans.rst").write_text(
        "Plans\n=====\n\n+------+-------+\n| Plan | Daily |\n+======+=======+\n| Free | 100   |\n+------+-------+\n"
        "| Team | 5,000 |\n+------+-------+\n"
    )
    (folder / "fares.html").write_text(
        "<h1>Fares</h1><table><tr><th>Zone</th><th>Adult</th><th>Child</th></tr>"
        "<tr><td>AA</td><td>2.40</td><td>1.20</td></tr><tr><td>BB</td><td>3.10</td><td>1.50</td></tr></table>"
    )
    document = docx.Document()
    document.add_heading("Crew")
    add_table(
        document, [("Name", "Role", "Phone"), ("Ann", "cook", "4111"), ("Bob", "mate", "4222")]
    )
    document.save(folder / "crew.docx")
    save_workbook(
        folder / "shelves.xlsx",
        "Shelves",
        [("code", "shelf", "count"), ("K-1", "A3", 44), ("K-2", "B1", 9)],
    )
    with Engine.open(folder / "index", create=True, encoder=encoder) as engine:
        engine.add(folder, exclude=["index"])
        yield engine


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("how many B-7 are in stock?", "70"),
        ("how many B-77 are in stock?", "770"),
        ("what is the price of B-12?", "0.12"),
        ("how many people died with Tern Ferries between 2000 and 2014?", "9"),
        ("how many people died with Gull Ferries between 1985 and 1999?", "31"),
        ("how much does B-12 cost?", "0.12"),
        ("what is the name of B-300?", "bolt M300"),
        ("how many voted against steel?", "512"),
        ("how many voted for wood?", "300"),
        ("what is the daily limit of the team plan?", "5,000"),
        ("what is the child fare in zone BB?", "1.50"),
        ("what is the adult fare in zone AA?", "2.40"),
        ("what is Bob's phone number?", "4222"),
        ("what is the role of Ann?", "cook"),
        ("how many K-2 are there?", "9"),
        ("where is K-1, on which shelf?", "A3"),
    ],
)
def test_the_cell_is_the_short_answer(tables, question, value):
    answer = tables.ask(question)
    for short in answer.short:
        citation = answer.citations[0]
        assert short.text == value and answer.text.splitlines()[0].endswith(value)
        document = tables.read(citation.span.doc_id)
        assert document[short.start : short.end] == value
        assert document[citation.start : citation.end] == citation.quote
        assert citation.start <= short.start < short.end <= citation.end


@pytest.mark.parametrize(
    "question", ["how many B-900 are in stock?", "what is Carol's phone number?"]
)
def test_a_key_that_is_in_no_row_gives_no_cell(tables, question):
    answer = tables.ask(question)
    assert answer.label != "strong" and not answer.short


def test_a_question_that_names_several_rows_gives_no_cell(tables):
    answer = tables.ask("what are the fares in zone AA and zone BB?")
    assert answer.text.count("|") > 4 or not answer.short


@pytest.mark.parametrize(
    "text",
    [
        "| a |\n| b |\n",  # no second column
        "||||\n||||\n",
        "| Name | Phone |\n| Ann | 1 | 2 | 3 |\n",  # a row of another width
        "Name | Phone\nAnn | 1\n",
        "| Name | " + "x" * 5_000 + " |\n| Ann | " + "y" * 5_000 + " |\n",
        "|" * 3_000,
        ": | : | :",
    ],
)
def test_odd_tables_give_no_wrong_cell(encoder, tmp_path, text):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(
            Document(
                "odd.md", "odd.md", f"# Odd\n\nThe phones of the crew.\n\n{text}", kind="markdown"
            )
        )
        answer = engine.ask("what is the phone of Ann?")
        assert all(short.text in ("1", "Ann") for short in answer.short)


def test_exact_words():
    assert find_exact_words("what is `foo --bar`, v2.1.0-rc1 and lib_x?") == (
        "foo --bar",
        "v2.1.0-rc1",
        "lib_x",
    )
    assert find_keys("When will lock 9 in Porto be closed?") == ("lock 9", "Porto")
    assert find_keys("Wie hoch ist der Eiffelturm?") == ()  # in German every noun is capitalised
    assert find_keys(add_fiscal_years("What was the capex in FY23?")) == ("2023",)
    assert (
        holds("the FY23 budget", "2023")
        and holds("the FY 2023 budget", "2023")
        and not holds("the FY24 budget", "2023")
    )
    assert not holds("release 14.1 and 4.1.2", "4.1")
    assert holds("E101: lock", "E101") and not holds("E1011", "E101")


@pytest.fixture(scope="module")
def cells(encoder, tmp_path_factory):
    """Tables of two columns, of like columns, and of properties."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "lamps.csv").write_text("lamp,reach\nSkerry,9 km\nHolm,14 km\n")
    (folder / "coal.csv").write_text("good,rate,freight rate,store\nCoal,300,45,8\nSalt,90,12,3\n")
    (folder / "winch.md").write_text(
        "# Winch W-8\n\n| Property | Value |\n|---|---|\n"
        "| Weight | 62 kg |\n| Max. load | 3 t |\n| Nom. speed | 9 rpm |\n"
    )
    document = docx.Document()
    document.add_heading("Davit")
    add_table(document, [("Feature", "Davit D-2"), ("Min. radius", "4 m"), ("Length", "11 m")])
    document.save(folder / "davit.docx")
    save_workbook(
        folder / "towns.xlsx", "Towns", [("town", "region"), ("Vesk", "North"), ("Orm", "South")]
    )
    with Engine.open(folder / "index", create=True, encoder=encoder) as engine:
        engine.add(folder, exclude=["index"])
        yield engine


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the freight rate of coal?", "45"),
        ("What is the rate of coal?", "300"),
        ("What is the reach of the Skerry?", "9 km"),
        ("Which region is Vesk in?", "North"),
        ("How heavy is the winch?", "62 kg"),
        ("What is the maximum load of the winch?", "3 t"),
        ("What is the nominal speed of the winch?", "9 rpm"),
        ("How long is the davit?", "11 m"),
        ("What is the minimum radius of the davit?", "4 m"),
    ],
)
def test_a_cell_is_asked_for_by_name_synonym_or_abbreviation(cells, question, value):
    assert [short.text for short in cells.ask(question).short] in ([value], [])


@pytest.mark.parametrize(
    "question",
    [
        "Who built the Skerry?",
        "When was the Skerry lit?",
        "How many inhabitants does Vesk have?",
        "Who is the mayor of Orm?",
        "What is the insurance rate of coal?",
        "What is the minimum load of the winch?",
    ],
)
def test_the_other_cell_of_two_is_no_answer_to_another_question(cells, question):
    assert not cells.ask(question).short


@pytest.fixture(scope="module")
def lists(tmp_path_factory, encoder):
    """Tables in which questions name a column, or a quantity of something that has no row."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "docs").mkdir()
    files = {
        "prices.csv": 'Product,Unit,Price\nSunflower seeds,5 kg,14.20\n"Yeast, fresh",1 kg,3.10\n',
        "plots.csv": "Plot,Tenant,Since,Fee,Paid\n3a,Falk,2023-04-01,24,False\n3b,Bruns,2020-02-01,24,True\n",
        "vans.csv": "Van,Driver,Colour\nLX19 KDP,Osei,white\nLX22 PRA,Volkov,blue\n",
        "cake.md": "# Plum cake\n\n| Tin | Plums | Minutes |\n| --- | --- | --- |\n"
        "| 20 cm | 600 g | 35 |\n| 26 cm | 1 kg | 45 |\n",
        "post.md": "# Post\n\n| Zone | Fee | days |\n| --- | --- | --- |\n| 1 (town) | £3 | 1 |\n"
        "| 2 (county) | £6 | 2 |\n",
        "dues.md": "# Dues\n\n| Part | Due | Amount |\n| --- | --- | --- |\n"
        "| first | 1 March | £600 |\n| second | 1 June | £900 |\n",
        "menus.md": "# Menus\n\n| # | Entry | What it does |\n| --- | --- | --- |\n"
        "| 1 | Animated titles | Titles that move across the screen |\n| 2 | Captions | Words below the picture |\n",
        "lockers.txt": "Locker 733 belongs to Kit Tanaka and contains 6 oars. Locker 734 belongs to Ann Marsh.\n",
    }
    for name, text in files.items():
        (folder / "docs" / name).write_text(text)
    with Engine.open(folder / "index", create=True, encoder=encoder) as engine:
        engine.add(folder / "docs")
        yield engine


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("When did Bruns get his plot?", "2020-02-01"),
        ("Who drives the blue van?", "Volkov"),
        ("How long does plum cake take in the 20 cm tin?", "35"),
        ("How many days to zone 2?", "2"),
        ("Which van does Osei drive?", "LX19 KDP"),
        ("How much is the second part?", "£900"),
        ("how many oars are in locker 733?", "6 oars"),
        ("In which year did Bruns get plot 3b?", "2020-02-01"),
        ("How much are 5 kg of yeast?", ""),  # the row of 5 kg is another's
        ("What do 5 kg of rye flour cost?", ""),
        ("Has Falk paid?", ""),
        ("What else must I install for animated titles?", ""),  # a row's number is not asked for
        ("When is the second part due and how much is it?", "1 June"),
    ],
)
def test_the_value_is_of_the_kind_that_is_asked_for(lists, question, value):
    assert "".join(short.text for short in lists.ask(question).short) in (value, "")
