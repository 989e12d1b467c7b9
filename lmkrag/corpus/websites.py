"""A part of a website: its pages below one address, mirrored to this machine, then read as any other folder.

Nothing is fetched that was not named: only addresses of the same host below the path of the given one, which robots.txt
allows (RFC 9309). Pages come from the sitemap, else from links. A page that was fetched before is asked for again only
if it has changed (RFC 9110, section 13).
"""

import functools
import ipaddress
import json
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import httpx
from lxml import etree, html

from lmkrag.corpus.walk import describe_error, is_safe_name, printable
from lmkrag.errors import StorageError, UsageError
from lmkrag.types import Skipped
from lmkrag.version import __version__

AGENT = f"lmkrag/{__version__}"
"""What robots.txt may call us."""

_RECORD = ".lmkrag-site.json"
_TIMEOUT = httpx.Timeout(20, connect=10)  # seconds
_PAUSE = 0.1  # seconds between two requests, if robots.txt asks for no more
_LONGEST_PAUSE = 10.0
_REDIRECTS, _SITEMAPS = 5, 50
_LONGEST_NAME = 200  # characters of a file or folder
_SITEMAP_BYTES = 20 << 20
_MARKUP = ("text/html", "application/xhtml+xml")
_SUFFIXES = {"text/plain": ".txt", "text/markdown": ".md", "application/pdf": ".pdf"}
_GONE = (404, 410)


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """How much of a site is fetched: ``pages``, ``bytes`` of one page and of all, ``seconds`` for all."""

    pages: int = 2_000
    page_bytes: int = 32 << 20
    bytes: int = 1 << 30
    seconds: float = 3_600


class _Refused(Exception):
    """Why a page is not fetched."""


_FAILURES = (_Refused, httpx.HTTPError, httpx.InvalidURL)


def mirror_site(url: str, folder: Path, limits: SiteLimits | None = None) -> list[Skipped]:
    """Bring the mirror of the pages below an address up to date; return what could not be fetched.

    Pages that are gone are removed; those that can't be reached stay as they are.

    Args:
        url: of a page; its path up to the last slash is what pages lie below.
        folder: of the mirror.
        limits: how much to fetch.

    Raises:
        UsageError: the address is not public although its name is, or robots.txt allows nothing. StorageError: the
        first page can't be fetched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with httpx.Client(headers={"User-Agent": AGENT}, timeout=_TIMEOUT) as client:
        return _Crawl(url, folder, limits or SiteLimits(), client).run()


@dataclass(slots=True)
class _Page:
    """A page in the mirror: the name of its file, and what the server said of its version."""

    name: str
    etag: str = ""
    modified: str = ""


@dataclass
class _Crawl:
    """One run. State: which addresses are known, what was fetched."""

    url: str
    folder: Path
    limits: SiteLimits
    client: httpx.Client
    skipped: list[Skipped] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if not parts.hostname:
            raise UsageError(f"{self.url}: names no host")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._below = self._origin + (parts.path or "/").rpartition("/")[0] + "/"
        record = read_record(self.folder)
        self._known = {url: _Page(**page) for url, page in record.items()}
        self._robots = RobotFileParser()
        self._pause, self._bytes, self._began = _PAUSE, 0, time.monotonic()

    def run(self) -> list[Skipped]:
        """Fetch page after page."""
        kept: dict[str, _Page] = {}
        try:
            self._read_robots()
            self._follow(kept)
        except BaseException:
            self._write(self._known | kept)  # only a whole run knows what is gone
            raise
        self._write(kept)
        return self.skipped

    def _follow(self, kept: dict[str, _Page]) -> None:
        """Fetch the first page, and those of the sitemap or, without one, those that links lead to."""
        start = urldefrag(self.url).url
        listed = [url for url in self._read_sitemaps() if self._is_inside(url)]
        waiting = deque(dict.fromkeys([start, *listed]))
        seen, names = set(waiting), set[str]()
        while waiting:
            if len(kept) >= self.limits.pages or self._is_over():
                self.skipped.append(Skipped(self.url, f"{len(waiting)} more pages were left out: too many"))
                kept |= {url: page for url, page in self._known.items() if url in waiting}
                return
            url = waiting.popleft()
            try:
                page = self._fetch(url)
            except _FAILURES as error:
                if url == start:
                    raise StorageError(f"{url}: can't be fetched ({describe_error(error)})") from error
                self.skipped.append(Skipped(printable(url), describe_error(error)))
                page = None if isinstance(error, _Refused) else self._known.get(url)
            if page is None or page.name in names:
                continue
            kept[url] = page
            names.add(page.name)
            if not listed:
                new = dict.fromkeys(link for link in self._read_links(url, page) if link not in seen)
                seen.update(new)
                waiting += new

    def _write(self, kept: dict[str, _Page]) -> None:
        """Remove what is gone, and remember the rest."""
        names = {page.name for page in kept.values()}
        for page in self._known.values():
            if page.name not in names:
                (self.folder / page.name).unlink(missing_ok=True)
        record = {url: {"name": page.name, "etag": page.etag, "modified": page.modified} for url, page in kept.items()}
        partial = self.folder / f"{_RECORD}.part"
        partial.write_text(json.dumps(record), "utf-8")
        partial.replace(self.folder / _RECORD)

    def _is_inside(self, url: str) -> bool:
        return url.startswith(self._below) and not urlsplit(url).query

    def _is_over(self) -> bool:
        return self._bytes > self.limits.bytes or time.monotonic() - self._began > self.limits.seconds

    def _read_robots(self) -> None:
        try:
            status, content, _ = self._get(f"{self._origin}/robots.txt", most=512 << 10)
        except _FAILURES as error:
            raise StorageError(f"{self._origin}/robots.txt: can't be fetched ({describe_error(error)})") from error
        if status >= 500:
            raise StorageError(f"{self._origin}/robots.txt: can't be fetched (status {status})")
        self._robots.parse(content.decode("utf-8", "replace").splitlines() if status == 200 else [])
        self._pause = min(_LONGEST_PAUSE, max(_PAUSE, float(self._robots.crawl_delay(AGENT) or 0)))
        if not self._robots.can_fetch(AGENT, self.url):
            raise UsageError(f"{self.url}: its robots.txt does not allow it")

    def _read_sitemaps(self) -> Iterator[str]:
        """The addresses of the site's sitemaps (sitemaps.org); nothing where there are none."""
        waiting = deque(self._robots.site_maps() or [f"{self._origin}/sitemap.xml"])
        seen: set[str] = set()
        while waiting and len(seen) < _SITEMAPS:
            url = waiting.popleft()
            if url in seen or not url.startswith(f"{self._origin}/"):
                continue
            seen.add(url)
            try:
                status, content, _ = self._get(url, most=_SITEMAP_BYTES)
                parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
                root = etree.fromstring(content, parser) if status == 200 and content else None
            except (*_FAILURES, etree.XMLSyntaxError):
                continue
            if root is None:
                continue
            found = [str(one).strip() for one in root.xpath("//*[local-name()='loc']/text()")]
            if etree.QName(root).localname == "sitemapindex":
                waiting += found
            else:
                yield from found

    def _fetch(self, url: str) -> _Page | None:
        """Fetch a page unless the mirror has it as it is; None where it is gone.

        Raises:
            _Refused: it must not be fetched, or is too large or nothing to read. HTTPError: it can't be reached.
        """
        if not self._robots.can_fetch(AGENT, url):
            raise _Refused("robots.txt does not allow it")
        known = self._known.get(url)
        headers = {}
        if known is not None and (self.folder / known.name).is_file():
            headers = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
        status, content, answer = self._get(url, most=self.limits.page_bytes, headers=headers)
        if status == 304 and known is not None:
            return known
        if status in _GONE:
            return None
        if status != 200:
            raise httpx.HTTPError(f"status {status}")
        kind = answer.get("content-type", "").partition(";")[0].strip().lower()
        name = self._name(url, kind)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:  # the same again keeps its time
            path.write_bytes(content)
        return _Page(name, answer.get("etag", ""), answer.get("last-modified", ""))

    def _name(self, url: str, kind: str) -> str:
        """The name of a page's file below the folder.

        Raises:
            _Refused: no file can be called so.
        """
        name = unquote(url.removeprefix(self._below))
        if not name or name.endswith("/"):
            name += "index"
        suffix = ".html" if kind in _MARKUP else _SUFFIXES.get(kind, "")
        if suffix and not name.lower().endswith((suffix, ".htm", ".md", ".rst")):
            name += suffix
        if not is_safe_name(name) or any(len(part) > _LONGEST_NAME for part in name.split("/")):
            raise _Refused("not a name that a file can have")
        return name

    def _read_links(self, url: str, page: _Page) -> Iterator[str]:
        """The addresses below ours that a page links to."""
        if not page.name.lower().endswith((".html", ".htm")):
            return
        try:
            tree = html.fromstring((self.folder / page.name).read_bytes())
        except (etree.ParserError, ValueError):
            return
        base = next(iter(tree.xpath("//base/@href")), url)
        for link in tree.xpath("//a/@href"):
            try:
                address = urldefrag(urljoin(urljoin(url, base), str(link).strip())).url
            except ValueError:
                continue
            if self._is_inside(address):
                yield address

    def _get(self, url: str, *, most: int, headers: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
        """Return the status, content and headers of an address; redirects are followed within the site.

        Raises:
            _Refused: it leads elsewhere, or has more than ``most`` bytes. HTTPError: it can't be reached.
        """
        sent = {name: value for name, value in (headers or {}).items() if value}
        for _ in range(_REDIRECTS):
            _check_public(url)
            time.sleep(self._pause)
            with self.client.stream("GET", url, headers=sent) as answer:
                if answer.has_redirect_location:
                    target = urldefrag(urljoin(url, answer.headers.get("location", ""))).url
                    if not target.startswith(f"{self._origin}/") or (
                        url.startswith(self._below) != target.startswith(self._below)
                    ):
                        raise _Refused(f"leads elsewhere: {target}")
                    url = target
                    continue
                content = bytearray()
                for piece in answer.iter_bytes():
                    content += piece
                    if len(content) > most:
                        raise _Refused(f"larger than {most >> 20 or 1} MB")
                self._bytes += len(content)
                return answer.status_code, bytes(content), answer.headers
        raise _Refused("leads in a circle")


def read_record(folder: Path) -> dict[str, dict[str, str]]:
    """Return what is remembered of the pages of a mirror, by their addresses."""
    try:
        record: dict[str, dict[str, str]] = json.loads((folder / _RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record


def page_url(folder: Path, name: str) -> str:
    """Return the address of a file in a mirror; empty where the folder is none, or has no such file."""
    record = folder / _RECORD
    return _urls(record, record.stat().st_mtime_ns).get(name, "") if record.is_file() else ""


@functools.lru_cache(maxsize=8)
def _urls(record: Path, _: int) -> dict[str, str]:
    return {page["name"]: url for url, page in read_record(record.parent).items()}


def _check_public(url: str) -> None:
    """Refuse a public name that stands for an address inside a network; an address itself may be named.

    Raises:
        _Refused: it does. HTTPError: the name stands for nothing.
    """
    host = urlsplit(url).hostname or ""
    if host == "localhost" or _is_address(host):
        return
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise httpx.ConnectError(f"{host}: {error.strerror or error}") from error
    private = sorted(address for address in found if not ipaddress.ip_address(address.partition("%")[0]).is_global)
    if private:
        raise _Refused(f"{host} stands for {private[0]}, which is not public")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
