"""The one question every door asks: who is this, and may they?"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from dataclasses import dataclass
from typing import FrozenSet, Optional, Sequence, Union

from edge_agent.access.roles import Permission, Role, allows, anonymous_permissions
from edge_agent.access.tokens import TokenFile
from edge_agent.errors import Forbidden, Unauthenticated

_HOW = "send Authorization: Bearer TOKEN, or Basic with the token as the password"


@dataclass(frozen=True)
class Actor:
    """Who asks; the role is None for a caller without a token."""

    name: str
    role: Optional[Role]

    def may_keep_as(self, source: str) -> bool:
        """Whether results may be kept under this name: a device has only its own."""
        return self.role is not Role.DEVICE or source == self.name


ANONYMOUS = Actor("anonymous", None)
LOOPBACK = Actor("loopback", Role.ADMIN)


def is_loopback(host: str) -> bool:
    """Whether a listening address is reached from this machine only. Names other than localhost are not looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]").split("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Gate:
    """Checks the Authorization header of a request; knows nothing of HTTP beyond it."""

    def __init__(self, tokens: TokenFile, allow_anonymous: Union[str, Sequence[str]] = "none", *, loopback: bool) -> None:
        self._tokens = tokens
        self._open: FrozenSet[Permission] = anonymous_permissions(allow_anonymous)
        self._loopback = loopback

    def check(self, authorization: Optional[str], permission: Permission) -> Actor:
        """Who asks, when they may; raises Unauthenticated or Forbidden. A wrong token is never taken for none."""
        if not authorization or not authorization.strip():
            return self._without_token(permission)
        secret = secret_of(authorization)
        token = self._tokens.authenticate(secret) if secret else None
        if token is None:
            raise Unauthenticated("the token is not known here: %s" % _HOW)
        if not allows(token.role, permission) and permission not in self._open:
            raise Forbidden(
                "the token %s has the role %s, which does not allow %s" % (token.name, token.role.value, permission.value)
            )
        return Actor(token.name, token.role)

    def _without_token(self, permission: Permission) -> Actor:
        if self._loopback:
            return LOOPBACK
        if permission in self._open:
            return ANONYMOUS
        raise Unauthenticated("a token is needed: %s" % _HOW)


def secret_of(authorization: str) -> str:
    """The secret in an Authorization header, Bearer or Basic; empty when there is none."""
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return pair.partition(":")[2]
