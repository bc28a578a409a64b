"""Functions of plugins as hooks of the loop, and who stands at each point, in order."""

from collections.abc import Iterable, Sequence
from typing import Any

from dirge_py.extensions.plugins.asking import HookCaller
from dirge_py.extensions.plugins.points import Registration
from dirge_py.types.hooks import HOOK_NAMES, Hooks


class AskedHook:
    """A plugin's function as a hook of the loop."""

    def __init__(self, caller: HookCaller, hook: Registration) -> None:
        self._caller = caller
        self._hook = hook
        self.label = hook.label
        self.__name__ = hook.name

    async def __call__(self, *args: Any) -> Any:
        return await self._caller.ask(self._hook, *args)


def bundles_of(caller: HookCaller, plugin: str, hooks: Sequence[Registration]) -> Sequence[Hooks]:
    """As few bundles as hold all of a plugin's hooks: a bundle has one function at each point."""
    standing = {
        point: [AskedHook(caller, hook) for hook in hooks if hook.point == point and hook.is_on]
        for point in HOOK_NAMES
    }
    bundles = []
    for index in range(max(map(len, standing.values()))):
        chosen: dict[str, Any] = {
            point: asked[index] for point, asked in standing.items() if index < len(asked)
        }
        bundles.append(Hooks(name=f"plugin {plugin}", **chosen))
    return bundles


def order_of(bundles: Iterable[Hooks]) -> Sequence[tuple[str, Sequence[str]]]:
    """Each hook of the loop, and the names of those who stand there."""
    listed = list(bundles)
    return [(point, _labels(point, listed)) for point in HOOK_NAMES]


def _labels(point: str, bundles: Iterable[Hooks]) -> Sequence[str]:
    hooks = [(bundle, getattr(bundle, point)) for bundle in bundles]
    return [getattr(hook, "label", bundle.name) for bundle, hook in hooks if hook is not None]
