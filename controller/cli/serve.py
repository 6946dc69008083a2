"""`strandline serve`."""

from __future__ import annotations

from typing import Any

import click
from click import IntRange

from controller.cli.options import option
from controller.cli.store import database_option, store_failures
from controller.settings import HOST_DEFAULT, LOG_FORMAT_DEFAULT, LOG_FORMATS, METRICS_KEYS, PORT_DEFAULT, Settings


class HostNames(click.types.StringParamType):
    """Names of hosts, with commas between in a variable."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [each.strip() for each in rv.split(",") if each.strip()]


def grafana_url(text: str) -> str:
    """The address of a stream's dashboard in Grafana."""
    if not text.startswith(("https://", "http://")) or set("{}") & set(text.replace("{stream}", "")):
        wanted = "https://grafana.example.org/d/strandline?var-stream={stream}"
        raise click.BadParameter(f"{text[:200]!r} is no address of a dashboard: give one such as {wanted}")
    return text


@click.command
@database_option
@option("--host", default=HOST_DEFAULT, metavar="HOST", help="the address to listen on")
@option("--port", type=IntRange(0, 65_535), default=PORT_DEFAULT, help="the port to listen on, 0 for any that is free")
@option("--workers", type=IntRange(1, 256), default=1, help="processes at the port, each a controller; for PostgreSQL")
@option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=LOG_FORMAT_DEFAULT,
    help="the form of log lines, which go to standard error",
)
@option("--access-log", is_flag=True, help="a line for every request")
@option(
    "--metrics-keys",
    type=IntRange(0, 999_999_999),
    default=METRICS_KEYS,
    help="how many pairs of a stream and a time key have metrics of their own; the others are summed up",
)
@option(
    "--grafana-url",
    type=grafana_url,
    metavar="URL",
    help="pages of streams have a link to this; {stream} stands for the stream's name",
)
@option(
    "--allowed-host",
    "allowed_hosts",
    type=HostNames(),
    multiple=True,
    metavar="NAME",
    help="a name by which the controller is called beside its own address; *.example.org: all below one; repeatable; "
    "the variable has several with commas between",
)
@option("--insecure", is_flag=True, help="listen beyond this machine although no tokens are configured")
@option("--ssl-certfile", metavar="FILE", help="serve TLS with this certificate, its chain with it, in PEM form")
@option("--ssl-keyfile", metavar="FILE", help="the certificate's key, unless it is in the same file")
@option("--ssl-keyfile-password", metavar="TEXT", help="what the key is encrypted with; better as the variable")
def command(**settings: Any) -> int:
    """Serve the controller. A fresh SQLite file gets its schema; a store of another version is refused.

    It exits with 0 when it was asked to end, 1 where it cannot begin, and 2 where its options are wrong.
    """
    with store_failures():
        from controller.server import serve
    given = Settings(**settings)
    if given.workers == 1:
        return serve(given)
    from controller.workers import supervise

    return serve(given, run=supervise)
