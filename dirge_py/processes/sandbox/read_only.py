"""The read-only profile: what the kernel allows a command that runs without approval.

Such a command was judged by its words. The profile enforces the judgement where the words are
wrong: the command writes only to its own temporary folder, opens no socket, and executes no file
in the workspace or in a home folder. It applies whatever `[sandbox]` says.
"""

import threading
from collections.abc import Callable, Sequence

from dirge_py.lib.temporary_folder import TemporaryFolder
from dirge_py.processes.programs import closed_folders
from dirge_py.processes.sandbox.profile import (
    LaunchSpec,
    Mechanism,
    RestrictedStart,
    SandboxProfile,
)
from dirge_py.types.errors import ProcessError


class ReadOnlyProfile:
    """Starts read-only commands so that they can do nothing else. Close it at the end.

    `roots` returns the current physical folders of the workspace. What the profile `sandbox` hides
    is hidden here, too. The mechanism is tested on first use.
    """

    def __init__(
        self,
        roots: Callable[[], Sequence[str]],
        home: str,
        *,
        sandbox: SandboxProfile | None = None,
    ) -> None:
        self._roots = roots
        self._home = home
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._mechanism: Mechanism | None = None
        self._tmp: TemporaryFolder | None = None
        self._is_closed = False

    @property
    def mechanism(self) -> Mechanism:
        """Return the mechanism that works here. Blocks for the test on the first call."""
        with self._lock:
            if self._mechanism is None:
                # Most starts run no such command, and the mechanisms take long to load.
                from dirge_py.processes.sandbox import read_only_mechanisms

                self._mechanism = read_only_mechanisms.find_mechanism()
            return self._mechanism

    def restricted_start(self, arguments: list[str], spec: LaunchSpec) -> RestrictedStart | None:
        """Return how to start `arguments`; None if no mechanism works. Raises ProcessError."""
        kind = self.mechanism.kind
        if kind is None:
            return None
        with self._lock:
            if self._is_closed:
                raise ProcessError("No command is started while dirge ends.")
            try:
                self._tmp = self._tmp or TemporaryFolder("read-only")
            except OSError as error:
                text = f"Cannot create a folder for temporary files: {error.strerror or error}."
                hint = "Free some space there, or set TMPDIR to a folder that you can write to."
                raise ProcessError(text, hint=hint) from error
        from dirge_py.processes.sandbox.read_only_mechanisms import (
            restricted_start,
        )

        closed = closed_folders(self._roots(), self._home)
        return restricted_start(kind, arguments, self._sandbox, closed, spec, self._tmp.path)

    def close(self) -> None:
        """Remove the temporary folder with its contents. After this, nothing can be started."""
        with self._lock:
            self._is_closed = True
            if self._tmp is not None:
                self._tmp.remove()
                self._tmp = None
