"""Runs `python -m dirge_py` many times, as forks of one process that has loaded it.

    python program_forks.py        # reads one request per line, answers each with one line

A request is JSON: `words` (the arguments; or `script`, a file to run instead), `cwd`,
`environment`, and the files for stdin, stdout and stderr. The answer is the exit code.
"""

import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WARMING_UP = [
    {
        "calls": [
            {"name": "bash", "arguments": {"command": "touch a"}},
            {"name": "write", "arguments": {"path": "b", "content": "b"}},
        ]
    },
    {"text": "Hello."},
]


@dataclass(frozen=True)
class ProcessResult:
    """Exit code and output of a finished process."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Program:
    """Starts processes of the program; a context manager."""

    def __enter__(self) -> "Program":
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(
        self,
        *words: str,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: str = "",
        script: Path | None = None,
    ) -> ProcessResult:
        """Run it to its end: `dirge WORDS`, or `python SCRIPT WORDS`."""
        with tempfile.TemporaryDirectory() as name:
            streams = [Path(name, stream) for stream in ("in", "out", "err")]
            streams[0].write_text(stdin, encoding="utf-8")
            request = {
                "words": words,
                "script": script and str(script),
                "cwd": str(cwd),
                "environment": dict(environment),
                "streams": [str(stream) for stream in streams],
            }
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            exit_code = int(self._process.stdout.readline())
            out, err = (stream.read_text(encoding="utf-8") for stream in streams[1:])
        assert "Traceback" not in err, err
        return ProcessResult(exit_code, out, err)


def serve() -> None:
    """Answer requests until the end of input, each in its own process."""
    _load()
    for line in sys.stdin:
        print(_in_a_child(json.loads(line)), flush=True)  # noqa: T201 - the answer


def _load() -> None:
    """Import what a run with calls and commands needs, by running one."""
    with tempfile.TemporaryDirectory() as name:
        folder, project, loaded = Path(name), Path(name, "project"), Path(name, "loaded")
        project.mkdir()
        script = folder / "script.json"
        script.write_text(json.dumps({"replies": WARMING_UP}))
        provider = f'[providers.p]\ntype = "scripted"\nmodel = "m"\nscript = "{script}"\n'
        (folder / "config.toml").write_text(provider)
        (folder / "in").write_text("Hello.\n/undo\n")
        request = {
            "words": ["--line", "--yolo"],
            "script": None,
            "cwd": str(project),
            "environment": {
                "PATH": os.environ["PATH"],
                "HOME": name,
                "DIRGE_CONFIG_DIR": name,
                "DIRGE_STATE_DIR": str(folder / "state"),
            },
            "streams": [str(folder / stream) for stream in ("in", "out", "err")],
        }
        _in_a_child(request, lambda: loaded.write_text("\n".join(sys.modules)))
        for module in loaded.read_text().split():
            if module.partition(".")[0] != "__main__":
                __import__(module)
    # What is here stays, and no child has to look through it for garbage.
    gc.collect()
    gc.freeze()


def _in_a_child(request: Mapping[str, Any], at_end: Any = None) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _play(request, at_end)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _play(request: Mapping[str, Any], at_end: Any) -> None:
    """Become the requested process. Does not return."""
    exit_code = 1
    try:
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        _take_over(request["streams"])
        exit_code = _exit_code_of(request, at_end)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _exit_code_of(request: Mapping[str, Any], at_end: Any) -> int:
    really_exit = os._exit

    def exit_at_end(code: int) -> None:
        if at_end is not None:
            at_end()
        really_exit(code)

    os._exit = exit_at_end  # type: ignore[assignment]
    try:
        if request["script"]:
            sys.argv[:] = [request["script"], *request["words"]]
            runpy.run_path(request["script"], run_name="__main__")
        else:
            sys.argv[:] = ["dirge", *request["words"]]
            runpy.run_module("dirge_py", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _take_over(streams: list[str]) -> None:
    given, out, err = streams
    for number, (path, flags) in enumerate(
        ((given, os.O_RDONLY), (out, os.O_WRONLY | os.O_CREAT), (err, os.O_WRONLY | os.O_CREAT))
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)


if __name__ == "__main__":
    serve()
