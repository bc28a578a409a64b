"""Which grammar a file is written in. Each is imported when the first file of its kind comes."""

import functools
import os
import re
from collections.abc import Mapping
from importlib import import_module

import tree_sitter

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Grammar:
    """A language, the module its grammar comes from, and the function there that gives it.

    `is_exact` says that an error in its tree is one: the grammar knows all of the language.
    """

    language: str
    module: str
    function: str = "language"
    is_exact: bool = False


_GRAMMARS = {
    "bash": Grammar("bash", "tree_sitter_bash"),
    "c": Grammar("c", "tree_sitter_c"),
    "cpp": Grammar("cpp", "tree_sitter_cpp"),
    "css": Grammar("css", "tree_sitter_css"),
    "go": Grammar("go", "tree_sitter_go", is_exact=True),
    "html": Grammar("html", "tree_sitter_html"),
    "java": Grammar("java", "tree_sitter_java"),
    "javascript": Grammar("javascript", "tree_sitter_javascript", is_exact=True),
    "json": Grammar("json", "tree_sitter_json", is_exact=True),
    # JSON for people: with comments, and commas where JSON has none.
    "jsonc": Grammar("jsonc", "tree_sitter_json"),
    "python": Grammar("python", "tree_sitter_python", is_exact=True),
    "ruby": Grammar("ruby", "tree_sitter_ruby", is_exact=True),
    "rust": Grammar("rust", "tree_sitter_rust"),
    "toml": Grammar("toml", "tree_sitter_toml", is_exact=True),
    "tsx": Grammar("tsx", "tree_sitter_typescript", "language_tsx"),
    "typescript": Grammar("typescript", "tree_sitter_typescript", "language_typescript"),
    "yaml": Grammar("yaml", "tree_sitter_yaml", is_exact=True),
}

_ENDINGS: Mapping[str, str] = {
    ".bash": "bash",
    ".c": "c",
    ".cc": "cpp",
    ".cjs": "javascript",
    ".cpp": "cpp",
    ".css": "css",
    ".cts": "typescript",
    ".cxx": "cpp",
    ".geojson": "json",
    ".go": "go",
    ".h": "cpp",
    ".hh": "cpp",
    ".hpp": "cpp",
    ".htm": "html",
    ".html": "html",
    ".hxx": "cpp",
    ".java": "java",
    ".js": "javascript",
    ".json": "json",
    ".jsonc": "jsonc",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".mts": "typescript",
    ".py": "python",
    ".pyi": "python",
    ".rake": "ruby",
    ".rb": "ruby",
    ".rs": "rust",
    ".sh": "bash",
    ".toml": "toml",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".webmanifest": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}

_NAMES: Mapping[str, str] = {
    ".babelrc": "jsonc",
    ".bash_profile": "bash",
    ".bashrc": "bash",
    ".eslintrc": "jsonc",
    ".jshintrc": "jsonc",
    ".profile": "bash",
    "BUILD.bazel": "python",
    "Cargo.lock": "toml",
    "Gemfile": "ruby",
    "Pipfile": "toml",
    "Rakefile": "ruby",
    "poetry.lock": "toml",
    "uv.lock": "toml",
}

_COMMENTED_JSON = re.compile(
    r"(ts|js|app)?config(\..*)?\.json|\.?eslintrc\.json|\.?devcontainer\.json|\.?swcrc|settings\.json"
    r"|(launch|tasks|keybindings|extensions)\.json|\.?jshintrc|.*\.code-workspace|deno\.json"
    r"|(turbo|nx|biome|api-extractor|angular|language-configuration|tslint|typedoc)\.json",
)


def grammar_of(path: str) -> Grammar | None:
    """The grammar of the file with this name, None if we have none."""
    name = os.path.basename(path)
    ending = os.path.splitext(name)[1].lower()
    language = _NAMES.get(name) or _ENDINGS.get(ending)
    if language == "json" and (_COMMENTED_JSON.fullmatch(name) or "/.vscode/" in path):
        language = "jsonc"
    if ending == ".code-workspace":
        language = "jsonc"
    return None if language is None else _GRAMMARS[language]


@functools.cache
def load(grammar: Grammar) -> tree_sitter.Language:
    """The grammar, ready for a parser.

    Raises:
        ImportError: it is not installed.
    """
    return tree_sitter.Language(getattr(import_module(grammar.module), grammar.function)())
