"""`strandline serve` with other limits than its own: `python -m tests.limited '{"head_s": 0.3}' serve …`."""

import json
import sys

from controller.cli.serve import command
from controller.limits import Limits
from controller.server import serve
from controller.settings import Settings


def main(limits: str, name: str, *arguments: str) -> int:
    given = command.make_context(name, list(arguments)).params
    return serve(Settings(**given), Limits(**json.loads(limits)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
