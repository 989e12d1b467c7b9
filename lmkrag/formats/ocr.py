"""Text of scanned pages and pictures, by RapidOCR: PP-OCR's models as ONNX, which come with its
package.

The extra ``ocr`` installs it. The models find and read lines; the places of the lines give their
order, columns and the rows of tables (recursive XY cuts; Nagy and Seth, 1984).
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64

from lmkrag.errors import DocumentError, EmptyDocument
from lmkrag.formats.base import Loaded, join_pages
from lmkrag.formats.columns import Box

if TYPE_CHECKING:
    from PIL.Image import Image


RESOLUTION = 200  # pixels to an inch at which a page is read
_MIN_BATCH_SCORE = 0.9  # a line below this recognition score is recognized again, alone
_MIN_SCORE = 0.5  # a line below this recognition score is left out
_LARGEST = 2_600  # pixels of a side of a page; a larger one is scaled down
_GUTTER = 0.02  # of the width, between columns at least
_FILLS = 0.55  # of a column's width that its lines have on average where it is prose
_LENGTH = 20  # characters that lines of prose have on average
_CELL_GAP = 1.5  # heights of a line between two cells of a row at least
_PARAGRAPH_GAP = 0.9  # heights of a line between two paragraphs at least
_ROW_GAP = 2.5  # the same between two tables


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page that was recognized.

    Attributes:
        text: the words.
        box: (left, top, right, bottom) as shares of the page, 0 to 1.
        score: recognition score, 0 to 1.
    """

    text: str
    box: Box
    score: float

    @property
    def height(self) -> float:
        """The height of the line, as a share of the page's."""
        return self.box[3] - self.box[1]


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page that was recognized.

    Attributes:
        text: the lines in reading order.
        places: (start, end, box) of each line in the text.
        confidence: mean recognition score, 0 to 1, by characters.
    """

    text: str
    places: tuple[tuple[int, int, Box], ...]
    confidence: float


def is_installed() -> bool:
    """Return whether the OCR engine is installed."""
    return find_spec("rapidocr") is not None


@cache
def name_models() -> str:
    """Return a hash of the models and of this module, which names results in the cache; empty if
    OCR is not installed.
    """
    spec = find_spec("rapidocr")
    if spec is None:
        return ""
    folders = map(Path, spec.submodule_search_locations or ())
    files = [path for folder in folders for path in folder.rglob("*")]
    models = [path for path in files if path.suffix in (".onnx", ".yaml")]
    digest = xxh3_64()
    for path in sorted([*models, Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def find_lines(image: "Image") -> list[Line]:
    """Recognize the lines of a page or a picture, in no order.

    A line with a score below 0.9 is recognized again alone, and left out below 0.5.
    """
    image = image.convert("RGB")
    image.thumbnail((_LARGEST, _LARGEST))
    # Without these switches, RapidOCR would use those of its last call.
    output = _engine()(np.asarray(image)[:, :, ::-1], use_det=True, use_cls=True, use_rec=True)
    if output.boxes is None:
        return []
    lines: list[Line] = []
    for corners, text, score in zip(output.boxes, output.txts, output.scores, strict=True):
        edges = np.concatenate([corners.min(axis=0), corners.max(axis=0)])
        if score < _MIN_BATCH_SCORE:
            alone, alone_score = _recognize_alone(image, corners)
            if alone_score > score:
                text, score = alone, alone_score
        if score >= _MIN_SCORE and text.strip():
            left, top, right, bottom = (edges / (*image.size, *image.size)).round(5).tolist()
            lines.append(Line(text.strip(), (left, top, right, bottom), float(score)))
    return lines


def _recognize_alone(image: "Image", corners: Any) -> tuple[str, float]:
    """Recognize one line alone. In a batch, long lines are scaled down to the width of shorter
    ones.
    """
    upper_left, lower_right = corners.min(axis=0), corners.max(axis=0)
    margin = 0.15 * (lower_right - upper_left)[1]
    cut = image.crop((*(upper_left - margin).astype(int), *(lower_right + margin).astype(int)))
    lines = _engine()(np.asarray(cut)[:, :, ::-1], use_det=False, use_cls=False)
    return (lines.txts[0], float(lines.scores[0])) if lines.txts else ("", 0.0)


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error"})


def arrange(lines: Sequence[Line]) -> PageText:
    """Put lines into reading order: columns one after the other, rows of tables between bars."""
    text, places, scores = "", [], []
    previous: list[Line] = []
    for row in _rows(lines):
        if previous:
            gap = min(line.box[1] for line in row) - max(line.box[3] for line in previous)
            most = _PARAGRAPH_GAP if len(row) == 1 or len(previous) == 1 else _ROW_GAP
            # A block begins further down, or in another column.
            new = gap > most * row[0].height or gap < -row[0].height
            text += "\n\n" if new else "\n"
        # Several lines side by side are the cells of a row.
        bars = len(row) > 1
        text += "| " if bars else ""
        for number, line in enumerate(row):
            text += " | " if number else ""
            places.append((len(text), len(text) + len(line.text), line.box))
            text += line.text
            scores.append((len(line.text), line.score))
        text += " |" if bars else ""
        previous = row
    letters = sum(count for count, _ in scores)
    confidence = sum(count * score for count, score in scores) / letters if letters else 0.0
    return PageText(text, tuple(places), round(confidence, 3))


def _rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Return lines as rows of lines that stand side by side, in reading order.

    The page is cut at gutters and blank strips, recursively; a part without a cut is one column or
    table.
    """
    ordered = sorted(lines, key=lambda line: line.box[1])
    if (gutter := _find_gutter(ordered)) is not None:
        left, right = _divide(ordered, gutter)
        return _rows(left) + _rows(right)
    if (cut := _find_cut(ordered)) is not None:
        return _rows(ordered[:cut]) + _rows(ordered[cut:])
    rows: list[list[Line]] = []
    for line in ordered:
        middle = (line.box[1] + line.box[3]) / 2
        if rows and rows[-1][0].box[1] <= middle <= rows[-1][0].box[3]:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [_join_words(sorted(row, key=lambda line: line.box[0])) for row in rows]


def _join_words(row: list[Line]) -> list[Line]:
    """Join pieces of a line that stand close to each other."""
    joined = row[:1]
    for line in row[1:]:
        last = joined[-1]
        if line.box[0] - last.box[2] > _CELL_GAP * line.height:
            joined.append(line)
            continue
        box = last.box[0], min(last.box[1], line.box[1]), line.box[2], max(last.box[3], line.box[3])
        joined[-1] = Line(f"{last.text} {line.text}", box, min(last.score, line.score))
    return joined


def _find_gutter(lines: Sequence[Line]) -> float | None:
    """Return the middle of a blank strip from top to bottom between two columns of prose; None if
    there is none.

    Cells of tables are too short to be prose.
    """
    if len(lines) < 4:
        return None
    edges = sorted((line.box[0], line.box[2]) for line in lines)
    reach = edges[0][1]
    for left, right in edges[1:]:
        if left - reach >= _GUTTER:
            middle = (left + reach) / 2
            if all(len(side) >= 2 and _is_prose(side) for side in _divide(lines, middle)):
                return middle
        reach = max(reach, right)
    return None


def _divide(lines: Sequence[Line], gutter: float) -> tuple[list[Line], list[Line]]:
    """Return the lines on the left and on the right of a gutter."""
    left = [line for line in lines if line.box[2] <= gutter]
    return left, [line for line in lines if line.box[2] > gutter]


def _is_prose(lines: Sequence[Line]) -> bool:
    left, right = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    filled = sum(line.box[2] - line.box[0] for line in lines) / len(lines)
    length = sum(len(line.text) for line in lines) / len(lines)
    return filled >= _FILLS * (right - left) and length >= _LENGTH


def _find_cut(lines: Sequence[Line]) -> int | None:
    """Return how many lines stand above the first blank strip below which the text is in columns;
    None if there is none.
    """
    for number in range(1, len(lines)):
        is_blank = lines[number].box[1] >= max(line.box[3] for line in lines[:number])
        if is_blank and _find_gutter(lines[number:]) is not None:
            return number
    return None


_SMALLEST = (80, 24)  # pixels; an icon holds no text worth finding


def read_picture(data: bytes, name: str) -> Loaded:
    """Return a document without text whose pages are all scanned: one page, or the frames of a TIFF
    file.

    Raises:
        EmptyDocument: the picture is too small to hold text.
        DocumentError: it is broken or too large.
    """
    with open_picture(data, 1) as image:
        if image.width < _SMALLEST[0] or image.height < _SMALLEST[1]:
            raise EmptyDocument("picture too small to hold text")
        pages = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
    text, starts = join_pages([""] * pages)
    return Loaded(text, "image", page_starts=starts, scanned=tuple(range(1, pages + 1)))


def open_picture(data: bytes, number: int) -> "Image":
    """Open a picture at a page.

    Args:
        data: the bytes of the file.
        number: the page, from 1.

    Raises:
        DocumentError: it is broken, has too many pixels, or no such page.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(data))
        image.seek(number - 1)
        image.load()
    except Image.DecompressionBombError as error:
        raise DocumentError("picture with too many pixels: refused") from error
    except EOFError as error:
        raise DocumentError(f"no page {number}") from error
    except UnidentifiedImageError as error:
        raise DocumentError("broken picture") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise DocumentError(f"broken picture ({error})") from error
    return image
