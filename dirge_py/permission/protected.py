"""Names that matter more than what is in them: what must not be changed or read unasked.

Names are protected, not files: also where they do not exist yet. They are compared in a form in
which no file system's idea of "the same name" makes a difference.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_FOLDERS = {
    ".git": "the repository's own files",
    ".dirge": "the agent's project settings",
    ".ssh": "keys",
    ".gnupg": "keys",
    ".aws": "credentials",
    ".kube": "credentials",
    ".docker": "credentials",
    ".idea": "settings that can run programs",
    ".husky": "git hooks",
    ".circleci": "CI",
    ".buildkite": "CI",
}
_FILES = {
    ".mcp.json": "it names programs to start",
    ".envrc": "a shell start file",
    ".netrc": "credentials",
    ".npmrc": "credentials",
    ".pypirc": "credentials",
    ".git-credentials": "credentials",
    ".gitconfig": "it names programs to start",
    ".gitlab-ci.yml": "CI",
    ".gitlab-ci.yaml": "CI",
    ".travis.yml": "CI",
    ".drone.yml": "CI",
    "azure-pipelines.yml": "CI",
    "bitbucket-pipelines.yml": "CI",
    "jenkinsfile": "CI",
    **dict.fromkeys(
        (
            ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
            ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc",
            ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile", ".xinitrc", ".xsession",
        ),
        "a shell start file",
    ),
}  # fmt: skip
_PAIRS = {
    (".vscode", "settings.json"): "settings that can run programs",
    (".vscode", "tasks.json"): "settings that can run programs",
    (".vscode", "launch.json"): "settings that can run programs",
    (".github", "workflows"): "CI",
    (".config", "gh"): "credentials",
    (".config", "fish"): "a shell start file",
    (".config", "git"): "it names programs to start",
}

_SECRET_FOLDERS = frozenset((".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store"))
_SECRET_PAIRS = frozenset(((".config", "gh"), (".config", "gcloud")))
_SECRET_FILES = frozenset(
    (
        ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials",
        ".htpasswd", "credentials", "credentials.json", "credentials.toml", "id_rsa", "id_dsa",
        "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "service-account.json",
        "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml",
    )
)  # fmt: skip
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk")
_EXAMPLES = frozenset((".env.example", ".env.sample", ".env.template", ".env.dist"))

_IGNORED_BY_HFS = dict.fromkeys(
    (
        0x200C, 0x200D, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF,
    )
)  # fmt: skip


@lru_cache(maxsize=4096)
def protection(path: str, roots: tuple[str, ...]) -> str:
    """Why changing the absolute `path` needs a person's word, or "".

    Below a root only the names beneath it count; a workspace may lie in any folder.
    """
    names = _names_of(path, roots)
    for index, name in enumerate(names):
        why = _FOLDERS.get(name) or _FILES.get(name) or _PAIRS.get((name, _after(names, index)))
        if why:
            return f"{name} is protected: {why}"
    return ""


@lru_cache(maxsize=4096)
def secrecy(path: str, roots: tuple[str, ...]) -> str:
    """Why reading the absolute `path` needs a person's word, or ""."""
    names = _names_of(path, roots)
    for index, name in enumerate(names):
        if name in _SECRET_FOLDERS or (name, _after(names, index)) in _SECRET_PAIRS:
            return f"{name} holds keys or credentials"
    last = names[-1] if names else ""
    if last in _EXAMPLES:
        return ""
    if last.startswith(".env"):
        return f"{last} may hold secrets"
    if last in _SECRET_FILES or last.endswith(_SECRET_ENDINGS):
        return f"{last} may hold keys or credentials"
    return ""


def comparable(name: str) -> str:
    """The form in which two names of one file on any file system are equal."""
    visible = unicodedata.normalize("NFC", name).translate(_IGNORED_BY_HFS)
    return unicodedata.normalize("NFC", visible.casefold()).rstrip(". ")


def _names_of(path: str, roots: Sequence[str]) -> list[str]:
    for root in sorted(roots, key=len, reverse=True):
        base = root.rstrip("/")
        if path == base or path.startswith(base + "/"):
            path = path[len(base) :]
            break
    return [comparable(name) for name in path.split("/") if name not in ("", ".")]


def _after(names: Sequence[str], index: int) -> str:
    return names[index + 1] if index + 1 < len(names) else ""
