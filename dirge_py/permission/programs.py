"""Programs that may run without a question because they only read, with their allowed options.

A program is listed with the options it may get, never with those it may not: an option that is not
listed asks. Excluded on purpose: whatever writes (`sort -o`, `sort -m`), runs something
(`rg --pre`), reads a list of further files (`wc --files0-from`), sets variables (`printf %n`),
follows links while descending (`grep -R`, `diff -r`), or does not end (`tail -f`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import Word, word_set
from dirge_py.permission.git.commands import judge_git
from dirge_py.permission.program_options import NotReadOnly, Program, files_read, parse_options

_TAIL = Program("qvzn:c:", takes_numbers=True, long=
    "quiet silent verbose zero-terminated lines= bytes=")  # fmt: skip

PROGRAMS = {
    "ls": Program("aAbBcCdDfFgGhiklmnNopqQrRsStuUvxXZ1I:T:w:", takes_globs=True, long=
        "all almost-all author escape ignore-backups directory dired file-type full-time"
        " group-directories-first no-group human-readable si inode kibibytes literal"
        " numeric-uid-gid hide-control-chars show-control-chars quote-name reverse recursive size"
        " context zero block-size= format= hide= indicator-style= ignore= quoting-style= sort="
        " time= time-style= tabsize= width= color=? classify=? hyperlink=?"),
    "cat": Program("AbeEnstTuv", takes_globs=True, long=
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"),
    "head": replace(_TAIL, takes_globs=True),
    "tail": _TAIL,
    "wc": Program("clLmw", "bytes chars lines max-line-length words total="),
    "nl": Program("pb:d:f:h:i:l:n:s:v:w:", takes_globs=True, long=
        "no-renumber body-numbering= section-delimiter= footer-numbering= header-numbering="
        " line-increment= join-blank-lines= number-format= number-separator="
        " starting-line-number= number-width="),
    "sort": Program("bcCdfghiMnrRsuVzk:t:", long=
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort"
        " ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse"
        " version-sort stable unique zero-terminated debug key= field-separator= parallel= sort="
        " check=?"),
    "uniq": Program("cdDiuzf:s:w:", most=1, long=
        "count repeated ignore-case unique zero-terminated skip-fields= skip-chars= check-chars="
        " all-repeated=? group=?"),
    "cut": Program("nszb:c:d:f:", takes_globs=True, long=
        "complement only-delimited zero-terminated bytes= characters= delimiter= fields="
        " output-delimiter="),
    "tr": Program("cCdst", operands="text", most=2, long=
        "complement delete squeeze-repeats truncate-set1"),
    "diff": Program("abBdeEinNpqstTuwyZC:U:W:I:F:L:x:", most=2, long=
        "normal brief report-identical-files context=? unified=? ed rcs side-by-side left-column"
        " suppress-common-lines show-c-function expand-tabs initial-tab suppress-blank-empty"
        " new-file ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change"
        " ignore-all-space ignore-blank-lines text minimal strip-trailing-cr no-dereference"
        " speed-large-files width= label= exclude= ignore-matching-lines= show-function-line="
        " tabsize= color=?"),
    "stat": Program("Lftc:", "dereference file-system terse format= printf=", takes_globs=True),
    "file": Program("bhikLNnr0F:", long=
        "brief mime mime-type mime-encoding extension keep-going no-dereference raw print0"
        " separator="),
    "basename": Program("azs:", "multiple zero suffix=", operands="text", takes_globs=True),
    "dirname": Program("z", "zero", operands="text", takes_globs=True),
    "realpath": Program("eELmPqsz", paths="relative-to relative-base", takes_globs=True, long=
        "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks"
        " zero relative-to= relative-base="),
    "readlink": Program("efmnqsvz", takes_globs=True, long=
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose"
        " zero"),
    "which": Program("a", "all", operands="text"),
    "type": Program("afpPt", operands="text"),
    "pwd": Program("LP", operands="none"),
    "uname": Program("asnrvmpio", operands="none", long=
        "all kernel-name nodename kernel-release kernel-version machine processor"
        " hardware-platform operating-system"),
    "whoami": Program(operands="none"),
    "hostname": Program(operands="none"),
    "env": Program(operands="none"),
    "du": Program("abchklmsSx0d:t:B:", long=
        "all apparent-size bytes total human-readable separate-dirs si summarize one-file-system"
        " null inodes count-links max-depth= exclude= threshold= block-size= time-style= time=?"),
    "sha256sum": Program("btz", "binary text tag zero"),
    "md5sum": Program("btz", "binary text tag zero"),
    "grep": Program("EFGPivywxcLlqsabHhnoTUZzrIe:A:B:C:m:", takes_numbers=True,
        lead=1, lead_options="e regexp", long=
        "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case"
        " invert-match word-regexp line-regexp count files-without-match files-with-matches quiet"
        " silent no-messages only-matching byte-offset with-filename no-filename line-number"
        " initial-tab null text recursive null-data line-buffered regexp= label= include="
        " exclude= exclude-dir= binary-files= context= before-context= after-context= max-count="
        " color=? colour=?"),
    "rg": Program("abcFHhIilNnopPqsSUuvVwx0.e:A:B:C:m:M:g:t:T:j:r:d:",
        lead=1, lead_options="e regexp files type-list", long=
        "files type-list count count-matches files-with-matches files-without-match"
        " fixed-strings ignore-case smart-case case-sensitive line-number no-line-number column"
        " no-column only-matching word-regexp line-regexp invert-match multiline multiline-dotall"
        " pcre2 hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent no-ignore-global"
        " heading no-heading with-filename no-filename stats trim json vimgrep pretty null text"
        " binary passthru quiet no-messages crlf unrestricted one-file-system byte-offset"
        " no-config no-follow glob-case-insensitive unicode no-unicode regexp= glob= iglob= type="
        " type-not= max-depth= max-columns= max-filesize= threads= sort= sortr= replace= color="
        " colors= type-add= encoding= engine= context= before-context= after-context= max-count="
        " context-separator= path-separator= field-context-separator= field-match-separator="),
}  # fmt: skip

SHELL_BUILTINS = frozenset(("cd", "echo", "true", "false", ":", "pwd", "test", "[", "type"))
"""Listed programs that are shell builtins: no file of that name is started."""

_FIND_PLAIN = word_set(
    "-print -print0 -ls -prune -depth -xdev -mount -quit -true -false -empty -readable -writable"
    " -executable -nouser -nogroup -daystart -noleaf -not -a -and -o -or ( ) ! ,"
)
_FIND_TEXT = word_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname"
    " -type -xtype -maxdepth -mindepth -size -mtime -mmin -atime -amin -ctime -cmin -newermt -perm"
    " -user -group -uid -gid -links -inum -printf -used -fstype"
)
_FIND_PATH = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))
_DATE = Program("uRd:r:I::", paths="r reference", operands="text", most=1, long=
    "utc universal rfc-email date= rfc-3339= reference= iso-8601=?")  # fmt: skip
_SECONDS = late_pattern(r"\d+(?:\.\d+)?[smhd]?")
_SED_PRINT = late_pattern(r"(?:\d+|\$)(?:,(?:\d+|\$))?p")
_MOST_PATHS = 512
_TEST_FILE = word_set("-e -f -d -r -w -x -s -L -h -b -c -p -S -g -u -k -O -G -N")
_TEST_TEXT = frozenset(("-n", "-z"))
_TEST_OF_TWO_FILES = word_set("-nt -ot -ef")
_TEST_OF_NUMBERS = word_set("-eq -ne -lt -le -gt -ge")
_TEST_OF_TWO = _TEST_OF_TWO_FILES | _TEST_OF_NUMBERS | word_set("= == !=")

_BUILDS = (
    "pytest", "python -m pytest", "python3 -m pytest", "python -m unittest", "tox", "nox", "ruff",
    "mypy", "black", "uv run pytest", "cargo build", "cargo check", "cargo test", "cargo clippy",
    "cargo fmt", "cargo run", "cargo doc", "npm test", "npm run", "yarn test", "yarn run",
    "pnpm test", "pnpm run", "go build", "go test", "go vet", "go fmt", "make", "just", "ninja",
    "cmake --build", "ctest", "mvn", "gradle", "tsc", "eslint", "jest",
)  # fmt: skip


def judge_program(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words of a plain command that name files it reads.

    Raises NotReadOnly if it could do more than read.
    """
    head, arguments = words[0].text, words[1:]
    if special := _SPECIAL.get(head):
        return special(arguments)
    row = PROGRAMS.get(head)
    if row is None:
        raise NotReadOnly(f"`{head}` can change things (not a known read-only command)")
    return tuple(files_read(row, parse_options(row, arguments)))


def is_build(argv: Sequence[str]) -> bool:
    """Whether this is a build or a test run, judged by its first words."""
    return any(list(argv[: len(build)]) == build for build in map(str.split, _BUILDS))


def _free_text(arguments: Sequence[Word]) -> tuple[Word, ...]:
    return tuple(word for word in arguments if word.has_glob)


def _cd(arguments: Sequence[Word]) -> tuple[Word, ...]:
    if len(arguments) != 1 or arguments[0].text.startswith("-") or arguments[0].has_glob:
        raise NotReadOnly("it doesn't name exactly one folder")
    return ()


def _test(arguments: Sequence[Word]) -> tuple[Word, ...]:
    """Return the files that a `test` looks at.

    Known tests only: `-v` and `-R` evaluate their operand, which can run commands.
    """
    for word in arguments:
        if word.has_glob and not word.is_single:
            raise NotReadOnly(f"{word.text} could be read as another test; quote it")
    reads: list[Word] = []
    rest = list(arguments)
    while rest:
        if rest[0].text == "!" and len(rest) > 1:
            rest = rest[1:]
            continue
        count = _test_term(rest, reads)
        rest = rest[count:]
        if rest and (rest[0].text not in ("-a", "-o") or len(rest) == 1):
            raise NotReadOnly(f"its test {rest[0].text} is not known to be read-only")
        rest = rest[1:]
    return tuple(reads)


def _test_term(words: Sequence[Word], reads: list[Word]) -> int:
    """Return how many words the first comparison has, and add the files that it looks at."""
    texts = [word.text for word in words]
    if len(texts) > 2 and texts[1] in _TEST_OF_TWO:
        sides = (words[0], words[2])
        if texts[1] in _TEST_OF_NUMBERS and not all(
            re.fullmatch(r"-?\d+", side.text) for side in sides
        ):
            raise NotReadOnly(f"{texts[1]} compares something other than numbers")
        reads += sides if texts[1] in _TEST_OF_TWO_FILES else ()
        return 3
    if len(texts) > 1 and texts[0] in _TEST_FILE | _TEST_TEXT:
        reads += [words[1]] if texts[0] in _TEST_FILE else []
        return 2
    if texts[0].startswith("-"):
        raise NotReadOnly(f"its test {texts[0]} is not known to be read-only")
    return 1


def _bracket(arguments: Sequence[Word]) -> tuple[Word, ...]:
    if not arguments or arguments[-1].text != "]":
        raise NotReadOnly("its `]` is missing")
    return _test(arguments[:-1])


def _sleep(arguments: Sequence[Word]) -> tuple[Word, ...]:
    if not arguments or not all(_SECONDS.fullmatch(word.text) for word in arguments):
        raise NotReadOnly("only `sleep` with a number runs without asking")
    return ()


def _sed(arguments: Sequence[Word]) -> tuple[Word, ...]:
    texts = [word.text for word in arguments]
    if len(texts) < 2 or texts[0] != "-n" or not _SED_PRINT.fullmatch(texts[1]):
        raise NotReadOnly("only `sed -n 'N,Mp'` runs without asking")
    for word in arguments[2:]:
        if word.text.startswith("-") or (word.has_glob and not word.is_no_option):
            raise NotReadOnly(f"{word.text} could be an option")
    return tuple(arguments[2:])


def _date(arguments: Sequence[Word]) -> tuple[Word, ...]:
    given = parse_options(_DATE, arguments)
    if any(not word.text.startswith("+") for word in given.operands):
        raise NotReadOnly("it would set the clock")
    return tuple(files_read(_DATE, given))


def _find(arguments: Sequence[Word]) -> tuple[Word, ...]:
    starts = list(takewhile(lambda word: word.text[:1] not in ("-", "(", "!", ","), arguments))
    for word in starts:
        if word.has_glob and not word.is_no_option:
            raise NotReadOnly(f"{word.text} could be read as an option")
    return (*starts, *_find_tests(arguments[len(starts) :]))


def _find_tests(tests: Sequence[Word]) -> list[Word]:
    reads: list[Word] = []
    rest = iter(tests)
    for test in rest:
        if test.has_glob:
            raise NotReadOnly(f"{test.text} could be read as another test")
        if test.text in _FIND_PLAIN:
            continue
        if test.text not in _FIND_TEXT and test.text not in _FIND_PATH:
            raise NotReadOnly(f"its test {test.text} is not known to be read-only")
        value = next(rest, None)
        if value is None:
            raise NotReadOnly(f"its test {test.text} has no value")
        if value.has_glob and (value.text[0] in "*?[-" or test.text in _FIND_PATH):
            raise NotReadOnly(f"{value.text} could be read as another test; quote it")
        if value.has_glob or test.text in _FIND_PATH:
            reads.append(value)
    return reads


def _git(arguments: Sequence[Word]) -> tuple[Word, ...]:
    reads = tuple(dict.fromkeys(judge_git(arguments)))
    if len(reads) > _MOST_PATHS:
        raise NotReadOnly(f"it names more than {_MOST_PATHS} paths")
    return reads


_SPECIAL: Mapping[str, Callable[[Sequence[Word]], tuple[Word, ...]]] = {
    "cd": _cd, "date": _date, "find": _find, "git": _git, "sed": _sed, "sleep": _sleep,
    "test": _test, "[": _bracket, **dict.fromkeys(("echo", "true", "false", ":"), _free_text),
}  # fmt: skip
