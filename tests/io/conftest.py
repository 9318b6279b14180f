"""What tests of reading share."""

import pytest


@pytest.fixture
def put(tmp_path):
    """Write a file, text or bytes, and give its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
