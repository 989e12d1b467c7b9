"""How much memory the reader of a file may use, in the process that reads files.

The limits were set by measuring readers of all formats on real files, on large ones, and on those
that take most memory for their size: JSON of nested lists takes 120 bytes for each of its bytes, a
table of Word 15 for each byte of its XML.
"""

import resource
from pathlib import Path

# Bytes of address space that the reader of a file may use beside the file itself, at most.
MEMORY = 1 << 30
OCR_MEMORY = 4 << 30  # the same with the models of OCR, which take 2 GiB whatever the page
# Bytes beside those of the process itself.
_ANY_FILE = 256 << 20
_EACH_BYTE = 128
_EACH_UNPACKED_BYTE = 16
# Files that take memory by last cells or by pixels.
_OTHER = (".xls", ".xlsb", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
_STATUS = Path("/proc/self/statm")

_most = 0  # bytes that a reader may use here; 0 in a process without limits
_most_of_file = 0  # the same with the file that is read


def limit_process(most: int) -> None:
    """Let the readers of this process use at most ``most`` bytes of address space."""
    global _most
    _most = most
    _limit(most)


def limit_file(path: Path) -> None:
    """Let the reader of a file use memory by the size of the file.

    A format whose size says little, such as pictures, may use all that readers may.
    """
    global _most_of_file
    try:
        pages, size = int(_STATUS.read_text().split()[0]), path.stat().st_size
    except OSError:  # not on Linux, or the file is gone, which its reader reports
        return
    _most_of_file = _most + size
    needed = pages * resource.getpagesize() + _ANY_FILE + _EACH_BYTE * size
    _limit(_most_of_file if path.suffix.lower() in _OTHER else min(needed, _most_of_file))


def allow_unpacked(size: int) -> None:
    """Let the reader of the file use more memory, by the bytes that the file unpacks to.

    In a process without limits it does nothing.
    """
    if _most:
        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        _limit(min(soft + _EACH_UNPACKED_BYTE * size, _most_of_file))


def allow_all() -> None:
    """Let the reader of the file use all memory that readers may."""
    _limit(_most_of_file)


def find_limit() -> int:
    """Return how many bytes the reader of the file may use; 0 for no limit."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] if _most else 0


def _limit(soft: int) -> None:
    set_limit(resource.RLIMIT_AS, soft)


def set_limit(kind: int, soft: int) -> None:
    """Set a limit of this process, or as much of it as the system allows."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
