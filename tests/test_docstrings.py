"""Every public name explains itself: a numpydoc docstring whose Parameters are those of the signature.

A name conforms if it has a one-line summary, if its Parameters section (for a class: Parameters and Attributes) names
exactly the parameters of the signature, in their order and each with a description, and if a function with parameters
that returns something has a Returns or Yields section; without parameters, the summary says what it returns.
"""

import doctest
import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import cast

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc

import glace

NAMES = cast("list[str]", glace.__all__)


def public_objects() -> Iterator[tuple[str, object]]:
    """Yield the public names with what they stand for, and the public methods of public classes."""
    for name in NAMES:
        found = getattr(glace, name)
        if inspect.ismodule(found):
            yield from ((f"{name}.{each}", getattr(found, each)) for each in found.__all__)
            continue
        yield name, found
        if inspect.isclass(found):
            yield from methods_of(name, found)


def methods_of(name: str, found: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of a class, those of bases only where no other public class has them."""
    public = {getattr(glace, each) for each in NAMES if inspect.isclass(getattr(glace, each))}
    bases = [base for base in found.__mro__[1:] if base.__module__.startswith("glace") and base not in public]
    for each in sorted({attribute for base in [found, *bases] for attribute in vars(base) if attribute[0] != "_"}):
        value = inspect.getattr_static(found, each)
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(value) or isinstance(value, property):
            yield f"{name}.{each}", value


def faults(found: object) -> list[str]:
    """Return what the docstring lacks."""
    text = inspect.getdoc(found) or ""
    if not text:
        return ["no docstring"]
    if isinstance(found, property):
        return []
    document = ClassDoc(found, config={"show_class_members": False}) if inspect.isclass(found) else FunctionDoc(found)
    lacking = [] if len(document["Summary"]) == 1 else ["the first paragraph is not one line"]
    lacking += parameter_faults(found, document)
    has_section = document["Returns"] or document["Yields"]
    if inspect.isfunction(found) and parameters_of(found) and returns_something(found) and not has_section:
        lacking.append("no Returns section")
    return lacking


def parameter_faults(found: object, document: FunctionDoc | ClassDoc) -> list[str]:
    """Return how the Parameters section differs from the signature."""
    section = document["Parameters"] or (document["Attributes"] if is_dataclass(found) else [])
    documented = [(name.strip(), " ".join(each.desc)) for each in section for name in each.name.split(",")]
    wanted = parameters_of(found)
    lacking = [f"no description of {name}" for name, text in documented if not text.strip()]
    names = [name.lstrip("*") for name, _ in documented]
    if names != wanted:
        lacking.append(f"Parameters are {names}, the signature has {wanted}")
    return lacking


def parameters_of(found: object) -> list[str]:
    """Return the names of the parameters, without self; a plain exception takes any message and has none."""
    try:
        names = list(inspect.signature(found).parameters)  # type: ignore[arg-type]
    except ValueError:  # a built-in constructor
        return []
    return [name for name in names if name not in ("self", "cls")]


def returns_something(found: Callable[..., object]) -> bool:
    return inspect.signature(found).return_annotation not in (None, "None", inspect.Signature.empty)


def examples_of(name: str, found: object) -> list[doctest.DocTest]:
    """Return the examples of a docstring as one test, or none."""
    text = inspect.getdoc(found) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    return [example] if example.examples else []


PUBLIC = dict(public_objects())


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_documents_its_parameters(name):
    found = faults(PUBLIC[name])
    assert not found, f"{name}: {'; '.join(found)}"


EXAMPLES = [each for name, found in PUBLIC.items() for each in examples_of(name, found)]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example, out=said.append).failed == 0, "".join(said)


if __name__ == "__main__":  # python -m tests.test_docstrings: list what is missing
    for public, value in PUBLIC.items():
        if faults(value):
            print(f"{public}: {'; '.join(faults(value))}")
