"""The program, in which the application answers every call: python -m tests.without_direct_answers serve …"""

import sys

from controller.cli import main
from controller.server import Server

if __name__ == "__main__":
    Server.direct = False
    sys.exit(main())
