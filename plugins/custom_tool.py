"""Give the model a tool: `outline`, the classes and functions of a Python file with their lines.

The model reads the docstring, and the annotations become the schema. `op` and `resource` say what
a call would do, so that the usual rules decide about it: reading inside the project is allowed.
"""

import ast
from pathlib import Path
from typing import Annotated


def register(dirge):
    @dirge.tool(op="read", resource="path", mode="parallel")
    def outline(path: Annotated[str, "A Python file."], ctx) -> str:
        """List the classes and functions of a Python file with their line numbers.

        Cheaper than reading the file when you only need to know what is where.
        """
        file = Path(ctx.cwd, path)
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return f"There is no {path}. Use `glob` to find it."
        except (SyntaxError, UnicodeDecodeError) as error:
            return f"{path} cannot be parsed ({error}). Use `read`."
        return "\n".join(lines_of(tree)) or f"{path} defines no classes or functions."


def lines_of(node, indent=""):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield f"{child.lineno:>5} {indent}class {child.name}"
            yield from lines_of(child, indent + "  ")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{child.lineno:>5} {indent}def {child.name}({ast.unparse(child.args)})"
