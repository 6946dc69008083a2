"""How the properties are run: HYPOTHESIS_PROFILE chooses one of the profiles below."""

import os

from hypothesis import HealthCheck, settings

# Machines differ and are shared: an example that is slow once is no failure. pytest-timeout ends what hangs.
settings.register_profile(
    "default", deadline=None, max_examples=50, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# Continuous integration draws the same examples each time, so that a failure is the fault of the change.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
