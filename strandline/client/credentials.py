"""The token that a client sends, and the certificates that it trusts, from arguments, files and the environment."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

from strandline.errors import InvalidConfig

TOKEN_FILE_BYTES: Final = 4_096  # a larger file is not read as a token

TOKEN_VARIABLE: Final = "STRANDLINE_TOKEN"
TOKEN_FILE_VARIABLE: Final = "STRANDLINE_TOKEN_FILE"
CA_FILE_VARIABLE: Final = "STRANDLINE_CA_FILE"


def find_token(
    token: str | None, token_file: str | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The token to send: the given one, or that of the file, or else what the environment names in the same order.

    Raises InvalidConfig for both at once, a file that cannot be read, and a token that cannot be sent.
    """
    if token is not None and token_file is not None:
        raise InvalidConfig(name="token_file", value=token_file, wanted="left out where a token is given")
    if token is None and token_file is None:
        token = environment.get(TOKEN_VARIABLE) or None
        token_file = environment.get(TOKEN_FILE_VARIABLE) or None
    if token is None and token_file is not None:
        token = _read(_check_file("token_file", token_file))
    return token if token is None else check_token(token)


def check_token(token: str) -> str:
    """The token itself; raises InvalidConfig, which does not show it, for a token that cannot be sent."""
    given: object = token
    if not isinstance(given, str) or not given or not given.isascii() or not given.isprintable() or " " in given:
        raise InvalidConfig(name="token", value="…", wanted="visible ASCII characters, as it was given out")
    return token


def trust(ca_file: str | None = None, environment: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """Trust in the certificates of a file alone; None: trust in those that the machine trusts.

    httpx takes SSL_CERT_FILE and SSL_CERT_DIR into account for these. Raises InvalidConfig for a file without any.
    """
    name = ca_file if ca_file is not None else environment.get(CA_FILE_VARIABLE) or None
    if name is None:
        return None
    try:
        return ssl.create_default_context(cafile=_check_file("ca_file", name))
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        wanted = f"a file of certificates in PEM form ({getattr(error, 'strerror', None) or type(error).__name__})"
        raise InvalidConfig(name="ca_file", value=name, wanted=wanted) from None


def _check_file(name: str, file: str) -> str:
    given: object = file  # for a number, Python would read what this process has open under it
    if not isinstance(given, str | os.PathLike):
        raise InvalidConfig(name=name, value=given, wanted="the name of a file")
    return file


def _read(name: str) -> str:
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read(TOKEN_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        wanted = f"a file that can be read ({getattr(error, 'strerror', None) or type(error).__name__})"
        raise InvalidConfig(name="token_file", value=name, wanted=wanted) from None
    if len(text) > TOKEN_FILE_BYTES:
        raise InvalidConfig(name="token_file", value=name, wanted="a file that holds a token and nothing else")
    if not text.strip():
        raise InvalidConfig(name="token_file", value=name, wanted="a file with a token in it, and this one is empty")
    return text.strip()
