"""Why a network source does not open: OpenCV does not say, so the child asks the server itself, once, in plain words."""

import base64
import hashlib
import re
import socket
import ssl
from urllib.parse import urlsplit

_PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443}
_MAX_ANSWER = 65536


def status(source, username, password, timeout_s):
    """The server's status code (200, 401, 404...) for these credentials. OSError when it does not answer."""
    code, challenges = _ask(source, "", timeout_s)
    if code != 401 or not username:
        return code
    request_line = _request_line(source)
    for challenge in challenges:
        header = _authorization(challenge, request_line[0], request_line[1], username, password)
        if header:
            return _ask(source, "Authorization: %s\r\n" % header, timeout_s)[0]
    return code


def _request_line(source):
    parts = urlsplit(source)
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme.startswith("rtsp"):
        return "DESCRIBE", "%s://%s%s" % (parts.scheme, host, (parts.path or "/") + ("?" + parts.query if parts.query else ""))
    return "GET", (parts.path or "/") + ("?" + parts.query if parts.query else "")


def _ask(source, header, timeout_s):
    parts = urlsplit(source)
    method, uri = _request_line(source)
    if parts.scheme.startswith("rtsp"):
        head = "%s %s RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n" % (method, uri)
    else:
        head = "%s %s HTTP/1.0\r\nHost: %s\r\n" % (method, uri, parts.netloc.rpartition("@")[2])
    with socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme.lower()]), timeout_s) as plain:
        sock = _without_trust().wrap_socket(plain) if parts.scheme.lower() in ("rtsps", "https") else plain
        sock.settimeout(timeout_s)
        sock.sendall((head + header + "\r\n").encode())
        return _answer(sock)


def _without_trust():
    """Cameras sign their own certificates and FFmpeg does not look at them: neither does this."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _answer(sock):
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MAX_ANSWER:
        more = sock.recv(4096)
        if not more:
            break
        data += more
    lines = data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    found = re.match(r"(?:RTSP|HTTP)/\d\.\d (\d{3})", lines[0])
    if not found:
        raise OSError("the server's answer is neither RTSP nor HTTP")
    challenges = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("www-authenticate:")]
    return int(found.group(1)), challenges


def _authorization(challenge, method, uri, username, password):
    """The header's value for a Basic or (MD5) Digest challenge, None for others."""
    scheme = challenge.partition(" ")[0].lower()
    if scheme == "basic":
        return "Basic " + base64.b64encode(("%s:%s" % (username, password)).encode()).decode()
    if scheme != "digest":
        return None
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm, nonce = fields.get("realm", ""), fields.get("nonce", "")
    secret = _md5("%s:%s:%s" % (username, realm, password))
    asked = _md5("%s:%s" % (method, uri))
    said = 'Digest username="%s", realm="%s", nonce="%s", uri="%s"' % (username, realm, nonce, uri)
    if "auth" in fields.get("qop", "").split(","):
        response = _md5("%s:%s:00000001:0a0b0c0d:auth:%s" % (secret, nonce, asked))
        return said + ', response="%s", qop=auth, nc=00000001, cnonce="0a0b0c0d"' % response
    return said + ', response="%s"' % _md5("%s:%s:%s" % (secret, nonce, asked))


def _md5(text):
    return hashlib.md5(text.encode()).hexdigest()
