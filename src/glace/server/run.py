"""Start and stop the HTTP server, with one process or several."""

import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from glace.categories import Categories
from glace.errors import InputError
from glace.fitted.model import FittedModel, load
from glace.server.answers import Answers
from glace.server.map import Positions
from glace.server.page import Numbers

FINISH_SECONDS = 10
"""Time for running requests to finish when the server stops."""
MODEL, HOSTS = "GLACE_SERVED_MODEL", "GLACE_SERVED_HOSTS"
"""Environment variables that tell the processes of a server what to serve."""


def check_installed() -> None:
    """Raise if the libraries of the server are not installed; asked before slow work, to fail early."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as problem:
        raise InputError(
            f"serving needs fastapi and uvicorn: pip install 'glace-graph[serve]' ({problem})"
        ) from problem


def listening(host: str, port: int) -> socket.socket:
    """A listening socket on this port, 0 for any free port; opened before slow work, to fail early."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise InputError(f"cannot listen on {host} port {port}: {reason}; choose another port") from problem


def serve(
    model: FittedModel,
    opened: socket.socket,
    *,
    hosts: list[str] | None = None,
    workers: int = 1,
    positions: Positions | None = None,
    clusters: Categories | None = None,
    numbers: Numbers | None = None,
    title: str = "glace",
    started: Callable[[], object] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, and finish running requests."""
    import uvicorn

    options: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
    options["timeout_graceful_shutdown"] = FINISH_SECONDS
    if started:
        threading.Timer(0.5, started).start()
    if workers == 1:
        from glace.server.app import make_app

        config = uvicorn.Config(make_app(Answers(model, title), positions, hosts, clusters, numbers), **options)
        with _stopped_quietly():
            uvicorn.Server(config).run(sockets=[opened])
        return
    with tempfile.TemporaryDirectory(prefix="glace-") as folder:
        # Gaussians in a file beside the model are mapped into memory, which the processes share.
        shared = Path(folder) / "served.glace"
        model.save(shared, embedding="beside")
        os.environ |= {MODEL: str(shared), HOSTS: ",".join(hosts or [])}
        with _stopped_quietly():
            uvicorn.run("glace.server.run:served", factory=True, workers=workers, fd=opened.fileno(), **options)


@contextlib.contextmanager
def _stopped_quietly() -> Iterator[None]:
    """Ignore the signal that uvicorn sends to itself again when it has stopped."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def served() -> Any:
    """The application for one of several processes."""
    from glace.server.app import make_app

    hosts = [host for host in os.environ[HOSTS].split(",") if host]
    return make_app(Answers(load(os.environ[MODEL])), None, hosts or None)
