"""How well is a scanned page read, and does a search find in scans what it finds in their text?

    python benchmarks/ocr.py [--pages clean,noisy,rotated,jpeg] [--chinese FACE]

Draws pages of prose in English, German, French and Spanish with a serif and a sans-serif face, and in Chinese with the
face in a file (Debian's fonts-wqy-zenhei has one), 200 pixels to an inch: clean; with noise; turned by one degree; and
blurred and packed as JPEG at quality 30. Prints the share of correct characters (as `difflib` counts equal ones),
seconds per page, and how many questions the first passage answers, in the scans and in the texts themselves.
"""

import argparse
import tempfile
import time
from difflib import SequenceMatcher
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from lmkrag import Document, Engine
from lmkrag.formats.ocr import read_image

FACES = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
WIDTH, HEIGHT, MARGIN = 1_654, 1_100, 140
TEXTS = {
    "en": [
        "The harbour master keeps the key of the ice house under the third step of the customs stairs.",
        "Every boat that stays for more than two nights pays fourteen crowns, and half of that in winter.",
        "In 1887 the breakwater was raised by nine feet after the storm had taken the old lantern.",
        "Nets may be dried on the northern rail only, and never on a Sunday or during the regatta.",
        "The pilot answers to two long blasts; one short blast means that the channel is closed.",
    ],
    "de": [
        "Der Schlüssel zum Kühlhaus hängt im Büro der Hafenmeisterin hinter dem grünen Gürtel.",
        "Für größere Schiffe beträgt die Gebühr täglich zweiundvierzig Euro, für Jollen die Hälfte.",
        "Die Mole wurde nach der Sturmflut von 1962 um drei Meter erhöht und neu gepflastert.",
        "Fäkalien dürfen ausschließlich an der Südpier abgepumpt werden, täglich ab acht Uhr.",
        "Bei Nebel läutet die Glocke zweimal je Minute, bis die Fähre festgemacht hat.",
    ],
    "fr": [
        "La clé de la glacière se trouve derrière le comptoir, à côté du livre des entrées.",
        "Chaque bateau paie quatorze francs par nuit, sauf les pêcheurs inscrits à la coopérative.",
        "Après la tempête de 1887, la jetée fut rehaussée de trois mètres et la lanterne remplacée.",
        "Les filets sèchent sur la balustrade nord; l'accès au quai sud est réservé aux secours.",
        "Deux longs coups de sirène appellent le pilote, un seul signifie que le chenal est fermé.",
    ],
    "es": [
        "La llave del almacén de hielo está colgada detrás de la puerta de la capitanía.",
        "Los barcos que se quedan más de dos noches pagan catorce euros; en invierno, la mitad.",
        "El rompeolas se elevó tres metros después del temporal de 1887, que destruyó el faro.",
        "Las redes sólo pueden secarse en la barandilla norte, nunca los domingos por la mañana.",
        "Dos toques largos llaman al práctico; uno corto significa que el canal está cerrado.",
    ],
    "zh": [
        "冰库的钥匙放在海关台阶的第三级下面，由港务长保管。",
        "停泊超过两晚的船只每晚交十四元，冬季只收一半。",
        "1887年的风暴冲走了旧灯塔之后，防波堤加高了三米。",
        "渔网只能晾在北边的栏杆上，星期日和赛船期间不准晾晒。",
        "两声长笛是呼叫领航员，一声短笛表示航道已经关闭。",
    ],
}
FACES_OF = {
    "en": "DejaVuSerif.ttf",
    "de": "DejaVuSans.ttf",
    "fr": "DejaVuSerif.ttf",
    "es": "DejaVuSans.ttf",
}
QUESTIONS = {
    "en": [
        "where is the key of the ice house?",
        "what does a boat pay?",
        "when was the breakwater raised?",
    ],
    "de": [
        "wo hängt der Schlüssel zum Kühlhaus?",
        "was kostet ein größeres Schiff?",
        "wann wurde die Mole erhöht?",
    ],
    "fr": [
        "où est la clé de la glacière?",
        "combien paie un bateau?",
        "quand la jetée fut-elle rehaussée?",
    ],
    "es": [
        "¿dónde está la llave del almacén de hielo?",
        "¿cuánto pagan los barcos?",
        "¿cuándo se elevó el rompeolas?",
    ],
    "zh": ["冰库的钥匙在哪里？", "船只停泊一晚要交多少钱？", "防波堤是什么时候加高的？"],
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", default="clean,noisy,rotated,jpeg")
    parser.add_argument("--chinese", metavar="FACE", help="a font file with Chinese characters")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    faces = FACES_OF | ({"zh": options.chinese} if options.chinese else {})
    plain = {language: "\n".join(TEXTS[language]) for language in faces}
    count = sum(len(QUESTIONS[language]) for language in faces)
    with tempfile.TemporaryDirectory() as work:
        print(f"{'pages':10s} characters right ({', '.join(faces)})   seconds   answers found")
        print(f"{'text':10s} {'':40s} {'':9s} {answers(work, 'text', plain):6d} of {count}")
        for kind in options.pages.split(","):
            read, seconds = {}, []
            for language, face in faces.items():
                page = spoil(draw(TEXTS[language], face, language), kind, rng)
                started = time.monotonic()
                read[language] = read_image(page).text
                seconds.append(time.monotonic() - started)
            right = "  ".join(f"{100 * similarity(plain[name], read[name]):5.1f}" for name in faces)
            print(
                f"{kind:10s} {right:40s} {np.median(seconds):9.1f} {answers(work, kind, read):6d} of {count}",
                flush=True,
            )


def draw(lines: list[str], face: str, language: str) -> Image.Image:
    """A page with the lines, wrapped."""
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    font, pen, top = ImageFont.truetype(str(FACES / face), 32), ImageDraw.Draw(image), MARGIN
    for line in lines:
        row, gap = "", "" if language == "zh" else " "
        for word in [*divide(line, language), ""]:
            if not word or font.getlength(row + gap + word) > WIDTH - 2 * MARGIN:
                pen.text((MARGIN, top), row, fill=20, font=font)
                row, top = word, top + 52
            else:
                row = (row + gap + word).strip()
        top += 30
    return image


def divide(line: str, language: str) -> list[str]:
    """Split a line into what is wrapped and compared: words, or characters in Chinese."""
    return list(line) if language == "zh" else line.split()


def spoil(page: Image.Image, kind: str, rng: np.random.Generator) -> Image.Image:
    """A page as a scanner or a camera gives it."""
    if kind == "noisy":
        return Image.fromarray(
            np.clip(np.asarray(page) + rng.normal(0, 40, page.size[::-1]), 0, 255).astype(np.uint8)
        )
    if kind == "rotated":
        return page.rotate(1, fillcolor=255, resample=Image.Resampling.BICUBIC)
    if kind == "jpeg":
        blurred = page.filter(ImageFilter.GaussianBlur(1.2))
        with tempfile.NamedTemporaryFile(suffix=".jpg") as packed:
            blurred.save(packed.name, quality=30)
            return Image.open(packed.name).copy()
    return page


def similarity(gold: str, read: str) -> float:
    """The share of characters that are right, white space aside."""
    ours, theirs = "".join(read.split()), "".join(gold.split())
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / max(len(ours), len(theirs))


def answers(work: str, name: str, texts: dict[str, str]) -> int:
    """Count the questions whose first passage, of the page in their language, has the sentence that answers."""
    count = 0
    with Engine.open(f"{work}/{name}", create=True, encoder="landmark-multilingual") as engine:
        engine.add([Document(language, language, text) for language, text in texts.items()])
        for language in texts:
            for number, question in enumerate(QUESTIONS[language]):
                (span,) = engine.search(
                    question, filter=f"doc_id={language}", top_k=1, rerank=False
                )
                gold = set(divide(TEXTS[language][number], language))
                count += len(gold & set(divide(span.text, language))) >= len(gold) / 2
    return count


if __name__ == "__main__":
    main()
