"""FittedModel: everything that training produces, as one immutable value, the questions it answers, and its file.

Nothing in a file is executed: it holds arrays and JSON.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glace.config.config import Config, method_named
from glace.errors import FormatError, GlaceError, InputError
from glace.features.pipeline import FeaturePipeline
from glace.fitted.graphs import embed_graph
from glace.fitted.new_nodes import NewAttributes, NewNodes, check_has_attributes, find_type, new_nodes
from glace.fitted.state import History, NetworkState, Selection, embed_all, standardized
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.gaussian.embedding_file import READABLE, from_matrices, platt_scaling_from, read_embedding, write_embedding
from glace.gaussian.search import Positions
from glace.gaussian.tables import Column, Neighbors
from glace.graph import codec
from glace.graph.graph import Graph, GraphFolder, NodeType
from glace.graph.split import HeldOut
from glace.ids import NodeId, NodeIds
from glace.kernels.compile import kernel_threads
from glace.metrics import Calibration
from glace.queries.certainty import CertaintyModel, NodeFeatures
from glace.queries.clusters import Clusters, clusters
from glace.queries.link_model import LinkModel, missing_edges
from glace.queries.links import LinkOptions, Links, links
from glace.queries.neighbors import neighbors
from glace.queries.new_links import links_of_new_nodes
from glace.queries.new_pairs import new_pair_scores, positions_of
from glace.queries.novelty import Novelty, NoveltyModel
from glace.queries.pair_scores import PairScores, pair_scores_at
from glace.storage import container
from glace.storage.container import Arrays
from glace.storage.files import sha256_of
from glace.values import are_counted

if TYPE_CHECKING:
    from glace.fitted.state import EncoderModules
    from glace.model.network import Network

KIND, VERSION = "glace-model", 7
LARGE = 1 << 29
"""Size in bytes above which Gaussians are stored beside the model file, and edges of a graph on disk are not kept."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained model: immutable and complete. `glace.train`, `glace.update` and `glace.load` create one.

    Parameters
    ----------
    method : str
        Name of the method: `glace`, `glace-published`, `lace`, `lace-published` or `line`.
    config : Config
        The configuration of the training, with the selected options in place of `auto`.
    selection : Selection
        The options that were selected by trials, and the trials.
    node_types : tuple of NodeType
        The attribute schema of each node type, without rows. A graph without node types has one type, named "".
    directed : bool
        Whether the training graph was directed.
    embedding : Embedding
        The Gaussians of the training nodes, in the order of the graph.
    graph : Graph or None
        Edges, labels and node types of the training graph, without attributes. None if the graph was on disk and its
        edges are too large to keep.
    graph_folder : GraphFolder or None
        Where the edges are, if `graph` is None and the graph was read from a folder.
    validation : HeldOut or None
        The validation pairs, as positions of nodes; None if no edges were held out.
    history : History
        Validation results and training time.
    calibration : Calibration or None
        How reliable the probabilities are on the validation pairs; None without them.
    link_model : LinkModel or None
        Ranks missing edges; None if the method has none, or if it ranks validation edges no better than the Gaussians.
    certainty_model : CertaintyModel
        Knows how often answers about nodes are wrong.
    novelty_models : tuple of NoveltyModel or None
        For each node type the statistics that novelty is computed from; None for a type without attributes.
    state : NetworkState
        The weights of the network. `network` builds the torch modules from it on first use.

    Examples
    --------
    >>> import glace
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> fitted = glace.train(graph, {"dim": 8, "hidden": 32, "max_steps": 50})
    >>> fitted
    FittedModel(glace, 200 Gaussians of 8 dimensions, symmetric_kl)
    >>> fitted.transform(graph.attributes[:2]).mean.shape
    (2, 8)
    >>> fitted.neighbors(0, k=3)
    Neighbors(3 rows: ...)
    >>> fitted.links(k=3)
    Links(3 rows: source, target, probability, dissimilarity, certainty)
    """

    method: str
    config: Config
    selection: Selection
    node_types: tuple[NodeType, ...]
    directed: bool
    embedding: Embedding
    graph: Graph | None
    graph_folder: GraphFolder | None
    validation: HeldOut | None
    history: History
    calibration: Calibration | None
    link_model: LinkModel | None
    certainty_model: CertaintyModel
    novelty_models: tuple[NoveltyModel | None, ...]
    state: NetworkState

    def __repr__(self) -> str:
        kind = "points" if self.embedding.variance is None else "Gaussians"
        size = f"{len(self.embedding):,} {kind} of {self.embedding.mean.shape[1]} dimensions"
        return f"FittedModel({self.method}, {size}, {self.embedding.dissimilarity})"

    @property
    def network(self) -> "Network":
        """The trained network; built on first use, which imports torch."""
        return self.state.network

    @property
    def pipeline(self) -> FeaturePipeline | None:
        """How table columns become attributes; None if they came as a matrix, or if there are several node types."""
        return self.node_types[0].pipeline if len(self.node_types) == 1 else None

    @property
    def n_features(self) -> int | None:
        """Number of attributes; None without attributes, or if there are several node types."""
        return self.node_types[0].width if len(self.node_types) == 1 else None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the attributes; None if they have none, or if there are several node types."""
        return self.node_types[0].feature_names if len(self.node_types) == 1 else None

    @property
    def has_novelty(self) -> bool:
        """Whether novelty is defined: whether nodes of some type have attributes."""
        return any(model is not None for model in self.novelty_models)

    def node_type(self, name: str | None = None) -> NodeType:
        """Return the attribute schema of a node type.

        Parameters
        ----------
        name : str, optional
            Name of the type; required if there are several.

        Returns
        -------
        NodeType
            The schema, without rows.
        """
        return find_type(self.node_types, name)[1]

    def transform(
        self,
        attributes: NewAttributes | Graph,
        ids: Sequence[NodeId] | None = None,
        node_type: str | None = None,
        n_jobs: int | None = None,
    ) -> Embedding:
        """Compute the Gaussians of new nodes from their attributes.

        Parameters
        ----------
        attributes : array, sparse matrix, data frame, sequence of str, NodeAttributes or Graph
            One row per new node. A matrix has the columns of the training graph. Columns of a data frame are matched
            by name, and its column `id` gives the ids. Texts need a model that was trained on texts. The nodes of a
            graph that the model knows, by their ids, keep their Gaussians.
        ids : sequence of int or str, optional
            Ids of the new nodes; 0, 1, ... by default.
        node_type : str, optional
            Type of the nodes; required if the model has several node types.
        n_jobs : int, optional
            Number of threads; that of the training by default.

        Returns
        -------
        Embedding
            One Gaussian per row, with its certainty and whether it is unlike the training graph.

        Raises
        ------
        InputError
            If the attributes do not match those of the training graph.
        """
        if isinstance(attributes, Graph):
            return embed_graph(self, attributes, n_jobs)
        return self.transform_with_novelty(attributes, ids, node_type, n_jobs)[0]

    def transform_with_novelty(
        self,
        attributes: NewAttributes,
        ids: Sequence[NodeId] | None = None,
        node_type: str | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Embedding, Novelty | None]:
        """Compute the Gaussians of new nodes, and how unlike the training nodes they are.

        A row has the same bits in every batch of rows, and with every number of threads.

        Parameters
        ----------
        attributes, ids, node_type, n_jobs
            As for `transform`.

        Returns
        -------
        embedding : Embedding
            The result of `transform`.
        novelty : Novelty or None
            The result of `novelty`; None if no nodes of the training graph have attributes.
        """
        from glace.model.network import using_threads

        new = new_nodes(attributes, self.node_types, node_type)
        names = new.ids if ids is None else NodeIds(ids)
        if len(names) != new.count:
            raise InputError(f"{len(names):,} ids for {new.count:,} rows of attributes; give one id per row")
        with using_threads(self._threads(n_jobs), self.config.model.has_layers()):
            own, context = embed_all(self.network, new.inputs(self.network), np.empty)
            novelty = self._novelty(new, own) if self.has_novelty else None
        errors = self.certainty_model.expected_errors_of_new(own, new.attributes.nonzeros(slice(None)))
        embedding = replace(
            self.embedding,
            ids=names,
            mean=own.mean,
            variance=own.variance,
            context=context,
            expected_error=errors,
            certainty=self.certainty_model.certainty(errors),
            novel=None if novelty is None else novelty.is_high(),
        )
        return embedding, novelty

    def _novelty(self, new: NewNodes, own: Gaussian) -> Novelty:
        """Return the novelty of new nodes with these Gaussians; 1 for a type that no training node has."""
        codes, rows = new.attributes.locate(np.arange(new.count))
        found = Novelty(np.zeros(new.count), np.ones(new.count))
        for code, model in enumerate(self.novelty_models):
            here = np.flatnonzero(codes == code)
            if model is None or not len(here):
                continue
            matrix = new.matrix(code)
            scaled = standardized(self.network, code, matrix)
            part = model.novelty(matrix, scaled, own[here], self.certainty_model.center)
            found.unseen[here], found.rank[here] = part.unseen[rows[here]], part.rank[rows[here]]
        return found if new.unseen is None else found._replace(unseen=new.unseen)

    def novelty(self, attributes: NewAttributes, node_type: str | None = None, n_jobs: int | None = None) -> Novelty:
        """Compute how unlike the training nodes new nodes are.

        Parameters
        ----------
        attributes : array, sparse matrix, data frame or sequence of str
            One row per new node, as for `transform`.
        node_type : str, optional
            Type of the nodes; required if the model has several node types.
        n_jobs : int, optional
            Number of threads; that of the training by default.

        Returns
        -------
        Novelty
            The fraction of unseen attributes and the novelty rank of each node.
        """
        code, schema = find_type(self.node_types, node_type)
        check_has_attributes(schema)
        if self.novelty_models[code] is None:
            raise InputError(f"no training node is of type {schema.name!r}, so the novelty of new ones is unknown")
        novelty = self.transform_with_novelty(attributes, None, node_type, n_jobs)[1]
        assert novelty is not None, "a type has a novelty model"
        return novelty

    def neighbors(
        self,
        node: NodeId | Sequence[NodeId] | Embedding,
        k: int = 10,
        *,
        dissimilarity: str | None = None,
        exclude_known: bool = False,
        label: str | None = None,
        node_type: str | None = None,
        min_certainty: float = 0.0,
        why: bool = False,
    ) -> Neighbors:
        """Find the nodes that are most like a node: those of the smallest dissimilarity, by exact search.

        Two nodes that are alike need not have an edge; use `links` to find missing edges.

        Parameters
        ----------
        node : int, str, sequence of these, or Embedding
            Ids of known nodes, or new nodes that `transform` embedded.
        k : int
            Number of neighbours.
        dissimilarity : str, optional
            Dissimilarity to rank by; that of the training by default.
        exclude_known : bool
            Leave out nodes that the node already has an edge to.
        label : str, optional
            Return only nodes with this label.
        node_type : str, optional
            Return only nodes of this type.
        min_certainty : float
            Return only nodes of at least this certainty, 0 to 1.
        why : bool
            Add a column that says what makes answers about a node uncertain.

        Returns
        -------
        Neighbors
            Columns such as `id` and `dissimilarity`, nearest first; `to_pandas()` makes a data frame.
        """
        found = neighbors(
            self.embedding,
            self.graph,
            node,
            k,
            dissimilarity=dissimilarity,
            exclude_known=exclude_known,
            label=label,
            node_type=node_type,
            min_certainty=min_certainty,
        )
        return replace(found, doubt=np.array(self._doubts(found.position), dtype=object)) if why else found

    def doubts(self, nodes: Sequence[NodeId]) -> list[str]:
        """Say what makes answers about nodes uncertain.

        Parameters
        ----------
        nodes : sequence of ids
            Known nodes.

        Returns
        -------
        list of str
            For each node what is worse than for most, such as "1 edge; its own edges are hard to predict", or "".
        """
        return self._doubts(self.embedding.ids.positions(list(nodes)))

    def _doubts(self, positions: Positions) -> list[str]:
        if self.graph is None or not len(positions):
            return [""] * len(positions)
        features = NodeFeatures(self.embedding, self.graph, self.certainty_model.center)
        nodes, where = np.unique(positions, return_inverse=True)
        found = self.certainty_model.doubts(features, nodes)
        return [found[each] for each in where.tolist()]

    def _pair_doubts(self, source: Column, target: Column) -> Column:
        """Return the doubts about both ends of pairs of ids, as "name: doubt | name: doubt"."""
        ends = [zip(ids, self.doubts(ids), strict=True) for ids in (source.tolist(), target.tolist())]
        named = [[f"{node}: {doubt}" if doubt else "" for node, doubt in end] for end in ends]
        return np.array([" | ".join(filter(None, pair)) for pair in zip(*named, strict=True)], dtype=object)

    def score_pairs(
        self,
        pairs: Sequence[tuple[NodeId, NodeId]],
        new: NewAttributes | Embedding | None = None,
        *,
        missing_edge_fraction: float | None = None,
        why: bool = False,
    ) -> PairScores:
        """Compute the dissimilarity and the probability of an edge for pairs of nodes, known or new.

        Parameters
        ----------
        pairs : sequence of (source, target)
            Ids of the nodes.
        new : array, sparse matrix, data frame, sequence of str, or Embedding, optional
            New nodes that pairs may name: rows as for `transform`, such as a data frame with a column `id`, or what
            `transform` returned. Rows without ids are called 0, 1, ...
        missing_edge_fraction : float, optional
            As for `links`.
        why : bool
            Add a column that says what makes answers about the two nodes uncertain; only without new nodes.

        Returns
        -------
        PairScores
            One row per pair. The probability is that of `links`: of an edge that the graph lacks. If the graph has the
            edge, it is computed as if it had not.
        """
        if new is None:
            positions = self.embedding.positions_of(pairs)
            return self.score_positions(positions, missing_edge_fraction=missing_edge_fraction, why=why)
        added = new if isinstance(new, Embedding) else self.transform(new)
        positions = positions_of(pairs, self.embedding.ids, added.ids)
        return self.score_positions(positions, added, missing_edge_fraction=missing_edge_fraction, why=why)

    def score_positions(
        self,
        pairs: Positions,
        new: Embedding | None = None,
        *,
        missing_edge_fraction: float | None = None,
        why: bool = False,
    ) -> PairScores:
        """Do the same as `score_pairs` for pairs (P, 2) of positions instead of ids.

        Parameters
        ----------
        pairs : ndarray of int, shape (P, 2)
            Positions of source and target; those of new nodes follow those of the known ones.
        new : Embedding, optional
            New nodes that pairs may name.
        missing_edge_fraction : float, optional
            As for `links`.
        why : bool
            As for `score_pairs`.

        Returns
        -------
        PairScores
            One row per pair.
        """
        if why and new is not None:
            raise InputError("does not apply to new nodes, which have no edges; leave it out", option="why")
        with kernel_threads(self.config.run.n_jobs):
            fraction = self._missing_edge_fraction(missing_edge_fraction)
            if new is not None:
                return new_pair_scores(self.embedding, new, pairs, self.graph, self.link_model, fraction)
            found = pair_scores_at(self.embedding, pairs, self.graph, self.link_model, fraction)
        return replace(found, doubt=self._pair_doubts(found.source, found.target)) if why else found

    def links(
        self,
        node: NodeId | Embedding | None = None,
        k: int = 100,
        *,
        node_type: str | None = None,
        by: str = "model",
        missing_edge_fraction: float | None = None,
        expected_precision: float | None = None,
        coverage: float | None = None,
        why: bool = False,
        known: Graph | None = None,
        approximate: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> Links:
        """Find the most probable edges that the graph does not have.

        This is not the same question as `neighbors`: two nodes can be alike without an edge. Links are ranked by the
        link model: by the Gaussians, by the degrees of both nodes, and by short paths between them. Pairs of node types
        that no edge connects are left out. In a directed graph, the link model never proposes the reverse of a known
        edge: validation holds out both directions together, so it cannot learn about reverses. The Gaussians alone,
        with a measure that has a direction, do propose it.

        Parameters
        ----------
        node : int, str or Embedding, optional
            Return only edges from this node; by default edges of the whole graph. For new nodes that `transform`
            embedded, k edges of each: see `links_of_new_nodes`.
        k : int
            Number of edges.
        node_type : str, optional
            With `node`, return only edges to nodes of this type; otherwise only edges with an end of this type.
        by : {"model", "gaussian"}
            Rank by the link model, or by the dissimilarity of the Gaussians alone.
        missing_edge_fraction : float, optional
            The fraction of all edges that the graph is assumed to lack. Probabilities hold for this assumption; by
            default the fraction that was held out for validation.
        expected_precision : float, optional
            Cut the list where the share of edges that is expected in it falls below this; k is then the largest length.
        coverage : float, optional
            With `node`, return as many candidates as hold the other end of a missing edge with this probability, in
            place of k. It is the probability for a random missing edge of the whole graph, not for each node.
        why : bool
            Add columns that say what speaks for each edge, and what makes answers about its ends uncertain.
        known : Graph, optional
            The existing edges, for a model that does not keep them; its nodes must be the model's, in the same order.
        approximate : bool
            Search Gaussians with an approximate index (faiss) instead of exactly; only by `gaussian`.
        progress : callable, optional
            Called with the completed fraction of the search, 0 to 1.

        Returns
        -------
        Links
            Columns `source`, `target`, `probability`, `dissimilarity` and others, most probable first; `to_pandas()`
            makes a data frame.
        """
        if by not in ("model", "gaussian"):
            raise InputError(f"must be 'model' or 'gaussian', not {by!r}", option="by")
        if isinstance(node, Embedding):
            given = {
                "missing_edge_fraction": missing_edge_fraction is not None,
                "expected_precision": expected_precision is not None,
                "coverage": coverage is not None,
                "why": why,
                "approximate": approximate,
            }
            refused = next((option for option, is_given in given.items() if is_given), None)
            if refused is not None:
                raise InputError("does not apply to new nodes, which have no edges; leave it out", option=refused)
            graph = self.graph if known is None else known
            if node_type is None and graph is not None and graph.node_types is not None:
                raise InputError(
                    f"must be given for new nodes: the type of the other ends, {', '.join(graph.node_types.names)}",
                    option="node_type",
                )
            among = None if graph is None or node_type is None else graph.has_type(node_type)
            return links_of_new_nodes(self.embedding, graph, node, k, among, popularity=by == "model")
        model = None if by == "gaussian" else self.link_model
        if approximate and model is not None:
            raise InputError(
                "does not apply to the link model, which needs no index; leave it out, or rank by 'gaussian'",
                option="approximate",
            )
        fraction = self._missing_edge_fraction(missing_edge_fraction)
        options = LinkOptions(fraction, why, approximate, expected_precision, coverage)
        graph = self.graph if known is None else known
        with kernel_threads(self.config.run.n_jobs):
            found = links(self.embedding, graph, model, options, node, k, node_type, progress)
        if not why:
            return found
        return replace(found, doubt=self._pair_doubts(found.source, found.target))

    def clusters(self, k: int | None = None, *, graph: Graph | None = None) -> Clusters:
        """Group the nodes by k-means of their Gaussians, and name each group by what distinguishes it.

        Parameters
        ----------
        k : int, optional
            Number of clusters. By default the fewest for which nearly as many edges stay inside clusters, beyond
            chance, as for any other number (modularity); without edges, the silhouette decides.
        graph : Graph, optional
            The training graph with its attributes, to name clusters by columns of numbers. A model keeps words and
            categories, but not numbers.

        Returns
        -------
        Clusters
            The largest first, with columns such as `name`, `size` and `examples`; `nodes()` is the cluster of each
            node.
        """
        described = self.graph if graph is None else graph
        if described is not None and described.ids != self.embedding.ids:
            raise InputError("must have the nodes of the model, in the same order", option="graph")
        return clusters(self.embedding, described, k, self.config.run.random_state)

    def _missing_edge_fraction(self, given: float | None) -> float:
        if given is not None:
            missing_edges(1, given)
            return given
        return self.missing_edge_fraction

    @property
    def missing_edge_fraction(self) -> float:
        """The fraction of edges that are assumed missing by default: what was held out for validation, else 5 %."""
        if self.validation is None or self.graph is None:
            return 0.05
        return min(max(len(self.validation.edges) / max(self.graph.num_edges, 1), 1e-6), 0.5)

    def save(self, path: str | Path, embedding: str = "auto") -> None:
        """Write the model to one file; the same model gives the same bytes.

        Parameters
        ----------
        path : str or Path
            The file to write, such as `model.glace`.
        embedding : {"auto", "inside", "beside"}
            Store the Gaussians inside the file or in a second file beside it, which is then mapped into memory.
            `auto` puts them beside if they take more than half a gigabyte.
        """
        check_model_name(path)
        if embedding not in ("auto", "inside", "beside"):
            raise InputError(f"must be 'auto', 'inside' or 'beside', not {embedding!r}", option="embedding")
        metadata, arrays = _encode(self)
        size = sum(matrix.nbytes for matrix in self.embedding.matrices().values())
        digest = ""
        if embedding == "beside" or (embedding == "auto" and size > LARGE):
            metadata["embedding_sha256"] = digest = _write_sidecar(self.embedding, path)
        else:
            arrays |= _encode_embedding(self.embedding)
        container.write(path, KIND, VERSION, metadata, arrays)
        _remove_other_sidecars(path, digest)

    def _threads(self, n_jobs: int | None) -> int:
        return (self.config if n_jobs is None else self.config.replace(n_jobs=n_jobs)).run.n_jobs


def load(path: str | Path, encoder: "EncoderModules | None" = None) -> FittedModel:
    """Read a model file.

    Parameters
    ----------
    path : str or Path
        A file written by `FittedModel.save` or `glace fit`.
    encoder : torch.nn.Module or dict of them by node type, optional
        The custom encoder of a model that was trained with one, created as it was for training. The file holds its
        weights but not its code. It is needed only to embed new nodes and to update the model.

    Returns
    -------
    FittedModel
        The model that was saved. Its network is built on first use, so that questions about known nodes do not
        import torch.

    Raises
    ------
    FormatError
        If the file is damaged, is not a model file, or has another format version.

    Examples
    --------
    >>> import glace, tempfile, pathlib
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.glace"
    >>> glace.train(graph, {"dim": 8, "hidden": 32, "max_steps": 50}).save(path)
    >>> glace.load(path)
    FittedModel(glace, 200 Gaussians of 8 dimensions, symmetric_kl)
    """
    metadata, arrays = container.read(path, KIND, VERSION)
    with _usable(path):
        return _decode(metadata, arrays, _embedding(path, metadata, arrays), encoder, str(path))


def load_embedding(path: str | Path) -> Embedding:
    """Read the Gaussians of a model file or of an embedding file.

    Parameters
    ----------
    path : str or Path
        A model file, or an embedding written by `write_embedding` or `glace export` (.parquet, .arrow, .npz).

    Returns
    -------
    Embedding
        The Gaussians of the nodes.

    Raises
    ------
    FormatError
        If the file is damaged, is neither, or has another format version.

    Examples
    --------
    See `write_embedding`.
    """
    return load_any(path)[0]


def load_any(path: str | Path) -> tuple[Embedding, FittedModel | None]:
    """Read an embedding, or a model with its embedding."""
    if Path(path).suffix == ".csv":
        raise InputError(f"{path}: a .csv export is for other programs and cannot be read back; use .parquet")
    if Path(path).suffix in READABLE:
        return read_embedding(path), None
    fitted = load(path)
    return fitted.embedding, fitted


def check_model_name(path: str | Path) -> None:
    """Raise if the name of a model file would make it look like an embedding file."""
    if Path(path).suffix in READABLE:
        raise InputError(f"a model file cannot be named {path}: that ending is for `glace export`; use .glace")


@contextmanager
def _usable(path: str | Path) -> Iterator[None]:
    """Turn any problem with the contents into a FormatError that names the file."""
    try:
        yield
    except (GlaceError, KeyError, TypeError, ValueError, RuntimeError, IndexError) as problem:
        if isinstance(problem, FormatError) and str(path) in str(problem):
            raise
        raise FormatError(f"{path} is not a usable model file: {problem}") from problem


def _encode(fitted: FittedModel) -> tuple[dict[str, Any], Arrays]:
    """Return the metadata and the arrays of everything but the Gaussians."""
    from glace import __version__

    types, arrays = codec.encode_types(fitted.node_types, rows=False)
    metadata = {
        "glace_version": __version__,
        "method": fitted.method,
        "options": fitted.config.to_dict(),
        "selection": asdict(fitted.selection),
        "dissimilarity": fitted.embedding.dissimilarity,
        "directed": fitted.directed,
        "graph_folder": fitted.graph_folder,
        "node_types": types,
        # Without the training time: the same run must give the same bytes.
        "history": {**asdict(fitted.history), "seconds": 0.0},
        **fitted.embedding.platt_scaling._asdict(),
        "calibration": None if fitted.calibration is None else fitted.calibration.to_json(),
        "link_model": None if fitted.link_model is None else fitted.link_model.to_json(),
    }
    arrays |= _with_prefix("weights", fitted.state.weights)
    arrays |= _with_prefix("certainty", fitted.certainty_model.to_arrays())
    if fitted.link_model is not None:
        arrays |= _with_prefix("links", fitted.link_model.to_arrays())
    if fitted.graph is not None:
        metadata["graph"], edges = codec.encode(fitted.graph, ids=False)
        arrays |= _with_prefix("graph", edges)
    if fitted.validation is not None:
        arrays |= _with_prefix("validation", vars(fitted.validation))
    for code, novelty in enumerate(fitted.novelty_models):
        arrays |= {} if novelty is None else _with_prefix(f"novelty{code}", novelty.to_arrays())
    return metadata, arrays


def _decode(
    metadata: dict[str, Any], arrays: Arrays, embedding: Embedding, encoder: "EncoderModules | None", source: str
) -> FittedModel:
    """Return the model from the result of `_encode` and its Gaussians."""
    config = Config.of(metadata["options"])
    node_types = codec.decode_types(metadata["node_types"], arrays, rows=False)
    graph = None
    if "graph" in metadata:
        graph = codec.decode(metadata["graph"], _group("graph", arrays), ids=embedding.ids)
    weights = _group("weights", arrays)
    _check_finite(weights)
    calibration, weighted = metadata["calibration"], metadata["link_model"]
    return FittedModel(
        method=method_named(metadata["method"]).name,
        config=config,
        selection=Selection.from_json(metadata["selection"]),
        node_types=node_types,
        directed=bool(metadata["directed"]),
        embedding=embedding,
        graph=graph,
        graph_folder=metadata["graph_folder"] and GraphFolder(*metadata["graph_folder"]),
        validation=_decode_validation(len(embedding), _group("validation", arrays)),
        history=History.from_json(metadata["history"]),
        calibration=None if calibration is None else Calibration.from_json(calibration),
        link_model=None if weighted is None else LinkModel.from_parts(weighted, _group("links", arrays)),
        certainty_model=CertaintyModel.from_arrays(_group("certainty", arrays), embedding.mean.shape[1]),
        novelty_models=tuple(
            None if schema.width is None else _decode_novelty(_group(f"novelty{code}", arrays), schema)
            for code, schema in enumerate(node_types)
        ),
        state=NetworkState(weights, config, embedding.dissimilarity, node_types, encoder, source),
    )


def _with_prefix(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}/{key}": array for key, array in arrays.items()}


def _group(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays that were stored under this prefix."""
    return {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")}


def _check_finite(weights: Arrays) -> None:
    for name, array in weights.items():
        # Weights of a custom encoder are the user's: a mask may well be infinite.
        if ".module." not in name and not np.isfinite(array).all():
            raise FormatError(f"the weights {name} are not all finite")


def _decode_novelty(arrays: Arrays, schema: NodeType) -> NoveltyModel | None:
    counted = are_counted(schema.scaling, schema.sparse)
    # A type without nodes has attributes but nothing to learn from.
    return NoveltyModel.from_arrays(arrays, schema.width or 0, counted) if arrays else None


def _decode_validation(count: int, arrays: Arrays) -> HeldOut | None:
    if not arrays:
        return None
    validation = HeldOut(arrays["edges"], arrays["non_edges"])
    pairs = validation.pairs()
    if pairs.dtype != np.int64 or pairs.shape[1:] != (2,) or not ((pairs >= 0) & (pairs < count)).all():
        raise FormatError("the validation pairs are not pairs of nodes")
    return validation


def _encode_embedding(embedding: Embedding) -> Arrays:
    return codec.encode_ids(embedding.ids) | _with_prefix("embedding", embedding.matrices() | embedding.shares())


def _embedding(path: str | Path, metadata: dict[str, Any], arrays: Arrays) -> Embedding:
    """Return the Gaussians, from the model file or from the file beside it."""
    if "embedding_sha256" not in metadata:
        parts = _group("embedding", arrays)
        ids = codec.decode_ids(arrays, len(parts["mean"]))
        return from_matrices(ids, parts, metadata["dissimilarity"], platt_scaling_from(metadata))
    sidecar = sidecar_of(path, metadata["embedding_sha256"])
    if not sidecar.exists():
        raise FormatError(f"{path} needs the file {sidecar} beside it, which does not exist")
    if sha256_of(sidecar) != metadata["embedding_sha256"]:
        raise FormatError(f"{sidecar} is damaged or belongs to another model than {path}")
    return read_embedding(sidecar)


def sidecar_of(path: str | Path, digest: str) -> Path:
    """Return the name of the file beside a model that holds its Gaussians: it ends in part of their checksum.

    Because of the checksum, a new file never replaces one that an older model file still needs.
    """
    return Path(f"{path}.{digest[:12]}.arrow")


def _write_sidecar(embedding: Embedding, path: str | Path) -> str:
    temporary = Path(f"{path}.new.arrow")
    write_embedding(embedding, temporary)
    digest = sha256_of(temporary)
    temporary.replace(sidecar_of(path, digest))
    return digest


def _remove_other_sidecars(path: str | Path, digest: str) -> None:
    name = re.compile(re.escape(Path(path).name) + r"\.[0-9a-f]{12}\.arrow")
    for other in Path(path).parent.iterdir():
        if name.fullmatch(other.name) and other != sidecar_of(path, digest):
            other.unlink()
