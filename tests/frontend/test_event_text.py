"""The texts about events that all front ends share."""

from dirge_py.frontend.event_text import parse_shell_message


def test_a_command_that_the_user_stopped_says_so_to_them() -> None:
    stored = "The person ran `make` (stopped by the person):\n(no output)"

    assert parse_shell_message(stored) == ("make", "stopped by you", "")
