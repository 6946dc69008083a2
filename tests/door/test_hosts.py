"""Names by which a server is called, and whose page an origin is."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import InvalidConfig
from strandline.hosts import AllowedHosts, Authority, is_loopback, is_own_page, parse_authority, same_host

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join).filter(lambda name: not name[-1].isdigit())
PORTS = st.integers(0, 65_535).map(str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", Authority("localhost")),
        ("LOCALHOST:8433", Authority("localhost", "8433")),
        ("strandline.example.", Authority("strandline.example")),
        ("a_service:", Authority("a_service", "")),
        ("127.0.0.1:8433", Authority("127.0.0.1", "8433")),
        ("[::1]:8433", Authority("::1", "8433")),
        ("[0:0:0:0:0:0:0:1]", Authority("::1")),
        ("[::ffff:127.0.0.1]", Authority("127.0.0.1")),
        ("", None),
        ("a b", None),
        ("a,b", None),
        ("user@host", None),
        ("host:port", None),
        ("host:123456", None),
        ("::1", None),
        ("[::1", None),
        ("[localhost]", None),
        ("a..b", None),
        ("http://a", None),
        ("a/b", None),
        ("ä", None),
        ("a\n", None),
        ("a" * 300, None),
    ],
)
def test_host_is_a_name_or_an_address_with_a_port(text: str, expected: Authority | None) -> None:
    assert parse_authority(text) == expected


@given(NAMES, PORTS)
def test_host_names_ignore_case_and_a_final_dot(name: str, port: str) -> None:
    assert parse_authority(f"{name.upper()}.:{port}") == parse_authority(f"{name}:{port}") == Authority(name, port)


@given(st.ip_addresses(v=6))
def test_an_address_is_the_same_in_each_of_its_forms(address: ipaddress.IPv6Address) -> None:
    short, long = parse_authority(f"[{address}]"), parse_authority(f"[{address.exploded.upper()}]")
    assert short is not None and short == long
    assert same_host(short.host, address.exploded)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost", True),
        ("board.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost.evil.example", False),
        ("evillocalhost", False),
        ("127.0.0.1.evil.example", False),
        ("10.1.2.3", False),
        ("0.0.0.0", False),
        ("::", False),
        ("2130706433", False),
    ],
)
def test_loopback_is_the_machine_itself(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@pytest.mark.parametrize(
    ("given", "host", "allowed"),
    [
        (["strandline.example"], "strandline.example", True),
        (["Strandline.Example."], "strandline.example", True),
        (["strandline.example"], "a.strandline.example", False),
        (["*.example.org"], "a.example.org", True),
        (["*.example.org"], "b.a.example.org", True),
        (["*.example.org"], "example.org", False),
        (["*.example.org"], "evilexample.org", False),
        (["*.example.org"], "a.example.org.evil", False),
        (["10.1.2.3", "fe80::1"], "10.1.2.3", True),
        (["10.1.2.3", "fe80::1"], "fe80::1", True),
        (["[FE80::1]"], "fe80::1", True),
        (["*"], "anything", True),
        ([], "anything", False),
    ],
)
def test_a_host_is_allowed_by_its_name_or_by_one_above(given: list[str], host: str, allowed: bool) -> None:
    assert AllowedHosts.of(given).allows(host) is allowed


@pytest.mark.parametrize(
    "wrong", ["", "a:8433", "http://a", "a b", "*.", "*.10.1.2.3", "a.*", "**", "[::1]:80", "x" * 300]
)
def test_what_can_be_no_host_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidConfig, match="without a port"):
        AllowedHosts.of([wrong])


@pytest.mark.parametrize(
    ("origin", "hosts", "scheme", "own"),
    [
        ("http://board.example", ["board.example"], "http", True),
        ("http://board.example:80", ["board.example"], "http", True),
        ("https://Board.example", ["board.example:443"], "http", True),
        ("https://board.example", ["board.example"], "https", True),
        ("http://board.example", ["board.example"], "https", False),
        ("https://board.example", ["127.0.0.1:8433"], "http", False),
        ("https://board.example", ["127.0.0.1:8433", "board.example"], "http", True),
        ("http://127.0.0.1:3000", ["127.0.0.1:8433"], "http", False),
        ("http://localhost:8433", ["127.0.0.1:8433"], "http", False),
        ("http://[::1]:8433", ["[::1]:8433"], "http", True),
        ("http://a.board.example", ["board.example"], "http", False),
        ("null", ["null"], "http", False),
        ("", [""], "http", False),
        ("file://", [""], "http", False),
        ("chrome-extension://board.example", ["board.example"], "http", False),
        ("http://", [""], "http", False),
    ],
)
def test_a_page_is_the_servers_own_where_its_origin_is_the_host(
    origin: str, hosts: list[str], scheme: str, own: bool
) -> None:
    assert is_own_page(origin, hosts, scheme=scheme) is own


@given(NAMES, NAMES, PORTS)
def test_no_page_of_another_name_or_port_is_the_servers_own(name: str, other: str, port: str) -> None:
    assert is_own_page(f"http://{name}:{port}", [f"{name}:{port}"], scheme="http")
    assert is_own_page(f"http://{other}:{port}", [f"{name}:{port}"], scheme="http") is (name == other)
    assert not is_own_page(f"http://{name}:{port}", [f"{name}:{int(port) + 1}"], scheme="http")
