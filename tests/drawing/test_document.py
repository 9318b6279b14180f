"""Documents: any text is shown as it is, in Markdown and in HTML."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glace.drawing.document import Heading, Table, text_column, to_html

MARKS = st.text(st.sampled_from("_*#-+>~=|`[]()<&\\\\!.1a é"), min_size=1).map(lambda text: " ".join(text.split()))


def shown(text: str, as_table: bool = False) -> str:
    """The text that a reader sees of a paragraph or of a cell."""
    block = Table((text_column("name", [text]),)) if as_table else text
    page = to_html([Heading("title", 1), block])
    inside = re.search("<td>(.*?)</td>" if as_table else "</nav>\n<p>(.*?)</p>\n</body>", page, flags=re.S)
    assert inside, page
    return html.unescape(inside[1])


NAMES = ["__init__", "_private_", "a_b_c", "_", "~~~"]
BEGINNINGS = ["# one", "- two", "3. three", "> four", "+ five"]


@pytest.mark.parametrize("text", NAMES + BEGINNINGS)
def test_names_and_first_letters_are_no_marks(text):
    assert shown(text) == shown(text, as_table=True) == text


@given(MARKS.filter(bool), st.booleans())
def test_any_text_is_shown_literally(text, as_table):
    assert shown(text, as_table) == text
