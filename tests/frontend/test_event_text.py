"""The texts about events that all front ends share."""

from dirge_py.frontend.event_text import parse_shell_message


def test_shell_command_stopped_by_user_says_so() -> None:
    stored = "The person ran `make` (stopped by the person):\n(no output)"

    assert parse_shell_message(stored) == ("make", "stopped by you", "")
