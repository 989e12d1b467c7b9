"""What `pip install lmkrag` brings with it may be used by anyone: permissive licences, weak copyleft by name."""

from importlib.metadata import PackageNotFoundError, metadata, requires

from packaging.requirements import Requirement

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

CHOSEN = {"odfpy": "Apache"}
"""Offered under several licences, of which we choose this one."""

FORBIDDEN = ("GPL", "AGPL", "SSPL", "non-commercial", "Proprietary")


def installed_by(name: str) -> dict[str, str]:
    """The licence of each package that ``name`` needs, those of extras aside."""
    found: dict[str, str] = {}
    pending = [name]
    while pending:
        requirement = Requirement(pending.pop())
        if requirement.name.lower() in found:
            continue
        try:
            facts = metadata(requirement.name)
        except PackageNotFoundError:  # for another system or Python
            continue
        classifiers = [line.split(" :: ")[-1] for line in facts.get_all("Classifier", []) if line.startswith("License")]
        licence = facts.get("License-Expression") or ", ".join(classifiers) or (facts.get("License") or "").strip()
        found[requirement.name.lower()] = licence.splitlines()[0] if licence else ""
        for line in requires(requirement.name) or []:
            marker = Requirement(line).marker
            if marker is None or marker.evaluate({"extra": ""}):
                pending.append(line.partition(";")[0])
    return found


def test_licences():
    licences = installed_by("lmkrag")
    print("\n".join(f"{name:28} {licence}" for name, licence in sorted(licences.items())))
    assert {"onnxruntime", "faiss-cpu", "tokenizers", "xxhash", "pystemmer"} <= set(licences)
    for name, licence in licences.items():
        if name in CHOSEN:
            assert CHOSEN[name] in licence, f"{name}: {licence}"
            continue
        assert not any(word in licence for word in FORBIDDEN), f"{name}: {licence}"
        allowed = (*PERMISSIVE, WEAK_COPYLEFT[name]) if name in WEAK_COPYLEFT else PERMISSIVE
        assert any(word in licence for word in allowed), f"{name}: {licence!r}"


def test_no_part_of_an_extra_is_strong_copyleft():
    for extra in ("torch", "serve", "watch", "openai", "langchain", "llamaindex", "train", "eval", "s3", "postgres"):
        for name, licence in installed_by(f"lmkrag[{extra}]").items():
            assert not licence.startswith(("GPL", "AGPL", "SSPL")), f"{name}: {licence}"
