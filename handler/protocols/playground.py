"""``GET /``: a page to try the models, if ``COLDFORGE_PLAYGROUND`` is on. It is one file that loads no others."""

from __future__ import annotations

import binascii
import hashlib
import json

from ..description import Description
from ..errors import Refusal
from ..http import HttpRequest, HttpResponse
from ..server import Invocation, Server
from ..typed import Any
from . import predict

FILE = __file__.rpartition("/")[0] + "/playground.html"
PLACE = '<script type="application/json" id="server">[]</script>'


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    with open(FILE, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be imported for this alone
        page = file.read()
    models = json.dumps([_describe_model(server.find_description(name)) for name in server.models]).replace(
        "<", "\\u003c"
    )
    policy = (
        f"default-src 'none'; script-src {_hash_element(page, 'script')}; style-src {_hash_element(page, 'style')}; "
        "img-src blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": policy}
    return HttpResponse(200, headers, page.replace(PLACE, PLACE.replace("[]", models)).encode())


def format_refusal(refusal: Refusal) -> HttpResponse:
    return predict.format_refusal(refusal)


def _describe_model(description: Description) -> dict[str, Any]:
    image = description.image
    return {
        "name": description.name,
        "version": description.version,
        "image": image and {"width": image.width, "height": image.height, "mode": image.mode},
        "text": description.text_alone,
        "audio": description.audio and {"rate": description.audio.rate},
        "kinds": {output.name: output.kind for output in description.outputs},
        "feeds": [{"name": feed.name, "dtype": feed.dtype, "shape": feed.shape} for feed in description.feeds],
    }


def _hash_element(page: str, tag: str) -> str:
    """Return the hash of the page's inline element ``tag``, for the content security policy."""
    content = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{binascii.b2a_base64(hashlib.sha256(content.encode()).digest(), newline=False).decode()}'"
