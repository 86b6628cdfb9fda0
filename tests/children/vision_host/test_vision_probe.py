import base64
import hashlib
import re
import socket
import threading

import pytest

from edge_agent.vision_host import probe


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def basic(request):
    if "Basic " + base64.b64encode(b"anna:secret").decode() in request:
        return "200 OK", ""
    return "401 Unauthorized", 'WWW-Authenticate: Basic realm="cam"\r\n'


def digest(request, qop=""):
    """Answers as a camera with Digest authentication; checks the response by its own sum."""
    fields = dict(re.findall(r'(\w+)="?([^",\r]*)"?', request.partition("Digest ")[2]))
    method = request.split(" ")[0]
    secret, asked = md5("anna:cam:secret"), md5("%s:%s" % (method, fields.get("uri")))
    middle = "00000001:%s:auth:" % fields.get("cnonce") if qop else ""
    if fields.get("response") == md5("%s:abc:%s%s" % (secret, middle, asked)) and fields.get("username") == "anna":
        return "200 OK", ""
    return "401 Unauthorized", 'WWW-Authenticate: Digest realm="cam", nonce="abc"%s\r\n' % (', qop="auth"' if qop else "")


def digest_with_qop(request):
    return digest(request, "auth")


@pytest.fixture
def camera():
    """camera(rule, protocol) -> port of a server that answers each request by the rule."""
    listeners = []

    def serve(listener, rule, protocol):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(4096).decode()
                status, header = rule(request)
                connection.sendall(("%s/1.0 %s\r\nCSeq: 1\r\n%s\r\n" % (protocol, status, header)).encode())

    def start(rule, protocol):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        thread = threading.Thread(target=serve, args=(listener, rule, protocol))
        thread.daemon = True
        thread.start()
        listeners.append((listener, thread))
        return listener.getsockname()[1]

    yield start
    for listener, thread in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


@pytest.mark.parametrize("rule", [basic, digest, digest_with_qop])
@pytest.mark.parametrize("protocol", ["RTSP", "HTTP"])
def test_the_right_password_is_told_from_a_wrong_one(camera, rule, protocol):
    address = "%s://127.0.0.1:%d/stream?x=1" % (protocol.lower(), camera(rule, protocol))
    assert probe.status(address, "anna", "secret", 5) == 200
    assert probe.status(address, "anna", "wrong", 5) == 401
    assert probe.status(address, "", "", 5) == 401


def test_other_statuses_come_through(camera):
    address = "rtsp://127.0.0.1:%d/nothing" % camera(lambda request: ("404 Not Found", ""), "RTSP")
    assert probe.status(address, "anna", "secret", 5) == 404


def test_who_speaks_something_else_is_no_camera(camera):
    address = "rtsp://127.0.0.1:%d/" % camera(lambda request: ("200 OK", ""), "SMTP")
    with pytest.raises(OSError, match="neither RTSP nor HTTP"):
        probe.status(address, "", "", 5)


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            probe.status("http://127.0.0.1:%d/" % free.getsockname()[1], "", "", 5)
