"""`[mqtt]`: the broker that devices and this agent share."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator
from typing_extensions import Literal

from edge_agent.config.section import OptionalFile, Port, Seconds, SecretFile, Section

_WORDS = ("{id}",)


def _expandable(text: str) -> str:
    rest = text
    for word in _WORDS:
        rest = rest.replace(word, "")
    if "{" in rest or "}" in rest:
        raise ValueError("knows only {id}, the agent's id, between braces")
    return text


class MqttSection(Section):
    """One broker; without this section the agent speaks no MQTT."""

    host: str = Field("127.0.0.1", min_length=1, max_length=253, description="name or address of the broker")
    port: Port = Field(1883, gt=0, description="port of the broker (8883 is usual with tls)")
    prefix: str = Field("edge/{id}", min_length=1, max_length=200, description="first levels of every topic of this agent")
    client_id: str = Field(
        "{id}", min_length=1, max_length=128, description="MQTT client id; two clients with one id throw each other out"
    )
    username: str = Field("", description="user at the broker")
    password_file: SecretFile = Field(None, description="file with the password at the broker")
    tls: bool = Field(False, description="encrypt, and check the broker's certificate")
    ca_file: OptionalFile = Field(None, description="PEM certificates to trust instead of the system's")
    cert_file: OptionalFile = Field(None, description="PEM certificate of this agent, for brokers that ask for one")
    key_file: SecretFile = Field(None, description="PEM key of cert_file")
    version: Literal["auto", "5", "3.1.1"] = Field("auto", description="protocol; auto tries 5 and falls back to 3.1.1")
    keepalive_s: int = Field(30, ge=5, le=65_535, description="a broker silent for 1.5 times this is gone")
    receive_maximum: int = Field(
        20, ge=1, le=65_535, description="requests taken from the broker before the first is acknowledged"
    )
    max_payload_bytes: int = Field(
        16_777_216, ge=1024, le=268_435_455, description="larger requests are answered with an error"
    )
    dedupe_s: Seconds = Field(
        3600.0, description="a request that comes again within this gets the answer it had, without a second run; 0: never"
    )
    live_max_age_s: Seconds = Field(
        60.0, description="camera results older than this are not published as if they were now; 0: no bound"
    )
    heartbeat_s: Seconds = Field(0.0, description="a counter is published this often; 0: never")

    @field_validator("prefix")
    @classmethod
    def _topic(cls, prefix: str) -> str:
        if any(character in prefix for character in "+#\0") or prefix.startswith(("/", "$")) or prefix.endswith("/"):
            raise ValueError("is the beginning of a topic: no + and #, no / at its ends, no $ at its beginning")
        return _expandable(prefix)

    @field_validator("client_id")
    @classmethod
    def _client_id(cls, client_id: str) -> str:
        return _expandable(client_id)

    @model_validator(mode="after")
    def _keys_that_go_together(self) -> Any:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: set both or none")
        if not self.tls and (self.ca_file or self.cert_file):
            raise ValueError("ca_file and cert_file are of no use without tls: set tls = true")
        if self.password_file and not self.username:
            raise ValueError("password_file needs username")
        return self

    def expand(self, text: str, agent_id: str) -> str:
        """`prefix` or `client_id` with the agent's id filled in."""
        return text.replace("{id}", agent_id)
