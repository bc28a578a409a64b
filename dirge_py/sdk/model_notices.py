"""What to tell at a start whose model nobody named: which one it is, and why."""

from collections.abc import Iterator, Sequence

from dirge_py.config.access import has_access, naming_variable
from dirge_py.config.models import ModelChoice, main_model
from dirge_py.config.schema import Config, entry_of
from dirge_py.config.services import SERVICE_OF, SERVICES
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.errors import ConfigError

_MOST_NAMED = 3


def choice_notices(config: Config, session: SessionChoice) -> Sequence[str]:
    """A line where a local server was found, or where several services could have been meant.

    None where a session is gone on with: that one has a model.
    """
    if session.kind in ("newest", "resume", "view"):
        return ()
    try:
        choice = main_model(config)
    except ConfigError:
        return ()
    return [*_of_found(config, choice), *_of_several(config, choice)]


def _of_found(config: Config, choice: ModelChoice) -> Iterator[str]:
    entry = entry_of(config, choice.alias)
    found = (config.origin.found or {}).get(entry.type)
    if found is None or entry.base_url is not None:
        return
    is_only = not config.providers and not config.origin.chosen.source
    why = " because nothing is configured and no key is set" if is_only else ""
    words = f"{SERVICE_OF[found.type].label} answers at {found.base_url}: {choice.id} is used{why}."
    yield f"{words} `dirge config init` sets up another model."


def _of_several(config: Config, choice: ModelChoice) -> Iterator[str]:
    """Two keys in the environment, and nothing says whose model is to be used."""
    if not choice.because or choice.alias in config.providers:
        return
    chosen = naming_variable(config, SERVICE_OF[choice.alias])
    names = [naming_variable(config, each) for each in SERVICES if has_access(config, each.type)]
    others = [name for name in dict.fromkeys(names) if name not in ("", chosen)]
    if not chosen or not others:
        return
    named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
    yield (
        f"{choice.name} is used, as {chosen} is set; so {'is' if len(others) == 1 else 'are'} "
        f"{named}. `-m`, or `provider` in the settings, chooses."
    )
