"""Pictures of text: their pages are read by OCR, outside this module (see ``lmkrag.formats.scans``)."""

import io

from PIL import Image, UnidentifiedImageError

from lmkrag.errors import DocumentError, EmptyDocument
from lmkrag.formats.base import Loaded, join_pages

_SMALLEST = (80, 24)  # pixels; an icon holds no text worth finding


def read(data: bytes, name: str) -> Loaded:
    """Return a document without text whose pages are all scanned: one, or the frames of a TIFF file."""
    with open_picture(data, 1) as image:
        if image.width < _SMALLEST[0] or image.height < _SMALLEST[1]:
            raise EmptyDocument("picture too small to hold text")
        pages = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
    text, starts = join_pages([""] * pages)
    return Loaded(text, "image", page_starts=starts, scanned=tuple(range(1, pages + 1)))


def open_picture(data: bytes, number: int) -> Image.Image:
    """Open a picture at a page, from 1.

    Raises:
        DocumentError: it is broken, too large, or has no such page.
    """
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
