"""Builds the site: every page of the repository, and the API reference, as HTML with a search.

    python -m pip install -e '.[docs]'
    python docs/build.py              build/site/html/index.html, to be opened from the disk
    python docs/build.py --external   ask for every link that leads out of it, too
    python docs/build.py --clean      from nothing: pages that are up to date are made again

Pages are written for GitHub. A copy of the tree, with the same relative links, is what Sphinx
reads: the tables of contents are added to it, which GitHub would show as code. Warnings are errors;
so are links of the finished site that lead nowhere.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import generate_api
import generate_gallery
import generate_history

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
START = "docs/index.md"
GALLERY = "docs/gallery.md"
SHOWN = (r"![Memory over steps](gallery/\1.svg)"
         r'\n\n<a href="gallery/\1.html">The page of this plan</a>')
"""What a place for a network becomes in the gallery."""
PAGES = ("docs/**/*.md", "bench/**/*.md", "examples/*.md", "README.md", "CONTRIBUTING.md",
         "CHANGELOG.md", "SECURITY.md")
SECTIONS = {
    "Begin": "docs/ten_minutes.md docs/tutorials/*.md examples/README.md",
    "Guides": "",
    "Reference": "docs/api/index.md docs/ops/README.md docs/ops/by_name.md docs/environment.md "
                 "docs/deviations.md docs/glossary.md",
    "How it works":
        "docs/architecture.md docs/tiny.md docs/internals/reading.md docs/internals/executor.md "
        "docs/explain.md docs/gallery.md docs/internals/*.md",
    "Speed": "docs/bench/README.md docs/bench/history.md docs/bench/*.md bench/README.md",
    "Project": "docs/programs.md docs/archives/README.md docs/reliability.md README.md "
               "CONTRIBUTING.md CHANGELOG.md SECURITY.md",
}
"""Captions of the navigation, with their pages; "Guides" has those of `docs/` that no other has."""
BELOW = {"docs/ops/README.md": "docs/ops/*.md", "docs/api/index.md": "docs/api/*.md",
         "docs/archives/README.md": "docs/archives/*.md",
         "docs/bench/history.md": "bench/results/*.md"}
"""Pages that open in the navigation, with those below them."""


# -- the tree that Sphinx reads -----------------------------------------------------------------


def pages() -> dict[str, str]:
    """Path below the root -> text of every page, tables of contents included."""
    found = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
             for pattern in PAGES for path in sorted(ROOT.glob(pattern))}
    found |= {f"docs/api/{name}": text for name, text in generate_api.pages().items()}
    found["docs/bench/history.md"] = generate_history.page()
    found[GALLERY] = re.sub(r"<!-- ([\w-]+) -->", SHOWN, found[GALLERY])
    for page, captions in contents(list(found)).items():
        found[page] += "".join(
            "\n```{toctree}\n:hidden:\n" + f":caption: {caption}\n" * bool(caption) + "\n"
            + "".join(f"/{entry.removesuffix('.md')}\n" for entry in entries) + "```\n"
            for caption, entries in captions.items())
    return found


def contents(there: list[str]) -> dict[str, dict[str, list[str]]]:
    """Page -> caption -> pages below it in the navigation, for the pages that there are."""
    placed = {START}

    def take(patterns: str) -> list[str]:
        taken = [name for pattern in patterns.split() for name in there
                 if name not in placed and Path(name).match(pattern)
                 and name.count("/") == pattern.count("/")]
        placed.update(taken)
        return list(dict.fromkeys(taken))

    listed = {caption: take(patterns) for caption, patterns in SECTIONS.items()}
    listed["Guides"] = take("docs/*.md")
    below = {page: {"": take(pattern)} for page, pattern in BELOW.items()}
    if lost := set(there) - placed:
        raise SystemExit(f"{__file__}: no section has {', '.join(sorted(lost))}")
    return {START: {caption: names for caption, names in listed.items() if names}, **below}


def linked_files(found: dict[str, str]) -> set[str]:
    """Files that pages link to or show, beside other pages."""
    links = {(Path(page).parent, target) for page, text in found.items()
             for target in re.findall(r"\]\(([^)#\s:]+)[^)]*\)", text)}
    files = {(ROOT / folder / target).resolve() for folder, target in links}
    return {path.relative_to(ROOT).as_posix() for path in files
            if path.is_file() and path.is_relative_to(ROOT)} - found.keys()


def assemble(target: Path) -> bool:
    """Bring the tree in `target` up to date; files that are right keep their times.

    Returns whether a page changed that has a part of the navigation, which all pages show.
    """
    found = pages()
    made = {name: text.encode() for name, text in found.items()}
    made |= {name: (ROOT / name).read_bytes() for name in linked_files(found)}
    made |= {f"docs/gallery/{path.name}": path.read_bytes() for path in gallery("*.svg")}
    for path in [path for path in target.rglob("*") if path.is_file()]:
        if path.relative_to(target).as_posix() not in made:
            path.unlink()
    changed = {name for name, data in made.items()
               if not (target / name).exists() or (target / name).read_bytes() != data}
    for name in changed:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made[name])
    return not changed.isdisjoint({START, *BELOW})


def gallery(pattern: str) -> list[Path]:
    """Pictures or pages of the gallery, which are made again if a file of the package is newer."""
    folder, sources = SITE / "gallery", [Path(generate_gallery.__file__), *ROOT.glob("nbmod/**/*")]
    made = [*folder.glob("*.*")]
    if min([path.stat().st_mtime for path in made], default=0) < max(
            path.stat().st_mtime for path in sources if path.suffix in (".py", ".js", ".css")):
        generate_gallery.write(folder)
    return sorted(folder.glob(pattern))


# -- links of the finished site -----------------------------------------------------------------


class Document(HTMLParser):
    """Where the links of a page lead, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" and value:
                self.anchors.add(value)
            elif value and (key, tag) in (("href", "a"), ("href", "link"), ("src", "img"),
                                          ("src", "script")):
                self.links.add(value)


def check_links(html: Path) -> tuple[list[str], list[str]]:
    """(links within the site that lead nowhere, addresses outside of it)."""
    document = cache(Document)
    broken, outside = [], set()
    for page in sorted(html.rglob("*.html")):
        for link in sorted(document(page).links):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                if url.scheme != "data":
                    outside.add(link)
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            anchors = document(target).anchors if target.suffix == ".html" and (
                target.is_file() and url.fragment not in ("", "top")) else {unquote(url.fragment)}
            if not target.is_file() or unquote(url.fragment) not in anchors:
                broken.append(f"{page.relative_to(html).as_posix()}: {link}")
    return broken, sorted(outside)


# -- the command --------------------------------------------------------------------------------


def sphinx(builder: str, *options: str) -> int:
    """Run Sphinx in a process of its own, with one of its builders."""
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", builder, "-c", str(ROOT / "docs"), "-W",
         "--keep-going", "-q", "-j", "auto", "-d", str(SITE / "doctrees"), *options,
         str(SITE / "source"), str(SITE / builder)]).returncode


def main(args: list[str]) -> int:
    """Build the site; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--external", action="store_true", help="check external links, too")
    parser.add_argument("--clean", action="store_true", help="begin with nothing")
    chosen = parser.parse_args(args)
    if chosen.clean:
        shutil.rmtree(SITE, ignore_errors=True)
    is_moved = assemble(SITE / "source")
    if status := sphinx("html", *(["-a"] if is_moved else [])):
        return status
    html = SITE / "html"
    (html / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>nbmod</title>'
        '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        '<a href="docs/index.html">nbmod</a>\n', encoding="utf-8")
    (html / "docs" / "gallery").mkdir(exist_ok=True)
    for path in gallery("*.html"):
        shutil.copyfile(path, html / "docs" / "gallery" / path.name)
    broken, outside = check_links(html)
    print(f"{sum(1 for _ in html.rglob('*.html'))} pages, {len(broken)} links lead nowhere, "
          f"{len(outside)} lead out of the site")
    print(*(f"  nowhere: {line}" for line in broken), *(f"  out: {link}" for link in outside),
          f"open {html / 'index.html'}", sep="\n")
    return 1 if broken else sphinx("linkcheck") if chosen.external else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
