"""`glace serve` and `glace explore`: an HTTP server that answers questions, and a page with a map of the nodes."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glace.cli.arguments import IdColumn, ModelFile, NJobs, Quiet
from glace.cli.screen import Screen, check_ending, check_outputs
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.categories import Categories
    from glace.fitted.model import FittedModel
    from glace.server.map import Positions
    from glace.server.page import Numbers

Host = Annotated[str, Option(help="Address to listen on; 0.0.0.0 lets other machines connect, without a password.")]
Port = Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")]
LOOPBACK = "127.0.0.1"


def serve(
    model: ModelFile,
    host: Host = LOOPBACK,
    port: Port = 8765,
    workers: Annotated[int, Option(min=1, help="Number of processes; they share the memory of the Gaussians.")] = 1,
    allow: Annotated[list[str] | None, Option(help="Another host name that requests may use. May be repeated.")] = None,
    quiet: Quiet = False,
) -> None:
    """Answer questions over HTTP: neighbors, score, links, embed, node; /openapi.json describes them."""
    from glace.fitted.model import load
    from glace.server.run import check_installed, listening, serve

    hosts, screen = _hosts(host, allow), Screen(quiet)
    check_installed()
    with listening(host, port) as opened:
        fitted = load(model)
        address = _address(host, opened.getsockname()[1])
        screen.say(f"{fitted.embedding!r}")
        screen.say(f"answering on {address}/, which says what can be asked (Ctrl-C stops)")
        serve(fitted, opened, hosts=hosts, workers=workers)
    screen.say("stopped")


def explore(
    model: ModelFile,
    layout: Annotated[
        str, Option(help="Layout of the map: `tsne` preserves neighbourhoods, `pca` distances.")
    ] = "tsne",
    export: Annotated[Path | None, Option(help="Only write the page to this .html file; it needs no server.")] = None,
    attributes: Annotated[
        Path | None,
        Option(help="The node table, to colour the map by its columns of numbers, which a model does not keep."),
    ] = None,
    id_column: IdColumn = None,
    host: Host = LOOPBACK,
    port: Port = 8765,
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open a browser.")] = False,
    n_jobs: NJobs = -1,
    quiet: Quiet = False,
) -> None:
    """Open a page with a map of all nodes, their neighbours, likely links and certainty."""
    import functools
    import webbrowser

    from glace.fitted.model import load
    from glace.server import page
    from glace.server.answers import Answers
    from glace.server.run import check_installed, listening, serve

    check_outputs(export, inputs=[model, attributes])
    check_ending(export, ".html")
    if export is None:
        check_installed()
    screen, fitted = Screen(quiet), load(model)
    if export is not None:
        page.check_size(len(fitted.embedding))  # before the slow map is made
    numbers = None if attributes is None else _numbers(fitted, attributes, id_column, screen)
    if export is not None:
        positions = _map(fitted, model, layout, n_jobs, screen)
        page.export(Answers(fitted, model.stem), positions, export, _clusters(fitted, model, screen), numbers)
        screen.wrote(export)
        return
    with listening(host, port) as opened:
        address = _address(host, opened.getsockname()[1]) + "/"
        positions = _map(fitted, model, layout, n_jobs, screen)
        found = _clusters(fitted, model, screen)
        screen.say(f"the page is at {address} (Ctrl-C stops)")
        show = None if no_browser else functools.partial(webbrowser.open, address)
        serve(
            fitted,
            opened,
            hosts=_hosts(host, None),
            positions=positions,
            clusters=found,
            numbers=numbers,
            title=model.stem,
            started=show,
        )
    screen.say("stopped")


def _numbers(fitted: "FittedModel", path: Path, id_column: str | None, screen: Screen) -> "Numbers":
    from glace.features.layout import TableLayout
    from glace.io.read import read_numbers
    from glace.server.page import MOST_NUMBERS

    found = read_numbers(path, fitted.embedding.ids, layout=TableLayout(id_column=id_column))
    if not found:
        raise InputError(f"{path} has no column of numbers", option="attributes")
    if len(found) > MOST_NUMBERS:
        screen.say(f"the first {MOST_NUMBERS} of {len(found):,} columns of numbers can colour the map")
    return found


def _clusters(fitted: "FittedModel", model: Path, screen: Screen) -> "Categories":
    from glace.server.map import clusters_of

    with screen.progress("clusters") as report:
        report(None)
        return clusters_of(fitted, model)


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _hosts(host: str, allowed: list[str] | None) -> list[str]:
    """The host names that requests may use; any name if the server listens on all addresses."""
    for name in allowed or []:
        if not re.fullmatch(r"(\*\.)?[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]", name):
            raise InputError(f"must be a host name, such as my.host or *.my.host, not {name!r}", option="allow")
    anyone = host in ("0.0.0.0", "::")
    return ["*"] if anyone and not allowed else [host, f"[{host}]", "localhost", LOOPBACK, *(allowed or [])]


def _map(fitted: "FittedModel", model: Path, layout: str, n_jobs: int, screen: Screen) -> "Positions":
    from glace.server.map import map_of

    with screen.progress(f"map of {len(fitted.embedding):,} nodes") as report:
        return map_of(fitted.embedding, model, layout, n_jobs=n_jobs, progress=report)
