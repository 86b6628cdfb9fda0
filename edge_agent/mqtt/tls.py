"""The encrypted socket to the broker."""

from __future__ import annotations

import ssl

from edge_agent.mqtt.options import BrokerOptions


class _TidySocket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho leaves that to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_context(options: BrokerOptions) -> ssl.SSLContext:
    """The context that checks the broker's certificate. Raises OSError (ssl.SSLError is one) when a file is no good."""
    context = ssl.create_default_context(cafile=options.ca_file or None)
    context.sslsocket_class = _TidySocket
    if options.cert_file:
        context.load_cert_chain(options.cert_file, options.key_file or None)
    return context
