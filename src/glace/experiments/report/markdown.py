"""A report as Markdown, its pictures in files beside it."""

from glace.experiments.report.document import Code, Document, Heading, Part, Picture, Text
from glace.experiments.report.tables import plain_markdown, table_markdown

PLOTS = "plots"


def document_markdown(document: Document) -> str:
    """The whole file; pictures are linked as plots/NAME.png."""
    blocks = [f"# {plain_markdown(document.title)}"]
    for section in document.sections:
        blocks += [f"## {plain_markdown(section.title)}", *(_part(part) for part in section.parts)]
    return "\n\n".join(blocks) + "\n"


def _part(part: Part) -> str:
    match part:
        case Text():
            return plain_markdown(part.text)
        case Heading():
            return f"### {plain_markdown(part.text)}"
        case Code():
            return "\n".join(f"    {line}" for line in part.text.splitlines())
        case Picture():
            return f"![{plain_markdown(part.caption)}]({PLOTS}/{part.name}.png)"
        case _:
            return table_markdown(part)
