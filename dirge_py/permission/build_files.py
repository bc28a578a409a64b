"""Which files build tools and test runners take their orders from, by the name of the tool."""

import re
from collections.abc import Sequence

from dirge_py.permission.words import listed

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
_TEST_RUNNERS = listed("pytest py.test unittest tox nox jest vitest mocha rspec phpunit ctest")
_TEST_WORDS = ("test", "check", "ci", "spec")
_TEST_FILE = re.compile(
    r"conftest\.py|tests?[_.-].+|.+[_.-](?:tests?|spec)\.[A-Za-z]+", re.IGNORECASE
)


def build_files(tool: str) -> Sequence[str]:
    """Names of files, relative to the project, that `tool` reads what to do from; often none."""
    return _FILES_OF.get(tool, ())


def runs_tests(words: Sequence[str]) -> bool:
    """Whether this command would run the tests of a project, as far as its words tell."""
    if words[0] in _TEST_RUNNERS:
        return True
    is_build = words[0] in _FILES_OF
    return is_build and any(word.startswith(_TEST_WORDS) for word in words[1:])


def is_test_file(name: str) -> bool:
    """Whether a test runner would take a file of this name for tests."""
    return _TEST_FILE.fullmatch(name) is not None
