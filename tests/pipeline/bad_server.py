"""A web server on localhost that serves a folder, and fails as told: dropped connections, 404, web pages, nothing at all."""

import contextlib
import http.server
import threading
from pathlib import Path


class BadServer(http.server.ThreadingHTTPServer):
    """Paths below /gone answer 404, below /portal with a web page; below /drops each file's first answer breaks off."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = Path(folder)
        self.requests = []  # (path, Range header or None)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that goes away is part of the test


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, _, name = self.path.lstrip("/").partition("/")
        first = all(path != self.path for path, _ in self.server.requests)
        self.server.requests.append((self.path, self.headers.get("Range")))
        path = self.server.folder / name
        if kind == "portal":
            return self._answer(200, b"<!DOCTYPE html><html>Please log in</html>", "text/html")
        if kind == "page":
            return self._answer(200, b"\n<!doctype HTML><html>Not found, but 200</html>", "application/octet-stream")
        if kind == "empty":
            return self._answer(200, b"", "application/gzip")
        if kind == "nothing":
            return self._answer(204, b"", "application/gzip")
        if kind == "xml":
            return self._answer(200, b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "application/xml")
        if kind == "elsewhere":
            return self._answer(302, b"", "text/plain", {"Location": "nowhere:at all"})
        if kind == "mad":
            return self._answer(200, path.read_bytes(), "application/gzip", length="many")
        if kind == "endless":
            return self._answer(200, path.read_bytes() * 100, "application/gzip")
        if kind == "gone" or not path.is_file():
            return self._answer(404, b"not here", "text/plain")
        data = path.read_bytes()
        wanted = self.headers.get("Range")
        start = int(wanted.split("=")[1].rstrip("-")) if wanted and kind != "forgetful" else 0
        if start and start >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if kind in ("drops", "forgetful") and first:
            return self._answer(200, data, "application/gzip", send=len(data) // 2)
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        self._answer(206 if start else 200, data[start:], "application/gzip", headers)

    def _answer(self, status, data, kind, headers=(), send=None, length=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", length or str(len(data)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:send])
        if send is not None or length is not None:
            self.close_connection = True

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(folder):
    server = BadServer(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
