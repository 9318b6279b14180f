"""AMiner's text format, written here with known content, becomes the graph it describes."""

import gzip
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glace import datasets
from glace.datasets.builders import acm
from glace.datasets.builders.acm import CitationText, build_acm, read_papers, records
from glace.errors import FormatError, InputError
from glace.features.text import WORD
from glace.values import in_storage

TOPICS = ("query index join table", "shader polygon texture mesh", "router packet latency queue")

# Each of 24 papers cites the last one of its topic.
PAPERS = 24
CITED = {f"p{number}": [f"p{number - 3}"] if number >= 3 else [] for number in range(PAPERS)}

ODD = """\
#*Cites and is cited, but has no abstract
#index900
#%p1

#*Has an abstract, and links only to what goes
#index901
#%900
#%nowhere
#!query about nothing that is kept

#*Has an abstract and no link
#index902
#!texture without a link

#*Cites itself only
#index903
#%903
#!latency of oneself

#index904
#*The index first, a reference twice, an empty one, and the paper itself
#% p2
#%
#%p2
#%904
#! polygon and router,
spread over two lines
#cA venue after the abstract

#*No index at all
#!query index join

#*Only cited
#index 905
#!packet, packet, packet and queue
#%

#*An empty abstract
#index906
#%p0
#!
"""

KEPT = [*CITED, "904", "905"]
LINKS = {(paper, target) for paper, targets in CITED.items() for target in targets}
LINKS |= {("904", "p2"), ("p5", "905")}


def text_of(number: int) -> str:
    words = TOPICS[number % 3].split()
    return f"The {words[number % 4]} of a {words[number // 2 % 4]}: the {words[0]} of 1999, it's {words[1]}."


def record(number: int) -> str:
    targets = [*CITED[f"p{number}"], *(["905"] if number == 5 else ["900"])]
    head = f"#*Paper {number}\n#@Ada L., Alan T.\n#t1999\n#cVenue\n#indexp{number}\n"
    return head + "".join(f"#%{target}\n" for target in targets) + f"#!{text_of(number)}\n"


WHOLE = "\n".join([f"32\n{record(0)}", *(record(number) for number in range(1, PAPERS)), ODD])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "outputacm.txt"
    path.write_text(WHOLE, encoding="utf-8")
    return path


def written(folder: Path, content: str | bytes, name: str = "cites.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def edges_of(graph) -> set[tuple[str, str]]:
    return {(graph.ids[source], graph.ids[target]) for source, target in graph.edges()}


# what is kept


def test_papers_with_an_abstract_and_a_link_become_nodes_and_citations_edges(source):
    graph = build_acm(source)
    assert list(graph.ids) == KEPT
    assert edges_of(graph) == LINKS
    assert graph.directed
    assert (graph.adjacency.data == 1).all()
    assert graph.labels is None
    assert graph.cleaning_report.isolated_nodes == 0


def test_what_is_left_out_is_told(source):
    said: list[str] = []
    build_acm(source, say=said.append)
    references = (21 + 24) + 2 + 1 + 3  # of p0 to p23, to each other and to others; of 901, 903, 904
    dropped = references - len(LINKS)
    assert said == [
        "32 records; dropped 2 papers without an abstract and 3 without a link to a kept paper",
        f"{references} references of papers with an abstract; dropped {dropped} duplicates, self-citations and "
        "citations of papers that were not kept",
        "dropped 1 records without an #index",
    ]


def test_without_a_listener_the_log_is_told(source, caplog):
    with caplog.at_level("INFO", logger="glace"):
        build_acm(source)
    assert "32 records; dropped 2 papers without an abstract" in caplog.text


def test_no_more_papers_go_than_those_without_a_link(tmp_path):
    # a - b - c - d in a row: the ends have but one link, and all stay.
    chain = "\n\n".join(f"#index{name}\n#%{name_of_next}\n#!some words" for name, name_of_next in ("ab", "bc", "cd"))
    graph = build_acm(written(tmp_path, f"{chain}\n\n#indexd\n#!some words\n"))
    assert edges_of(graph) == {("a", "b"), ("b", "c"), ("c", "d")}


def test_papers_that_cite_each_other_have_two_edges(tmp_path):
    graph = build_acm(written(tmp_path, "#index7\n#%8\n#!some words\n\n#index8\n#%7\n#!some words"))
    assert edges_of(graph) == {("7", "8"), ("8", "7")}


# attributes


def tf_idf(texts: list[str], words: list[str]) -> Any:
    """(texts, words) by the formula: (1 + log tf) (1 + log((1 + n) / (1 + df))), rows of unit length."""
    counts = [Counter(re.findall(WORD, text.lower())) for text in texts]
    tf = np.array([[count[word] for word in words] for count in counts], dtype=float)
    idf = 1 + np.log((1 + len(texts)) / (1 + (tf > 0).sum(axis=0)))
    weighted = np.where(tf > 0, 1 + np.log(np.maximum(tf, 1)), 0) * idf
    return weighted / np.linalg.norm(weighted, axis=1, keepdims=True)


def test_attributes_are_the_tf_idf_of_the_abstracts(source):
    graph = build_acm(source)
    texts = [*(text_of(number) for number in range(PAPERS)), "polygon and router, spread over two lines"]
    texts.append("packet, packet, packet and queue")
    assert graph.pipeline is not None
    assert graph.pipeline.vocabulary is not None
    words = list(graph.pipeline.vocabulary.words)
    assert {"query", "shader", "packet"} <= set(words) <= set(" ".join(TOPICS).split()) | {"it's"}
    np.testing.assert_allclose(in_storage(graph.features(), sparse=False), tf_idf(texts, words), rtol=1e-6)


def test_attributes_agree_with_scikit_learn(source):
    from sklearn.feature_extraction.text import TfidfVectorizer

    kept = [paper.abstract for paper in read_papers(CitationText(source)).by_index.values() if paper.index in KEPT]
    oracle = TfidfVectorizer(token_pattern=WORD, stop_words="english", sublinear_tf=True, min_df=2)
    expected = oracle.fit_transform(kept).toarray()
    np.testing.assert_allclose(in_storage(build_acm(source).features(), sparse=False), expected, rtol=1e-6)


# reading


def test_records_are_read_one_at_a_time_from_lines_that_never_end():
    lines = itertools.cycle(["#index5", "#%3", "#%4", "#!words", ""])
    found = list(itertools.islice(records(enumerate(lines, start=1), "endless"), 3))
    assert [(each.index, each.line, each.references, each.abstract) for each in found] == [
        ("5", line, ["3", "4"], "words") for line in (1, 6, 11)
    ]


def test_an_abstract_may_have_several_lines_and_ends_with_the_next_field(source):
    papers = read_papers(CitationText(source)).by_index
    assert papers["904"].abstract == "polygon and router, spread over two lines"
    assert papers["904"].references == ["p2", "p2", "904"]
    assert papers["905"].abstract == "packet, packet, packet and queue"


def test_a_file_is_never_read_whole(source):
    text = CitationText(source)
    found = records(text.lines(), "name")
    assert next(found).index == "p0"
    assert text.lines_read == 9  # the count, seven fields and the blank line


def test_progress_hears_of_the_bytes_read(source, monkeypatch):
    monkeypatch.setattr(acm, "_STEP", 10)
    heard: list[tuple[int, int | None]] = []
    build_acm(source, progress=lambda *bytes_: heard.append(bytes_))
    size = source.stat().st_size
    assert len(heard) == len(WHOLE.splitlines()) // 10 + 1
    assert heard == sorted(heard)
    assert heard[-1] == (size, size)


@pytest.mark.parametrize("variant", ["windows", "bom", "no count", "blank lines", "gz"])
def test_variants_of_the_file_say_the_same(variant, source, tmp_path):
    content = {
        "windows": WHOLE.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + WHOLE.encode(),
        "no count": WHOLE.removeprefix("32\n").encode(),
        "blank lines": WHOLE.replace("\n\n", "\n \n\n").replace("32\n", "32\n\n", 1).encode(),
        "gz": gzip.compress(WHOLE.encode()),
    }[variant]
    other = written(tmp_path, content, "other.txt.gz" if variant == "gz" else "other.txt")
    assert build_acm(other).fingerprint() == build_acm(source).fingerprint()


def test_a_mark_at_the_start_does_not_hide_the_first_index(tmp_path):
    graph = build_acm(written(tmp_path, b"\xef\xbb\xbf#index1\n#%2\n#!some words\n\n#index2\n#!some words\n"))
    assert list(graph.ids) == ["1", "2"]


def test_bytes_that_are_not_utf_8_are_replaced_and_counted(source, tmp_path):
    said: list[str] = []
    broken = WHOLE.encode().replace(b"Ada", b"Ad\xe9").replace(b"the query", b"\xff the query")
    graph = build_acm(written(tmp_path, broken), say=said.append)
    bad = sum(b"\xe9" in line or b"\xff" in line for line in broken.splitlines())
    assert bad > PAPERS
    assert said[-1] == f"replaced bytes that are not UTF-8 by U+FFFD on {bad} lines"
    assert graph.fingerprint() == build_acm(source).fingerprint()


def test_a_file_that_ends_early_is_noticed(source, tmp_path):
    said: list[str] = []
    build_acm(written(tmp_path, WHOLE[: len(WHOLE) // 2]), say=said.append)
    assert re.fullmatch(r"the first line says 32 records, but the file has \d\d; it may be truncated", said[-1])


def test_a_first_line_of_many_digits_is_no_count(tmp_path):
    path = written(tmp_path, "9" * 5000 + "\n\n#index1\n#%2\n#!some words\n\n#index2\n#!some words\n")
    assert build_acm(path).num_nodes == 2


# what is refused


def test_no_file_named():
    match = r'acm is built from a file .*AMiner.s "Citation Network Dataset".*run .glace datasets build acm --from FILE'
    with pytest.raises(InputError, match=match):
        build_acm()


TWO = "#index1\n#%2\n#!some words\n\n#index2\n#!some words\n"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", r"cites\.txt is empty; expected a file in the text format of AMiner's citation networks"),
        ("\n\n", r"cites\.txt: none of its 2 lines begins with '#index'"),
        ("source,target\n1,2\n", r"cites\.txt: none of its 2 lines begins with '#index' and an id; expected .*AMiner"),
        ("#*A title\n#index\n", r"cites\.txt: none of its 2 lines begins with '#index' and an id"),
        (f"{TWO}\n\n#*Again\n#index1\n", r"cites\.txt, line 10: #index '1' was on line 1 already; keep one record per"),
        ("#index1\n#index2\n", r"cites\.txt, line 2: a second #index, '2', in the record of '1'; a blank line must"),
        ("#index1\n#!words\n\n#index2\n#%1\n", r"cites\.txt: no paper with an abstract is linked .* on 5 lines"),
        (TWO.replace("some words", "1 2 3"), r"cites\.txt, abstracts as texts: no word occurs in at least 2 of 2"),
        ("x" * (1 << 20), r"cites\.txt, line 1: 1,048,576 bytes and no line break; expected .*AMiner"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used(content, match, tmp_path):
    with pytest.raises(InputError, match=match):
        build_acm(written(tmp_path, content))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"no file .*none\.txt; expected a file in the text format of AMiner's"):
        build_acm(tmp_path / "none.txt")
    with pytest.raises(InputError, match=r"is a folder, not a file in the text format of AMiner's"):
        build_acm(tmp_path)


@pytest.mark.parametrize("content", [b"not packed at all", gzip.compress(WHOLE.encode())[:-200]])
def test_a_damaged_archive(content, tmp_path):
    path = written(tmp_path, content, "cites.gz")
    with pytest.raises(FormatError, match=r"cannot read .*cites\.gz beyond line \d+: .*; get the file again"):
        build_acm(path)


# by name


def test_a_built_graph_is_loaded_by_its_name(source, tmp_path):
    graph, path = datasets.build("acm", source, data_dir=tmp_path / "made")
    assert path == tmp_path / "made" / "acm.npz"
    loaded = datasets.load("acm", directed=True, data_dir=tmp_path / "made")
    assert loaded.fingerprint() == graph.fingerprint()
    assert loaded.pipeline is not None


def test_the_source_is_never_replaced(source):
    with pytest.raises(InputError, match=r"cannot write .*outputacm\.txt: it is the source file"):
        datasets.build("acm", source, source)
    assert source.read_text(encoding="utf-8") == WHOLE


def test_load_says_where_the_file_comes_from(tmp_path):
    match = r"acm is not on this machine .*run 'glace datasets build acm --from FILE' with AMiner's .*GLACE_DATA"
    with pytest.raises(InputError, match=match):
        datasets.load("acm", data_dir=tmp_path)
