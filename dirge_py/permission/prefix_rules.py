"""Prefix rules: which ones a question offers for a command, and which arguments a star covers.

A prefix rule is the beginning of a command and a star: `execute:pytest *`, `execute:git push *`.
It is offered where the words before the star say what runs. So an interpreter, a wrapper or a task
runner is offered only together with the script, program or target that it runs, and programs that
delete, send or run anything at all get no prefix.

Some words are covered only by a pattern that spells them (`escapes`): those that let a program run
another one or write anywhere. A rule that allows `git *` was not meant for
`git -c core.sshCommand=… fetch`, and `make test *` not for `make test deploy`. The commands that
such words start are compared with deny rules.
"""

import os.path
import re
from collections.abc import Iterator, Mapping, Sequence

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import Word, word_set
from dirge_py.permission.facts import RuleLimits
from dirge_py.permission.patterns import (
    WordPattern,
    command_pattern,
    match_command,
    program_of,
    quoted_command,
)

_MOST_NESTED = 4
_NO_LIMITS = RuleLimits()
_PLAIN_WORD = late_pattern(r"[A-Za-z][A-Za-z0-9:_-]*")
_SHELL_FLAGS, _NODE_FLAGS = "-[eux]+", "--(?:no-warnings|enable-source-maps|trace-warnings)"
_INTERPRETERS: Mapping[re.Pattern[str], re.Pattern[str]] = {
    late_pattern(name, re.IGNORECASE): late_pattern(flags)
    for name, flags in {
        r"(?:python|pypy)[0-9.]*": "-[uBOIsSEqb]+",
        r"(?:sh|bash|zsh|dash|ksh)[0-9.]*": _SHELL_FLAGS,
        r"(?:node|nodejs|tsx|ts-node)[0-9.]*": _NODE_FLAGS,
        r"(?:ruby|perl)[0-9.]*": "-w",
        r"(?:php|lua|Rscript|fish|R|julia|elixir|iex|groovy|scala|kotlin|swipl|racket|guile|sbcl"
        r"|clojure|irb|pry|tclsh|wish|gnuplot|octave|ipython|pwsh|powershell|nu|xonsh|elvish|tcsh"
        r"|csh|ash)[0-9.]*": r"(?!)",
    }.items()
}
"""Interpreters, with the flags that may stand in front of a script."""
_PYTHON = late_pattern(r"(?:python|pypy)[0-9.]*", re.IGNORECASE)
_MODULES_RUNNING_CODE = word_set(
    "timeit pdb cProfile profile trace runpy code coverage debugpy idlelib scalene memray viztracer"
    " IPython"
)
_RUNNERS: Mapping[tuple[str, ...], re.Pattern[str]] = {
    ("npx",): late_pattern(r"-y|--yes|--no|--no-install"),
    ("bunx",): late_pattern(r"(?!)"),
    ("uvx",): late_pattern(r"-q|--quiet|--offline"),
    ("uv", "run"): late_pattern(
        r"-q|--(?:quiet|frozen|locked|no-sync|offline|all-extras|all-groups|dev|no-dev|isolated)"
    ),
    **dict.fromkeys(
        [("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("rye", "run"), ("pipenv", "run"),
         ("bundle", "exec"), ("pnpm", "exec"), ("yarn", "exec"), ("pixi", "run"), ("nohup",)],
        late_pattern(r"(?!)"),
    ),
    ("timeout",): late_pattern(r"\d+(?:\.\d+)?[smhd]?|--foreground|--preserve-status|-k\d+"),
    ("nice",): late_pattern(r"-n\d+|-\d+"),
}  # fmt: skip
"""Programs that run the program named behind them, with the words that may stand between."""

_TASK_ARGUMENTS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(
        ("make", "gmake"),
        late_pattern(
            r"-j\d*|\d+|-[ksBin]+|V=\d|--(?:jobs(?:=\d+)?|keep-going|silent|always-make|dry-run"
            r"|no-print-directory)"
        ),
    ),
    **dict.fromkeys(
        ("gradle", "gradlew"),
        late_pattern(
            r"-[qisSwd]|--(?:info|debug|stacktrace|quiet|offline|parallel|continue|rerun-tasks"
            r"|no-daemon|daemon|tests=[\w.*$]+|console=\w+|warning-mode=\w+)"
        ),
    ),
    **dict.fromkeys(
        ("mvn", "mvnw"),
        late_pattern(
            r"-[qBoUeX]|-ntp|-DskipTests(?:=\w+)?|-Dtest=[\w.#*,]+|--batch-mode|--offline"
        ),
    ),
    **dict.fromkeys(
        ("just", "ninja", "task", "rake", "invoke", "inv", "sbt", "lein", "mill", "ant"),
        late_pattern(r"-j\d*|\d+|-[kqv]+|--verbose|--quiet"),
    ),
}
"""Task runners, with what a rule for one target covers: no other target and no variable."""

_WITH_SUBCOMMANDS = word_set(
    "git gh glab npm yarn pnpm cargo go docker podman kubectl helm pip pip3 uv poetry pdm hatch"
    " brew apt apt-get dnf systemctl terraform dotnet mix bundle gem composer rustup"
    " conda mamba aws gcloud az flutter dart swift bazel nx turbo bun deno hg svn jj"
)
_RUN_ANYTHING = frozenset((
    "git bisect", "git submodule", "git filter-branch", "git rebase", "git config", "git help",
    "git difftool", "git mergetool", "git for-each-repo", "git daemon", "git hook", "gh alias",
    "gh extension", "npm exec", "npm x", "yarn exec", "yarn dlx", "yarn node", "pnpm exec",
    "pnpm dlx", "go generate", "go tool", "docker run", "docker exec",
    "podman run", "podman exec", "kubectl exec", "kubectl run", "kubectl debug",
    "uv tool", "uv run", "poetry run", "pdm run", "hatch run", "bundle exec", "gem exec",
    "conda run", "mamba run", "rustup run", "systemctl edit", "composer exec",
    "nx exec", "bun x", "deno run", "deno eval", "deno repl", "bun exec", "dotnet run", "mix run",
    "dart run", "swift run", "bazel run", "flutter run",
))  # fmt: skip
_TWO_LEVELS = frozenset((
    "npm run", "npm run-script", "yarn run", "pnpm run", "bun run", "deno task", "docker compose",
    "podman compose", "go run",
))  # fmt: skip
"""Subcommands that say what runs only together with the word behind them."""
_TWO_LEVELS_ALWAYS = frozenset(("gh", "glab", "aws", "gcloud", "az"))
_FILE_PROGRAMS = word_set("mkdir touch mv cp tee sed gsed sort uniq pytest py.test")
"""Programs whose first argument is no subcommand."""
_NO_PREFIX: Mapping[str, str] = {
    **dict.fromkeys(
        word_set("rm shred srm unlink rimraf trash truncate dd mkfs wipefs rmdir"),
        "deletes what you give it",
    ),
    **dict.fromkeys(
        word_set("curl wget nc ncat netcat ssh scp sftp rsync ftp telnet socat http xh aria2c"),
        "can send anything anywhere",
    ),
    **dict.fromkeys(
        word_set("chmod chown chgrp chattr setfacl kill pkill killall crontab at batch"),
        "changes what you give it",
    ),
    **dict.fromkeys(
        word_set("tar bsdtar unzip zip 7z 7za cpio pax patch gpg install ln"),
        "can write anywhere",
    ),
    **dict.fromkeys(
        word_set(
            "sudo doas su env xargs parallel command builtin exec eval source . time ionice chrt"
            " stdbuf setsid watch busybox toybox chroot unshare nsenter script strace ltrace gdb"
            " lldb runuser flock taskset caffeinate unbuffer trap coproc setarch firejail bwrap"
            " systemd-run prlimit setpriv fakeroot proot pkexec sg eatmydata faketime valgrind"
            " perf xvfb-run dbus-run-session direnv tmux screen rlwrap chpst numactl pipx mise asdf"
            " dotenv doppler op nix nix-shell guix vagrant ansible expect entr coverage tox nox"
            " concurrently npm-run-all export alias set declare typeset local readonly awk gawk"
            " mawk nawk jshell psql mysql sqlite3 mongo mongosh redis-cli osascript vi vim nvim"
            " emacs ed ex nano code open xdg-open find fd fdfind java hyperfine watchexec nodemon"
            " chokidar cross-env env-cmd foreman honcho overmind pm2 tmuxp cgexec gosu su-exec tini"
            " chronic ifne sponge vipe fswatch torsocks proxychains rr gdbserver sshpass wine mono"
        ),
        "can run any other program",
    ),
}


_STARTERS = word_set("sudo doas su env xargs exec eval command rm dd curl wget ssh")
"""Words behind an unknown program that are probably run by it."""


@dataclass(frozen=True, slots=True)
class PrefixOffer:
    """The prefix rules that a question offers for one command."""

    patterns: tuple[str, ...] = ()
    """Patterns for commands, the narrowest first."""
    missing: str = ""
    """Why there is none, or ""."""


def offer_prefixes(words: Sequence[Word]) -> PrefixOffer:
    """Return the prefix rules to offer for a command; each of them covers it."""
    lengths, missing = _prefix_lengths([word.text for word in words])
    patterns: list[str] = []
    for length in lengths:
        if any(word.has_glob for word in words[:length]):
            continue
        pattern = f"{quoted_command(words[:length])} *"
        if covers(command_pattern(pattern), words):
            patterns.append(pattern)
    if not patterns and not missing:
        missing = "its arguments make it run other programs or write anywhere"
    return PrefixOffer(tuple(patterns), "" if patterns else missing)


def covers(
    pattern: Sequence[WordPattern], words: Sequence[Word], limits: RuleLimits = _NO_LIMITS
) -> bool:
    """Whether an allow rule with this pattern covers a command."""
    texts = [word.text for word in words]
    if limits.is_moved and not pattern[0].is_rest and _runs_relative_file(texts):
        return False
    needed = dict(_spelled(pattern, texts))
    for at, start in () if pattern[0].is_rest else limits.spelled:
        needed[at] = max(needed.get(at, ""), start, key=len)
    if program_of(texts) in _RUNNING or program_of(texts) in ("sed", "gsed"):
        # A file may be called `--pre=x`: a pattern of file names could become an option.
        globs = (at for at, word in enumerate(words) if word.has_glob and word.text[0] in "*?[")
        needed |= {at: texts[at] for at in globs if not pattern[0].is_rest}
    return match_command(pattern, words, is_strict=True, spelled=needed)


def _runs_relative_file(texts: Sequence[str]) -> bool:
    """Whether what runs is a file named relative to the folder, so that it differs elsewhere."""
    for start in _program_starts(texts):
        words = texts[start:]
        at = _script_index(words)
        script = words[at] if at is not None and at < len(words) else ""
        if ("/" in words[0] and not words[0].startswith("/")) or (script and script[0] not in "-/"):
            return True
    return False


def _spelled(pattern: Sequence[WordPattern], texts: Sequence[str]) -> Mapping[int, str]:
    """Return the words that no star covers, with the text that the pattern has to begin with."""
    if pattern[0].is_rest:
        return {}
    spelled: dict[int, str] = {}
    for start in _program_starts(texts):
        words = texts[start:]
        spelled |= {start + one.at: one.name for one in escapes(words)}
        safe = _TASK_ARGUMENTS.get(program_of(words))
        if safe is not None and _has_target(pattern[start + 1 :]):
            further = enumerate(words[1:], start=start + 1)
            spelled |= {at: word for at, word in further if not safe.fullmatch(word)}
    return spelled


def _has_target(words: Sequence[WordPattern]) -> bool:
    return any(word.is_literal and not word.form.startswith("-") for word in words)


def names_target(text: str) -> bool:
    """Whether a pattern names the target of a task runner, so that its star covers no other."""
    pattern = command_pattern(text)
    texts = [word.form for word in pattern]
    return any(
        program_of(texts[start:]) in _TASK_ARGUMENTS and _has_target(pattern[start + 1 :])
        for start in _program_starts(texts)
    )


def _program_starts(texts: Sequence[str]) -> Iterator[int]:
    """Yield where a program begins: the command itself, and what its runners run."""
    start = 0
    for _ in range(_MOST_NESTED):
        yield start
        inner = _behind_runner(texts[start:])
        if not inner:
            return
        start += inner


def _behind_runner(texts: Sequence[str]) -> int:
    """Return where the program that a runner runs begins; 0 if there is none."""
    head = (program_of(texts), *texts[1:2])
    between = _RUNNERS.get(head[:1]) or _RUNNERS.get(head)
    if between is None:
        return _behind_module_flag(texts)
    at = 1 if head[:1] in _RUNNERS else 2
    while at < len(texts) and between.fullmatch(texts[at]):
        at += 1
    return at if at < len(texts) and not texts[at].startswith("-") else 0


def _behind_module_flag(texts: Sequence[str]) -> int:
    """Return where the module of a `python -m MODULE` stands, or 0."""
    if not _PYTHON.fullmatch(program_of(texts)):
        return 0
    at = _script_index(texts) or 0
    return at + 1 if texts[at : at + 1] == ["-m"] and at + 1 < len(texts) else 0


def _script_index(texts: Sequence[str]) -> int | None:
    """Return where the script of an interpreter stands; None if this is no interpreter."""
    name = program_of(texts)
    flags = next((flags for one, flags in _INTERPRETERS.items() if one.fullmatch(name)), None)
    if flags is None:
        return None
    return next((at for at, one in enumerate(texts) if at and not flags.fullmatch(one)), len(texts))


def _prefix_lengths(texts: Sequence[str], depth: int = 0) -> tuple[Sequence[int], str]:
    """Return how many words a prefix may have, the most first, or why there is none."""
    name = program_of(texts)
    if depth >= _MOST_NESTED:
        return (), "too many programs are nested in it"
    if inner := _behind_runner(texts):
        if _PYTHON.fullmatch(name) and texts[inner] in _MODULES_RUNNING_CODE:
            return (), f"`{texts[inner]}` runs any code"
        lengths, missing = _prefix_lengths(texts[inner:], depth + 1)
        return [inner + length for length in lengths], missing
    # Some file systems ignore case.
    if name.lower() in _NO_PREFIX:
        return (), f"`{name}` {_NO_PREFIX[name.lower()]}"
    if (name,) in _RUNNERS or tuple(texts[:2]) in _RUNNERS:
        return (), f"`{name}` runs the program you give it"
    if (at := _script_index(texts)) is not None:
        if at < len(texts) and not texts[at].startswith("-"):
            return (at + 1,), ""
        return (), f"`{name}` runs any code"
    if name in _TASK_ARGUMENTS:
        return _target_lengths(texts, _TASK_ARGUMENTS[name])
    if name in _WITH_SUBCOMMANDS:
        return _subcommand_lengths(texts)
    return _program_lengths(texts)


_TARGET = late_pattern(r"[\w.:/@%+][\w.:/@%+-]*")


def _target_lengths(texts: Sequence[str], safe: re.Pattern[str]) -> tuple[Sequence[int], str]:
    at = 1
    while at < len(texts) and safe.fullmatch(texts[at]):
        at += 1
    if at == len(texts):
        return (), f"`{texts[0]}` alone would cover every target"
    if not _TARGET.fullmatch(texts[at]) or not all(map(safe.fullmatch, texts[at + 1 :])):
        return (), "a prefix covers one target, without variables and other build files"
    return (at + 1,), ""


def _subcommand_lengths(texts: Sequence[str]) -> tuple[Sequence[int], str]:
    if len(texts) < 2 or not _PLAIN_WORD.fullmatch(texts[1]):
        return (), f"`{texts[0]}` alone would cover every subcommand"
    lead = f"{program_of(texts)} {texts[1]}"
    if lead in _RUN_ANYTHING:
        return (), f"`{lead}` can run any other program"
    if lead not in _TWO_LEVELS and program_of(texts) not in _TWO_LEVELS_ALWAYS:
        return (2,), ""
    third = texts[2] if len(texts) > 2 else ""
    is_package = lead == "go run" and third[:1] not in ("", "-")
    if f"{texts[1]} {third}" in ("compose run", "compose exec"):
        return (), f"`{lead} {third}` can run any other program"
    if is_package or _PLAIN_WORD.fullmatch(third):
        return (3,), ""
    return (), f"`{lead}` alone would cover too much"


def _program_lengths(texts: Sequence[str]) -> tuple[Sequence[int], str]:
    """Return the prefixes of a program that isn't known: itself, and with a subcommand."""
    for text in texts[1:]:
        name = os.path.basename(text)
        is_runner = name in _STARTERS or (name,) in _RUNNERS or _script_index([name]) is not None
        if text == "--" or (is_runner and "/" not in text and "." not in text):
            return (), f"`{texts[0]}` may run the program after it"
    name = program_of(texts)
    if name in ("sed", "gsed") and texts[1:2] == ["-i"]:
        return (2,), ""
    has_subcommand = len(texts) > 1 and _PLAIN_WORD.fullmatch(texts[1])
    is_single = not has_subcommand or name in _FILE_PROGRAMS or "/" in texts[0]
    return (1,) if is_single else (2, 1), ""


@dataclass(frozen=True, slots=True)
class Escape:
    """A word that makes a program run another one or write anywhere."""

    at: int
    """Its position among the words."""
    name: str
    """The option or setting that it begins with."""
    text: str = ""
    """The command that it would run; "" if it runs none."""


_RUNNING_ANYWHERE = word_set(
    "--exec --exec-batch --command --cmd --eval --shell --script-shell --rsh --pager --editor"
)
_LOADING_ANYWHERE = word_set("--require --import --preload --loader --node-options --init-script")
_NPM = word_set("--prefix -C --dir --cwd --userconfig --globalconfig --git --editor --browser")
_RUNNING: Mapping[str, frozenset[str]] = {
    "fd": word_set("-x -X --exec --exec-batch"),
    "fdfind": word_set("-x -X --exec --exec-batch"),
    "find": word_set("-exec -execdir -ok -okdir"),
    "rg": word_set("--pre --hostname-bin"),
    "split": word_set("--filter"),
    "pandoc": word_set("--filter -F --lua-filter -L --pdf-engine -d --defaults --data-dir"),
    "protoc": word_set("--plugin @"),
    "ctags": word_set("--options --options-maybe --optlib-dir"),
    "openssl": word_set("-engine -provider -provider-path"),
    "rsync": word_set("-e --rsh --rsync-path"),
    "sort": word_set("--compress-program"),
    "tar": word_set(
        "-F -I --checkpoint-action --info-script --new-volume-script --rmt-command --rsh-command"
        " --to-command --use-compress-program"
    ),
}
_WRITING: Mapping[str, frozenset[str]] = {
    "find": word_set("-delete -fls -fprint -fprint0 -fprintf"),
    "sort": word_set("-o --output"),
    "pytest": word_set("--basetemp --junitxml --junit-xml --log-file --pastebin --debug"),
    "ruff": word_set("-o --output-file --cache-dir --config"),
    "cargo": word_set("--config --manifest-path --target-dir -Z -C"),
    "go": word_set(
        "-exec -toolexec -vettool -overlay -modfile -C -o -pkgdir -compiler -gccgoflags"
    ),
    "tsc": word_set("--outDir --outFile --declarationDir --outdir --outfile --declarationdir @"),
    "mypy": word_set("--python-executable --junit-xml --cache-dir"),
    "eslint": word_set("-o --output-file --resolve-plugins-relative-to --rulesdir"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _NPM),
    **dict.fromkeys(
        ("make", "gmake"), word_set("--eval -E -f --file --makefile -C --directory -I -o -W")
    ),
    **dict.fromkeys(
        ("gradle", "gradlew"),
        word_set("-I -b -c -p --init-script --build-file --settings-file --project-dir"),
    ),
    **dict.fromkeys(("mvn", "mvnw"), word_set("-f --file -s --settings -gs -t")),
    "just": word_set("-f --justfile -d --working-directory --shell --command -c"),
    "docker": word_set("-H --host --config -f --file --project-directory"),
    "kubectl": word_set("--kubeconfig --raw -s --server"),
    **dict.fromkeys(("pip", "pip3"), word_set("--python --log")),
    "helm": word_set("--post-renderer"),
    "hg": word_set("--config -R --repository"),
    "svn": word_set("--config-option --diff-cmd --diff3-cmd --editor-cmd"),
    "cmake": word_set("-E -P -C --toolchain"),
    **dict.fromkeys(("apt", "apt-get"), word_set("-o --option -c --config-file")),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "clang", "clang++"),
        word_set("-o --output -wrapper -fplugin --plugin -specs -B -Xclang -load @"),
    ),
    "rustc": word_set("-o --out-dir --emit -C --codegen -Z --extern @"),
    "javac": word_set(
        "-d -s -h -J -Xplugin -processor -processorpath --processor-path --processor-module-path @"
    ),
    "tree": word_set("-o"),
    "iconv": word_set("-o --output"),
}
_JOINS_LETTERS = word_set("sort ruff rg fd fdfind iconv")
"""Programs whose options of one letter may be joined."""
_MAKE_SHELL = late_pattern(
    r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKEFILES)[:?+!]*=.*|.*\$\(.*", re.DOTALL
)
_GIT_GLOBAL = word_set("-c --config-env --exec-path --git-dir --work-tree")
GIT_VALUED = word_set(
    "-c -C --config-env --exec-path --git-dir --work-tree --namespace --attr-source --super-prefix"
)
_GIT_RUNNING = word_set(
    "--exec --extcmd --upload-pack --receive-pack --open-files-in-pager --ext-diff"
    " --separate-git-dir --to-cmd --cc-cmd --sendmail-cmd --smtp-server --env-filter --tree-filter"
    " --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter --unsafe-paths"
)
_GIT_SUBCOMMANDS = word_set(
    "filter-branch difftool mergetool for-each-repo daemon hook instaweb send-email remote-ext"
    " remote-fd upload-pack receive-pack upload-archive shell cvsserver p4 svn"
)
_GIT_SHORT: Mapping[str, frozenset[str]] = {
    "archive": word_set("-o"),
    "difftool": word_set("-x"),
    "clone": word_set("-c -u --config --template"),
    "format-patch": word_set("-o"),
    "grep": word_set("-O"),
    "init": word_set("--template"),
    "rebase": word_set("-x"),
}
_GIT_READS_SETTINGS = late_pattern(r"--get\S*|--list|-l|--show-\S+|get|list|--name-only")
_LEAST_SHORTENED = 5


def escapes(words: Sequence[str]) -> Iterator[Escape]:
    """Yield the words of a command that make it do more than the program's name says."""
    name = program_of(words)
    if name == "git":
        yield from _of_git(words)
        return
    if name in ("sed", "gsed"):
        yield from _of_sed(words)
    for at, word in enumerate(words[1:], start=1):
        option = word.partition("=")[0]
        if option in _RUNNING_ANYWHERE:
            yield Escape(at, option, _setting_of(words, at, option))
        elif option in _LOADING_ANYWHERE:
            yield Escape(at, option)
        can_join = name in _JOINS_LETTERS
        running, writing = (
            _escape_of_option(word, options.get(name, frozenset()), can_join=can_join)
            for options in (_RUNNING, _WRITING)
        )
        if running:
            yield Escape(at, running, _setting_of(words, at, running))
        if writing or (name == "go" and "extld" in word):
            yield Escape(at, writing or word)
        elif name in ("make", "gmake") and _MAKE_SHELL.fullmatch(word):
            yield Escape(at, word)


_SED_FLAGS = late_pattern(
    r"-[nErszu]*(?:i[\w.~-]*)?|--in-place(?:=[\w.~-]*)?|--quiet|--regexp-extended"
)
_SED_SCRIPT = late_pattern(
    r"(?:\d+(?:,(?:\d+|\$))?|\$|/(?:[^/\\\n]|\\.)*/)?\s*"
    r"(?:[dp]|s([/|#,:@!])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpI0-9]*)"
)


def is_sed_script(words: Sequence[Word], at: int) -> bool:
    """Whether this word of a `sed` is a script, and no file."""
    is_sed = program_of([word.text for word in words]) in ("sed", "gsed")
    return is_sed and _SED_SCRIPT.fullmatch(words[at].text) is not None


def _of_sed(words: Sequence[str]) -> Iterator[Escape]:
    """Yield the options and scripts of a `sed` that may do more than replace, delete and print."""
    is_next = not any(word.startswith(("-e", "--e", "-f", "--f")) for word in words)
    at = 1
    while at < len(words):
        word = words[at]
        if word == "-e" and at + 1 < len(words):
            at += 1
            if not _SED_SCRIPT.fullmatch(words[at]):
                yield Escape(at, words[at])
        elif word.startswith("-") and word != "-":
            if not _SED_FLAGS.fullmatch(word):
                yield Escape(at, word)
        elif is_next:
            is_next = False
            if not _SED_SCRIPT.fullmatch(word):
                yield Escape(at, word)
        at += 1


def _of_git(words: Sequence[str]) -> Iterator[Escape]:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if option := _escape_of_option(words[at], _GIT_GLOBAL):
            yield Escape(at, option, _setting_of(words, at, option).partition("=")[2])
        at += 2 if words[at] in GIT_VALUED else 1
    if at >= len(words):
        return
    sub, start = words[at], at + 1
    changes_settings = sub == "config" and not any(
        map(_GIT_READS_SETTINGS.fullmatch, words[start:])
    )
    if sub in _GIT_SUBCOMMANDS or changes_settings:
        yield Escape(at, sub)
    short = _GIT_SHORT.get(sub, frozenset())
    for place, word in enumerate(words[start:], start=start):
        if (sub, word) in (("bisect", "run"), ("submodule", "foreach")):
            yield Escape(place, word, " ".join(words[place + 1 :]))
        if option := _escape_of_option(word, _GIT_RUNNING | short, can_join=True):
            yield Escape(place, option, _setting_of(words, place, option))
        elif _escape_of_option(word, word_set("--output --output-directory")):
            yield Escape(place, "--output")
        elif re.search(r"(?:\A|=)(?:ext|fd)::", word):
            yield Escape(place, word, word.partition("::")[2])


_OPTION_NAME = late_pattern("[=:]")
_JOINED = late_pattern(r"-[A-Za-z]+")


def _escape_of_option(word: str, options: frozenset[str], *, can_join: bool = False) -> str:
    """Return which of the options this is, also with its value, abbreviated, or attached to it.

    `can_join`: its options of one letter may be joined, as in `sort -uo FILE`.
    """
    name = _OPTION_NAME.split(word, maxsplit=1)[0]
    if name in options:
        return name
    if word.startswith("@"):
        return "@" if "@" in options else ""
    if word.startswith("--"):
        # Go and others accept two dashes for one. Most programs accept the beginning of a long
        # option for the whole.
        near = (one for one in options if len(name) >= _LEAST_SHORTENED and one.startswith(name))
        return name if name[1:] in options or next(near, "") else ""
    if word[:2] in options and len(word) > 2:
        return word[:2]
    joined = _JOINED.match(word) if can_join else None
    ends = range(2, joined.end() + 1) if joined else ()
    return next((word[:end] for end in ends if f"-{word[end - 1]}" in options), "")


def _setting_of(words: Sequence[str], at: int, option: str) -> str:
    """Return the value of an option: in the same word, or in the next one."""
    if glued := words[at][len(option) :]:
        value = glued.removeprefix("=")
        return value.partition("=")[2] if value.startswith("exec=") else value
    return words[at + 1] if at + 1 < len(words) else ""
