"""Fixtures of pytest: a server of one test, and one of all tests."""

import pytest

import kevel_apiserver


@pytest.fixture
def kevel_server():
    """A server of its own, without any object but those that every cluster has."""
    with kevel_apiserver.start() as server:
        yield server


@pytest.fixture(scope="session")
def kevel_session_server():
    """A server that all tests share."""
    with kevel_apiserver.start() as server:
        yield server
