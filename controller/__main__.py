"""`python -m controller` is `strandline`."""

import sys

from controller.cli import main

sys.exit(main())
