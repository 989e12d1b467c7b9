"""``lmkrag install``: an entry in each client's own file, everything else byte for byte, and back again."""

import json
import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.agents.clients import find_clients
from lmkrag.agents.jsonc import add_member, parse, remove_member

COMMENTED = """// my settings
{
    "theme": "dark", // not light
    /* servers of mine */
    "%s": {
        "other": { "command": "x", "args": ["a, b", "{"] }, // keep
    },
    "last": [1, 2,],
}
"""
PLACES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "opencode": ".config/opencode/opencode.json",
    "gemini": ".gemini/settings.json",
    "zed": ".config/zed/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
}
TOML = '# mine\nmodel = "o9"\n\n[mcp_servers.other] # keep\ncommand = "x"\n'


@pytest.fixture
def install(tmp_path, built_index, lmkrag):
    def run(*arguments):
        environment = {name: None for name in os.environ if name.startswith("XDG_")}
        return lmkrag("install", *arguments, "--index", built_index, env={**environment, "HOME": str(tmp_path)})

    return run


def before_of(name: str) -> str:
    return TOML if name == "codex" else COMMENTED % find_clients()[name].servers


@pytest.mark.parametrize("name", PLACES)
def test_an_entry_is_added_and_taken_back_byte_for_byte(install, tmp_path, built_index, name):
    path = tmp_path / PLACES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    before = before_of(name)
    path.write_text(before)
    done = install(name)
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout
    text = path.read_text()
    servers = (tomllib.loads(text) if name == "codex" else parse(text))[find_clients()[name].servers]
    entry = json.dumps(servers["lmkrag"])
    assert '"mcp"' in entry and str(built_index) in entry
    assert "other" in servers
    for line in before.splitlines():
        assert line in text
    assert "already connected" in install(name).stdout
    assert path.read_text() == text
    assert install(name, "--uninstall").returncode == 0
    assert path.read_text() == before
    assert "nothing to take back" in install(name, "--uninstall").stdout


@pytest.mark.parametrize("name", PLACES)
def test_files_that_were_not_there_are_made_and_go_again(install, tmp_path, name):
    assert install(name).returncode == 0
    assert (tmp_path / PLACES[name]).is_file()
    assert install(name, "--uninstall").returncode == 0
    mine = [path for path in tmp_path.rglob("*") if path.is_file() and "installed.json" not in path.name]
    assert mine == []


def test_instructions_stand_beside_those_of_others(install, tmp_path):
    notes = tmp_path / ".codex" / "AGENTS.md"
    notes.parent.mkdir()
    notes.write_text("# Mine\n\nUse tabs.")
    install("codex", "claude-code")
    assert notes.read_text().startswith("# Mine\n\nUse tabs.\n<!-- lmkrag -->\n")
    skill = (tmp_path / ".claude" / "skills" / "lmkrag" / "SKILL.md").read_text()
    assert skill.startswith("---\nname: lmkrag\ndescription: ")
    install("codex", "claude-code", "--uninstall")
    assert notes.read_text() == "# Mine\n\nUse tabs."
    assert not (tmp_path / ".claude" / "skills" / "lmkrag" / "SKILL.md").exists()


def test_an_entry_of_another_index_is_replaced(install, tmp_path):
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"lmkrag": {"command": "old"}, "b": {"command": "c"}}}')
    assert install("cursor").returncode == 0
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["lmkrag"]["command"] != "old" and servers["b"] == {"command": "c"}


def test_a_dry_run_and_a_broken_file_change_nothing(install, tmp_path):
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".gemini").mkdir()
    path, broken = tmp_path / ".cursor" / "mcp.json", tmp_path / ".gemini" / "settings.json"
    path.write_text("{}\n")
    broken.write_text('{"mcpServers": ')
    shown = install("cursor", "--dry-run")
    assert '+    "lmkrag": {' in shown.stdout and "would change" in shown.stderr
    assert path.read_text() == "{}\n"
    both = install()  # all clients that are there
    assert both.returncode == 1
    assert f"{broken}: is not valid" in both.stderr and "left alone" in both.stderr
    assert broken.read_text() == '{"mcpServers": '
    assert "lmkrag" in path.read_text()


def test_what_is_no_client_is_refused(install):
    refused = install("emacs")
    assert refused.returncode == 2 and "no client 'emacs': use claude-code" in refused.stderr
    assert "no client was found" in install().stderr


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    others=st.dictionaries(st.text(max_size=6).filter(lambda key: key not in ("servers", "new")), VALUES, max_size=4),
    inside=st.none() | st.dictionaries(st.text(max_size=6).filter(lambda key: key != "new"), VALUES, max_size=3),
    indent=st.sampled_from([None, 2, 4, "\t"]),
)
def test_a_member_comes_and_goes_in_any_object(others, inside, indent):
    value = others if inside is None else {**others, "servers": inside}
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    after, added = add_member(text, "servers", "new", {"command": "x", "args": ["}"]})
    assert parse(after) == {**others, "servers": {**(inside or {}), "new": {"command": "x", "args": ["}"]}}}
    assert after.replace(added, "", 1) == text
    removed = parse(remove_member(after, "servers", "new"))
    assert removed == {**others, "servers": inside or {}}
