"""The HTTP interface: the answers as JSON, with limits on requests and clear errors."""

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glace import __version__
from glace.categories import Categories
from glace.errors import InputError
from glace.server import page
from glace.server.answers import Answer, Answers, UnknownNode
from glace.server.documentation import documentation
from glace.server.map import Positions

MOST_BYTES = 8_000_000
"""Size limit of a request body: 1,000 new nodes with 1,000 attributes."""
MOST_QUERY_BYTES = 64_000
"""Size limit of the query in an address: some hundred ids."""
SECONDS = 20.0
"""Time limit for a client to send its request."""
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self'; style-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scored(_Body):
    """Pairs of ids, from the first to the second; integer ids may be given as numbers."""

    pairs: list[tuple[str | int, str | int]]
    missing_edge_fraction: float | None = None


class Described(_Body):
    """New nodes, described in one of four ways, and their node type if the model has several."""

    texts: list[str] | None = None
    attributes: list[list[float]] | None = None
    names: list[list[str]] | None = None
    rows: list[dict[str, str | float | bool | None]] | None = None
    k: int = 10
    node_type: str | None = None


def make_app(
    answers: Answers,
    positions: Positions | None = None,
    hosts: list[str] | None = None,
    clusters: Categories | None = None,
    numbers: page.Numbers | None = None,
) -> FastAPI:
    """The application; with positions of the nodes it also serves the explorer page."""
    app = FastAPI(
        title="glace",
        version=__version__,
        description="Questions about the Gaussians of nodes.",
        docs_url=None,
        redoc_url=None,
    )
    _add_questions(app, answers)
    _add_description(app, answers, with_page=positions is not None)
    if positions is not None:
        _add_page(app, page.map_values(answers, positions, clusters, numbers))
    _add_refusals(app)
    app.add_middleware(Limits)
    # DNS rebinding: a web page must not reach this server under a name of its own.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or ["127.0.0.1", "localhost", "::1", "[::1]"])
    return app


def _add_questions(app: FastAPI, answers: Answers) -> None:
    # Not async: FastAPI runs these in threads, so that a slow one does not block the others.
    for question in (answers.health, answers.node, answers.complete, answers.neighbors, answers.links):
        app.get(f"/api/{question.__name__}")(question)

    @app.get("/api/ellipses")
    def ellipses(id: str, other: Annotated[list[str] | None, Query()] = None) -> list[Answer]:
        return answers.ellipses(id, other or [])

    @app.post("/api/score")
    def score(body: Scored) -> list[Answer]:
        pairs = [(str(source), str(target)) for source, target in body.pairs]
        return answers.score(pairs, body.missing_edge_fraction)

    @app.post("/api/embed")
    def embed(body: Described) -> list[Answer]:
        return answers.embed(**body.model_dump())


def _add_description(app: FastAPI, answers: Answers, with_page: bool) -> None:
    """Say at /docs, and at / unless the explorer is there, what can be asked."""

    def described() -> HTMLResponse:
        return HTMLResponse(documentation(app.openapi(), repr(answers.embedding)))

    for path in ("/docs",) if with_page else ("/docs", "/"):
        app.get(path, response_class=HTMLResponse, include_in_schema=False)(described)


def _add_page(app: FastAPI, drawn: Answer) -> None:
    @app.get("/api/map")
    def whole_map() -> Answer:
        return drawn

    @app.get("/", response_class=HTMLResponse)
    def index() -> HTMLResponse:
        return HTMLResponse(page.linked(), headers={"Content-Security-Policy": POLICY})

    @app.get("/{name}", response_class=Response)
    def part(name: str) -> Response:
        if name not in page.PARTS:
            raise HTTPException(404, f"no file {name!r}")
        return Response(page.part(name), media_type=page.PARTS[name])


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(InputError)
    def refused(_request: Request, problem: InputError) -> JSONResponse:
        return _refusal(404 if isinstance(problem, UnknownNode) else 422, str(problem))

    @app.exception_handler(RequestValidationError)
    def malformed(_request: Request, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        if first["type"] == "json_invalid":
            return _refusal(400, f"the body is not valid JSON: {first['ctx']['error']}")
        if first["type"] == "model_attributes_type" and first["loc"] == ("body",):
            return _refusal(422, "the body must be a JSON object, sent with the header Content-Type: application/json")
        if first["type"] == "missing" and first["loc"] == ("body",):
            return _refusal(422, "there is no body; send a JSON object with the header Content-Type: application/json")
        where = ".".join(str(each) for each in first["loc"][1:]) or "the body"
        said = first["msg"].replace("Field required", "it is missing").replace("Input should be", "it must be")
        return _refusal(422, f"{where}: {said}")

    @app.exception_handler(HTTPException)
    def other(request: Request, problem: HTTPException) -> JSONResponse:
        path = request.url.path
        words = {
            "Not Found": f"there is nothing at {path}; /docs lists the questions",
            "Method Not Allowed": f"{path} does not answer {request.method}; /docs lists the questions",
        }
        return _refusal(problem.status_code, words.get(str(problem.detail), str(problem.detail)))


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


class Limits:
    """Reads the body before the application does, with limits on its size and on the time it takes to arrive.

    Neither Starlette nor uvicorn has these limits: uvicorn bounds only the headers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with its complete body on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if len(scope["query_string"]) > MOST_QUERY_BYTES:
            await _refusal(414, f"the query must have at most {MOST_QUERY_BYTES:,} bytes")(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_whole_body(scope, receive), SECONDS)
        except TimeoutError:
            await _refusal(408, f"the request did not arrive within {SECONDS:.0f} seconds")(scope, receive, send)
            return
        if body is None:
            await _refusal(413, f"the body must have at most {MOST_BYTES:,} bytes")(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)


async def _whole_body(scope: Scope, receive: Receive) -> bytes | None:
    """The body, or None if it is too long."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    if stated.isdigit() and int(stated) > MOST_BYTES:
        return None
    chunks, size = [], 0
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return b"".join(chunks)
