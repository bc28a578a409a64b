"""`dirge embed`: prints embeddings of texts, for scripts."""

import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from dirge_py.cli.arguments import Parser, parse_words, positive_int
from dirge_py.cli.flags import print_error
from dirge_py.types.errors import ProviderError, UsageError

_TRY_LATER = 75
_USED_UP = 54


def build_embed_parser() -> Parser:
    """The flags of `dirge embed`."""
    parser = Parser(
        prog="dirge embed",
        usage="dirge embed [options] [--] [TEXT…]",
        description="Ask a provider for the embeddings of texts: of each word or quoted text, else "
        "of each line on stdin. Prints one JSON object with `model`, `embeddings` (in "
        "the order of the texts) and `usage`.",
        epilog="A flag, `--`, or stdin that is not a terminal makes it a subcommand: `dirge embed "
        "the docs` is a prompt. Exit codes: 0 done, 1 refused, 2 wrong usage or configuration, 54 "
        "the provider's limit, 75 try again later.",
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="TEXT", help="what to embed (default: each line on stdin)")
    add("--provider", metavar="ALIAS", help="the provider (default: the one in use)")
    model_help = "the model (default: the service's usual one)"
    add("-m", "--model", metavar="[ALIAS/]ID", default="", help=model_help)
    add("--dimensions", metavar="N", type=positive_int, help="the length of the vectors")
    add("--base-url", metavar="URL", help="the provider's URL")
    add("--config", metavar="FILE", help="read FILE instead of the usual config.toml")
    return parser


def embed_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `embed` are its own; `embed the docs into the site` is a prompt."""
    return rest[0].startswith("-") if rest else not sys.stdin.isatty()


def embed(rest: Sequence[str]) -> int:
    """Print the vectors; returns the exit code.

    Raises:
        UsageError: there is no text.
        ConfigError: no provider, or not the named one, has embeddings.
        ProviderError: the provider refused.
    """
    flags = parse_words(build_embed_parser(), rest, "words")
    texts: Sequence[str] = flags.words
    if not texts:
        from dirge_py.frontend.print.streams import print_notice, read_prompt

        text, notice = read_prompt(have_words=False)
        if notice:
            print_notice(notice)
        texts = [line for line in text.splitlines() if line.strip()]
    if not texts:
        hint = "As in `dirge embed -- 'a text'`, or lines on stdin."
        raise UsageError("there is no text to embed.", hint=hint)
    if not all(text.strip() for text in texts):
        raise UsageError("one of the texts is empty.")
    try:
        sys.stdout.write(asyncio.run(_embedded(flags, texts)))
        return 0
    except ProviderError as error:
        if error.kind != "usage_cap" and not error.is_retryable:
            raise
        print_error(error)
        return _USED_UP if error.kind == "usage_cap" else _TRY_LATER


async def _embedded(flags: Namespace, texts: Sequence[str]) -> str:
    from dirge_py.config.load import load
    from dirge_py.config.sources import Overrides
    from dirge_py.frontend.print.streams import print_notice
    from dirge_py.providers.client import HttpClient
    from dirge_py.providers.embeddings import embed_texts, split_model_name

    path = Path(flags.config) if flags.config else None
    alias, model = flags.provider, flags.model
    config = load(Overrides(provider=alias, base_url=flags.base_url), path=path)
    if alias is None:
        alias, model = split_model_name(config, model)
        config = load(Overrides(provider=alias, base_url=flags.base_url), path=path)
    how = {"alias": alias, "model": model, "dimensions": flags.dimensions}
    async with aclosing(HttpClient()) as http:
        answer = await embed_texts(config, http, texts, **how, notice=print_notice)
    usage = {"prompt_tokens": answer.usage.prompt_tokens, "total_tokens": answer.usage.total_tokens}
    value = {"model": answer.model, "embeddings": answer.embeddings, "usage": usage}
    return json.dumps(value) + "\n"
