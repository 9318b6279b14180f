"""The HTTP interface: what `Answers` says, as JSON, with limits and clear refusals."""

import asyncio
import base64
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glace import __version__
from glace.errors import InputError
from glace.server import page
from glace.server.answers import Answer, Answers, UnknownNode
from glace.server.map import Positions

MOST_BYTES = 8_000_000
"""Of a request's body: 1,000 new nodes of 1,000 attributes."""
SECONDS = 20.0
"""That a client may take to send its request."""
# The map is drawn by WebGL programs that plotly compiles as it goes, and plotly styles elements directly.
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data: blob:; script-src 'self' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

Text = Annotated[str, Query(max_length=1000)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scored(_Body):
    """Pairs of ids, from the first to the second; numbers may be given as numbers."""

    pairs: list[tuple[str | int, str | int]]


class Described(_Body):
    """New nodes, described in one of four ways; their type, where types have attributes of their own."""

    texts: list[str] | None = None
    attributes: list[list[float]] | None = None
    names: list[list[str]] | None = None
    rows: list[dict[str, str | float | bool | None]] | None = None
    k: int = 10
    type: str | None = None


def make_app(answers: Answers, positions: Positions | None = None, hosts: list[str] | None = None) -> FastAPI:
    """The application; with positions of the nodes it has the page to explore them too."""
    app = FastAPI(
        title="glace",
        version=__version__,
        description="Questions to Gaussians of nodes.",
        docs_url=None,
        redoc_url=None,
    )
    _add_questions(app, answers)
    if positions is not None:
        _add_page(app, answers, positions)
    _add_refusals(app)
    app.add_middleware(Limits)
    # A page elsewhere on the web must not read answers by a name that leads to this machine.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or ["127.0.0.1", "localhost", "::1", "[::1]"])
    return app


def _add_questions(app: FastAPI, answers: Answers) -> None:
    # Plain functions: they are run in threads, and a long one does not keep the others waiting.
    @app.get("/api/health")
    def health() -> Answer:
        return answers.health()

    @app.get("/api/node")
    def node(id: Text) -> Answer:
        return answers.node(id)

    @app.get("/api/complete")
    def complete(q: Text, limit: int = 10) -> list[str]:
        return answers.complete(q, limit)

    @app.get("/api/neighbors")
    def neighbors(
        id: Text,
        k: int = 10,
        by: Text = "edge",
        measure: Text | None = None,
        unknown: bool = False,
        label: Text | None = None,
        type: Text | None = None,
    ) -> list[Answer]:
        return answers.neighbors(id, k, by, measure, unknown, label, type)

    @app.get("/api/links")
    def links(id: Text | None = None, top: int = 10, type: Text | None = None) -> list[Answer]:
        return answers.links(id, top, type)

    @app.get("/api/ellipses")
    def ellipses(id: Text, other: Annotated[list[str] | None, Query()] = None) -> list[Answer]:
        return answers.ellipses(id, other or [])

    @app.post("/api/score")
    def score(body: Scored) -> list[Answer]:
        return answers.score([(str(source), str(target)) for source, target in body.pairs])

    @app.post("/api/embed")
    def embed(body: Described) -> list[Answer]:
        return answers.embed(body.texts, body.attributes, body.names, body.rows, body.k, body.type)


def _add_page(app: FastAPI, answers: Answers, positions: Positions) -> None:
    drawn = map_values(answers, positions)

    @app.get("/api/map")
    def whole_map() -> Answer:
        return drawn

    @app.get("/", response_class=HTMLResponse)
    def index() -> HTMLResponse:
        return HTMLResponse(page.linked(), headers={"Content-Security-Policy": POLICY})

    @app.get("/{name}", response_class=Response)
    def part(name: str) -> Response:
        if name not in page.PARTS:
            raise HTTPException(404, f"there is no {name}")
        return Response(page.part(name), media_type=page.PARTS[name])


def map_values(answers: Answers, positions: Positions) -> Answer:
    """All that the map shows, numbers as the base64 of their bytes."""
    embedding, graph = answers.embedding, answers.graph
    labels, types = (None, None) if graph is None else (graph.labels, graph.node_types)
    return {
        **answers.facts(),
        "ids": [str(each) for each in embedding.ids],
        "x": _packed(positions[:, 0]),
        "y": _packed(positions[:, 1]),
        "codes": None if labels is None else _packed(labels.codes),
        "type_codes": None if types is None else _packed(types.codes),
        "certainty": None if embedding.certainty is None else _packed(embedding.certainty),
    }


def _packed(numbers: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f4").tobytes()).decode()


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(InputError)
    def refused(_request: Request, problem: InputError) -> JSONResponse:
        return _refusal(404 if isinstance(problem, UnknownNode) else 422, str(problem))

    @app.exception_handler(RequestValidationError)
    def malformed(_request: Request, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        if first["type"] == "json_invalid":
            return _refusal(400, f"the body is no valid JSON: {first['ctx']['error']}")
        where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
        return _refusal(422, f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    def other(_request: Request, problem: HTTPException) -> JSONResponse:
        return _refusal(problem.status_code, str(problem.detail))


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


class Limits:
    """Reads the body before anything else does: not more than `MOST_BYTES`, and not longer than `SECONDS`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_whole_body(scope, receive), SECONDS)
        except TimeoutError:
            await _refusal(408, f"the request did not arrive within {SECONDS:.0f} seconds")(scope, receive, send)
            return
        if body is None:
            await _refusal(413, f"a body has {MOST_BYTES:,} bytes at most")(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)


async def _whole_body(scope: Scope, receive: Receive) -> bytes | None:
    """The body; None if it is or will be too long."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    if stated.isdigit() and int(stated) > MOST_BYTES:
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return b"".join(parts)
