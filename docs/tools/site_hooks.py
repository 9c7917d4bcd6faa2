"""Hooks of MkDocs.

The pages have two kinds of readers: of a checkout, and of the site. Links to files outside docs/ (scripts,
tests, rules) work in a checkout. For the site these files are copied into pages of their own.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from site_svg import ALONE

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
log = get_plugin_logger("site")

_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
_NAMED_TEST = re.compile(r"\[`?(test_\w+)`?\]\(([^)#\s]+)\)")
_INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
_MERMAID = re.compile(r"^<!-- on the site: (.+) -->\n```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r'<img alt="([^"]*)" src="[^"]*?((?:diagrams|performance)/[\w-]+\.svg)" ?/?>')
#: A link whose text is the name of a page. The site shows the title of that page in its place.
_FILE_NAME = re.compile(r"\[`?(?:[\w./-]+/)?([\w-]+\.md)`?\]\((?!\w+:)([\w./-]+\.md)((?:#[\w-]+)?)\)")
#: A block that is a file has the name of the file as its title.
_FILE = re.compile(r"(^<!-- recipe: (\S+\.\w+) -->\n```\w+)$", re.MULTILINE)
_SCHEME = "source:"
_LANGUAGES = {".py": "python", ".lua": "lua", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".c": "c"}


def _outside(page: str, target: str) -> Path | None:
    """The file of the checkout that a link leads to; None: the link leads to a page of the site."""
    path = (DOCS / posixpath.dirname(page) / target).resolve()
    if not path.is_relative_to(TOP) or not path.exists():
        return None
    if path.is_relative_to(DOCS) and path.suffix != ".py" and not path.is_dir():
        return None
    return path


def _uri(path: Path) -> str:
    """The place of a file's copy in the site."""
    inside = path.relative_to(TOP).as_posix()
    return f"source/{inside}/index.md" if path.is_dir() else f"source/{inside}.md"


def _links(page: str, text: str) -> list[Path]:
    return [found for target, _ in _LINK.findall(text) if (found := _outside(page, target)) is not None]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The addresses of the site and of the repository are those of pyproject.toml."""
    urls = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    config.site_url, config.repo_url, config.edit_uri = urls["Documentation"], urls["Repository"], ""
    config.repo_name = "Repository"
    return config


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Keep the theme from asking the repository's host for the number of stars."""
    return output.replace(' data-md-component="source"', "")


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for the page of a missing page."""
    return output_content.replace(' data-md-component="source"', "")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file or folder outside docs/ that some page links to."""
    wanted: dict[str, Path] = {}
    for file in list(files.documentation_pages()):
        for path in _links(file.src_uri, _include(file.src_uri, file.content_string)):
            wanted[_uri(path)] = path
            if path.is_dir():
                for each in path.iterdir():
                    if each.is_file() and each.suffix in _LANGUAGES:
                        wanted[_uri(each)] = each
    for uri, path in wanted.items():
        made = File.generated(config, uri, content=_page(path))
        made.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(made)
    return files


def _page(path: Path) -> str:
    """A file or folder of the checkout as a page; the search leaves it out."""
    head = f"---\nsearch:\n  exclude: true\n---\n# {path.relative_to(TOP).as_posix()}\n\n"
    if path.is_dir():
        inside = [each for each in sorted(path.iterdir()) if each.is_file() and each.suffix in _LANGUAGES]
        return head + "".join(f"- [{each.name}]({each.name}.md)\n" for each in inside)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = _LINK.sub(lambda link: _from_copy(path, *link.groups("")), text)
        return head + re.sub(r"^# ", "## ", text, flags=re.MULTILINE)
    return f'{head}````{{.{_LANGUAGES.get(path.suffix, "text")} linenums="1"}}\n{text}````\n'


def _from_copy(path: Path, target: str, anchor: str) -> str:
    """The end of a link in the copy of a page from outside docs/: it leads to pages of docs/ only."""
    found = (path.parent / target).resolve()
    if not found.is_relative_to(DOCS) or not found.is_file():
        return "]"
    inside = found.relative_to(DOCS).as_posix()
    return f"]({posixpath.relpath(inside, posixpath.dirname(_uri(path)))}{anchor})"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert included files, and change links out of docs/ to the copies in the site."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    # A checkout shows mermaid. The site must not, because the browser would fetch mermaid from a CDN.
    markdown = _FILE.sub(r'\1 title="\2"', _MERMAID.sub(r"\1", _include(uri, markdown)))

    def lead(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        path = _outside(uri, target)
        if path is not None:
            return f"]({_SCHEME}{path.relative_to(TOP).as_posix()}{anchor})"
        return match[0]

    def line(match: re.Match[str]) -> str:
        path = _outside(uri, match[2])
        number = _line_of(path, match[1]) if path is not None and path.is_file() else 0
        return f"[`{match[1]}`]({match[2]}#{number})" if number else match[0]

    def title(match: re.Match[str]) -> str:
        path = (DOCS / posixpath.dirname(uri) / match[2]).resolve()
        if not path.is_relative_to(DOCS) or path.name != match[1] or not path.exists():
            return match[0]
        (first,) = re.findall(r"\A# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        return f"[{first}]({match[2]}{match[3]})"

    return _LINK.sub(lead, _NAMED_TEST.sub(line, _FILE_NAME.sub(title, markdown)))


def _line_of(path: Path, test: str) -> int:
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if re.match(rf"\s*(async )?def {test}\(", text):
            return number
    return 0


def _include(uri: str, markdown: str) -> str:
    """Replace each include by its file: a page as it is, any other file as a block of code."""
    folder = posixpath.dirname(uri)

    def put(match: re.Match[str]) -> str:
        path = (DOCS / folder / match[1]).resolve()
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            return _LINK.sub(lambda link: f"]({_moved(path, folder, link[1])}{link[2] or ''})", text)
        return f"````{_LANGUAGES.get(path.suffix, 'text')}\n{text}````"

    return _INCLUDE.sub(put, markdown)


def _moved(page: Path, folder: str, target: str) -> str:
    """A link of ``page``, as a page in ``folder`` of docs/ has to write it."""
    return posixpath.relpath((page.parent / target).as_posix(), (DOCS / folder).as_posix())


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Resolve the links to the copies, and put drawings into the page, so that they have its colours."""

    def resolve(match: re.Match[str]) -> str:
        inside, _, anchor = match[1].partition("#")
        file = files.get_file_from_path(_uri(TOP / inside))
        if file is None:
            log.warning("%s: %s is not in the site", page.file.src_uri, inside)
            return match[0]
        told = f"#__codelineno-0-{anchor}" if anchor.isdigit() else anchor and f"#{anchor}"
        return f'href="{get_relative_url(file.url, page.url)}{told}"'

    def inline(match: re.Match[str]) -> str:
        # Otherwise the drawing would follow the system's colours, and the reader may have chosen others here.
        svg = (DOCS / match[2]).read_text(encoding="utf-8").replace(ALONE, "")
        kind = "drawing plot" if match[2].startswith("performance/") else "drawing"
        return f'<span class="{kind}" role="img" aria-label="{match[1]}">{svg}</span>'

    return _IMAGE.sub(inline, re.sub(rf'href="{_SCHEME}([^"]+)"', resolve, html))
