"""Serve the controller. A fresh SQLite file gets its schema; a store of another version is refused.

It exits with 0 when it was told to end, 1 where it cannot begin, and 4 when another controller took its store over.
"""

from __future__ import annotations

import argparse

from controller.cli.arguments import add_optional
from controller.cli.options import add_flag, add_list, add_option, count, one_of, port
from controller.terminal import Failure

HELP = "serve the controller"


def add_options(parser: argparse.ArgumentParser) -> None:
    from controller.limits import METRICS_KEYS
    from controller.settings import DATABASE_DEFAULT, HOST_DEFAULT, LOG_FORMAT_DEFAULT, LOG_FORMATS, PORT_DEFAULT

    add_option(
        parser,
        "database",
        str,
        DATABASE_DEFAULT,
        "the store: a path, sqlite:///path, or postgresql://user@host/name",
        "URL",
    )
    add_option(parser, "host", str, HOST_DEFAULT, "the address to listen on")
    add_option(parser, "port", port, PORT_DEFAULT, "the port to listen on, 0 for any that is free")
    add_option(
        parser,
        "log-format",
        one_of(LOG_FORMATS),
        LOG_FORMAT_DEFAULT,
        f"how lines of the log look, on standard error: {' or '.join(LOG_FORMATS)}",
    )
    add_flag(parser, "access-log", "a line for every request")
    add_option(
        parser,
        "metrics-keys",
        count,
        METRICS_KEYS,
        "how many pairs of a stream and a time key have metrics of their own; the others are summed up",
        "N",
    )
    add_list(
        parser,
        "allowed-host",
        "a name by which the controller is called beside its own address; *.example.org: all below one; repeatable",
        "NAME",
    )
    add_flag(parser, "insecure", "listen beyond this machine although no tokens are configured")
    add_optional(parser, "ssl-certfile", str, "serve TLS with this certificate, its chain with it, in PEM form", "FILE")
    add_optional(parser, "ssl-keyfile", str, "the certificate's key, unless it is in the same file", "FILE")
    add_optional(parser, "ssl-keyfile-password", str, "what the key is encrypted with; better as the variable", "TEXT")


def run(options: argparse.Namespace) -> int:
    try:
        from controller.server import serve
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    from controller.settings import Settings

    settings = Settings(
        database=options.database,
        host=options.host,
        port=options.port,
        allowed_hosts=tuple(options.allowed_host),
        insecure=options.insecure,
        ssl_certfile=options.ssl_certfile,
        ssl_keyfile=options.ssl_keyfile,
        ssl_keyfile_password=options.ssl_keyfile_password,
        metrics_keys=options.metrics_keys,
        log_format=options.log_format,
        access_log=options.access_log,
    )
    return serve(settings)
