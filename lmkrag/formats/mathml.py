"""Equations in MathML, as web pages and OpenDocument have them, on one line: ``E = mc^2``, ``v = s/t``."""

from collections.abc import Sequence

from lxml import etree

_SOURCES = ("application/x-tex", "StarMath 5.0")  # of annotations that say the same as people type it
_SIGNS = {"msup": "^", "msub": "_", "mover": "^", "munder": "_", "mfrac": "/"}


def read_math(node: etree._Element) -> str:
    """Return an equation as its author typed it, in TeX or in LibreOffice's language, else as its parts stand."""
    for annotation in node.iter("{*}annotation"):
        if annotation.get("encoding") in _SOURCES and (annotation.text or "").strip():
            return " ".join(annotation.text.split())
    try:
        return _read(node)
    except RecursionError:  # no equation is nested so deeply
        return " ".join("".join(node.itertext()).split())


def _read(node: etree._Element) -> str:
    name = etree.QName(node).localname
    parts = [_read(child) for child in node.iterchildren("*") if etree.QName(child).localname != "annotation"]
    if not parts:
        text = " ".join((node.text or "").split())
        return f" {text} " if name == "mo" and text in ("=", "<", ">", "≤", "≥", "≈", "→") else text
    if name in _SIGNS and len(parts) == 2:
        return _SIGNS[name].join(map(_enclose, parts))
    if name in ("msubsup", "munderover") and len(parts) == 3:
        return "{}_{}^{}".format(*map(_enclose, parts))
    return f"√{_enclose(_join(parts))}" if name == "msqrt" else _join(parts)


def _join(parts: Sequence[str]) -> str:
    return "".join(parts).strip()


def _enclose(part: str) -> str:
    """Put what has several signs in parentheses."""
    return part if part.isalnum() else f"({part})"
