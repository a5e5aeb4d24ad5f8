"""Commands set logging up for their process; here that is the tests' own."""

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
