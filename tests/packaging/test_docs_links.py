"""Links of the pages lead somewhere, and every page can be reached."""

import posixpath
import re

import pytest

from tests.packaging import pages


def _resolved(page, link):
    path, _, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return target, anchor


@pytest.mark.parametrize("page", pages.names())
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page):
    broken = []
    for link in pages.links(page):
        if re.match(r"https?:", link):
            continue
        target, anchor = _resolved(page, link)
        if not (pages.ROOT / target).exists() or (
            anchor and not (target.endswith(".md") and anchor in pages.anchors(target))
        ):
            broken.append(link)
    assert broken == []


def test_the_index_lists_every_page():
    listed = {_resolved("docs/index.md", link)[0] for link in pages.links("docs/index.md")}
    in_docs = {page for page in pages.names() if page.startswith("docs/")} - {"docs/index.md"}
    elsewhere = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "charts/schedcache/README.md"}
    assert in_docs | elsewhere == listed


def test_a_broken_anchor_would_be_seen():
    assert "what-goes-wrong-and-how-it-shows" in pages.anchors("docs/embedding.md")
    assert "flags-of-schedcache-run" in pages.anchors("README.md")
    assert len(pages.links("README.md")) > 5
