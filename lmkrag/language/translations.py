"""Names of documents that are translations of one another, such as ``docs/de/install.md``."""

import re

_LANGUAGES = """ar bg bn ca cs da de el en es et eu fa fi fr gl he hi hr hu id it ja ka ko lt lv nb
nl nn no pl pt ro ru sk sl sq sr sv th tr uk ur uz vi zh"""
# a folder, or an ending of the name before its suffix
_TAG = re.compile(
    r"(?:(?<=/)|^)(?P<folder>{0})/|[._-](?P<ending>{0})(?=(?:\.[a-z\d]+)*$)".format(
        rf"(?:{'|'.join(_LANGUAGES.split())})(?:[_-](?:[A-Za-z]{{2}}|Han[st]))?"
    )
)


def split_language(doc_id: str) -> tuple[str, str]:
    """Return the name of a document without its language, and the language (ISO 639-1); empty if it
    names none.

    >>> split_language("docs/pt-BR/install.md")
    ('docs/install.md', 'pt')
    >>> split_language("README.de.md")
    ('README.md', 'de')
    """
    tags = list(_TAG.finditer(doc_id))
    if not tags:
        return doc_id, ""
    tag = tags[-1]
    language = (tag["folder"] or tag["ending"])[:2]
    return doc_id[: tag.start()] + doc_id[tag.end() :], {"nb": "no", "nn": "no"}.get(
        language, language
    )
