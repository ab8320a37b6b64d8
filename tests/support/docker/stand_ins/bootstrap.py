"""Start AWS's runtime client with modules found in the order that Lambda finds them."""

import os
import sys

RUNTIME = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is not imported in Lambda's bootstrap either
sys.path.remove(RUNTIME)
sys.path[:0] = [os.environ["LAMBDA_TASK_ROOT"], "/opt/python/lib/python3.13/site-packages", "/opt/python"]
sys.path.append(RUNTIME)

from awslambdaric.__main__ import main  # noqa: E402

main([RUNTIME, os.environ["_HANDLER"]])
