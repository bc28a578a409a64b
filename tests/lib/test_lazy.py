import sys

from dirge_py.lib.lazy import late


def test_late_module_is_loaded_by_the_first_call() -> None:
    sys.modules.pop("this_is_late", None)
    call = late("this_is_late", "double")
    source = "def double(number, *, plus=0): return 2 * number + plus"
    module = type(sys)("this_is_late")
    exec(source, module.__dict__)
    sys.modules["this_is_late"] = module
    try:
        assert call(3, plus=1) == 7
    finally:
        del sys.modules["this_is_late"]


def test_late_works_for_classes_and_async_functions() -> None:
    assert late("decimal", "Decimal")("1.5") == 1.5
    waiting = late("asyncio", "sleep")(0)
    assert waiting.__name__ == "sleep"
    waiting.close()
