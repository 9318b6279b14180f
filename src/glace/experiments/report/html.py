"""A report as one HTML file: style and pictures inside, no script, nothing loaded from elsewhere."""

import base64
import html
import re

from glace.experiments.report.document import Code, Document, Heading, Part, Picture, Section, Text
from glace.experiments.report.tables import table_html

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6577; --paper: #fbfbf9; --line: #d9dce3; --band: #f1f2f5;
  --link: #1a56a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ee; --soft: #a3acbd; --paper: #14171d; --line: #353b47;
  --band: #1d222b; --link: #8ab8f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1150px; padding: 2rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .6rem; padding-bottom: .3rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1.08rem; margin: 2rem 0 .3rem; }
p { max-width: 52rem; margin: .4rem 0 .8rem; }
section > p { color: var(--soft); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; margin: 0; }
a { color: var(--link); }
.wide { overflow-x: auto; margin: .6rem 0 .3rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .7rem; text-align: left; vertical-align: top; }
table.dense { font-size: .8rem; }
table.dense th, table.dense td { padding: .26rem .5rem; }
table.dense th:nth-child(n+13), table.dense td:nth-child(n+13) { padding: .26rem .38rem; }
th { font-weight: 600; vertical-align: bottom; }
th.group { text-align: center; border-bottom: 1px solid var(--line); color: var(--soft); font-weight: 500; }
th.number, td.number { text-align: right; white-space: nowrap; }
td:first-child { white-space: nowrap; }
td { overflow-wrap: anywhere; }
thead tr:last-child th { border-bottom: 2px solid var(--line); }
tbody tr { border-bottom: 1px solid var(--line); }
tbody tr:has(+ tr > td:first-child:empty) { border-bottom-color: transparent; }
tbody tr:hover { background: var(--band); }
sup { font-size: .7em; line-height: 0; margin-left: .1em; color: var(--soft); }
.notes { margin: .2rem 0 1rem; padding-left: 1.6rem; font-size: .8rem; color: var(--soft); }
pre { background: var(--band); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1rem 0 1.6rem; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 8px; padding: .5rem; }
figcaption { font-size: .85rem; color: var(--soft); margin-top: .4rem; }
@page { size: landscape; margin: 12mm; }
@media print { body { font-size: 10.5pt; max-width: none; padding: 0; background: #fff; color: #000; }
  :root { --ink: #000; --soft: #444; --line: #bbb; --band: #fff; }
  nav { display: none; } .wide { overflow: visible; } h2, h3 { break-after: avoid; } p { break-after: avoid; }
  table, tr, figure { break-inside: avoid; } figure img { max-height: 165mm; }
  thead { display: table-header-group; } th, td { padding: .18rem .5rem; } }
"""


def document_html(document: Document) -> str:
    """The whole file."""
    title = html.escape(document.title)
    links = "".join(
        f'<li><a href="#{_anchor(section)}">{html.escape(section.title)}</a></li>' for section in document.sections
    )
    body = "\n".join(_section(section) for section in document.sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"<nav><ul>{links}</ul></nav>\n{body}\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f'<section id="{_anchor(section)}">\n<h2>{html.escape(section.title)}</h2>\n{parts}\n</section>'


def _part(part: Part) -> str:
    match part:
        case Text():
            return f"<p>{html.escape(part.text)}</p>"
        case Heading():
            return f"<h3>{html.escape(part.text)}</h3>"
        case Code():
            return f"<pre>{html.escape(part.text)}</pre>"
        case Picture():
            return _picture(part)
        case _:
            return table_html(part)


def _picture(picture: Picture) -> str:
    data, caption = base64.b64encode(picture.png).decode("ascii"), html.escape(picture.caption)
    image = f'<img alt="{caption}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _anchor(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower()).strip("-")
