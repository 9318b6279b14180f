"""A report as a value: sections of paragraphs, tables and pictures, not yet in any format."""

from dataclasses import dataclass

from glace.experiments.report.tables import Table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A title inside a section."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines to be read, or typed, letter by letter."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A PNG; `name` is its file's without the ending, `caption` also what is read out in its place."""

    name: str
    png: bytes
    caption: str


Part = Text | Heading | Code | Picture | Table


@dataclass(frozen=True)
class Section:
    """A titled piece of the report."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    sections: tuple[Section, ...]

    def pictures(self) -> list[Picture]:
        """All pictures, in order."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Picture)]
