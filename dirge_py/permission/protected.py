"""Protected names, which need a question before they are changed, and secret ones, before reading.

The names count, not the files, so files that do not exist yet are included. Names are compared in a
form that is the same for all spellings that a file system may treat as equal.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from dirge_py.lib.shell_lexer import word_set

SYSTEM_FOLDERS = word_set(
    "/bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /nix /proc /sbin /sys /usr"
    " /Library /System /private/etc"
)
"""The folders of the operating system: never part of a workspace, even below its root."""
_SYSTEM_PREFIXES = tuple(f"{folder}/" for folder in SYSTEM_FOLDERS)

_PROTECTED = {
    "the repository's own files": ".git",
    "it names other repositories that git enters": ".gitmodules",
    "the agent's own settings": ".dirge .config/dirge .local/state/dirge",
    "keys": ".ssh .gnupg",
    "credentials": (
        ".aws .azure .kube .docker .netrc .npmrc .pypirc .git-credentials .pip .config/pip .condarc"
        " .config/gh .config/gcloud .m2/settings.xml .m2/settings-security.xml .terraformrc"
    ),
    "settings of a coding agent, which can run programs": (
        ".claude .claude.json .codex .gemini .qwen .opencode opencode.json opencode.jsonc"
        " .config/opencode .config/crush crush.json .crush.json .aider.conf.yml .aider.conf.yaml"
        " .continue .roo .kilocode .cline .windsurf .codeium .amazonq .kiro .trae .augment .junie"
        " .goose .config/goose .copilot .mcp.json mcp.json"
    ),
    "settings of an editor, which can run programs": (
        ".vscode/settings.json .vscode/tasks.json .vscode/launch.json .vscode/mcp.json"
        " .vscode/extensions.json .vscode-server .config/code .config/vscodium .idea .fleet .zed"
        " .config/zed .cursor .helix .config/helix .vim .vimrc .gvimrc .exrc .nvimrc .nvim.lua"
        " .config/nvim .config/vim .ideavimrc .emacs .emacs.d .config/emacs .dir-locals.el"
    ),
    "settings of a container that starts programs": (
        ".devcontainer devcontainer.json .devcontainer.json .gitpod.yml .gitpod.yaml"
    ),
    "git hooks": (
        ".husky .huskyrc .githooks .lefthook .pre-commit-config.yaml .pre-commit-config.yml"
        " .pre-commit-hooks.yaml lefthook.yml lefthook.yaml lefthook.toml lefthook.json"
        " .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json lefthook-local.yml"
        " lefthook-local.yaml .lefthook-local.yml .lefthook-local.yaml .overcommit.yml"
        " .lintstagedrc .lintstagedrc.json .lintstagedrc.yaml .lintstagedrc.yml .lintstagedrc.js"
        " .lintstagedrc.cjs .lintstagedrc.mjs"
    ),
    "CI": (
        ".github/workflows .github/actions .gitea/workflows .gitea/actions .forgejo/workflows"
        " .forgejo/actions .gitlab/ci .gitlab-ci.yml .gitlab-ci.yaml .circleci .buildkite"
        " .woodpecker .woodpecker.yml .woodpecker.yaml .travis.yml .drone.yml .drone.yaml"
        " .cirrus.yml .tekton .semaphore .appveyor.yml appveyor.yml azure-pipelines.yml"
        " azure-pipelines.yaml bitbucket-pipelines.yml buildspec.yml cloudbuild.yaml jenkinsfile"
    ),
    "it names programs to start": (
        ".gitconfig .config/git .yarnrc .yarnrc.yml .yarn/releases .yarn/plugins .pnpmfile.cjs"
        " pnpmfile.js .cargo/config .cargo/config.toml .bundle/config .mvn .gradle/init.d"
        " .gradle/gradle.properties mise.toml .mise.toml mise.local.toml .mise.local.toml"
        " .config/mise .asdfrc .tmux.conf .config/tmux .screenrc"
    ),
    "a start file of a debugger or an interpreter": (
        ".gdbinit .gdbearlyinit .config/gdb .lldbinit .pdbrc .pdbrc.py .psqlrc .sqliterc .irbrc"
        " .pryrc .rprofile .renviron .pythonrc .pythonrc.py .pythonstartup .ipython .jupyter"
        " .perldb .ghci .iex.exs sitecustomize.py usercustomize.py"
    ),
    "programs that other commands run": (
        ".venv/bin venv/bin .venv/scripts venv/scripts node_modules/.bin .local/bin .cargo/bin"
        " .rustup .bun .deno .pyenv .rbenv .nvm .volta .sdkman .asdf"
    ),
    "a shell start file": (
        ".envrc .direnv .config/direnv .bashrc .bash_profile .bash_login .bash_logout .bash_aliases"
        " .bash_completion .profile .zshrc .zshenv .zprofile .zlogin .zlogout .oh-my-zsh .kshrc"
        " .mkshrc .cshrc .tcshrc .login .logout .inputrc .config/fish .config/nushell .config/zsh"
        " .pam_environment .config/environment.d"
    ),
    "it starts with your desktop or system": (
        ".xprofile .xinitrc .xserverrc .xsession .xsessionrc .xsession.d .config/autostart"
        " .config/autostart-scripts .config/plasma-workspace .config/systemd .local/share/systemd"
        " .local/share/applications .local/share/dbus-1 .local/share/kservices5 .config/i3"
        " .config/sway .config/hypr .config/openbox .config/awesome library/launchagents"
        " library/launchdaemons .crontab .forward .procmailrc"
    ),
}
"""Why changing a name asks, mapped to the names; one with slashes is a sequence of path parts."""

_PROTECTED_ENDINGS = {
    ("", ".code-workspace"): "settings of an editor, which can run programs",
    ("site-packages", ".pth"): "Python runs it at every start",
}
"""Why changing a file with such an ending asks, anywhere ("") or only below such a folder."""

_SECRET = (
    ".ssh .gnupg .aws .azure .kube .docker .password-store .config/gh .config/gcloud .config/op"
    " .config/rclone .config/hub .config/github-copilot .config/doctl .config/hcloud .mozilla"
    " .config/google-chrome .config/chromium .local/share/keyrings library/keychains"
)
"""Folders whose files are all secret."""
_SECRET_FILES = word_set(
    ".netrc _netrc .npmrc .pypirc .pgpass .my.cnf .mylogin.cnf .git-credentials .htpasswd .s3cfg"
    " .boto .vault-token .databrickscfg .terraformrc .authinfo .authinfo.gpg .msmtprc .claude.json"
    " .bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history"
    " credentials credentials.json credentials.toml credentials.tfrc.json kubeconfig"
    " application_default_credentials.json id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk"
    " id_ed25519_sk service-account.json secrets.yml secrets.yaml secrets.json secrets.toml"
    " .claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json"
    " .gemini/google_accounts.json .qwen/oauth_creds.json opencode/auth.json .m2/settings.xml"
    " .m2/settings-security.xml .pip/pip.conf .config/pip/pip.conf"
    " etc/shadow etc/shadow- etc/gshadow etc/gshadow-"
)
_SECRET_ENDINGS = (
    ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate",
    ".tfstate.backup",
)  # fmt: skip
SECRET_NAMES = tuple(
    sorted(
        {".env", ".env.local", ".env.production", ".envrc", "ssh_host_rsa_key", *_SECRET_FILES}
        | {f"{folder}/credentials" for folder in _SECRET.split()}
        | {f"server{ending}" for ending in _SECRET_ENDINGS}
    )
)
"""A sample path for every kind of secret in the tables above."""
_EXAMPLES = word_set(".env.example .env.sample .env.template .env.dist")
_PUBLISHED = word_set("node_modules site-packages dist-packages")
"""Folders of published packages: keys in them are test data, not secrets."""

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


@lru_cache(maxsize=4096)
def why_protected(path: str, roots: tuple[str, ...]) -> str:
    """Return why changing the absolute `path` needs a question, or "".

    Below a root only the names after it count, because a workspace may lie in any folder.
    """
    names = _names_of(path, roots)
    if found := next(_beginning(names, _ACTING), None):
        return f"{'/'.join(found[0])} is protected: {found[1]}"
    last = names[-1] if names else ""
    for (folder, ending), why in _PROTECTED_ENDINGS.items():
        if last.endswith(ending) and (not folder or folder in names):
            return f"{last} is protected: {why}"
    return ""


@lru_cache(maxsize=4096)
def why_secret(path: str, roots: tuple[str, ...]) -> str:
    """Return why reading the absolute `path` needs a question, or ""."""
    names = _names_of(path, roots)
    if found := next(_beginning(names, _SECRET_FOLDERS), None):
        return f"{'/'.join(found[0])} contains keys or credentials"
    last = names[-1] if names else ""
    if last in _EXAMPLES:
        return ""
    shown = path.rstrip("/").rpartition("/")[2]
    if last.startswith(".env"):
        return f"{shown} may contain secrets"
    is_named = any(tuple(names[-len(tail) :]) == tail for tail, _ in _SECRET_LAST.get(last, ()))
    if (is_named or _has_name_of_key(last)) and not _PUBLISHED.intersection(names[:-1]):
        return f"{shown} may contain keys or credentials"
    return ""


def is_of_system(real: str, roots: Sequence[str]) -> bool:
    """Whether a path belongs to the operating system, and to no workspace root inside of it."""
    if not f"{real}/".startswith(_SYSTEM_PREFIXES):
        return False
    folder = next(one for one in SYSTEM_FOLDERS if f"{real}/".startswith(f"{one}/"))
    return not any(
        root.startswith(f"{folder}/") and f"{real}/".startswith(f"{root}/") for root in roots
    )


@lru_cache(maxsize=65536)
def may_be_secret(name: str) -> bool:
    """Whether a path with this last name could be a secret: a check before `why_secret`."""
    spelled = comparable_name(name)
    return (
        spelled.startswith(".env")
        or spelled in _SECRET_LAST
        or spelled in _SECRET_FOLDER_ENDS
        or _has_name_of_key(spelled)
    )


def _has_name_of_key(name: str) -> bool:
    is_host_key = name.startswith("ssh_host_") and name.endswith("_key")
    return is_host_key or name.endswith(_SECRET_ENDINGS)


@lru_cache(maxsize=65536)
def comparable_name(name: str) -> str:
    """Return a form of the name that is the same for all spellings a file system may equate."""
    if name.isascii():
        return name.lower().rstrip(". ")
    visible = unicodedata.normalize("NFC", name).translate(_IGNORED_BY_HFS)
    return unicodedata.normalize("NFC", visible.casefold()).rstrip(". ")


@lru_cache(maxsize=4096)
def comparable_path(path: str) -> str:
    """Return the absolute path with every name in its comparable form."""
    return "/".join(map(comparable_name, path.split("/")))


def _names_of(path: str, roots: Sequence[str]) -> list[str]:
    for root in sorted(roots, key=len, reverse=True):
        base = root.rstrip("/")
        if path == base or path.startswith(base + "/"):
            path = path[len(base) :]
            break
    return [comparable_name(name) for name in path.split("/") if name not in ("", ".")]


_Tail = tuple[tuple[str, ...], str]
_Tails = Mapping[str, Sequence[_Tail]]


def _beginning(names: Sequence[str], tails: _Tails) -> Iterator[_Tail]:
    """Yield the tails that begin anywhere in the names of a path."""
    for index, name in enumerate(names):
        for tail in tails.get(name, ()):
            if tuple(names[index : index + len(tail[0])]) == tail[0]:
                yield tail


def _by_name(rows: Iterable[tuple[str, str]], at: int) -> _Tails:
    """Group the names, with their reasons, by their first (0) or last (-1) component."""
    found: dict[str, list[_Tail]] = {}
    for spelled, why in rows:
        tail = tuple(map(comparable_name, spelled.split("/")))
        found.setdefault(tail[at], []).append((tail, why))
    return found


_ACTING = _by_name(((name, why) for why, names in _PROTECTED.items() for name in names.split()), 0)
_SECRET_FOLDERS = _by_name(((name, "") for name in _SECRET.split()), 0)
_SECRET_FOLDER_ENDS = frozenset(_by_name(((name, "") for name in _SECRET.split()), -1))
_SECRET_LAST = _by_name(((name, "") for name in _SECRET_FILES), -1)
