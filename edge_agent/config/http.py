"""`[http]`: the port for Triton's clients, the agent's own API and the status page."""

from __future__ import annotations

import re
from typing import Any, Tuple, Union

from pydantic import AfterValidator, Field, field_validator, model_validator
from typing_extensions import Annotated

from edge_agent.config.section import OptionalFile, Port, Section

ANONYMOUS_WORDS = ("none", "read", "all")
ANONYMOUS_PERMISSIONS = ("infer", "metrics", "status", "results", "pictures")


def _anonymous(value: Union[str, Tuple[str, ...]]) -> Union[str, Tuple[str, ...]]:
    if isinstance(value, str):
        if value in ANONYMOUS_WORDS:
            return value
    elif all(word in ANONYMOUS_PERMISSIONS for word in value):
        return value
    raise ValueError('should be "none", "read", "all" or a list of ' + ", ".join(ANONYMOUS_PERMISSIONS))


class HttpSection(Section):
    """Where HTTP is served, to whom and how much of it."""

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on; any but loopback needs a token first")
    port: Port = Field(8000, description="port of KServe v2, the API and the page; 0 takes a free one")
    allow_anonymous: Annotated[Union[str, Tuple[str, ...]], AfterValidator(_anonymous)] = Field(
        "none", description="what needs no token: none, read (metrics, status, results), all, or a list of permissions"
    )
    max_body_bytes: int = Field(67_108_864, ge=1024, le=2**31, description="largest request body, also after decompression")
    tls_cert_file: OptionalFile = Field(None, description="PEM certificate chain; empty serves plain HTTP")
    tls_key_file: OptionalFile = Field(None, description="PEM key of tls_cert_file")
    uds_path: OptionalFile = Field(None, description="also listen on this Unix socket, for clients on the machine; empty: no")
    allowed_hosts: Tuple[str, ...] = Field(
        (), description="Host headers taken besides IP addresses, localhost, the machine's name and NAME.local"
    )

    @field_validator("allowed_hosts")
    @classmethod
    def _host_names(cls, hosts: Tuple[str, ...]) -> Tuple[str, ...]:
        for host in hosts:
            if not re.match(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})\Z", host):
                raise ValueError("%r is not a host name (give it without scheme and port)" % host)
        return hosts

    @model_validator(mode="after")
    def _certificate_and_key(self) -> Any:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: set both or none")
        return self
