"""What tests of several examples need."""

import socket

import pytest


@pytest.fixture
def port() -> str:
    """A port of loopback where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])
