"""The network: one encoder per role of a node, the offset of each proximity, the scale of attributes, and the loss."""

import contextlib
import hashlib
import itertools
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
    is_linear,
    parse_encoders,
)
from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Factor, Gaussian, concatenated, named, products
from glace.kernels import losses
from glace.kernels.compile import kernel_threads, thread_pool, threads
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
    VARIANCE_FLOOR,
    AttributeScaling,
    GaussianHead,
    HiddenLayer,
    PointHead,
    check_module,
    column_weight,
    has_training_mode,
    of_bounded_length,
)
from glace.rng import Streams
from glace.sparse import Matrix
from glace.values import NONE, STANDARD

Weights = Mapping[str, npt.NDArray[np.generic]]
ENCODE_ROWS = 1024
"""Rows encoded at a time when nodes are embedded; the last block is padded to as many. Libraries for matrix products
choose their code by the number of rows, so only blocks of one size give a node the same bits in every batch."""
TRIAL_ROWS = 4
"""Rows that a user's module is tried on."""
INITIAL_OFFSET = 4.0
"""Initial value of a learned offset for Gaussians: KL and Wasserstein are never negative, so that from 0 it takes long
to leave the floor of log 2 per edge. A dot product has both signs and starts at 0. See docs/concepts.md."""


Head = GaussianHead | PointHead


class Encoder(nn.Module):
    """Attributes of a node to its Gaussian: hidden layer, activation, and a head on each part of the hidden numbers.

    With more than one head, the parts are an ensemble on one hidden layer.
    """

    def __init__(
        self, hidden_layer: HiddenLayer, heads: list[nn.Module], widths: list[int], relu: bool, bounded: bool
    ) -> None:
        super().__init__()
        self.input, self.heads, self.widths = hidden_layer, nn.ModuleList(heads), widths
        self.relu, self.bounded = relu, bounded

    def forward(self, inputs: InputRows, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the wanted input rows."""
        return concatenated([each.gaussian() for each in self.hidden(inputs, rows)])

    def hidden(self, inputs: InputRows, rows: NodeIndex) -> "list[Hidden]":
        """Return the hidden numbers of the wanted input rows, for each head."""
        hidden: Tensor = self.input(inputs, rows)
        parts = torch.split(torch.relu_(hidden) if self.relu else hidden, self.widths, dim=1)
        if self.bounded:
            parts = tuple(map(of_bounded_length, parts))
        return [Hidden(*each) for each in zip(parts, self.each_head(), strict=True)]

    def each_head(self) -> list[Head]:
        """Return the heads."""
        return [head for head in self.heads if isinstance(head, GaussianHead | PointHead)]


class Hidden(NamedTuple):
    """Hidden numbers (R, width) of some nodes, and the head that makes them Gaussians."""

    hidden: Tensor
    head: Head

    def gaussian(self) -> Gaussian:
        """Return the Gaussians."""
        return self.head.gaussian(self.head.raw(self.hidden))


Member = Sequence[Hidden]
"""An ensemble member's hidden numbers of the nodes of a batch, in one part, or in two with different encoders."""


class Branch(nn.Module):
    """A part of a network that shares no weights with the others: encoders by role, and the offset of each member.

    `dims` are the dimensions of its ensemble members among all dimensions of a proximity.
    """

    def __init__(self, encoders: dict[str, Encoder], offsets: dict[str, nn.Parameter], dims: slice) -> None:
        super().__init__()
        self.encoders, self.offsets, self.dims = nn.ModuleDict(encoders), nn.ParameterDict(offsets), dims

    def encoder(self, role: str) -> Encoder:
        """Return the encoder of a role."""
        found = self.encoders[role]
        assert isinstance(found, Encoder)
        return found


class Network(nn.Module):
    """An ensemble of encoders by role: `first`, and for second-order proximity `second` with its `context`.

    Every member of the ensemble is a branch of its own, unless an encoder has layers of its own (an image encoder, a
    user's module), which are too large to have several times: then all members are heads on the same hidden layer.
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
        generators = {role: streams.numpy(f"weights {role}") for role in roles(config)}
        self.branches = nn.ModuleList(self._branch(members, generators) for members in branch_members(types, config))
        # Dropout and batch normalization need train() and eval().
        self.has_modes = any(has_training_mode(each.encoder) for each in self.types)
        self.scales = nn.ModuleList(AttributeScaling(each.shape) for each in self.types)
        self.to(self.device)

    def _branch(self, members: slice, generators: Mapping[str, np.random.Generator]) -> Branch:
        config, count = self.config, members.stop - members.start
        dims, learned = divided(config.dim, config.ensemble_size), config.offset == "learned"
        start = (INITIAL_OFFSET if self.gaussian else 0.0) if learned else float(config.offset)
        offsets = {
            proximity: nn.Parameter(torch.full((count,), start), requires_grad=learned)
            for proximity in self.proximities
        }
        encoders = {role: self._encoder(members, dims[members], each) for role, each in generators.items()}
        place = slice(sum(dims[: members.start]), sum(dims[: members.stop]))
        return Branch(encoders, offsets, place)

    def _encoder(self, members: slice, dims: list[int], generator: np.random.Generator) -> Encoder:
        config = self.config
        widths = divided(config.hidden, config.ensemble_size)[members]
        layer = HiddenLayer(list(self.types), sum(widths), generator, self.compiled, self.neighbors)
        head = GaussianHead if self.gaussian else PointHead
        heads: list[nn.Module] = [head(*sizes, generator) for sizes in zip(widths, dims, strict=True)]
        bounded = config.hidden_length == "bounded"
        return Encoder(layer, heads, widths, config.activation == "relu", bounded)

    def each_branch(self) -> list[Branch]:
        """Return the branches."""
        return [branch for branch in self.branches if isinstance(branch, Branch)]

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
        self,
        inputs: NodeInputs,
        nodes: NodeIndex,
        mask: InputMask | None = None,
        branches: Sequence[Branch] | None = None,
    ) -> tuple[Gaussian, Gaussian | None]:
        """Return the NumPy Gaussians (R, proximities * dim) of nodes, and their context for second-order proximity.

        The Gaussians of several proximities are concatenated; first order is its own context. With `branches`, they
        have only the dimensions of these.
        """
        parts = [nodes[at : at + ENCODE_ROWS] for at in range(0, len(nodes), ENCODE_ROWS)]
        # Where torch has several threads, they are busy with each block.
        pool = thread_pool() if torch.get_num_threads() == 1 else None
        blocks = list((pool.map if pool else map)(lambda part: self._block(inputs, part, mask, branches), parts))
        by_role = {role: concatenated([block[role] for block in blocks], axis=0) for role in roles(self.config)}
        own = [by_role[proximity] for proximity in self.proximities]
        if "second" not in self.proximities:
            return concatenated(own), None
        return concatenated(own), concatenated([*own[:-1], by_role["context"]])

    def _block(
        self, inputs: NodeInputs, nodes: NodeIndex, mask: InputMask | None, branches: Sequence[Branch] | None
    ) -> dict[str, Gaussian]:
        rows, padded = inputs.rows(nodes, mask), np.zeros(ENCODE_ROWS, np.int64)
        padded[: len(nodes)] = np.arange(len(nodes))
        if self.has_modes:
            self.eval()
        with torch.no_grad():
            found = {role: self.encode(role, rows, padded, branches) for role in roles(self.config)}
            return {role: _as_numpy(gaussian[: len(nodes)]) for role, gaussian in found.items()}

    def encode(
        self, role: str, inputs: InputRows, rows: NodeIndex, branches: Sequence[Branch] | None = None
    ) -> Gaussian:
        """Return the Gaussians (R, dim) of the wanted input rows in a role, of all or of some branches."""
        return concatenated([branch.encoder(role)(inputs, rows) for branch in branches or self.each_branch()])

    def offset(self) -> float:
        """Return b of the concatenated dissimilarity: the logits b - d of proximities and ensemble members add up."""
        offsets = (offset for branch in self.each_branch() for offset in branch.offsets.values())
        return float(sum(float(offset.detach().sum()) for offset in offsets))

    def weights(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return every weight by name; on the CPU the arrays share the network's memory."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value.cpu().numpy() for name, value in state.items()}

    def set_weights(self, weights: Weights) -> None:
        """Copy weights of the same names and shapes into the network."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})


def branch_members(types: Sequence[InputType], config: ModelConfig) -> list[slice]:
    """Return the ensemble members of each branch."""
    if any(not is_linear(each.encoder) for each in types):
        return [slice(0, config.ensemble_size)]
    return [slice(member, member + 1) for member in range(config.ensemble_size)]


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
    branches = range(len(branch_members(types, config)))
    for branch, role, (code, each) in itertools.product(branches, roles(config), enumerate(types)):
        layer = f"branches.{branch}.encoders.{role}.input"
        if own := column_weight(each.encoder):
            found[f"{layer}.own.{code}.{own}"] = code
        if config.neighbor_features == "mean":
            found[f"{layer}.neighbors.{code}.weight"] = code
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


@contextlib.contextmanager
def using_threads(count: int, dense: bool = False) -> Iterator[None]:
    """Run the block with `count` threads, -1 for one per core; torch has them only if `dense`, otherwise one.

    Its threads spin while they wait. That pays for large products, as in encoders with layers of their own.
    """
    before = torch.get_num_threads()
    with kernel_threads(count):
        torch.set_num_threads(threads() if dense else 1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


Allowed = npt.NDArray[np.bool_]
Penalty = Callable[[str, Gaussian, slice], Tensor]
"""A penalty of a batch's anchors, given a proximity, their Gaussians in it, and which of its dimensions these have."""


class EdgeBatch(NamedTuple):
    """The edges and negatives of a step as rows of inputs; shapes are those of `glace.sampling.edges.Batch`.

    `n_negatives` is the weight of the negatives of an edge.
    """

    anchors: NodeIndex
    targets: NodeIndex
    negatives: NodeIndex
    allowed: Allowed
    n_negatives: int


def branch_loss(
    network: Network, branch: Branch, inputs: InputRows, batch: EdgeBatch, penalty: Penalty | None = None
) -> Tensor:
    """Return the mean loss per edge of a branch, summed over its proximities and ensemble members.

    `penalty` is called with a proximity and the anchors' Gaussians, and its result is added.
    """
    loss = compiled_loss if _has_kernels(network, batch) else torch_loss
    terms = []
    for proximity in network.proximities:
        members, placed = _encode(branch, proximity, inputs, batch)
        if penalty is not None:
            gaussian = concatenated([_gaussian(member) for member in members])
            terms.append(penalty(proximity, gathered(gaussian, placed.anchors), branch.dims))
        offsets = branch.offsets[proximity]
        terms += [loss(network.measure, *member, placed) for member in zip(members, offsets, strict=True)]
    return torch.stack(terms).sum()


def _encode(branch: Branch, proximity: str, inputs: InputRows, batch: EdgeBatch) -> tuple[list[Member], EdgeBatch]:
    """Return the members' hidden numbers of the nodes of a batch, each node once, and the batch as rows of these."""
    encoder = branch.encoder(proximity)
    if proximity == "first":
        return [[each] for each in encoder.hidden(inputs, np.arange(len(inputs.rows)))], batch
    anchors, anchor_rows = np.unique(batch.anchors, return_inverse=True)
    others = np.concatenate([batch.targets, batch.negatives.ravel()])
    contexts, context_rows = np.unique(others, return_inverse=True)
    parts = zip(encoder.hidden(inputs, anchors), branch.encoder("context").hidden(inputs, contexts), strict=True)
    targets, negatives = np.split(len(anchors) + context_rows, [len(batch.targets)])
    placed = batch._replace(anchors=anchor_rows, targets=targets, negatives=negatives.reshape(batch.negatives.shape))
    return list(parts), placed


def _gaussian(member: Member) -> Gaussian:
    """Return the Gaussians of a member."""
    return concatenated([each.gaussian() for each in member], axis=0)


def torch_loss(measure: Dissimilarity, member: Member, offset: Tensor, batch: EdgeBatch) -> Tensor:
    """Return the loss of one member by torch's operations alone, on any device."""
    gaussian = _gaussian(member)
    anchor, target, negative = (gathered(gaussian, rows) for rows in (batch.anchors, batch.targets, batch.negatives))
    logit = offset - measure.direct(anchor, target)
    negated = _negated_logits(measure, anchor, negative, offset)
    return edge_loss(logit, torch_negative_loss(negated, batch.allowed, batch.n_negatives))


def edge_loss(logit: Tensor, negatives: Tensor) -> Tensor:
    """Return the mean over edges of -log sigmoid(logit), plus the loss of all negatives; `logit` is (B,) b - d."""
    return (negatives - functional.logsigmoid(logit).sum()) / len(logit)


def torch_negative_loss(negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
    """Return -K * mean over allowed negatives of log sigmoid(d - b), summed over edges.

    `negated_logit` is (B, M) with d - b of the negatives of each edge. The mean times K gives the negatives the weight
    of the paper's K negatives, whatever the size of the pool. An anchor without an allowed negative, because it is
    joined to the whole pool, adds nothing.
    """
    share = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1).astype(np.float32)
    weight = torch.from_numpy(share).to(negated_logit.device)
    return -n_negatives * (weight * functional.logsigmoid(negated_logit)).sum()


def _negated_logits(measure: Dissimilarity, anchor: Gaussian, negative: Gaussian, offset: Tensor) -> Tensor:
    """Return d - b: (B, M) to a shared pool as one matrix product, or (B, K) to each anchor's own."""
    if negative.mean.ndim == 2:
        left = measure.left(anchor)
        pairs: Tensor = products(Factor(left.vector, left.bias - offset), measure.right(negative))
        return pairs
    own: Tensor = measure.direct(anchor[:, None], negative) - offset
    return own


def gathered(gaussian: Gaussian, rows: NodeIndex) -> Gaussian:
    """Return some rows of Gaussians; like indexing, but the gradient is summed in a fixed order."""
    index = torch.from_numpy(rows).to(gaussian.mean.device)
    variance = None if gaussian.variance is None else functional.embedding(index, gaussian.variance)
    return Gaussian(functional.embedding(index, gaussian.mean), variance)


def _has_kernels(network: Network, batch: EdgeBatch) -> bool:
    """Whether the loss is computed by compiled kernels: on the CPU, for KL and a shared pool of negatives."""
    return network.compiled and network.measure.name in ("kl", "symmetric_kl") and batch.negatives.ndim == 1


def compiled_loss(measure: Dissimilarity, member: Member, offset: Tensor, batch: EdgeBatch) -> Tensor:
    """Return the same as `torch_loss`; the gradients are computed along with the loss."""
    parts = [part for hidden, head in member for part in (hidden, head.weight, head.bias)]
    total: Tensor = _GaussianLoss.apply(offset, batch, measure.symmetric, *parts)  # type: ignore[no-untyped-call]
    return total


class _Context(FunctionCtx):
    """The gradients, which the forward pass computes along with the loss."""

    of_offset: float
    of_parts: list[Tensor]


class _GaussianLoss(torch.autograd.Function):
    """The loss of hidden numbers and of the weight and the bias of their head; several of these, one after the other.

    Heads and loss are one function, because most of the time of small products is spent around them.
    """

    @staticmethod
    def forward(ctx: _Context, offset: Tensor, batch: EdgeBatch, symmetric: bool, *parts: Tensor) -> Tensor:
        heads = [parts[begin : begin + 3] for begin in range(0, len(parts), 3)]
        raw = [torch.addmm(bias, hidden, weight) for hidden, weight, bias in heads]
        together = raw[0] if len(raw) == 1 else torch.cat(raw)
        loss, ctx.of_offset, of_raw = _gaussian_loss(together, offset.item(), batch, symmetric)
        ctx.of_parts = []
        for gradient, (hidden, weight, _) in zip(torch.split(of_raw, [len(each) for each in raw]), heads, strict=True):
            ctx.of_parts += [gradient @ weight.T, hidden.T @ gradient, gradient.sum(0)]
        return torch.tensor(loss, dtype=torch.float32)

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.of_offset * upstream[0], None, None, *(part.mul_(upstream[0]) for part in ctx.of_parts)


def _gaussian_loss(raw: Tensor, offset: float, batch: EdgeBatch, symmetric: bool) -> tuple[float, float, Tensor]:
    """Return the loss of outputs of heads, the gradient of the offset and that of the outputs."""
    values, floor, b = raw.numpy(), np.float32(VARIANCE_FLOOR), np.float32(offset)
    shape = len(values), values.shape[1] // 2
    mean, variance = np.empty(shape, np.float32), np.empty(shape, np.float32)
    losses.gaussians(values, floor, mean, variance)
    gradients = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    rows = batch.anchors, batch.targets
    positive, of_offset = losses.edges(mean, variance, *rows, float(b), symmetric, *gradients)
    left = torch.from_numpy(losses.left(mean, variance, batch.anchors, b, symmetric))
    right = torch.from_numpy(losses.right(mean, variance, batch.negatives, symmetric))
    pairs, sums = left @ right.T, np.empty(len(left), np.float32)
    losses.log_sigmoids(pairs.numpy(), batch.allowed, np.float32(batch.n_negatives / len(left)), sums)
    of_left, of_right = pairs @ right, pairs.T @ left
    losses.add_left_gradient(mean, variance, batch.anchors, of_left.numpy(), symmetric, *gradients)
    losses.add_right_gradient(mean, variance, batch.negatives, of_right.numpy(), symmetric, *gradients)
    of_raw = torch.from_numpy(losses.raw_gradient(values, floor, variance, *gradients))
    # The offset is subtracted from the left bias, the last column but one.
    return positive + float(sums.sum()), of_offset - float(of_left[:, -2].sum()), of_raw
