"""What a field of a dataclass means stands in a comment behind it; on the site it is a parameter's text."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import Any

import griffe


def meanings(source: str) -> dict[str, str]:
    """The fields of a class whose source this is, with the comment in the line of each."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {
        node.target.id: comments[node.lineno]
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.lineno in comments
    }


class Fields(griffe.Extension):
    """Add them to the docstrings of dataclasses."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called by griffe for each class that it has read."""
        if cls.docstring is None or not any("dataclass" in str(each.value) for each in cls.decorators):
            return
        # A comment is for people: `code` is marked, and the rest is plain.
        told = [f":param {name}: {text}" for name, text in meanings(cls.source).items()]
        if told and not re.search(r"^:param", cls.docstring.value, re.MULTILINE):
            cls.docstring.value += "\n\n" + "\n".join(told)
