"""The comment behind a field of a dataclass becomes the text of a parameter on the site."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import Any

import griffe


def meanings(source: str) -> dict[str, str]:
    """The fields of the class in ``source``, each with the comment in its line."""
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
        if "ClassVar" not in ast.unparse(node.annotation)
    }


class Fields(griffe.Extension):
    """Adds the fields to the docstrings of dataclasses."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """See griffe: called for each class when it is read."""
        if any(str(base).endswith("Event") for base in cls.bases):  # `Event` makes them dataclasses
            name = griffe.ExprName("dataclass", parent=cls.module)
            cls.decorators.append(griffe.Decorator(name, lineno=None, endlineno=None))

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """See griffe: called for each class after it was read."""
        if cls.docstring is None or not any("dataclass" in str(each.value) for each in cls.decorators):
            return
        fields = [f":param {name}: {text}" for name, text in meanings(cls.source).items()]
        if fields and not re.search(r"^:param", cls.docstring.value, re.MULTILINE):
            cls.docstring.value += "\n\n" + "\n".join(fields)
