"""The page's files: small, self-contained, in two languages."""

from __future__ import annotations

import re

from edge_agent.api.pages import STATIC


def test_every_word_has_both_languages() -> None:
    text = (STATIC / "words.js").read_text(encoding="utf-8")
    table = text[text.index("const WORDS = {") : text.index("\n};")]
    pairs = re.findall(r"^  (\w+): \[\s*'([^']+)',\s*'([^']+)',?\s*\],", table, re.MULTILINE)
    assert len(pairs) == len(re.findall(r"^  \w+: \[", table, re.MULTILINE)) > 80
    for word, english, chinese in pairs:
        assert sorted(re.findall(r"{\w+}", english)) == sorted(re.findall(r"{\w+}", chinese)), word


def test_the_page_is_small_and_needs_nothing_from_elsewhere() -> None:
    files = list(STATIC.iterdir())
    assert sum(path.stat().st_size for path in files) < 60_000
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), path.name
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]* src=)", page)
