"""axe-core, other people's rules of accessibility (MPL-2.0), run over a page in a browser. Pinned by its hash."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from typing import Any

from builder.base.files import replace_file
from tests.support.build import CACHE
from tests.support.needs import missing

PACKAGE = "https://registry.npmjs.org/axe-core/-/axe-core-4.14.1.tgz"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""The npm registry's own ``integrity`` of it."""


def violations(driver: Any) -> list[str]:
    """What axe finds wrong in the page that ``driver`` shows: the rule and the elements, one line each."""
    driver.execute_script(_script())
    found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1]);")
    assert len(found["passes"]) > 10  # it has run
    return [f"{v['id']}: {v['help']}: {[node['html'] for node in v['nodes']][:3]}" for v in found["violations"]]


def _script() -> str:
    kept = CACHE / "axe-core" / f"{PACKAGE.rpartition('/')[2]}"
    if not kept.is_file():
        try:
            with urllib.request.urlopen(PACKAGE, timeout=60) as answer:
                data = answer.read()
        except (urllib.error.URLError, OSError) as error:
            missing(f"axe-core cannot be fetched from the npm registry: {error}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(kept) as fresh:
            fresh.write_bytes(data)
    data = kept.read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()
