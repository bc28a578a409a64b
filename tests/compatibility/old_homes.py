"""Restores a home of an earlier version, with paths and times of this machine."""

import hashlib
import json
import os
import re
import subprocess
import time
import zlib
from pathlib import Path
from typing import Any

from tests.compatibility.model_service import Service
from tests.compatibility.program_forks import ProcessResult, Program

DATA = Path(__file__).parent / "data"
KEY = "sk-fake-0123456789"


class OldHome:
    """Settings, sessions and a project, with a scripted model service."""

    def __init__(self, name: str, base: Path, program: Program, service: Service) -> None:
        self.base, self.service = base, service
        self._program = program
        self.project, self.config, self.state = base / "project", base / "config", base / "state"
        for folder in (base / "home", self.project, self.config, self.state):
            folder.mkdir(parents=True)
        self._digested: list[str] = []
        subprocess.run(["git", "init", "-q", "--template=", self.project], check=True)
        self._bring_back(DATA / "homes" / name)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(base / "home"),
            "LANG": "C.UTF-8",
            "DIRGE_CONFIG_DIR": str(self.config),
            "DIRGE_STATE_DIR": str(self.state),
            "DIRGE_LOCAL_SERVERS": "",
            "FAKE_KEY": KEY,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": service.url,
        }

    def run(self, *words: str, code: int = 0, stdin: str = "", script: Path | None = None) -> str:
        """The output of `dirge WORDS` (or `python SCRIPT WORDS`), which must exit with `code`."""
        result = self.try_to_run(*words, stdin=stdin, script=script)
        assert result.exit_code == code, result
        return result.stdout

    def try_to_run(self, *words: str, stdin: str = "", script: Path | None = None) -> ProcessResult:
        return self._program.run(
            *words, cwd=self.project, environment=self.environment, stdin=stdin, script=script
        )

    def ask(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The result object of `dirge -p WORDS`."""
        data: dict[str, Any] = json.loads(
            self.run("-p", "--output-format", "json", *words, code=code)
        )
        return data

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The messages of the last request."""
        messages: list[dict[str, Any]] = self.service.requests[-1]["messages"]
        return messages

    @property
    def sent_texts(self) -> list[str]:
        """The texts of the last request's messages, without the system prompt."""
        return [message["content"] for message in self.sent if message["role"] != "system"]

    def export(self, session: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(
            self.run("sessions", "export", session, "--format", "json")
        )
        return data

    def continuation(self, session: str) -> str:
        """The continuation file of the waiting call in this session."""
        (path,) = self.state.glob(f"continuations/{session}-*.json")
        return str(path)

    def kept(self, name: str) -> str:
        """A file stored with the home, with the paths of this machine."""
        return (self.base / name).read_text(encoding="utf-8")

    def _bring_back(self, source: Path) -> None:
        digested = source / "digested.json"
        if digested.exists():
            self._digested = json.loads(self._read_here(digested.read_text(encoding="utf-8")))
        for path in sorted(source.rglob("*")):
            if not path.is_file():
                continue
            place = self._read_here(str(path.relative_to(source)))
            place = place.removesuffix(".txt") if place.endswith(".py.txt") else place
            text = self._read_here(path.read_text(encoding="utf-8"))
            target = self.base / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_CRC.sub(_with_checksum, text), encoding="utf-8")
        for exported in self.state.glob("snapshots/*.fast-export"):
            _import_store(exported)

    def _read_here(self, text: str) -> str:
        there = self.project.stat()
        for stand_in, value in {
            "project-@ID@": project_id(self.project),
            "state-@ID@": project_id(self.state),
            "@BASE@": str(self.base),
            "@SERVICE@": self.service.url,
            "@NOW@": str(int(time.time())),
            "@TODAY@": time.strftime("%Y%m%d", time.gmtime()),
            "@DEVICE@": str(there.st_dev),
            "@INODE@": str(there.st_ino),
        }.items():
            text = text.replace(stand_in, value)
        for number, of in enumerate(self._digested):
            digest = hashlib.sha256(of.encode()).hexdigest()
            text = text.replace(f"@DIGEST {number}@", digest)
        return text


def project_id(folder: Path) -> str:
    """The folder name of a project's sessions, in every version."""
    return f"{folder.name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


_CRC = re.compile(r'^(.*),"crc":"@CRC@"}$', re.MULTILINE)


def _with_checksum(line: re.Match[str]) -> str:
    """A record with the checksum of its line."""
    checksum = zlib.crc32(f"{line[1]}}}".encode())
    return f'{line[1]},"crc":"{checksum:08x}"}}'


def _import_store(exported: Path) -> None:
    store = exported.with_suffix(".git")
    for folder in ("objects", "refs"):
        (store / folder).mkdir()
    with exported.open("rb") as stream:
        command = ["git", f"--git-dir={store}", "fast-import", "--quiet"]
        subprocess.run(command, stdin=stream, check=True)
    exported.unlink()
