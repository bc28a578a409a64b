"""The files that a command would run or name, with their current versions.

An approval covers these files as they were at the time of the question. Build tools and test
runners count with their build files. Files that a script loads in turn or that a build file
includes are not known from the words, so they are not covered.
"""

import os
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise

from dirge_py.files.versions import fingerprint, short_digest, version_text
from dirge_py.git.repository import UnreadableRepository, repository_setting, work_tree_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import is_below_any, upwards
from dirge_py.lib.shell_lexer import word_set
from dirge_py.permission.blocklist import with_home
from dirge_py.permission.command_scan import CommandScan, raw_words, scan_command
from dirge_py.permission.git.repository import EVERY_HOOK, git_dir_of
from dirge_py.permission.launchers import SHELLS, WRAPPERS
from dirge_py.permission.path_mentions import CWD_SIGN, folders_entered
from dirge_py.permission.patterns import GLOB, GlobExpander, program_of
from dirge_py.processes.programs import PROGRAM_FOLDERS
from dirge_py.types.tools import ShellCommand

MAX_FILES = 128
"""The most files identified by content; further ones are identified only by their link target."""
_MOST_PATHS = 1024
_MOST_FOLDERS = 16
_MOST_LEVELS = 8
_MOST_LEADING = 4
_MOST_ENTRIES = 4000
_LONGEST_PATH = 4096
_INTERPRETER = late_pattern(
    r"(?:python|pypy|node|deno|bun|perl|ruby|php|lua|Rscript|tclsh|expect|awk|gawk|mawk|osascript"
    r"|java|julia|pwsh)[0-9.]*"
)
_READERS = word_set(". source xargs parallel trap coproc run-parts")
# The question names their files, and they change or show them, but never run them.
_NEVER_RUNS = word_set(
    "rm rmdir unlink touch mkdir chmod chown chgrp truncate shred cat head tail wc ls grep egrep"
    " fgrep rg sort uniq cut tr diff cmp stat file du df echo printf cd pushd popd test [ basename"
    " dirname realpath readlink sqlite3 sleep kill"
)
_GIT_RUNS = word_set("apply am bisect rebase filter-branch submodule")
_FOLDER_OPTIONS = word_set(
    "-C -d --chdir --directory --cwd --dir --prefix --project --project-directory --root"
    " --working-directory --rootdir"
)
_ASSIGNED = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*=(.+)")
_HOOKS_PATH = late_pattern(r"core\.hookspath=(.+)", re.IGNORECASE | re.DOTALL)
_SUBSTITUTION = late_pattern(r"\$\(|`")
_SKIPPED = word_set("node_modules __pycache__ venv site-packages target dist build")


def files_run(commands: Iterable[ShellCommand], *, home: str, path: str = "") -> Mapping[str, str]:
    """Map paths to fingerprints of what `commands` run or name; `path` is their `PATH`.

    Missing files are left out, so that creating one is a change. A path that is only named counts
    only if it goes through links. A path that ends in `/` stands for all tests below it.
    """
    found: dict[str, str] = {}
    for command in commands:
        found.update(_FileCollector(command, home, path).fingerprints())
    return found


class _FileCollector:
    """Collects the files of one command line."""

    def __init__(self, command: ShellCommand, home: str, path: str) -> None:
        self._cwd = command.cwd
        self._home = home
        self._path = path
        self._expansions = GlobExpander()
        self._scan = scan = scan_command(command.text)
        raw = raw_words(command.text)
        # `BASH_ENV=b.sh bash -c true`
        self._assigned = [found[1] for word in raw if (found := _ASSIGNED.fullmatch(word))]
        self._raw_words = raw if scan.is_torn or "$" in command.text else ()
        self._asked_folders = self._all_folders(scan)
        self._folders = list(dict.fromkeys(map(os.path.realpath, self._asked_folders)))
        self._feeds_interpreter = _SUBSTITUTION.search(command.text) is not None or any(
            map(_interprets, scan.commands)
        )

    def fingerprints(self) -> Mapping[str, str]:
        found = {path: fingerprint(path, with_content=False) for path in self._asked_folders}
        contents = 0
        for path, is_run in islice(self._paths().items(), _MOST_PATHS):
            with_content = is_run and contents < MAX_FILES
            found[path] = fingerprint(path, with_content=with_content)
            contents += with_content and found[path] is not None
        found.update(self._tests())
        return {path: value for path, value in found.items() if value is not None}

    def _paths(self) -> Mapping[str, bool]:
        """Return every path to check, and whether its content counts."""
        paths: dict[str, bool] = {}
        for words in self._scan.commands:
            never_runs = not self._feeds_interpreter and _never_runs(words)
            paths |= dict.fromkeys(chain(self._program(words[0]), self._orders(words)), True)
            for path in self._named(_arguments(words)):
                # The target of a link counts even for a path that is created or removed.
                is_run = not never_runs and (_interprets(words) or os.path.isfile(path))
                paths[path] = paths.get(path, False) or is_run
            if _interprets(words):
                operands = [word for word in words[1:] if not word.startswith("-")]
                # `python3 folder`, `run-parts folder`
                listings = (_listing(one, MAX_FILES) for one in self._named(operands[:1]))
                paths |= {entry.path: True for listing in listings for entry in listing}
        named = self._named([*self._scan.sources, *self._assigned])
        scripts = chain(named, filter(os.path.isfile, self._named(self._raw_words)))
        return paths | dict.fromkeys(scripts, True)

    def _program(self, name: str) -> Iterator[str]:
        """Yield the file of this program, if a user could have written it."""
        if "/" in name:
            yield from self._named([name])
            return
        found = shutil.which(name, path=self._path) if self._path else None
        if found is not None and not is_below_any(os.path.realpath(found), PROGRAM_FOLDERS):
            yield found

    def _orders(self, words: Sequence[str]) -> Iterator[str]:
        """Yield files that the tool reads by itself: build files, modules of Python."""
        tool = program_of(words)
        # `yarn jest`, `bundle exec rspec`: the tool is one of the first words.
        for each in dict.fromkeys(_tools(words)):
            for name in _FILES_OF.get(each, ()):
                yield from (os.path.join(folder, name) for folder in self._upwards())
        if tool == "git":
            # `git -c core.hooksPath=h`; `GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=h git`
            named = [found[1] for word in words if (found := _HOOKS_PATH.search(word))]
            for folder in self._folders:
                yield from _hooks(folder, map(self._as_path, [*named, *self._assigned]))
        for module in _modules(words):
            for folder in self._folders:
                base = os.path.join(folder, *module.split("."))
                yield from (f"{base}.py", f"{base}/__init__.py", f"{base}/__main__.py")

    def _named(self, words: Iterable[str]) -> Iterator[str]:
        for piece in dict.fromkeys(piece for word in words for piece in _pieces(word)):
            text = self._as_path(piece)
            for folder in self._folders:
                if GLOB.search(text):
                    for path in self._expansions.expand(folder, text) or ():
                        yield _joined(folder, path)
                yield _joined(folder, text)

    def _as_path(self, text: str) -> str:
        return with_home(CWD_SIGN.sub(".", text, count=1), self._home)

    def _tests(self) -> Mapping[str, str]:
        """Return one fingerprint for the tests below each folder with tests."""
        found: dict[str, str] = {}
        for words in self._scan.commands:
            names_tests = any(word.startswith(_TEST_WORDS) for word in words[1:])
            known = {*_TEST_RUNNERS, *(_FILES_OF if names_tests else ())}
            if known.isdisjoint(_tools(words)):
                continue
            named = [path for path in self._named(_arguments(words)) if os.path.isdir(path)]
            for folder in named or self._folders[:1]:
                if folder not in ("/", self._home):
                    found[os.path.join(folder, "")] = _tests_beneath(folder)
        return found

    def _all_folders(self, scan: CommandScan) -> Sequence[str]:
        folders = folders_entered(scan.commands, [self._cwd], self._home)
        for words in scan.commands:
            for target in _folder_values(words):
                if "\0" in target:
                    continue  # No folder has such a name.
                text = with_home(target, self._home)
                folders += [os.path.normpath(os.path.join(one, text)) for one in list(folders)]
                folders = list(dict.fromkeys(folders))[:_MOST_FOLDERS]
        return folders

    def _upwards(self) -> Iterator[str]:
        """Yield the folders, and those above them within the repository."""
        for folder in self._folders:
            for at in upwards(folder)[:_MOST_LEVELS]:
                yield at
                if os.path.lexists(os.path.join(at, ".git")) or at in ("/", self._home):
                    break


def _tools(words: Sequence[str]) -> Sequence[str]:
    """Return the tools that the first words of the command could name."""
    return (program_of(words), *_modules(words), *words[1:_MOST_LEADING])


def _interprets(words: Sequence[str]) -> bool:
    name = program_of(words)
    return name in SHELLS or name in _READERS or _INTERPRETER.fullmatch(name) is not None


def _never_runs(words: Sequence[str]) -> bool:
    name = program_of(words)
    if name == "git":
        return not any(word in _GIT_RUNS for word in words[1:3])
    if name in WRAPPERS:
        return any(word in _NEVER_RUNS for word in words[1:])
    return name in _NEVER_RUNS


def _arguments(words: Sequence[str]) -> Sequence[str]:
    # `tests/test_a.py::test_b` names a file, too.
    return [word.partition("::")[0] for word in words[1:]]


def _modules(words: Sequence[str]) -> Iterator[str]:
    """Yield the names of modules that Python would run."""
    if not program_of(words).startswith(("python", "pypy")):
        return
    for option, value in pairwise((*words[1:], "")):
        flags, is_module, glued = option.partition("m")
        if is_module and flags[:1] == "-" and flags[1:2] != "-" and (glued or value):
            yield glued or value


def _folder_values(words: Sequence[str]) -> Iterator[str]:
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, sign, value = word.partition("=")
        if option in _FOLDER_OPTIONS and (value if sign else following):
            yield value if sign else following
        elif word.startswith("-C") and len(word) > len("-C"):
            yield word[len("-C") :]


def _pieces(word: str) -> Iterator[str]:
    attached = word[2:] if word[:1] in ("-", "@") else ""
    for piece in (word, word.partition("=")[2], attached, word.lstrip("@")):
        if piece and not piece.startswith("-") and "\0" not in piece and len(piece) < _LONGEST_PATH:
            yield piece


def _joined(folder: str, path: str) -> str:
    # Keep `..`: after a link it leads to the parent of the link's target.
    parts = os.path.join(folder, path).split("/")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


def _hooks(folder: str, named: Iterable[str]) -> Iterator[str]:
    """Yield the hooks of the repository around the physical `folder`, and those in `named` folders.

    Git resolves these folders from the top of the work tree.
    """
    try:
        git_dir = git_dir_of(folder)
        if git_dir is None:
            return
        main = os.path.dirname(git_dir) if os.path.basename(git_dir) == ".git" else folder
        chosen = [repository_setting(git_dir, "core.hookspath"), *named]
    except (OSError, UnreadableRepository, UnicodeError, ValueError):
        return
    places = [f"{git_dir}/hooks", f"{main}/.husky"]
    for text in chosen:
        value = os.path.expanduser(text.strip("'\""))
        if value and "\0" not in value:
            places += [os.path.join(start, value) for start in (main, work_tree_of(folder), folder)]
    for place in dict.fromkeys(places):
        listing = _listing(place, MAX_FILES)
        yield from (entry.path for entry in listing if not entry.name.endswith(".sample"))
        # A folder with too many files is not listed, but git still runs the hooks of these names.
        yield from (f"{place}/{name}" for name in (() if listing else EVERY_HOOK))


def _tests_beneath(folder: str) -> str:
    """Return a fingerprint of the names and versions of the nearest test files below `folder`."""
    found: list[str] = []
    pending = deque([folder])
    entries_left = _MOST_ENTRIES
    while pending and entries_left > 0:
        listing = _listing(pending.popleft(), entries_left)
        entries_left -= len(listing)
        for entry in listing:
            if entry.is_symlink():
                # Python 3.11 raises for a link that only its owner may read.
                with suppress(OSError):
                    found += [entry.path, os.path.realpath(entry.path)]
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                    pending.append(entry.path)
            elif _TEST_FILE.fullmatch(entry.name):
                with suppress(OSError):
                    found += [entry.path, version_text(entry.stat())]
    return short_digest(*found)


def _listing(folder: str, most: int) -> Sequence["os.DirEntry[str]"]:
    """Return the entries of `folder`, sorted by name; empty if there are more than `most`."""
    try:
        with os.scandir(folder) as scanned:
            listing = list(islice(scanned, most + 1))
    except OSError:
        return ()
    return sorted(listing, key=lambda entry: entry.name) if len(listing) <= most else ()


_PYTHON = "pyproject.toml setup.cfg setup.py tox.ini"
_PYTEST = f"conftest.py pytest.ini .pytest.ini pytest.toml {_PYTHON}"
_NODE = "package.json .npmrc .yarnrc.yml pnpm-workspace.yaml"
_GRADLE = "build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties"


def _named(stem: str) -> str:
    return " ".join(f"{stem}.{ending}" for ending in ("js", "mjs", "cjs", "ts", "mts", "json"))


_FILES = {
    "make gmake bmake": "GNUmakefile makefile Makefile BSDmakefile",
    "just": "justfile Justfile .justfile",
    "task": "Taskfile.yml Taskfile.yaml taskfile.yml",
    "npm npx yarn pnpm bun bunx": _NODE,
    "jest": f"{_NODE} {_named('jest.config')}",
    "vitest vite": f"{_NODE} {_named('vitest.config')} {_named('vite.config')}",
    "eslint prettier tsc webpack rollup next": f"{_NODE} {_named('eslint.config')} tsconfig.json"
    f" .eslintrc .eslintrc.js .eslintrc.cjs .eslintrc.json {_named('webpack.config')}"
    f" {_named('rollup.config')} {_named('next.config')} prettier.config.js .prettierrc",
    "mocha playwright cypress": f"{_NODE} .mocharc.js .mocharc.json .mocharc.yml"
    f" {_named('playwright.config')} {_named('cypress.config')}",
    "deno": "deno.json deno.jsonc",
    "pytest py.test": _PYTEST,
    "tox": f"tox.toml {_PYTEST}",
    "nox": f"noxfile.py {_PYTEST}",
    "ruff mypy black isort pylint flake8 coverage": f"ruff.toml mypy.ini .flake8 {_PYTHON}",
    "pip pip3 uv uvx poetry pdm hatch pipenv build twine": f"{_PYTHON} requirements.txt Pipfile",
    "invoke inv": "tasks.py invoke.yaml",
    "fab": "fabfile.py",
    "pre-commit": ".pre-commit-config.yaml",
    "lefthook": "lefthook.yml",
    "cargo": "Cargo.toml build.rs .cargo/config.toml .cargo/config rust-toolchain.toml",
    "go": "go.mod go.work",
    "cmake ctest cpack": "CMakeLists.txt CMakePresets.json CTestTestfile.cmake",
    "meson": "meson.build",
    "ninja": "build.ninja",
    "scons": "SConstruct",
    "waf": "wscript",
    "bazel": "WORKSPACE MODULE.bazel BUILD BUILD.bazel .bazelrc",
    "mvn mvnw": "pom.xml",
    "gradle gradlew": _GRADLE,
    "sbt": "build.sbt",
    "ant": "build.xml",
    "rake": "Rakefile rakefile",
    "bundle": "Gemfile",
    "rspec": ".rspec spec/spec_helper.rb",
    "composer": "composer.json",
    "phpunit": "phpunit.xml phpunit.xml.dist",
    "mix": "mix.exs",
    "zig": "build.zig",
    "swift": "Package.swift",
    "dotnet": "Directory.Build.props Directory.Build.targets",
    "docker podman docker-compose": "Dockerfile Containerfile docker-compose.yml"
    " docker-compose.yaml compose.yml compose.yaml",
    "vagrant": "Vagrantfile",
    "snakemake": "Snakefile",
    "terraform tofu": "main.tf",
}
_FILES_OF = {
    tool: tuple(files.split()) for tools, files in _FILES.items() for tool in tools.split()
}
_TEST_RUNNERS = word_set("pytest py.test unittest tox nox jest vitest mocha rspec phpunit ctest")
_TEST_WORDS = ("test", "check", "ci", "spec")
_TEST_FILE = late_pattern(
    r"conftest\.py|tests?[_.-].+|.+[_.-](?:tests?|spec)\.[A-Za-z]+", re.IGNORECASE
)
