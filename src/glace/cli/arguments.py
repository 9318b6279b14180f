"""Options that several verbs share: training options, and the options that name a graph."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Argument, Option

from glace.config.config import STAGES, RunConfig
from glace.errors import InputError
from glace.options import HasFields, limits_of, number_or_word

if TYPE_CHECKING:
    from glace.features.layout import TableLayout
    from glace.graph.graph import Graph


COLUMNS = "Columns"
"""Panel of the options that say how tables are laid out."""


def _option(*names: str, help: str, panel: str | None = None, metavar: str | None = None) -> Any:
    return Option(*names, help=help, rich_help_panel=panel, metavar=metavar)


def _checked_jobs(n_jobs: int) -> int:
    return RunConfig(n_jobs=n_jobs).n_jobs


def _column_option(what: str, of_edges: bool = False) -> Any:
    types = "TYPE:TYPE=" if of_edges else "TYPE="
    help = f"Column of {what}, by name or, without a header, by number. With node types: {types}NAME, repeated."
    return _option(help=help, panel=COLUMNS, metavar=f"[{types}]NAME")


def _graph_option(help: str, metavar: str | None = None) -> Any:
    return _option(help=help, panel="Graph", metavar=metavar)


Listed = list[str] | None
DataDir = Annotated[Path | None, _option(help="Folder of dataset files; default: $GLACE_DATA, or the user's cache.")]
Header = Annotated[
    bool | None,
    _option(
        "--header/--no-header",
        help="Whether the first row of text files holds column names; by default as it looks.",
        panel=COLUMNS,
    ),
]
Separator = Annotated[
    str | None,
    _option(
        help="What separates the cells of text files: a character, or comma, tab, semicolon, pipe or space; by default "
        "as the file looks.",
        panel=COLUMNS,
    ),
]
Encoding = Annotated[
    str | None,
    _option(
        help="Encoding of text files, such as latin-1; by default UTF-8, or UTF-16 if they show it.", panel=COLUMNS
    ),
]
Json = Annotated[Path | None, _option("--json", help="Also write the results to this file, as JSON.", panel="Output")]
Format = Annotated[
    str | None,
    _option(
        "--format",
        help="How to print the answer: table, tsv, csv or json. By default a table on a terminal and tsv for another "
        "program, with all rows and columns.",
        panel="Output",
    ),
]
Show = Annotated[
    Listed,
    _option(
        "--show",
        help="A text column of the node table to show beside ids, such as title. May be repeated.",
        panel="Output",
    ),
]
Quiet = Annotated[bool, _option("--quiet", "-q", help="Print only errors.", panel="Output")]
NJobs = Annotated[int, Option(help="Number of threads; -1 stands for all cores.", callback=_checked_jobs)]
K = Annotated[int, _option("-k", help="Number of answers.")]
MissingEdgeFraction = Annotated[
    float | None,
    _option(
        help="The fraction of all edges that the graph is assumed to lack, which probabilities depend on; by default "
        "the fraction held out for validation."
    ),
]
ModelFile = Annotated[Path, Argument(metavar="MODEL", help="A model file written by `glace fit`.")]
AnyEmbedding = Annotated[Path, Argument(metavar="MODEL", help="A model file, or an embedding (.parquet .arrow .npz).")]
ModelOutput = Annotated[Path, _option("--output", "-o", help="The model file to write.")]
EmbeddingOutput = Annotated[Path, _option("--output", "-o", help="File to write: .parquet, .arrow, .npz or .csv.")]
TableOutput = Annotated[Path | None, _option("--output", "-o", help="Write all results to this .csv or .parquet file.")]
MethodOptions = Annotated[Listed, _option(help="An option of the method. May be repeated.", metavar="NAME=VALUE")]
IdColumn = Annotated[str | None, _option(help="Column of the ids.", panel=COLUMNS, metavar="NAME")]
TextColumn = Annotated[str | None, _option(help="Column of the texts.", panel=COLUMNS, metavar="NAME")]
LabelColumn = Annotated[str | None, _option(help="Column of labels, which is ignored.", panel=COLUMNS, metavar="NAME")]
SourceColumn = Annotated[str | None, _option(help="Column of the sources of pairs.", panel=COLUMNS, metavar="NAME")]
TargetColumn = Annotated[str | None, _option(help="Column of the targets of pairs.", panel=COLUMNS, metavar="NAME")]


@dataclass(frozen=True)
class GraphSource:
    """The graph that a command line names; each field is an option."""

    graph: Annotated[
        str | None,
        Argument(metavar="GRAPH", help="A dataset's name, an .npz file, a graph folder, or a table of edges."),
    ] = None
    edges: Annotated[
        Listed,
        _graph_option(
            "Table of edges: source, target and, optionally, weight; or a folder of .parquet files. Between node "
            "types: word:synset=FILE. May be repeated.",
            "[TYPE:TYPE=]FILE",
        ),
    ] = None
    attributes: Annotated[
        Listed,
        _graph_option(
            "Table of attributes: id, then numbers (.csv .tsv .parquet .svmlight), or see --column; or a folder of "
            ".parquet files. For several node types, repeat it as TYPE=FILE.",
            "[TYPE=]FILE",
        ),
    ] = None
    column: Annotated[
        Listed,
        _graph_option(
            "Kind of an attribute column: number, category, text, sentence:MODEL or drop. May be repeated.",
            "[TYPE:]NAME=KIND",
        ),
    ] = None
    texts: Annotated[Listed, _graph_option("Table of texts instead of attributes: id, text.", "[TYPE=]FILE")] = None
    directed: Annotated[bool, _option("--directed", help="Edges have a direction.", panel="Graph")] = False
    nodes_without_attributes: Annotated[
        str, _graph_option("Nodes that edges name but no row describes: an `error`, or nodes with `empty` attributes.")
    ] = "error"
    source_column: Annotated[Listed, _column_option("the sources of edges", of_edges=True)] = None
    target_column: Annotated[Listed, _column_option("the targets of edges", of_edges=True)] = None
    weight_column: Annotated[Listed, _column_option("the weights of edges", of_edges=True)] = None
    id_column: Annotated[Listed, _column_option("the ids of nodes")] = None
    text_column: Annotated[Listed, _column_option("the texts of nodes")] = None
    label_column: Annotated[Listed, _column_option("the labels of nodes, which training does not use")] = None
    separator: Separator = None
    encoding: Encoding = None
    header: Header = None
    data_dir: DataDir = None

    @property
    def name(self) -> str:
        """A short name of the graph for messages and records."""
        return str(self.graph or ", ".join(self.edges or []))

    def files(self) -> list[str | Path | None]:
        """The input files, which no output may replace."""
        listed = [*(self.edges or []), *(self.attributes or []), *(self.texts or [])]
        return [self.graph, *(_typed(each)[1] for each in listed)]

    def check_files(self) -> None:
        """Raise at once if a file of a table is not there, before anything slow is imported."""
        from glace.storage.files import existing

        named = {"edges": self.edges, "attributes": self.attributes, "texts": self.texts}
        for role, listed in named.items():
            _by_type(listed, f"--{role}")  # raises if files are given in a way that means nothing
            for path in (_typed(each)[1] for each in listed or []):
                if not path.is_dir():
                    existing(path, f"a file of {role}")
        suffix = Path(self.graph or "").suffix.lower()
        is_file = suffix in (".npz", ".csv", ".tsv", ".txt", ".parquet") and not Path(self.graph or "").is_dir()
        if self.graph is not None and is_file:
            existing(self.graph, "a graph in an .npz file" if suffix == ".npz" else "a file of edges")

    def load(self, pipeline: Any = None) -> "Graph":
        """Read the graph; raise if an option does not apply to it.

        `pipeline` is the feature pipeline of a model, or a dict of pipelines by node type, to apply instead of learning
        one.
        """
        from glace import datasets
        from glace.io.read import read_graph, read_tables

        tables = self._tables()
        if tables is not None:
            edges, attributes, texts = tables
            columns = self._column_kinds(isinstance(attributes, dict))
            if isinstance(pipeline, dict):
                pipeline = {name: each for name, each in pipeline.items() if name in (attributes or {})}
            applied = pipeline if self.attributes else None
            return read_tables(edges, attributes, texts=texts, columns=columns, pipeline=applied, **self._reading())
        if self._dataset in datasets.names():
            return datasets.load(self._dataset, directed=self.directed, data_dir=self.data_dir)
        assert self.graph is not None
        if not Path(self.graph).suffix and not Path(self.graph).exists():
            raise InputError(f"no dataset or file {self.graph!r}; datasets: {', '.join(datasets.names())}")
        return read_graph(self.graph, directed=self.directed)

    def write(self, path: Path, progress: Callable[[str, float], None]) -> "Graph":
        """Write the graph to a graph folder: numeric tables are streamed, other graphs are loaded first."""
        from glace.io.by_type import are_typed
        from glace.io.convert import convert_tables
        from glace.io.folder import read_folder, write_folder
        from glace.io.read import holds_numbers_only

        tables = self._tables()
        if tables is not None and not (self.texts or self.column or are_typed(*tables)):
            edges, attributes, _ = tables
            if attributes is None or holds_numbers_only(attributes, self.layout()):
                return convert_tables(edges, path, attributes, progress=progress, **self._reading())
        write_folder(self.load(), path)
        return read_folder(path)

    def _reading(self) -> dict[str, Any]:
        """Options of reading tables."""
        return {
            "directed": self.directed,
            "nodes_without_attributes": self.nodes_without_attributes,
            "layout": self.layout(),
        }

    def layout(self) -> "TableLayout":
        """The names of columns, the separator, the encoding and the header that are given."""
        from glace.features.layout import COLUMN_OPTIONS, TableLayout

        columns = {name: _column_by_type(getattr(self, name), name) for name in COLUMN_OPTIONS}
        return TableLayout(**columns, separator=self.separator, encoding=self.encoding, header=self.header)

    def _column_kinds(self, typed: bool) -> dict[str, Any] | None:
        """The kinds of columns given by --column; by node type if the tables are."""
        from glace.features.pipeline import parsed_columns

        if not self.column:
            return None
        if not typed:
            return parsed_columns(self.column)
        found: dict[str, list[str]] = {}
        for each in self.column:
            name, colon, rest = each.partition(":")
            if not colon or "=" in name:
                raise InputError(f"give the kind of a column of a node type as TYPE:NAME=KIND, not {each!r}")
            found.setdefault(name, []).append(rest)
        return {name: parsed_columns(listed) for name, listed in found.items()}

    @property
    def _dataset(self) -> str:
        return (self.graph or "").replace("_", "-")

    def _tables(self) -> tuple[Any, Any, Any] | None:
        """Edges, attributes and texts, if the graph is given by tables; raise if an option does not apply to the graph.

        Each is one path, None, or a dict of paths by node type.
        """
        from glace import datasets
        from glace.io.folder import holds_tables
        from glace.io.table_file import TABLES

        if (self.graph is None) == (not self.edges):
            given = "nothing" if self.graph is None else f"both {self.graph} and --edges {', '.join(self.edges or [])}"
            raise InputError(f"name one graph: a dataset, a file, or --edges FILE, not {given}")
        is_table = self.graph is None or self.graph.lower().endswith(TABLES) or holds_tables(self.graph)
        self._check_applicable(is_table, is_dataset=not is_table and self._dataset in datasets.names())
        if not is_table:
            return None
        edges = _by_type(self.edges or [str(self.graph)], "--edges")
        return edges, _by_type(self.attributes, "--attributes"), _by_type(self.texts, "--texts")

    def _check_applicable(self, is_table: bool, is_dataset: bool) -> None:
        described = bool(self.attributes or self.texts)
        broken = {
            "--attributes and --texts apply to a table of edges": described and not is_table,
            "--column applies to --attributes": bool(self.column) and not self.attributes,
            "--nodes-without-attributes applies to --attributes or --texts": self.nodes_without_attributes != "error"
            and not described,
            "--data-dir applies to named datasets": self.data_dir is not None and not is_dataset,
            "--header and --no-header apply to text files": self.header is not None and not is_table,
            "--separator and --encoding apply to text files": bool(self.separator or self.encoding) and not is_table,
            "--source-column, --target-column and --weight-column apply to a table of edges": not is_table
            and bool(self.source_column or self.target_column or self.weight_column),
            "--id-column and --label-column apply to --attributes or --texts": not described
            and bool(self.id_column or self.label_column),
            "--text-column applies to --texts": bool(self.text_column) and not self.texts,
        }
        for rule in (rule for rule, is_broken in broken.items() if is_broken):
            raise InputError(f"{rule}; leave it out")


def _typed(text: str) -> tuple[str, Path]:
    """Split TYPE=FILE; the type is "" if there is none."""
    name, equals, path = text.partition("=")
    if equals and name and path and not Path(text).exists():
        return name, Path(path)
    return "", Path(text)


def _by_type(listed: Sequence[str] | None, option: str) -> Any:
    """One path, None, or paths by node type."""
    listed = listed or []
    found = [_typed(each) for each in listed]
    if not found or (len(found) == 1 and found[0][0] == ""):
        return found[0][1] if found else None
    names = [name for name, _ in found]
    if "" in names:
        raise InputError(f"{option} {listed[names.index('')]}: give several files as TYPE=FILE, with their node types")
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise InputError(f"{option} is given twice for {repeated[0]}; join the files")
    return dict(found)


def _column_by_type(listed: Sequence[str] | None, name: str) -> "str | dict[str, str] | None":
    """The name of a column; by node type, or types of edges, if it is given as TYPE=NAME."""
    if not listed:
        return None
    if len(listed) == 1 and "=" not in listed[0]:
        return listed[0]
    pairs = [each.partition("=") for each in listed]
    bad = next((each for each, (types, equals, _) in zip(listed, pairs, strict=True) if not (types and equals)), None)
    if bad is not None:
        raise InputError(f"is given several times; give each as TYPE=NAME, not {bad!r}", option=name)
    return {types: column for types, _, column in pairs}


class TrainingOptions(dict[str, Any]):
    """The training options that were given, by name; for the others, each method has its own defaults."""

    def __init__(self, **options: object) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        super().__init__({name: number_or_word(v) if isinstance(v, str) else v for name, v in given.items()})


def _training_option(each: "Field[object]", stage: type[HasFields]) -> inspect.Parameter:
    limits = limits_of(stage)[each.name]
    choices = f" ({', '.join(limits.choices)}{'' if limits.kind is str else ', or a number'})" if limits.choices else ""
    shown = Option(
        help=limits.help + choices,
        rich_help_panel=stage.__name__.removesuffix("Config"),
        show_default=False if each.default in (None, MISSING) else str(each.default),
    )
    kind: Any = str if limits.choices else limits.kind
    annotation = Annotated[kind | None, shown]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _source_options() -> list[inspect.Parameter]:
    hints = get_type_hints(GraphSource, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(GraphSource)
    ]


OPTION_GROUPS: Mapping[object, Sequence[inspect.Parameter]] = {
    GraphSource: _source_options(),
    TrainingOptions: [_training_option(each, stage) for stage in STAGES for each in fields(stage)],
}
"""A command with a parameter of one of these types has these options instead, and receives an object made of them."""


def named_options(given: Sequence[str] | None) -> dict[str, Any]:
    """Parse options given as NAME=VALUE; numbers, true and false become such values."""
    options: dict[str, Any] = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InputError(f"give an option of a method as NAME=VALUE, not {each!r}")
        truth = {"true": True, "false": False}.get(value.lower())
        options[name.replace("-", "_")] = number_or_word(value) if truth is None else truth
    return options
