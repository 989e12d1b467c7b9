"""Write the PDF and Word documents of the sample corpus: ``python tests/data/make_binary.py`` (needs fpdf2)."""

from pathlib import Path

from docx import Document
from fpdf import FPDF

REPORTS = Path(__file__).parent / "corpus" / "reports"

PAGES = [
    """Inspection of the Tarn Viaduct, Spring 2019

The viaduct carries a single railway track over the Tarn on eleven masonry arches. It was opened in 1876. This report covers the yearly inspection, which was carried out between 4 and 15 March by two teams using rope access, and it repeats nothing that was already said in the report of 2018.

Summary. The structure is fit for traffic at the present speed of 60 km/h. Three findings need work before the winter: the drainage over pier 4, the parapet on the north side between arches 6 and 7, and the scour protection of pier 9.

The temperature during the inspection lay between 3 and 11 degrees. No trains ran at night, and the hollow piers could be entered from midnight until five in the morning. Bats were found in pier 2. They are protected, so the inspection of that chamber was broken off and will be repeated in September.""",
    """Findings

Drainage. The lead pipe over pier 4 is blocked by roots of a birch that has settled in the joint above it. Water therefore runs through the spandrel wall, where it has washed out mortar to a depth of 140 millimetres. The birch must be removed with its roots. Cutting it back, as was done in 2014, makes it grow more strongly.

Parapet. Eleven coping stones on the north side have moved outward by up to 22 millimetres. The movement was 15 millimetres in 2018. It is caused by frost behind the stones and will not stop by itself. Until the stones are reset, walkers must be kept off that side by a fence.

Scour. At pier 9 the river has carried away about a third of the stone apron laid in 1994. Divers measured a hole 1.8 metres deep on the upstream side. The foundation itself, oak piles driven to rock, is sound: four cores were drilled and all four showed dry, hard wood.""",
    """Recommendations and cost

1. Reset the coping stones before the end of October. Estimated cost: 48,000 euros.
2. Remove the birch and renew the drain over pier 4. Estimated cost: 9,500 euros.
3. Place 260 tonnes of rock around pier 9 while the river is low, which it usually is in August. Estimated cost: 71,000 euros.

The total is 128,500 euros. The owner has set aside 90,000 euros for the year. If the money is not enough, the scour protection comes first, because a flood could undermine the pier within a single night, while the parapet can be fenced off and the drain can wait.

The next inspection is due in March 2020. The chief inspector, Helene Brandt, asks that the bat survey be made before then, and that the drone pictures of the arches be kept, since they show hairline cracks in arch 3 that were too fine to be measured from the rope.""",
]

MINUTES: list[tuple[str, str]] = [
    ("Title", "Minutes of the allotment association"),
    (
        "Normal",
        "Meeting of 14 February in the back room of the Heron. Present: 31 members. In the chair: Ruth Okafor.",
    ),
    ("Heading 1", "Water"),
    (
        "Normal",
        "The treasurer reported that the association used 412 cubic metres of water last year, a fifth more than the "
        "year before. Most of it was lost through the cracked main under plot 40. The repair cost 1,160 pounds and was "
        "paid from the reserve. It was agreed that hosepipes may be used only before eight in the morning and after "
        "seven in the evening, from May to September.",
    ),
    (
        "Normal",
        "Mr. Petrov proposed a rainwater tank on the roof of the tool shed. The roof catches about 30 cubic metres a "
        "year. A tank of five cubic metres would cost 640 pounds. The proposal was carried by 24 votes to 3, with 4 "
        "abstentions.",
    ),
    ("Heading 1", "Rules on bonfires"),
    (
        "Normal",
        "Three neighbours had written to complain of smoke. After a long discussion it was decided that bonfires are "
        "allowed on the first Sunday of November, December and January only, and never when the wind is from the west, "
        "because the school lies to the east. Painted wood and plastic may not be burned at all.",
    ),
    ("List Bullet", "The warden lends out a shredder on Saturdays for a deposit of 20 pounds."),
    ("List Bullet", "Compost heaps must stand at least one metre from the path."),
    ("List Bullet", "Whoever finds asbestos tells the warden and touches nothing."),
    ("Heading 1", "Waiting list"),
    (
        "Normal",
        "There are 57 names on the list, and nine plots became free last year. A person who has waited for more than "
        "three years may be offered half a plot. Plots that have not been dug by the first of June are given to the "
        "next person on the list, after one warning in writing. Members who are ill are exempt.",
    ),
    ("Heading 1", "Any other business"),
    (
        "Normal",
        "The key of the tool shed was lost twice. A lock with a number was bought; the number is changed every quarter. "
        "The meeting thanked Ines Duarte, who has judged the pumpkins for twenty-five years and retires. The next "
        "meeting is on 9 May.",
    ),
]

VOTES = [
    ("Motion", "For", "Against"),
    ("Rainwater tank", "24", "3"),
    ("Bonfire rules", "19", "11"),
    ("Number lock", "30", "1"),
]


def main() -> None:
    """Write both files."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    pdf = FPDF()
    pdf.set_title("Inspection of the Tarn Viaduct")
    pdf.set_author("Brandt and Partners")
    pdf.set_font("Helvetica", size=11)
    for page in PAGES:
        pdf.add_page()
        pdf.multi_cell(0, 6, page)
    pdf.output(str(REPORTS / "viaduct-inspection.pdf"))

    word = Document()
    word.core_properties.title = "Minutes of the allotment association"
    word.core_properties.author = "Ruth Okafor"
    for style, text in MINUTES:
        word.add_paragraph(text, style=style)
    table = word.add_table(rows=0, cols=3)
    for row in VOTES:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    word.save(str(REPORTS / "allotment-minutes.docx"))


if __name__ == "__main__":
    main()
