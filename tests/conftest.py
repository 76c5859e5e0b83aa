"""Random examples are the same in every run, so that a run says something about the change and not about its luck.

`HYPOTHESIS_PROFILE=explore` draws others, to look for what the usual ones miss.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
