from dirge_py.config.schema import ReminderTable
from dirge_py.context.hooks import add_reminders, is_reminder_due
from dirge_py.types.messages import UserMessage, user_text

RULES = [
    ReminderTable(text="keep the changelog", every_turns=5),
    ReminderTable(text="it is getting long", at_tokens=50_000),
]


def test_a35_reminders_are_due_every_n_turns_or_from_token_count_on():
    due = [turn for turn in range(12) if is_reminder_due(RULES[0], turn, 10**9)]
    assert due == [5, 10]
    assert [is_reminder_due(RULES[1], 1, tokens) for tokens in (49_999, 50_000, 60_000)] == [
        False,
        True,
        True,
    ]


def test_a35_due_reminders_are_appended_as_last_message():
    history = (user_text("go"),)

    assert add_reminders(history, RULES, turn=4, tokens=49_999) is history
    sent = add_reminders(history, RULES, turn=5, tokens=50_000)

    assert sent[:-1] == history
    last = sent[-1]
    assert isinstance(last, UserMessage)
    assert last.origin == "harness"
    assert last.text == "[Reminder]\n\nkeep the changelog\n\nit is getting long"
