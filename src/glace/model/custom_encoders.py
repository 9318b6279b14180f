"""Encoders as users pass them: specifications and short notation, or their own torch modules."""

import hashlib
from collections.abc import Mapping

from torch import nn

from glace.config.encoders import CustomEncoder, EncoderSpec, canonical, parse_encoders
from glace.errors import InputError

Modules = dict[str, nn.Module]
"""The user's modules by node type; "" stands for all types that are not named."""

Encoder = str | EncoderSpec | nn.Module | Mapping[str, str | EncoderSpec | nn.Module]
"""What users may pass as `encoder=`."""


def split_modules(encoder: Encoder) -> tuple[str, Modules]:
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
