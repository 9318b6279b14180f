"""Encoders as a user gives them: words, modules of torch, or both by type of node."""

import hashlib
from dataclasses import replace
from typing import Any

from torch import nn

from glace.config.encoders import MLP, CustomEncoder, Identity, Part, checked, part_of, parts_of, text_of_all
from glace.config.model import ModelConfig
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.graph.node_types import TypedAttributes

Modules = dict[str, nn.Module]


def in_words(encoder: Any) -> tuple[str, Modules]:
    """The encoder as a configuration has it, and the user's modules by type, "" for all that are not named."""
    if not isinstance(encoder, dict):
        encoder = encoder if isinstance(encoder, str) else {"": encoder}
    if isinstance(encoder, str):
        words = checked(encoder)
        if any(isinstance(part, CustomEncoder) for part in parts_of(words).values()):
            raise InputError("a module is not given in words; give the torch.nn.Module itself, in Python")
        return words, {}
    parts: dict[str, Part] = {"": MLP()}
    for name, each in encoder.items():
        if not isinstance(name, str):
            raise InputError(f"encoders are given by the names of types, but {name!r} is {type(name).__name__}")
        if set(name) & set(";=:"):
            raise InputError(f"an encoder of type {name!r} cannot be given: rename the type, without ; = and :")
        if isinstance(each, nn.Module):
            parts[name] = CustomEncoder(type(each).__name__)
        else:
            checked(each)  # that it is a text
            parts[name] = part_of(each)
    return text_of_all(parts), {name: each for name, each in encoder.items() if isinstance(each, nn.Module)}


def fingerprint(module: nn.Module) -> str:
    """SHA-256 of how a module describes itself and of the weights it starts with."""
    digest = hashlib.sha256(repr(module).encode())
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def with_identities(graph: Graph, config: ModelConfig) -> Graph:
    """The graph without the attributes of types whose encoder is `identity`."""
    parts = config.parts()
    if not isinstance(graph.attributes, TypedAttributes):
        return graph.without_attributes() if isinstance(parts[""], Identity) else graph
    found = [
        replace(each, matrix=None, names=None, pipeline=None)
        if isinstance(parts.get(each.name, parts[""]), Identity)
        else each
        for each in graph.attributes.parts
    ]
    return replace(graph, attributes=graph.attributes.changed(found))
