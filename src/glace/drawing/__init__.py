"""Documents of text, tables and pictures, as Markdown and as HTML."""
