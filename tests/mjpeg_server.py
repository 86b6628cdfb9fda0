"""A camera that sends MJPEG over HTTP: `python mjpeg_server.py PORT [--user U --password P] [--frozen]`.

A process of its own, so that tests can stop and kill it. Prints `ready PORT`. Each picture differs from the one before,
unless it is told to be frozen.
"""

from __future__ import annotations

import argparse
import base64
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2

FPS = 10


def pictures(frozen: bool) -> list:
    """JPEGs of the coffee cup with a bar that moves."""
    base = cv2.imread(str(Path(__file__).parent / "data" / "coffee.jpg"))
    made = []
    for step in range(1 if frozen else 20):
        picture = base.copy()
        cv2.rectangle(picture, (step * 30, 0), (step * 30 + 20, 400), (0, 0, 255), -1)
        made.append(cv2.imencode(".jpg", picture)[1].tobytes())
    return made


class Handler(BaseHTTPRequestHandler):
    """Answers /stream.mjpeg for ever."""

    def do_GET(self) -> None:
        if self.server.expected and self.headers.get("Authorization") != self.server.expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="camera"')
            self.end_headers()
            return
        if self.path != "/stream.mjpeg":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        try:
            while True:
                for data in self.server.pictures:
                    head = "--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data)
                    self.wfile.write(head.encode() + data + b"\r\n")
                    time.sleep(1 / FPS)
        except OSError:
            return

    def log_message(self, *args: object) -> None:
        """Silence."""


def main() -> None:
    """Serves until killed, at most five minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--user", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("--frozen", action="store_true")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    server.pictures = pictures(options.frozen)
    login = base64.b64encode(("%s:%s" % (options.user, options.password)).encode()).decode()
    server.expected = "Basic " + login if options.user else ""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", server.server_address[1], flush=True)  # noqa: T201
    time.sleep(300)


if __name__ == "__main__":
    main()
