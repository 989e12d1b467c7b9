"""How much memory the reader of a file may use, in the process that reads files.

The limits were set by measuring readers of all formats on real files, on large ones, and on those
that take most memory for their size: JSON of nested lists takes 120 bytes for each of its bytes, a
table of Word 15 for each byte of its XML.
"""

from pathlib import Path

from lmkrag.system.platform import ADDRESSES, find_memory_limit, limit_memory, measure_memory

# Bytes of address space that the reader of a file may use beside the file itself, at most.
MEMORY = 1 << 30
OCR_MEMORY = 4 << 30  # the same with the models of OCR, which take 2 GiB whatever the page
# Bytes beside those of the process itself.
_ANY_FILE = 256 << 20
_EACH_BYTE = 128
_EACH_UNPACKED_BYTE = 16
# Files that take memory by last cells or by pixels.
_OTHER = (".xls", ".xlsb", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")

_most = 0  # bytes that a reader may use here; 0 in a process without limits
_most_of_file = 0  # the same with the file that is read


def limit_process(most: int) -> None:
    """Let the readers of this process use at most ``most`` bytes of address space, if the system
    limits it.
    """
    global _most
    _most = most if limit_memory(most) else 0


def limit_file(path: Path) -> None:
    """Let the reader of a file use memory by the size of the file.

    A format whose size says little, such as pictures, may use all that readers may.
    """
    global _most_of_file
    try:
        size = path.stat().st_size
    except OSError:  # the file is gone, which its reader reports
        return
    _most_of_file = _most + size
    used = measure_memory(ADDRESSES)
    if not used or path.suffix.lower() in _OTHER:
        _limit(_most_of_file)
    else:
        _limit(min(used + _ANY_FILE + _EACH_BYTE * size, _most_of_file))


def allow_unpacked(size: int) -> None:
    """Let the reader of the file use more memory, by the bytes that the file unpacks to.

    In a process without limits it does nothing.
    """
    _limit(min(find_memory_limit() + _EACH_UNPACKED_BYTE * size, _most_of_file))


def allow_all() -> None:
    """Let the reader of the file use all memory that readers may."""
    _limit(_most_of_file)


def find_limit() -> int:
    """Return how many bytes the reader of the file may use; 0 for no limit."""
    return find_memory_limit() if _most else 0


def _limit(soft: int) -> None:
    if _most:
        limit_memory(soft)
