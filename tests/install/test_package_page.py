"""The page of the package reads right where there is no repository around it."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from packaging.metadata import Metadata
from trove_classifiers import classifiers

import module_names
from tqstudio import __version__

ROOT = module_names.ROOT


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Metadata:
    """What the index reads from a wheel, checked by the rules of that file."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling import build; build.prepare_metadata_for_build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*/METADATA")
    return Metadata.from_email(file.read_bytes(), validate=True)


@pytest.fixture(scope="module")
def page(metadata: Metadata) -> list[Token]:
    """Its parts, as Markdown of GitHub, which the index shows."""
    assert metadata.description_content_type == "text/markdown"
    blocks = MarkdownIt("gfm-like").parse(metadata.description or "")
    return [*blocks, *(each for block in blocks for each in block.children or ())]


def test_links_and_pictures_lead_to_files_of_the_release(metadata: Metadata, page: list[Token]) -> None:
    source = urlsplit((metadata.project_urls or {})["Source"])
    counts = {"href": 0, "src": 0}
    for kind, url in [
        (kind, str(each.attrGet(kind))) for kind in counts for each in page if each.attrGet(kind)
    ]:
        parts = urlsplit(url)
        assert (parts.scheme, bool(parts.netloc)) == ("https", True), url
        if parts.netloc == source.netloc and parts.path.startswith(source.path):
            counts[kind] += 1
            shown, tag, file = parts.path.removeprefix(source.path + "/").split("/", 2)
            assert (shown, tag) == ({"href": "blob", "src": "raw"}[kind], f"v{__version__}"), url
            assert (ROOT / file).is_file(), url
    assert counts["href"] > 20
    assert counts["src"], "it has a picture"


def test_nothing_on_it_needs_html(page: list[Token]) -> None:
    """Of which the index removes much."""
    assert [each.content for each in page if each.type.startswith("html")] == []


def test_what_is_said_beside_it(metadata: Metadata) -> None:
    assert str(metadata.version) == __version__
    unknown = set(metadata.classifiers or ()) - classifiers
    assert unknown == set()
    assert {"alerts", "postgresql", "redis"} <= set(metadata.provides_extra or ())
    assert {"Homepage", "Documentation", "Issues", "Changelog"} <= set(metadata.project_urls or ())
    assert str(metadata.requires_python) == ">=3.11"
