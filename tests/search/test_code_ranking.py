"""Source code: what defines a name before what uses it, tests and copies of others' code last."""

import pytest

from lmkrag import Document, Engine
from lmkrag.language.question import find_identifiers
from lmkrag.search.code_blocks import is_licence, is_secondary, match_path
from lmkrag.search.outline import outline
from lmkrag.sentences.split import split_sentences

STORE = '''import time


class SessionStore:
    """Sessions by their tokens."""

    def refuse_expired(self, token):
        if token.expires < time.time():
            raise PermissionError("the token has expired")
        return token
'''
VIEWS = """from store import SessionStore

store = SessionStore()


def show_account(request):
    token = store.refuse_expired(request.token)
    refuse_expired = store.refuse_expired
    return refuse_expired(token).account
"""
TESTS = """from store import SessionStore


def test_refuse_expired(token):
    with raises(PermissionError):
        SessionStore().refuse_expired(token)  # an expired token is refused
"""
LIMITS = """import os


def read_limits():
    return {name: int(value) for name, value in os.environ.items()}


LONGEST_SESSION = 3_600  # seconds
"""
AGES = """from limits import LONGEST_SESSION


def is_old(session):
    return session.age > LONGEST_SESSION


def remaining(session):
    return max(0, LONGEST_SESSION - session.age) / LONGEST_SESSION
"""
FILES = {
    "ages.py": AGES,
    "limits.py": LIMITS,
    "store.py": STORE,
    "views.py": VIEWS,
    "tests/test_store.py": TESTS,
    "vendor/store.py": STORE + "# copied\n",
}


@pytest.fixture(scope="module")
def code(encoder, tmp_path_factory):
    with Engine.open(
        tmp_path_factory.mktemp("code") / "index", create=True, encoder=encoder, rerank=False
    ) as engine:
        engine.add([Document(name, name, text, kind="code") for name, text in FILES.items()])
        yield engine


def test_the_definition_of_a_name_comes_before_its_uses(code):
    found = code.search("refuse_expired", level="sentence", explain=True)
    assert found[0].doc_id == "store.py" and "def refuse_expired" in found[0].text
    assert "definition" in {factor.name for factor in found[0].explanation.factors}


def test_a_constant_comes_before_its_uses(code):
    found = code.search("LONGEST_SESSION", level="sentence")
    assert found[0].doc_id == "limits.py" and "LONGEST_SESSION = 3_600" in found[0].text


def test_tests_and_copies_come_last_unless_they_are_asked_for(code):
    found = code.search("refuse an expired token", level="document", explain=True)
    lowered = {
        span.doc_id
        for span in found
        if "tests and generated code" in [part.name for part in span.explanation.factors]
    }
    assert found[0].doc_id == "store.py" and lowered == {"tests/test_store.py", "vendor/store.py"}
    assert (
        code.search("which test checks that an expired token is refused?")[0].doc_id
        == "tests/test_store.py"
    )


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("where is an expired session token refused?", "store.py"),
        ("which template says that a session token is refused?", "templates/refused.html"),
    ],
)
def test_templates_and_translations_come_last_unless_asked_for(question, first, encoder, tmp_path):
    page = "{% block title %}Your session token is refused, it has expired.{% endblock %}\n"
    messages = '#: store.py:8\nmsgid "the session token is refused"\nmsgstr "Marke abgelehnt"\n'
    documents = [Document(name, name, text, kind="code") for name, text in FILES.items()]
    documents += [
        Document("templates/refused.html", "refused", page, kind="html"),
        Document("locale/de/messages.po", "messages", messages, kind="code"),
    ]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(documents)
        assert engine.search(question)[0].doc_id == first


README = "# Accounts\n\nInstall it with pip. An expired session token is refused: the store raises an error.\n"
UNUSED = "def unrelated(length):\n    return length\n"


@pytest.fixture(scope="module")
def repository(encoder, tmp_path_factory):
    """Source code with a README, which says in plain words what the code does."""
    documents = [Document(name, name, text, kind="code") for name, text in FILES.items()]
    documents += [Document("README.md", "README.md", README, kind="markdown")]
    documents += [
        Document(f"{name}.py", f"{name}.py", UNUSED, kind="code") for name in ("fare", "berth")
    ]
    with Engine.open(
        tmp_path_factory.mktemp("repository") / "index", create=True, encoder=encoder
    ) as engine:
        engine.add(documents)
        yield engine


def test_a_question_about_code_gets_code_and_one_about_installing_prose(repository):
    assert repository.search("where is an expired session token refused?")[0].doc_id == "store.py"
    assert repository.search("how do I install it?")[0].doc_id == "README.md"
    assert (
        repository.search("where is an expired token refused?", filter="kind=markdown")[0].doc_id
        == "README.md"
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("how do I refuse an expired token?", "README.md"),
        ("refuse_expired", "store.py"),
        ("the function that refuses an expired token", "store.py"),
        ("how the store raises an error for an expired token", "store.py"),
        ("what does the store raise for an expired session token?", "README.md"),
    ],
)
def test_a_question_gets_a_page_and_what_describes_code_gets_code(repository, question, expected):
    assert repository.search(question)[0].doc_id == expected


def test_comments_on_a_licence_are_told_from_code():
    assert is_licence("# Copyright 2020 The Ferry Authors\n#\n# Licensed under the MIT license\n")
    assert not is_licence("# the fare of a ferry\n")
    assert not is_licence("# Copyright 2020 The Ferry Authors\nimport os\n")


def test_each_file_has_its_best_passage_which_names_the_lines_of_the_others(encoder, tmp_path):
    body = "".join(f"    log(token, {number})  # {'x' * 60}\n" for number in range(30)) + "\n\n"
    text = "".join(f"def {verb}_token(token):\n{body}" for verb in ("renew", "refuse", "seal"))
    documents = [Document("store.py", "store.py", text, kind="code")]
    documents += [Document("fare.py", "fare.py", UNUSED, kind="code")]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(documents)
        every = [
            span
            for span in engine.search("refuse a token", top_k=50, per_document=50)
            if span.doc_id == "store.py"
        ]
        best, *others = engine.search("refuse a token", top_k=2)
        assert len(every) > 1 and [span.doc_id for span in others] == ["fare.py"]
        assert best.text == every[0].text and best.more == tuple(span.line for span in every[1:])
        first = ", ".join(map(str, best.more[:5]))
        assert best.more_places == f"+{len(best.more)} more in store.py: {first}, …"
        filled = engine.search("refuse a token", top_k=4)  # there are two files
        assert [span.doc_id for span in filled] == ["store.py", "fare.py", "store.py", "store.py"]
        assert filled[0] == best and tuple(span.line for span in filled[2:]) == best.more[:2]
        alone = engine.search("refuse a token", top_k=50, filter="path=store.py")
        assert len(alone) == len(every) and not alone[0].more
        context = engine.build_context("refuse a token").spans
        assert sum(span.doc_id == "store.py" for span in context) > 1


def test_a_file_is_not_named_by_what_it_imports(encoder, tmp_path):
    helpers = "".join(
        f"def fare_{number}(length):\n    return length * {number}\n\n\n" for number in range(90)
    )
    texts = {
        "store.py": f"{helpers}class SessionStore:\n    def keep(self, token):\n        pass\n",
        "views.py": f"from store import SessionStore\n\nstore = SessionStore()\n\n\n{helpers}",
        "fares.py": helpers,
    }
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document(name, name, text, kind="code") for name, text in texts.items()])
        found = engine.search("how SessionStore keeps its token", explain=True)
    factors = {factor.name for span in found for factor in span.explanation.factors}
    assert found[0].doc_id == "store.py" and "named documents" not in factors


def test_the_path_of_a_file_counts_as_words_of_it(encoder, tmp_path):
    text = "def read(stream):\n    return stream.read()\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(
            [
                Document(name, name, text, kind="code")
                for name in ("a/main.py", "cookies/jar.py", "z/main.py")
            ]
        )
        assert engine.search("how are cookies read")[0].doc_id == "cookies/jar.py"
        assert engine.search("read from the jar")[0].doc_id == "cookies/jar.py"


def test_a_passage_inside_a_function_names_what_it_stands_in(encoder, tmp_path):
    body = "".join(f"        step_{number}(token)  # {'x' * 60}\n" for number in range(60))
    text = f"class SessionStore:\n    def renew(self, token):\n{body}        seal_with_wax(token)\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(Document("store.py", "store.py", text, title="store", kind="code"))
        (found,) = engine.search("seal with wax", top_k=1)
    assert found.section == "store > class SessionStore > def renew(self, token)"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("pkg/test_a.py", True),
        ("web/app.spec.ts", True),
        ("web/app.min.js", True),
        ("api/api_pb2.py", True),
        ("node_modules/x/index.js", True),
        ("src/latest.py", False),
        ("src/attestation/a.py", False),
        ("contests/a.py", False),
    ],
)
def test_which_files_are_secondary(path, expected):
    assert is_secondary(path) is expected


def test_lines_are_read_with_the_definitions_around_them():
    body = "".join(f"        step_{number}(token)  # {'x' * 60}\n" for number in range(12))
    text = f"class SessionStore:\n    def renew(self, token):\n{body}\nlimit = 3\n"
    groups = split_sentences(text, kind="code")
    assert "".join(text[group.start : group.end] for group in groups) == text
    assert (
        groups[0].context == "" and groups[1].context == "class SessionStore def renew(self, token)"
    )
    assert groups[1].read(text).startswith("class SessionStore def renew(self, token): ")


def test_our_reranker_leaves_source_code_in_its_order_unless_it_is_asked_for(encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document(name, name, text, kind="code") for name, text in FILES.items()])

        def scores(**options):
            return [
                span.score
                for span in engine.search("where is an expired token refused?", **options)
            ]

        assert scores() == scores(rerank=False) != scores(rerank=True)
        token = "# Tokens\n\nAn expired token is refused by the store.\n"
        ticket = "# Ferry\n\nA ticket is refused after dusk.\n"
        engine.add([Document("a.md", "a.md", token), Document("b.md", "b.md", ticket)])
        prose = {"filter": "kind!=code"}
        assert scores(**prose) == scores(rerank=True, **prose) != scores(rerank=False, **prose)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def fare(length):\n    return price(length)\n", ["def fare(length)"]),
        (
            "func (f *Ferry) Fare(length int) int {\n\treturn f.price(length)\n}\n",
            ["func (f *Ferry) Fare(length int) int"],
        ),
        (
            "class Ferry {\n    public int fare(int length) throws IOException {\n        if (closed(length)) {\n"
            "            return price(length);\n        }\n    }\n}\n",
            ["class Ferry", "public int fare(int length) throws IOException"],
        ),
        (
            "const fare = async (length) => price(length);\nclass Ferry {\n  berth(number) {\n"
            "    for (const b of all) {\n"
            "      use(b);\n    }\n  }\n}\ndescribe('fares', () => {\n  check();\n});\n",
            ["const fare = async (length) => price(length)", "class Ferry", "berth(number)"],
        ),
        (
            "/* fare(int x) { */\nstatic int *fare(struct ferry *f,\n                 int length)\n{\n"
            "    return price(f);\n}\n",
            ["static int *fare(struct ferry *f,"],
        ),
        (
            "pub unsafe fn fare(length: u32) -> u32 {\n    price(length)\n}\n",
            ["pub unsafe fn fare(length: u32) -> u32"],
        ),
    ],
)
def test_definitions_of_several_languages_are_outlined(text, names):
    assert [heading.text for heading in outline(Document("a", text=text, kind="code"))] == names


def test_find_identifiers_by_example():
    assert (
        find_identifiers("where is getUserById used, and close()?"),
        find_identifiers("Session::retry"),
    ) == (
        ("getUserById", "close"),
        ("Session", "retry"),
    )


def test_match_path_by_example():
    assert match_path("src/http/user_agent.py", ["user", "agen", "pars", "head"]) == (0.5, 1.0)


def test_is_secondary_by_example():
    assert (
        is_secondary("src/app_test.go"),
        is_secondary("tests/data.py"),
        is_secondary("src/testament.py"),
    ) == (
        True,
        True,
        False,
    )
