"""apt's lists, written here with known content, become the graph they describe."""

import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from glace import datasets
from glace.datasets.builders.debian import build_debian, read_debian
from glace.errors import FormatError, InputError

PACKAGES = """\
Package: zsh-game
Version: 1.0-2
Section: contrib/games
Pre-Depends: libc6 (>= 2.34)
Depends: libc6:any (>= 2.0), nothing-at-all | zsh-game, default-mta | mail-agent,
 perl-base [amd64]
Recommends: not-packaged | perl-base
Suggests: mail-agent
Description: game for the shell
Description-md5: aaaa
Tag: game::strategy, role::program,
 interface::text-mode

Package: zsh-game
Version: 0.9
Section: games
Depends: postfix

Package: libc6
Section: libs
Description: C library
Description-md5: bbbb

Package: postfix
Section: mail
Provides: mail-agent, default-mta (= 1)
Depends: libc6

Package: exim
Section: mail
Provides: mail-agent
Depends: libc6
Description: short words about mail
Description-md5: not translated

Package: perl-base
Section: perl
Description-md5: bbbb
"""

TRANSLATION = """\
Package: zsh-game
Description-md5: aaaa
Description-en: game for the shell
 A long game, played in a terminal.
 .
 It is fun: many say so.

Package: libc6
Description-md5: bbbb
Description-en: C library
 Shared words.

Package: gone
Description-md5: cccc
Description-en: never wanted
"""

RELEASE = "deb.debian.org_debian_dists_bookworm_main"


def write_lz4(path: Path, content: bytes) -> None:
    with pa.CompressedOutputStream(str(path), "lz4") as output:
        output.write(content)


WRITERS = {
    "": lambda path, content: path.write_bytes(content),
    ".gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    ".xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    ".lz4": write_lz4,
}


def write_lists(folder: Path, suffix: str = "") -> Path:
    write = WRITERS[suffix]
    write(folder / f"{RELEASE}_binary-amd64_Packages{suffix}", PACKAGES.encode())
    write(folder / f"{RELEASE}_i18n_Translation-en{suffix}", TRANSLATION.encode())
    return folder


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_lists(tmp_path)


def edges_of(graph) -> set[tuple[str, str]]:
    return {(graph.ids[source], graph.ids[target]) for source, target in graph.edges()}


def test_packages_become_nodes_and_needs_edges(lists):
    graph = build_debian(lists)
    assert list(graph.ids) == ["exim", "libc6", "perl-base", "postfix", "zsh-game"]
    assert edges_of(graph) == {
        ("zsh-game", "libc6"),
        ("zsh-game", "perl-base"),
        ("zsh-game", "postfix"),  # the only provider of default-mta
        ("zsh-game", "exim"),  # the first by name of two providers of mail-agent
        ("postfix", "libc6"),
        ("exim", "libc6"),
    }
    assert graph.directed
    assert graph.cleaning_report.self_loops == 0
    assert (graph.adjacency.data == 1).all()


def test_labels_are_sections_without_the_area(lists):
    labels = build_debian(lists).labels
    assert labels is not None
    assert [labels[node] for node in range(5)] == ["mail", "libs", "perl", "mail", "games"]


def test_texts_are_the_long_descriptions_and_the_tags(lists):
    nodes = read_debian(lists).nodes
    texts = dict(zip(nodes["id"].to_pylist(), nodes["text"].to_pylist(), strict=True))
    assert " ".join(texts["zsh-game"].split()) == (
        "game for the shell A long game, played in a terminal. It is fun: many say so. "
        "game_strategy role_program interface_text-mode"
    )
    assert texts["libc6"].strip() == "C library Shared words."
    assert texts["exim"].strip() == "short words about mail"
    assert texts["postfix"].strip() == ""


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".lz4"])
def test_packed_lists_say_the_same(suffix, lists, tmp_path_factory):
    packed = write_lists(tmp_path_factory.mktemp("packed"), suffix)
    assert build_debian(packed).fingerprint() == build_debian(lists).fingerprint()


def test_only_the_release_itself_is_read(lists):
    extra = "Package: newer\nSection: web\n"
    for suite in ("bookworm-security_main", "bookworm_contrib"):
        (lists / f"deb.debian.org_debian_dists_{suite}_binary-amd64_Packages").write_text(extra)
    assert "newer" not in list(build_debian(lists).ids)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("binary-amd64_Packages", r"no package list .* in .*; run 'apt update' .*--from DIR"),
        ("i18n_Translation-en", r"no English descriptions .* in .*; run 'apt update' .*--from DIR"),
    ],
)
def test_missing_lists_say_what_to_do(lists, kind, message):
    (lists / f"{RELEASE}_{kind}").unlink()
    with pytest.raises(InputError, match=message):
        build_debian(lists)


def test_a_missing_folder_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="no package list"):
        build_debian(tmp_path / "none")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".lz4"])
def test_a_damaged_list_is_named(tmp_path, suffix):
    write_lists(tmp_path, suffix)
    path = tmp_path / f"{RELEASE}_binary-amd64_Packages{suffix}"
    path.write_bytes(b"not packed at all")
    with pytest.raises(FormatError, match=rf"cannot read .*Packages{suffix}: .*run 'apt update'"):
        build_debian(tmp_path)


def test_a_list_in_another_encoding(lists):
    (lists / f"{RELEASE}_binary-amd64_Packages").write_bytes(b"Package: caf\xe9\n")
    with pytest.raises(FormatError, match="cannot read"):
        build_debian(lists)


def test_an_entry_without_a_name(lists):
    (lists / f"{RELEASE}_binary-amd64_Packages").write_text("Section: web\n\n")
    with pytest.raises(FormatError, match="has an entry without a package name; run 'apt update'"):
        build_debian(lists)


def test_a_built_graph_is_loaded_by_its_name(lists, tmp_path):
    graph, path = datasets.build("debian", lists, data_dir=tmp_path / "made")
    assert path.name == "debian.npz"
    assert datasets.load("debian", directed=True, data_dir=tmp_path / "made").fingerprint() == graph.fingerprint()
