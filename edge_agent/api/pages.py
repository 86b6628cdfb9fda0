"""The status page's files: read once, served from memory, cached by their digest."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path
from typing import Awaitable, Callable, Dict, NamedTuple

from aiohttp import web

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


class Document(NamedTuple):
    """Bytes that do not change while the agent runs."""

    body: bytes
    content_type: str
    etag: str


def document(body: bytes, name: str) -> Document:
    """A document with its type by name and its tag by content."""
    suffix = Path(name).suffix
    kind = _TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
    return Document(body, kind, '"%s"' % hashlib.sha256(body).hexdigest()[:24])


def load_pages(directory: Path = STATIC) -> Dict[str, Document]:
    """Every file of the folder by its name."""
    if not directory.is_dir():
        return {}
    return {path.name: document(path.read_bytes(), path.name) for path in sorted(directory.iterdir()) if path.is_file()}


def page_handler(page: Document) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A handler that answers the document, or 304 to who has it."""
    headers = {"ETag": page.etag, "Cache-Control": "no-cache"}

    async def answer(request: web.Request) -> web.Response:
        known = {tag.strip().lstrip("W/") for tag in request.headers.get("If-None-Match", "").split(",")}
        if page.etag in known or "*" in known:
            return web.Response(status=304, headers=headers)
        return web.Response(body=page.body, headers={**headers, "Content-Type": page.content_type})

    return answer
