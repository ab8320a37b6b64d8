"""``python -m coldforge``."""

from __future__ import annotations

import sys

from coldforge import main

sys.exit(main())
