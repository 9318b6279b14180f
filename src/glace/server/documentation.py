"""The page that says what can be asked over HTTP, made from the description of the application."""

import html
from typing import Any

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>glace: questions over HTTP</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid #ddd }}
code {{ background: #f3f3f3 }}
</style></head><body>
<h1>Questions over HTTP</h1>
<p>{model}</p>
<table><thead><tr><th>ask</th><th>with</th><th>what it is</th></tr></thead><tbody>
{rows}
</tbody></table>
<p>Answers and errors are JSON; an error is <code>{{"error": "..."}}</code>. A body is sent with the header
<code>Content-Type: application/json</code>. <a href="/openapi.json">/openapi.json</a> describes all for programs.</p>
<pre><code>curl 'http://localhost:8765/api/health'
curl -H 'Content-Type: application/json' -d '{{"pairs": [["a", "b"]]}}' 'http://localhost:8765/api/score'</code></pre>
</body></html>
"""


def documentation(described: dict[str, Any], model: str) -> str:
    """Return the page for an OpenAPI description and a line about the model."""
    rows = [
        _row(verb, path, facts, described) for path, ways in described["paths"].items() for verb, facts in ways.items()
    ]
    return PAGE.format(model=html.escape(model), rows="\n".join(rows))


def _row(verb: str, path: str, facts: dict[str, Any], described: dict[str, Any]) -> str:
    names = [each["name"] + ("" if each.get("required") else " (optional)") for each in facts.get("parameters", [])]
    body = facts.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = described.get("components", {}).get("schemas", {}).get(body.get("$ref", "").rpartition("/")[2], {})
    needed = schema.get("required", [])
    names += [
        f"{name} in the body" + ("" if name in needed else " (optional)") for name in schema.get("properties", {})
    ]
    asked = f"{verb.upper()} {path}"
    linked = (
        f'<a href="{path}">{asked}</a>'
        if verb == "get" and not any("optional" not in name for name in names)
        else asked
    )
    said = (facts.get("description") or facts.get("summary") or "").partition("\n")[0]
    cells = (linked, html.escape(", ".join(names) or "nothing"), html.escape(said))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
