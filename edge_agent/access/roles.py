"""Who may do what: four roles, and what is open to everybody."""

from __future__ import annotations

import enum
from typing import FrozenSet, Mapping, Sequence, Union


class Role(enum.Enum):
    """A token's role."""

    DEVICE = "device"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Permission(enum.Enum):
    """One kind of thing that a caller may want."""

    INFER = "infer"
    KEEP = "keep"  #: store the result of a request
    PUSH = "push"  #: hand a frame to a camera
    STATUS = "status"
    RESULTS = "results"
    PICTURES = "pictures"
    METRICS = "metrics"
    MODELS = "models"  #: load, unload, promote
    CAMERA_SETTINGS = "camera_settings"
    SYNC = "sync"
    TOKENS = "tokens"
    CONFIG = "config"
    SUPPORT = "support"
    ERASE = "erase"


_READ = frozenset({Permission.STATUS, Permission.RESULTS, Permission.METRICS})
_VIEW = _READ | {Permission.PICTURES, Permission.INFER}
_OPERATE = _VIEW | {Permission.MODELS, Permission.CAMERA_SETTINGS, Permission.SYNC}

_ALLOWED: Mapping[Role, FrozenSet[Permission]] = {
    Role.DEVICE: frozenset({Permission.INFER, Permission.PUSH, Permission.KEEP}),
    Role.VIEWER: frozenset(_VIEW),
    Role.OPERATOR: frozenset(_OPERATE),
    Role.ADMIN: frozenset(Permission),
}


def allows(role: Role, permission: Permission) -> bool:
    """Whether a role may do it. A device keeps results under its own name only: see Actor.may_keep_as."""
    return permission in _ALLOWED[role]


def anonymous_permissions(allow_anonymous: Union[str, Sequence[str]]) -> FrozenSet[Permission]:
    """What `http.allow_anonymous` opens to callers without a token."""
    if allow_anonymous == "none":
        return frozenset()
    if allow_anonymous == "read":
        return frozenset(_READ)
    if allow_anonymous == "all":
        return frozenset(_VIEW)
    return frozenset(Permission(word) for word in allow_anonymous)
