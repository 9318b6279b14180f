"""The network: one encoder per role of a node, the offset of each proximity, the scale of attributes, and the loss."""

import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from glace.config.config import (
    BY_VALUES,
    MLP,
    CustomEncoder,
    EncoderSpec,
    Identity,
    Image,
    ModelConfig,
    canonical,
    parse_encoders,
)
from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Factor, Gaussian, concatenated, named, products
from glace.kernels import losses
from glace.kernels.compile import set_threads
from glace.model.inputs import (
    InputMask,
    InputRows,
    InputShape,
    InputType,
    Locate,
    NodeIndex,
    NodeInputs,
    TypeInputs,
    only_type,
)
from glace.model.layers import (
    AttributeScaling,
    GaussianHead,
    HiddenLayer,
    PointHead,
    check_module,
    column_weight,
    has_training_mode,
)
from glace.rng import Streams
from glace.sparse import Matrix
from glace.values import NONE, STANDARD

Weights = Mapping[str, npt.NDArray[np.generic]]
ENCODE_ROWS = 4096
"""Rows encoded at a time when all nodes are embedded: bounds memory, and bits do not depend on the number of nodes."""
TRIAL_ROWS = 4
"""Rows that a user's module is tried on."""
INITIAL_OFFSET = 4.0
"""Initial value of a learned offset for Gaussians: KL and Wasserstein are never negative, so that from 0 it takes long
to leave the floor of log 2 per edge. A dot product has both signs and starts at 0. See docs/concepts.md."""


class Encoder(nn.Module):
    """Attributes of a node to its Gaussian: hidden layer, activation, and a head on each part of the hidden numbers.

    The parts are an ensemble of encoders: they share nothing but the calls that compute them.
    """

    def __init__(self, hidden_layer: HiddenLayer, heads: list[nn.Module], widths: list[int], relu: bool) -> None:
        super().__init__()
        self.input, self.heads, self.widths, self.relu = hidden_layer, nn.ModuleList(heads), widths, relu

    def forward(self, inputs: InputRows, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the wanted input rows."""
        hidden = self.input(inputs, rows)
        parts = (torch.relu(hidden) if self.relu else hidden).split(self.widths, dim=1)
        gaussians = [head(part) for head, part in zip(self.heads, parts, strict=True)]
        return concatenated(gaussians)


class Network(nn.Module):
    """Encoders by role: `first`, and for second-order proximity `second` with its `context`.

    With `compiled`, CPU kernels replace what torch is slow at; without, torch computes everything, on any device.
    """

    def __init__(
        self,
        types: Sequence[InputType],
        config: ModelConfig,
        dissimilarity: str,
        streams: Streams,
        device: str = "cpu",
        compiled: bool = True,
    ) -> None:
        super().__init__()
        assert not config.open_options(), f"select {config.open_options()} first"
        self.types, self.config, self.measure = tuple(types), config, named(dissimilarity)
        self.neighbors = config.neighbor_features == "mean"
        self.device, self.compiled = torch.device(device), compiled
        self.gaussian = self.measure.needs_variance
        self.proximities = proximities(config)
        self.dims = divided(config.dim, config.ensemble_size)
        self.groups = equal_groups(self.dims)
        self.encoders = nn.ModuleDict({role: self._encoder(role, streams) for role in roles(config)})
        # Dropout and batch normalization need train() and eval().
        self.has_modes = any(has_training_mode(each.encoder) for each in self.types)
        learned = config.offset == "learned"
        start = (INITIAL_OFFSET if self.gaussian else 0.0) if learned else float(config.offset)
        self.offsets = nn.ParameterDict(
            {
                proximity: nn.Parameter(torch.full((config.ensemble_size,), start), requires_grad=learned)
                for proximity in self.proximities
            }
        )
        self.scales = nn.ModuleList(AttributeScaling(each.shape) for each in self.types)
        self.to(self.device)

    def _encoder(self, role: str, streams: Streams) -> Encoder:
        config, generator = self.config, streams.numpy(f"weights {role}")
        layer = HiddenLayer(list(self.types), config.hidden, generator, self.compiled, self.neighbors)
        widths = divided(config.hidden, config.ensemble_size)
        head = GaussianHead if self.gaussian else PointHead
        heads: list[nn.Module] = [head(*sizes, generator) for sizes in zip(widths, self.dims, strict=True)]
        return Encoder(layer, heads, widths, relu=config.activation == "relu")

    def column_weights(self) -> dict[str, int]:
        """Return the names of the weights with one row per attribute column, each with the index of its node type."""
        return column_weights(self.types, self.config)

    def standardize(self, matrices: Sequence[Matrix]) -> None:
        """Learn the scale of measured columns from the training nodes."""
        for each, scale, matrix in zip(self.types, self._scales(), matrices, strict=True):
            if matrix.shape[0]:
                scale.learn(matrix, shared=isinstance(each.encoder, Image))

    def inputs(
        self, matrices: Sequence[Matrix], adjacency: sp.csr_array | None, locate: Locate | None = None
    ) -> NodeInputs:
        """Return the inputs of nodes with these attributes, a matrix per type, and edges.

        `locate` maps nodes to type codes and rows; without it, node i is row i of the only matrix.
        """
        types = [self._type_inputs(code, matrix) for code, matrix in enumerate(matrices)]
        return NodeInputs(types, locate or only_type(0), adjacency, self.neighbors)

    def inputs_of(self, type_code: int, matrix: Matrix) -> NodeInputs:
        """Return the inputs of nodes of one type that have no edges."""
        matrices = [each.empty() for each in self.types]
        matrices[type_code] = matrix
        return self.inputs(matrices, None, only_type(type_code))

    def _scales(self) -> list[AttributeScaling]:
        return [scale for scale in self.scales if isinstance(scale, AttributeScaling)]

    def _type_inputs(self, type_code: int, matrix: Matrix) -> TypeInputs:
        return TypeInputs(self.types[type_code].shape, matrix, self._scales()[type_code].scaling())

    def scaled(self, type_code: int, matrix: Matrix) -> Matrix:
        """Return the attributes of nodes of a type as its encoder receives them."""
        return self._type_inputs(type_code, matrix).own(np.arange(matrix.shape[0]))

    def check_modules(self, matrices: Sequence[Matrix]) -> None:
        """Try every user's module on the first rows of its attributes, and raise `InputError` if one does not work."""
        for code, (each, matrix) in enumerate(zip(self.types, matrices, strict=True)):
            if each.module is not None:
                check_module(each.module, self.scaled(code, matrix[:TRIAL_ROWS]), self.config.hidden, each.title())

    def embed(
        self, inputs: NodeInputs, nodes: NodeIndex, mask: InputMask | None = None
    ) -> tuple[Gaussian, Gaussian | None]:
        """Return the NumPy Gaussians (R, proximities * dim) of nodes, and their context for second-order proximity.

        The Gaussians of several proximities are concatenated; first order is its own context.
        """
        blocks = [self._block(inputs, nodes[at : at + ENCODE_ROWS], mask) for at in range(0, len(nodes), ENCODE_ROWS)]
        by_role = {role: concatenated([block[role] for block in blocks], axis=0) for role in self.encoders}
        own = [by_role[proximity] for proximity in self.proximities]
        if "second" not in self.proximities:
            return concatenated(own), None
        return concatenated(own), concatenated([*own[:-1], by_role["context"]])

    def _block(self, inputs: NodeInputs, nodes: NodeIndex, mask: InputMask | None) -> dict[str, Gaussian]:
        rows, every = inputs.rows(nodes, mask), np.arange(len(nodes))
        if self.has_modes:
            self.eval()
        with torch.no_grad():
            return {role: _as_numpy(encoder(rows, every)) for role, encoder in self.encoders.items()}

    def offset(self) -> float:
        """Return b of the concatenated dissimilarity: the logits b - d of proximities and ensemble members add up."""
        return float(sum(float(offset.detach().sum()) for offset in self.offsets.values()))

    def weights(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return every weight by name; on the CPU the arrays share the network's memory."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value.cpu().numpy() for name, value in state.items()}

    def set_weights(self, weights: Weights) -> None:
        """Copy weights of the same names and shapes into the network."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})


class Group(NamedTuple):
    """Ensemble members with `dim` dimensions each, and the position of these among all dimensions."""

    members: slice
    dims: slice
    dim: int


def equal_groups(dims: list[int]) -> list[Group]:
    """Group the members of equal size, which can be computed together."""
    groups, member, begin = [], 0, 0
    for dim, equal in itertools.groupby(dims):
        count = len(list(equal))
        groups.append(Group(slice(member, member + count), slice(begin, begin + count * dim), dim))
        member, begin = member + count, begin + count * dim
    return groups


def divided(total: int, parts: int) -> list[int]:
    """Divide a number into parts that are as equal as possible."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def _as_numpy(gaussian: Gaussian) -> Gaussian:
    variance = None if gaussian.variance is None else gaussian.variance.cpu().numpy()
    return Gaussian(gaussian.mean.cpu().numpy(), variance)


def input_types(
    shapes: Mapping[str, InputShape], config: ModelConfig, modules: Mapping[str, nn.Module] | None = None
) -> list[InputType]:
    """Return the node types with these shapes, by name, each with its encoder; the only type of a graph is ""."""
    encoders = config.encoders()
    unknown = [name for name in encoders if name and name not in shapes]
    if unknown:
        known = ", ".join(repr(name) for name in shapes if name)
        present = f"the graph's types are {known}" if known else "no type of the graph has attributes of its own"
        raise InputError(f"there is an encoder for type {unknown[0]!r}, but {present}")
    if config.n_hashed_features is not None and not any(shape.sparse for shape in shapes.values()):
        raise InputError("n_hashed_features is for sparse attributes, but these are dense; leave it out")
    return [_input_type(name, shape, config, encoders, modules or {}) for name, shape in shapes.items()]


def _input_type(
    name: str,
    shape: InputShape,
    config: ModelConfig,
    encoders: Mapping[str, EncoderSpec],
    modules: Mapping[str, nn.Module],
) -> InputType:
    encoder = encoders.get(name, Identity() if shape.one_hot else encoders[""])
    if shape.one_hot and encoder == MLP():
        encoder = Identity()
    shape = _with_scaling(shape, config.scaling, encoder)
    # Hashing would scramble the pixels of an image, or whatever a user's module reads.
    if shape.sparse and column_weight(encoder):
        shape = shape._replace(hashed=config.n_hashed_features or 0)
    module = _module(name, encoder, modules) if isinstance(encoder, CustomEncoder) else None
    found = InputType(name, shape, encoder, module)
    if shape.one_hot and encoder != Identity():
        raise InputError(f"{found.title()} has nothing to encode, because the nodes have no attributes; leave it out")
    if isinstance(encoder, Image):
        encoder.check_width(shape.width, found.title())
    return found


def _with_scaling(shape: InputShape, wanted: str, encoder: EncoderSpec) -> InputShape:
    """Return the shape with the scaling that is used: the wanted one, or the one that the values call for."""
    if wanted == BY_VALUES:
        # All pixels of an image have one scale.
        wanted = STANDARD if isinstance(encoder, Image) else shape.scaling
    scaling = NONE if shape.one_hot else wanted
    return shape._replace(scaling=scaling, sparse=shape.sparse and scaling != STANDARD)


def _module(name: str, encoder: CustomEncoder, modules: Mapping[str, nn.Module]) -> nn.Module:
    found = modules.get(name, modules.get(""))
    if found is None:
        raise InputError(
            f"the encoder is your own module, {encoder.name}, whose code is not in the file; load the model in Python "
            f"and pass the module as it was for the fit: glace.load(path, encoder={encoder.name}(...))"
        )
    return found


def column_weights(types: Sequence[InputType], config: ModelConfig) -> dict[str, int]:
    """Return the names of the weights with one row per attribute column, each with the index of its node type."""
    found = {f"scales.{code}.{name}": code for code in range(len(types)) for name in ("shift", "scale")}
    for role in roles(config):
        for code, each in enumerate(types):
            layer = f"encoders.{role}.input.own.{code}"
            if own := column_weight(each.encoder):
                found[f"{layer}.{own}"] = code
            if config.neighbor_features == "mean":
                found[f"encoders.{role}.input.neighbors.{code}.weight"] = code
    return found


def proximities(config: ModelConfig) -> tuple[str, ...]:
    """Return the proximities that a network learns: `first`, `second`, or both."""
    return ("first", "second") if config.proximity == "both" else (config.proximity,)


def roles(config: ModelConfig) -> tuple[str, ...]:
    """Return the roles with an encoder of their own: one per proximity, and the `context` of the second-order one."""
    learned = proximities(config)
    return (*learned, "context") if "second" in learned else learned


Modules = dict[str, nn.Module]
"""The user's modules by node type; "" stands for all types that are not named."""
AnyEncoder = str | EncoderSpec | nn.Module | Mapping[str, str | EncoderSpec | nn.Module]
"""What users may pass as `encoder=`."""


def split_modules(encoder: AnyEncoder) -> tuple[str, Modules]:
    """Return the short notation of an encoder, with only the class names of modules, and the modules themselves."""
    by_type: Mapping[str, str | EncoderSpec | nn.Module]
    by_type = encoder if isinstance(encoder, Mapping) else {"": encoder}
    modules = {node_type: each for node_type, each in by_type.items() if isinstance(each, nn.Module)}
    named = {node_type: CustomEncoder(type(module).__name__) for node_type, module in modules.items()}
    text = canonical(encoder if isinstance(encoder, str) else {**by_type, **named})
    custom = {node_type for node_type, spec in parse_encoders(text).items() if isinstance(spec, CustomEncoder)}
    if custom - set(modules):
        raise InputError("a module cannot be given as text; pass the torch.nn.Module itself, in Python")
    return text, modules


def fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of a module's representation and of its initial weights."""
    digest = hashlib.sha256(repr(module).encode())
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Run the block with `count` threads, in torch and in the compiled kernels."""
    before = torch.get_num_threads()
    set_threads(count)
    torch.set_num_threads(count)  # after the kernels' pool, which shares OpenMP's thread count with torch
    try:
        yield
    finally:
        set_threads(1)
        torch.set_num_threads(before)


Allowed = npt.NDArray[np.bool_]
Penalty = Callable[[str, Gaussian], Tensor]
"""A penalty of a batch's anchors, given a proximity and their Gaussians (B, dim) in it."""


def batch_loss(
    network: Network,
    inputs: InputRows,
    anchors: NodeIndex,
    targets: NodeIndex,
    negatives: NodeIndex,
    allowed: Allowed,
    n_negatives: int,
    penalty: Penalty | None = None,
) -> Tensor:
    """Return the mean loss per edge, summed over proximities and ensemble members.

    Shapes are those of `glace.sampling.edges.Batch`; anchors, targets and negatives are rows of `inputs`. `penalty` is
    called with a proximity and the anchors' Gaussians, and its result is added.
    """
    terms = []
    for proximity in network.proximities:
        own = network.encoders[proximity]
        other = network.encoders["context"] if proximity == "second" else own
        if other is own:
            gaussians = _encode(own, inputs, anchors, targets, negatives)
        else:
            gaussians = [*_encode(own, inputs, anchors), *_encode(other, inputs, targets, negatives)]
        if penalty is not None:
            terms.append(penalty(proximity, gaussians[0]))
        for group in network.groups:
            anchor, target, negative = (_members(gaussian, group) for gaussian in gaussians)
            offset = network.offsets[proximity][group.members, None]
            logit = offset - network.measure.direct(anchor, target)
            negated = _negated_logits(network.measure, anchor, negative, offset, negatives.ndim == 1)
            term = negative_loss if network.compiled else torch_negative_loss
            terms.append(edge_loss(logit, term(negated, allowed, n_negatives)))
    return torch.stack(terms).sum()


def edge_loss(logit: Tensor, negatives: Tensor) -> Tensor:
    """Return the mean over edges, summed over members, of -log sigmoid(logit) plus the loss of all negatives.

    `logit` is (members, B) with b - d of each edge.
    """
    return (negatives - functional.logsigmoid(logit).sum()) / logit.shape[-1]


def torch_negative_loss(negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
    """Return -K * mean over allowed negatives of log sigmoid(d - b), summed over edges and members.

    `negated_logit` is (members, B, M) with d - b of the negatives of each edge. The mean times K gives the negatives
    the weight of the paper's K negatives, whatever the size of the pool. An anchor without an allowed negative, because
    it is joined to the whole pool, adds nothing.
    """
    share = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1).astype(np.float32)
    weight = torch.from_numpy(share).to(negated_logit.device)
    return -n_negatives * (weight * functional.logsigmoid(negated_logit)).sum()


def negative_loss(negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
    """Return the same by a compiled kernel, which overwrites `negated_logit`."""
    total: Tensor = _NegativeLoss.apply(negated_logit, allowed, n_negatives)  # type: ignore[no-untyped-call]
    return total


class _Context(FunctionCtx):
    """The gradient, which the forward pass computes along with the loss."""

    gradient: Tensor


class _NegativeLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
        ctx.gradient = negated_logit.detach().contiguous()
        sums = torch.empty(negated_logit.shape[:-1])
        losses.log_sigmoids(ctx.gradient.numpy(), allowed, np.float32(n_negatives), sums.numpy())
        return sums.sum()

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor, None, None]:
        return ctx.gradient.mul_(upstream[0]), None, None


def _members(gaussian: Gaussian, group: Group) -> Gaussian:
    """Return (members, ..., dim) Gaussians, one for each member of the group, from (..., all dimensions)."""
    arrays = (None if each is None else _split(each, group) for each in (gaussian.mean, gaussian.variance))
    return Gaussian(*arrays)


def _split(values: Tensor, group: Group) -> Tensor:
    shape = (*values.shape[:-1], -1, group.dim)
    return values[..., group.dims].reshape(shape).movedim(-2, 0)


def _negated_logits(
    measure: Dissimilarity, anchor: Gaussian, negative: Gaussian, offset: Tensor, shared: bool
) -> Tensor:
    """Return d - b: (members, B, M) to a shared pool as one matrix product, or (members, B, K) to each anchor's own."""
    if shared:
        left = measure.left(anchor)
        pairs: Tensor = products(Factor(left.vector, left.bias - offset), measure.right(negative))
        return pairs
    own: Tensor = measure.direct(anchor[:, :, None], negative) - offset[..., None]
    return own


def _encode(encoder: torch.nn.Module, inputs: InputRows, *groups: NodeIndex) -> list[Gaussian]:
    """Return the Gaussians of several groups of nodes; a node that occurs more than once is encoded once."""
    assert isinstance(encoder, Encoder)
    sizes = np.cumsum([0, *(group.size for group in groups)])
    distinct, places = np.unique(np.concatenate([group.ravel() for group in groups]), return_inverse=True)
    encoded = encoder(inputs, distinct)
    index = torch.from_numpy(places).to(encoded.mean.device)
    return [_rows(encoded, index[sizes[g] : sizes[g + 1]].reshape(group.shape)) for g, group in enumerate(groups)]


def _rows(gaussian: Gaussian, index: Tensor) -> Gaussian:
    # functional.embedding gathers rows like indexing does, but accumulates its gradient in a fixed order.
    variance = None if gaussian.variance is None else functional.embedding(index, gaussian.variance)
    return Gaussian(functional.embedding(index, gaussian.mean), variance)
