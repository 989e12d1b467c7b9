"""The user's cache: every folder of lmkrag in it is made here, for this user only.

``lmkrag mcp`` imports this module before anything else of lmkrag, so it imports little itself.
"""

import errno
import os
import stat
from itertools import accumulate
from pathlib import Path

_PRIVATE = 0o700


def cache_path(*names: str) -> Path:
    """Return a path in lmkrag's cache, whether it exists or not.

    Args:
        names: names of folders and of a file, from the cache down.
    """
    from platformdirs import user_cache_path

    return user_cache_path("lmkrag", appauthor=False).joinpath(*names)


def make_private(folder: Path) -> None:
    """Make a folder of the cache, and lmkrag's folders above it, which nobody but this user can
    read.

    Raises:
        OSError: a folder can't be made, belongs to another user, or is a link, which could lead to
            where others read. Only the cache as a whole may be a link.
    """
    root = cache_path()
    names = folder.relative_to(root).parts
    for path in accumulate(names, Path.joinpath, initial=root.resolve()):
        path.mkdir(_PRIVATE, parents=True, exist_ok=True)
        status = path.lstat()
        if status.st_uid != os.getuid() or stat.S_ISLNK(status.st_mode):
            raise PermissionError(
                errno.EACCES, "it belongs to another user, or is a link", str(path)
            )
        if stat.S_IMODE(status.st_mode) != _PRIVATE:
            path.chmod(_PRIVATE)
