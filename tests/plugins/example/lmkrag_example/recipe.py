"""Files of a cookery program, ``NAME.recipe``: blocks ``key = value``, base64 as the program saves them."""

import base64
import binascii

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded


def read(data: bytes, name: str) -> Loaded:
    """Return the text of a recipe.

    Raises:
        DocumentError: the file is not base64.
    """
    try:
        lines = base64.b64decode(data, validate=True).decode().splitlines()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise DocumentError(f"not a recipe ({error})") from error
    fields = dict(line.split(" = ", 1) for line in lines)
    return Loaded(
        f"{fields['steps']}\n",
        "recipe",
        title=fields["name"],
        meta={"serves": int(fields["serves"])},
    )
