from __future__ import annotations

import pytest

from edge_agent.access.roles import Permission, Role, allows, anonymous_permissions

#: device, viewer, operator, admin
TABLE = {
    Permission.INFER: "yes yes yes yes",
    Permission.KEEP: "yes no no yes",
    Permission.PUSH: "yes no no yes",
    Permission.STATUS: "no yes yes yes",
    Permission.RESULTS: "no yes yes yes",
    Permission.PICTURES: "no yes yes yes",
    Permission.METRICS: "no yes yes yes",
    Permission.MODELS: "no no yes yes",
    Permission.CAMERA_SETTINGS: "no no yes yes",
    Permission.SYNC: "no no yes yes",
    Permission.TOKENS: "no no no yes",
    Permission.CONFIG: "no no no yes",
    Permission.SUPPORT: "no no no yes",
    Permission.ERASE: "no no no yes",
}


def test_the_table_knows_every_permission() -> None:
    assert set(TABLE) == set(Permission)


@pytest.mark.parametrize("permission", list(Permission))
def test_each_role_may_what_the_table_says(permission: Permission) -> None:
    roles = (Role.DEVICE, Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    said = ["yes" if allows(role, permission) else "no" for role in roles]
    assert " ".join(said) == TABLE[permission]


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("none", set()),
        ("read", {"metrics", "status", "results"}),
        ("all", {"infer", "metrics", "status", "results", "pictures"}),
        ((), set()),
        (("infer",), {"infer"}),
        (["pictures", "metrics"], {"pictures", "metrics"}),
    ],
)
def test_what_is_open_to_everybody(setting: str | list[str], names: set[str]) -> None:
    assert {permission.value for permission in anonymous_permissions(setting)} == names
