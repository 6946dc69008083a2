"""`strandline token`: on the store itself, before and while a controller serves it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.cli import main
from controller.storage.tokens import add_token, digest_of, has_tokens, list_tokens, open_tokens, revoke_token
from strandline.access import Grant, Role
from tests.served import ROOT

# Runs several commands at one terminal.
AT_A_TERMINAL = """
import os, sys
from controller.cli import main
for words in sys.argv[1:]:
    code = main(["token", *words.split()])
    print(f"left with {code}, store: {os.path.exists('store.db')}", file=sys.stderr)
"""
Run = Callable[..., tuple[int, str, str]]


def test_a_token_has_256_random_bits_and_is_printed_once_and_alone(strandline: Run) -> None:
    printed = [strandline("token", "create", f"w-{number}", "--role", "writer") for number in range(2)]

    for code, out, err in printed:
        assert code == 0 and re.fullmatch(r"slt_[A-Za-z0-9_-]{43}\n", out) and "not shown again" in err
        assert out.strip() not in err
    assert printed[0][1] != printed[1][1]
    assert not any(out.strip() in strandline("token", "list")[1] for _, out, _ in printed)


def test_the_first_token_and_a_revocation_ask_at_a_terminal(tmp_path: Path) -> None:
    asked = (
        "create anna --role admin",
        "create anna --role admin",
        "create ben --role admin",
        "revoke ben",
        "revoke ben --yes",
    )
    here, terminal = pty.openpty()
    os.write(here, b"n\ny\nn\n")  # nobody is asked at the third one, nor at the last
    command = [sys.executable, "-c", AT_A_TERMINAL, *asked]
    environment = {**os.environ, "STRANDLINE_DATABASE": str(tmp_path / "store.db"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, stdin=terminal, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True, timeout=60
    )
    os.close(here)
    os.close(terminal)
    refused, made, another, kept, revoked, rest = done.stderr.split("left with ")
    assert "[y/N]" in refused and "nothing was changed" in refused and made.startswith("1, store: False\n")
    assert "This is the first token" in made and another.startswith("0, store: True\n") and "[y/N]" not in another
    assert kept.startswith("0") and "Revoke ben?" in kept and "nothing was changed" in kept
    assert revoked.startswith("1") and "[y/N]" not in revoked and rest == "0, store: True\n"


def test_json_has_what_was_made_and_what_there_is(strandline: Run) -> None:
    created = json.loads(
        strandline("token", "create", "r", "--role", "reader", "--pattern", "o-*", "--expires-in", "2d", "--json")[1]
    )
    strandline("token", "create", "old", "--role", "admin")
    revoked = json.loads(strandline("token", "revoke", "old", "--json")[1])
    listed = json.loads(strandline("token", "list", "--json")[1])["tokens"]

    assert created["expires_at"] - created["created_at"] == 2 * 86_400_000 and created["token"].startswith("slt_")
    assert revoked == {"name": "old", "revoked": True}
    assert [(each["name"], each["role"], each["pattern"], each["state"]) for each in listed] == [
        ("old", "admin", "*", "revoked"),
        ("r", "reader", "o-*", "valid"),
    ]
    assert all("token" not in each for each in listed)


def test_revoking_again_is_harmless_a_name_stays_taken_and_what_is_not_there_is_told(
    strandline: Run, tmp_path: Path
) -> None:
    code, _, err = strandline("token", "list")
    assert code == 1 and "there is no store at" in err and not (tmp_path / "store.db").exists()
    strandline("token", "create", "w", "--role", "writer")

    assert strandline("token", "revoke", "w")[:2] == (0, "w is revoked\n")
    assert strandline("token", "revoke", "w")[:2] == (0, "w was revoked before\n")
    code, out, err = strandline("token", "create", "w", "--role", "writer")
    assert (code, out) == (1, "") and "the name 'w' is taken" in err
    code, _, err = strandline("token", "revoke", "v")
    assert code == 1 and "there is no token 'v'" in err and "token list" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create", "w", "--role", "boss"), "one of 'writer', 'reader', 'admin'"),
        (("create", "w", "--role", "reader", "--pattern", "a?"), "* stands for any characters"),
        (("create", "w", "--role", "reader", "--expires-in", "90"), "'90' is too short: the least is 1 h"),
        (("list", "slt_Zm9vYmFyZm9vYmFyZm9vYmFy"), "unexpected extra argument (slt_…)"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_nonsense_is_a_mistake_in_the_command_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main(["token", *words]) == 2 and told in capsys.readouterr().err


def test_both_stores_keep_tokens_alike(store_url: str) -> None:
    grants = [
        Grant(name=name, role=role, pattern=pattern, expires_at=expires_at)
        for name, role, pattern, expires_at in (("a", Role.ADMIN, "*", None), ("b", Role.WRITER, "o-*", 5))
    ]
    with open_tokens(store_url, make=True) as connection:
        for grant in grants:
            add_token(connection, grant, digest_of(grant.name.encode()), 1)
    with open_tokens(store_url) as connection:
        assert revoke_token(connection, "b", 2) and not revoke_token(connection, "b", 3)

    with open_tokens(store_url) as connection:
        found = list_tokens(connection)
    assert [each.grant for each in found] == grants and [each.revoked_at for each in found] == [None, 2]
    assert has_tokens(store_url)
